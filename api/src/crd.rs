//! CustomResourceDefinitions, made from the types.
//!
//! What the derive macros know of Rust (nullable options, null in enumerations, unsigned formats) is
//! taken out again, so that the schemas read as MetalLB's do.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Resource;
use kube::core::schema::StructuralSchemaRewriter;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::v1beta1::{
    ConfigurationState, ConfigurationStateStatus, IPAddressPool, IPAddressPoolSpec, IPAddressPoolStatus,
    L2Advertisement, L2AdvertisementSpec, L2AdvertisementStatus, MetalLB, MetalLBSpec, MetalLBStatus,
    ServiceL2Status, ServiceL2StatusSpec, ServiceL2StatusStatus,
};
use crate::well_known;

/// Names of all CRDs, in the order in which they are applied.
pub const CRDS_IN_APPLY_ORDER: [&str; 5] = [
    "configurationstates.metallb.io",
    "ipaddresspools.metallb.io",
    "l2advertisements.metallb.io",
    "metallbs.metallb.io",
    "servicel2statuses.metallb.io",
];

/// All CRDs of the product, in apply order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        Kind::of::<ConfigurationState>("What one process of the product says of the configuration it runs.")
            .status::<ConfigurationStateStatus>()
            .column("Result", "string", ".status.result")
            .column("ErrorSummary", "string", ".status.errorSummary")
            .column("Age", "date", ".metadata.creationTimestamp")
            .definition(),
        Kind::of::<IPAddressPool>("A pool of addresses for Services of type LoadBalancer.")
            .spec::<IPAddressPoolSpec>(Required::Yes)
            .status::<IPAddressPoolStatus>()
            .column("Auto Assign", "boolean", ".spec.autoAssign")
            .column("Avoid Buggy IPs", "boolean", ".spec.avoidBuggyIPs")
            .column("Addresses", "string", ".spec.addresses")
            .definition(),
        Kind::of::<L2Advertisement>(
            "Announces the addresses of pools on layer 2, by ARP and NDP. Without a spec: every pool, from every node, on every interface.",
        )
        .spec::<L2AdvertisementSpec>(Required::No)
        .status::<L2AdvertisementStatus>()
        .column("IPAddressPools", "string", ".spec.ipAddressPools")
        .column("IPAddressPool Selectors", "string", ".spec.ipAddressPoolSelectors")
        .column("Interfaces", "string", ".spec.interfaces")
        .wide_column("Node Selectors", "string", ".spec.nodeSelectors")
        .definition(),
        Kind::of::<MetalLB>(
            "Asks the operator to install the product. The one object must be called metallb and live in the operator's namespace.",
        )
        .spec::<MetalLBSpec>(Required::No)
        .status::<MetalLBStatus>()
        .rule(
            "self.metadata.name == 'metallb'",
            "the operator honours one MetalLB object only: name it metallb",
        )
        .column("Available", "string", ".status.conditions[?(@.type=='Available')].status")
        .column("Degraded", "string", ".status.conditions[?(@.type=='Degraded')].status")
        .column("Progressing", "string", ".status.conditions[?(@.type=='Progressing')].status")
        .column("Age", "date", ".metadata.creationTimestamp")
        .definition(),
        Kind::of::<ServiceL2Status>("Which node answers ARP and NDP for a Service. Written by that node's speaker.")
            .spec::<ServiceL2StatusSpec>(Required::No)
            .status::<ServiceL2StatusStatus>()
            .column("Allocated Node", "string", ".status.node")
            .column("Service Name", "string", ".status.serviceName")
            .column("Service Namespace", "string", ".status.serviceNamespace")
            .definition(),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Required {
    Yes,
    No,
}

/// A CRD in the making.
struct Kind {
    kind: String,
    plural: String,
    version: String,
    properties: Map<String, Value>,
    required: Vec<&'static str>,
    rules: Vec<Value>,
    columns: Vec<CustomResourceColumnDefinition>,
    description: &'static str,
}

impl Kind {
    fn of<K: Resource<DynamicType = ()>>(description: &'static str) -> Self {
        let mut properties = Map::new();
        properties.insert(
            "apiVersion".into(),
            json!({"type": "string", "description": "Version of the schema of this object: group/version."}),
        );
        properties.insert("kind".into(), json!({"type": "string", "description": "Kind of this object."}));
        properties.insert("metadata".into(), json!({"type": "object"}));
        Self {
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            version: K::version(&()).into_owned(),
            properties,
            required: Vec::new(),
            rules: Vec::new(),
            columns: Vec::new(),
            description,
        }
    }

    fn spec<S: JsonSchema>(mut self, required: Required) -> Self {
        self.properties.insert("spec".into(), schema_of::<S>());
        if required == Required::Yes {
            self.required.push("spec");
        }
        self
    }

    fn status<S: JsonSchema>(mut self) -> Self {
        self.properties.insert("status".into(), schema_of::<S>());
        self
    }

    fn rule(mut self, rule: &str, message: &str) -> Self {
        self.rules.push(json!({"rule": rule, "message": message}));
        self
    }

    fn column(mut self, name: &str, type_: &str, json_path: &str) -> Self {
        self.columns.push(CustomResourceColumnDefinition {
            name: name.into(),
            type_: type_.into(),
            json_path: json_path.into(),
            ..Default::default()
        });
        self
    }

    /// A column that only `kubectl get -o wide` shows.
    fn wide_column(self, name: &str, type_: &str, json_path: &str) -> Self {
        let mut with = self.column(name, type_, json_path);
        if let Some(last) = with.columns.last_mut() {
            last.priority = Some(10);
        }
        with
    }

    fn definition(self) -> CustomResourceDefinition {
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
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", self.plural, well_known::GROUP)),
                ..Default::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: well_known::GROUP.into(),
                names: CustomResourceDefinitionNames {
                    list_kind: Some(format!("{}List", self.kind)),
                    singular: Some(self.kind.to_lowercase()),
                    kind: self.kind,
                    plural: self.plural,
                    ..Default::default()
                },
                scope: "Namespaced".into(),
                versions: vec![CustomResourceDefinitionVersion {
                    name: self.version,
                    served: true,
                    storage: true,
                    additional_printer_columns: Some(self.columns),
                    schema: Some(CustomResourceValidation { open_api_v3_schema: Some(props(schema)) }),
                    subresources: Some(CustomResourceSubresources {
                        status: Some(CustomResourceSubresourceStatus(json!({}))),
                        ..Default::default()
                    }),
                    ..Default::default()
                }],
                ..Default::default()
            },
            status: None,
        }
    }
}

#[expect(clippy::expect_used, reason = "the value is made from our own types; a test builds every CRD")]
fn props(schema: Value) -> JSONSchemaProps {
    serde_json::from_value(schema).expect("a generated schema is a JSONSchemaProps")
}

fn schema_of<S: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3()
        .with(|s| {
            s.inline_subschemas = true;
            s.meta_schema = None;
        })
        .with_transform(StructuralSchemaRewriter);
    let mut value = settings.into_generator().into_root_schema_for::<S>().to_value();
    tidy(&mut value, 0);
    value
}

/// How deep our own fields go; below, descriptions are Kubernetes' own and long (Affinity), and would
/// take a CRD past the size that `kubectl apply` can annotate.
const DESCRIBED_DEPTH: usize = 4;

fn tidy(value: &mut Value, depth: usize) {
    match value {
        Value::Object(map) => {
            // `nullable` and `title` inside `properties` would be fields; none of ours has these names.
            for unwanted in ["nullable", "title", "$schema"] {
                map.remove(unwanted);
            }
            if map.get("default").is_some_and(is_absent) {
                map.remove("default");
            }
            if map.get("format").is_some_and(Value::is_null) {
                map.remove("format");
            }
            if depth > DESCRIBED_DEPTH && map.get("description").is_some_and(Value::is_string) {
                map.remove("description");
            } else if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            if let Some(Value::Array(values)) = map.get_mut("enum") {
                values.retain(|v| !v.is_null());
            }
            collapse_enum(map);
            for (_, child) in map.iter_mut() {
                tidy(child, depth + 1);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| tidy(item, depth + 1)),
        _ => {}
    }
}

/// Defaults that say the same as the field's absence.
fn is_absent(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// An enum with documented variants comes as `oneOf` of one-value enums; the API server wants one
/// `enum`.
fn collapse_enum(map: &mut Map<String, Value>) {
    for key in ["oneOf", "anyOf"] {
        let Some(Value::Array(options)) = map.get(key) else { continue };
        let values: Option<Vec<Value>> = options
            .iter()
            .filter(|o| o.get("enum").is_none_or(|e| *e != json!([null])))
            .map(|o| match (o.get("const"), o.get("enum")) {
                (Some(only), _) => Some(vec![only.clone()]),
                (None, Some(Value::Array(values))) => Some(values.clone()),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(|nested| nested.into_iter().flatten().collect());
        if let Some(values) = values.filter(|v| !v.is_empty()) {
            map.remove(key);
            map.insert("type".into(), json!("string"));
            map.insert("enum".into(), Value::Array(values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(crd: &str, path: &str) -> Value {
        let found = crds().into_iter().find(|c| c.metadata.name.as_deref() == Some(crd)).unwrap();
        let root = serde_json::to_value(&found.spec.versions[0].schema).unwrap();
        root.pointer(&format!("/openAPIV3Schema{path}")).cloned().unwrap_or(Value::Null)
    }

    #[test]
    fn every_crd_is_built_in_apply_order() {
        let names: Vec<_> = crds().into_iter().map(|c| c.metadata.name.unwrap()).collect();
        assert_eq!(names, CRDS_IN_APPLY_ORDER);
    }

    #[test]
    fn pool_schema_has_metallbs_defaults_and_required_fields() {
        let pool = "ipaddresspools.metallb.io";
        assert_eq!(schema(pool, "/required"), json!(["spec"]));
        let spec = "/properties/spec";
        assert_eq!(schema(pool, &format!("{spec}/required")), json!(["addresses"]));
        assert_eq!(schema(pool, &format!("{spec}/properties/autoAssign/default")), json!(true));
        assert_eq!(schema(pool, &format!("{spec}/properties/avoidBuggyIPs/default")), json!(false));
        let priority = schema(pool, &format!("{spec}/properties/serviceAllocation/properties/priority"));
        assert_eq!((priority["type"].clone(), priority.get("format")), (json!("integer"), None));
        assert_eq!(
            schema(pool, "/properties/status/required"),
            json!(["assignedIPv4", "assignedIPv6", "availableIPv4", "availableIPv6"])
        );
        assert_eq!(schema(pool, "/properties/status/properties/assignedIPv4/format"), json!("int64"));
    }

    #[test]
    fn advertisement_needs_no_spec_and_bounds_weights() {
        let adv = "l2advertisements.metallb.io";
        assert_eq!(schema(adv, "/required"), Value::Null);
        let item = schema(adv, "/properties/spec/properties/preferredNodeSelectors/items");
        assert_eq!(item["required"], json!(["preference", "weight"]));
        assert_eq!(item["properties"]["weight"]["minimum"], json!(1.0));
        assert_eq!(item["properties"]["weight"]["maximum"], json!(100.0));
        assert_eq!(item["properties"]["preference"]["x-kubernetes-map-type"], json!("atomic"));
    }

    #[test]
    fn enumerations_have_neither_null_nor_descriptions_instead_of_values() {
        let level = schema("metallbs.metallb.io", "/properties/spec/properties/logLevel");
        assert_eq!(level["enum"], json!(["all", "debug", "info", "warn", "error", "none"]));
        let result = schema("configurationstates.metallb.io", "/properties/status/properties/result");
        assert_eq!(result["enum"], json!(["Valid", "Invalid", "Unknown"]));
    }

    #[test]
    fn no_schema_is_nullable_or_too_large_for_client_side_apply() {
        for crd in crds() {
            let text = serde_json::to_string(&crd).unwrap();
            assert!(!text.contains("\"nullable\""), "{:?}", crd.metadata.name);
            assert!(text.len() < 200_000, "{:?} has {} bytes", crd.metadata.name, text.len());
        }
    }

    #[test]
    fn objects_without_a_spec_are_read() {
        let adv: L2Advertisement = serde_json::from_value(
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "L2Advertisement", "metadata": {"name": "all"}}),
        )
        .unwrap();
        assert_eq!(adv.spec, L2AdvertisementSpec::default());
        let state: ConfigurationState = serde_json::from_value(
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "ConfigurationState", "metadata": {"name": "controller"}}),
        )
        .unwrap();
        assert_eq!(state.status, None);
    }
}
