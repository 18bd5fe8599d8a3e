//! A CustomResourceDefinition in the making.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Resource;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::tidy::schema_of;

/// Whether an object without a spec is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Required {
    Yes,
    No,
}

/// One version of a kind; the one that a [`CustomResourceDefinition`] is made from is stored.
pub(super) struct Kind {
    group: String,
    kind: String,
    plural: String,
    version: String,
    properties: Map<String, Value>,
    required: Vec<&'static str>,
    rules: Vec<Value>,
    columns: Vec<CustomResourceColumnDefinition>,
    description: &'static str,
    deprecation: Option<&'static str>,
    older: Vec<Kind>,
}

impl Kind {
    pub(super) fn of<K: Resource<DynamicType = ()>>(description: &'static str) -> Self {
        let mut properties = Map::new();
        properties.insert(
            "apiVersion".into(),
            json!({"type": "string", "description": "Version of the schema of this object: group/version."}),
        );
        properties.insert("kind".into(), json!({"type": "string", "description": "Kind of this object."}));
        properties.insert("metadata".into(), json!({"type": "object"}));
        Self {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            version: K::version(&()).into_owned(),
            properties,
            required: Vec::new(),
            rules: Vec::new(),
            columns: Vec::new(),
            description,
            deprecation: None,
            older: Vec::new(),
        }
    }

    pub(super) fn spec<S: JsonSchema>(mut self, required: Required) -> Self {
        self.properties.insert("spec".into(), schema_of::<S>());
        if required == Required::Yes {
            self.required.push("spec");
        }
        self
    }

    /// A rule (CEL) on the spec as a whole.
    pub(super) fn spec_rule(mut self, rule: &str, message: &str) -> Self {
        if let Some(spec) = self.properties.get_mut("spec") {
            spec["x-kubernetes-validations"] = json!([{"rule": rule, "message": message}]);
        }
        self
    }

    pub(super) fn status<S: JsonSchema>(mut self) -> Self {
        self.properties.insert("status".into(), schema_of::<S>());
        self
    }

    /// A rule (CEL) on the object as a whole.
    pub(super) fn rule(mut self, rule: &str, message: &str) -> Self {
        self.rules.push(json!({"rule": rule, "message": message}));
        self
    }

    pub(super) fn column(mut self, name: &str, type_: &str, json_path: &str) -> Self {
        self.columns.push(CustomResourceColumnDefinition {
            name: name.into(),
            type_: type_.into(),
            json_path: json_path.into(),
            ..Default::default()
        });
        self
    }

    /// A column that only `kubectl get -o wide` shows.
    pub(super) fn wide_column(self, name: &str, type_: &str, json_path: &str) -> Self {
        let mut with = self.column(name, type_, json_path);
        if let Some(last) = with.columns.last_mut() {
            last.priority = Some(10);
        }
        with
    }

    /// Clients that use this version are warned.
    pub(super) fn deprecated(mut self, warning: &'static str) -> Self {
        self.deprecation = Some(warning);
        self
    }

    /// Serves `older` beside this version.
    pub(super) fn also(mut self, older: Kind) -> Self {
        self.older.push(older);
        self
    }

    pub(super) fn definition(mut self) -> CustomResourceDefinition {
        let older = std::mem::take(&mut self.older);
        let group = std::mem::take(&mut self.group);
        let names = CustomResourceDefinitionNames {
            list_kind: Some(format!("{}List", self.kind)),
            singular: Some(self.kind.to_lowercase()),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
            ..Default::default()
        };
        let versions = older
            .into_iter()
            .map(|kind| kind.version(false))
            .chain(std::iter::once(self.version(true)))
            .collect();
        CustomResourceDefinition {
            metadata: ObjectMeta { name: Some(format!("{}.{group}", names.plural)), ..Default::default() },
            spec: CustomResourceDefinitionSpec {
                group,
                names,
                scope: "Namespaced".into(),
                versions,
                ..Default::default()
            },
            status: None,
        }
    }

    fn version(self, storage: bool) -> CustomResourceDefinitionVersion {
        let mut schema = json!({
            "type": "object",
            "description": self.description,
            "properties": self.properties,
        });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        if !self.rules.is_empty() {
            schema["x-kubernetes-validations"] = Value::Array(self.rules);
        }
        CustomResourceDefinitionVersion {
            name: self.version,
            served: true,
            storage,
            deprecated: self.deprecation.map(|_| true),
            deprecation_warning: self.deprecation.map(Into::into),
            additional_printer_columns: Some(self.columns).filter(|columns| !columns.is_empty()),
            schema: Some(CustomResourceValidation { open_api_v3_schema: Some(props(schema)) }),
            subresources: Some(CustomResourceSubresources {
                status: Some(CustomResourceSubresourceStatus(json!({}))),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

#[expect(clippy::expect_used, reason = "the value is made from our own types; a test builds every CRD")]
fn props(schema: Value) -> JSONSchemaProps {
    serde_json::from_value(schema).expect("a generated schema is a JSONSchemaProps")
}
