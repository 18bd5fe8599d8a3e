//! The generated CRDs against a table of facts, written by hand from MetalLB's API: every field with its
//! type, default, whether it must be there, and its rules. A field too many fails as one too few does.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod facts;

use facts::{COLUMNS, FIELDS, FOREIGN, RULES, VERSIONS};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::{Map, Value, json};

/// What the schema of a version says of its fields, in the form of the table.
#[derive(Default)]
struct Seen {
    fields: Vec<String>,
    rules: Vec<(String, String, String)>,
}

impl Seen {
    fn object(&mut self, path: &str, schema: &Value) {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        self.rules(path, schema);
        let none = Map::new();
        for (name, field) in schema["properties"].as_object().unwrap_or(&none) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if !["apiVersion", "kind", "metadata"].contains(&path.as_str()) {
                self.field(&path, field, required.contains(&json!(name)));
            }
        }
    }

    fn field(&mut self, path: &str, schema: &Value, required: bool) {
        let default = schema.get("default").map(ToString::to_string).unwrap_or_default();
        let required = if required { "yes" } else { "" };
        let row = [path.to_owned(), type_of(path, schema), default, required.to_owned(), limits(schema)];
        self.fields.push(normal(&row.join("|")));
        if named(path, schema).is_some() {
            return;
        }
        match schema["type"].as_str() {
            Some("array") if schema["items"]["type"] == "object" => {
                if named(path, &schema["items"]).is_none() {
                    self.object(&format!("{path}[]"), &schema["items"]);
                }
                self.rules(path, schema);
            }
            _ => self.object(path, schema),
        }
    }

    fn rules(&mut self, path: &str, schema: &Value) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let text = |key: &str| rule[key].as_str().unwrap().to_owned();
            self.rules.push((path.to_owned(), text("rule"), text("message")));
        }
    }
}

/// `string`, `integer int32`, `[]string`, `map`, `[]LabelSelector`.
fn type_of(path: &str, schema: &Value) -> String {
    if let Some(name) = named(path, schema) {
        return name;
    }
    let type_ = schema["type"].as_str().unwrap_or("?");
    match (type_, schema["format"].as_str()) {
        ("array", _) => format!("[]{}", type_of(&format!("{path}[]"), &schema["items"])),
        ("object", _) if schema["additionalProperties"]["type"] == "string" => "map".to_owned(),
        (_, None) => type_.to_owned(),
        (_, Some(format)) => format!("{type_} {format}"),
    }
}

/// Types of Kubernetes: label selectors and conditions are known by their schema, others (whose schemas
/// come with the client library) by their place.
fn named(path: &str, schema: &Value) -> Option<String> {
    let plain = undescribed(schema);
    if plain == label_selector() {
        return Some("LabelSelector".to_owned());
    }
    if plain == condition() {
        return Some("Condition".to_owned());
    }
    let foreign = FOREIGN.iter().find(|(place, _)| *place == path.trim_end_matches("[]"))?;
    (schema["type"] == "object").then(|| foreign.1.to_owned())
}

fn limits(schema: &Value) -> String {
    let mut limits = Vec::new();
    let whole = |number: &Value| number.as_f64().unwrap().to_string();
    match (schema.get("minimum"), schema.get("maximum")) {
        (None, None) => {}
        (low, high) => {
            let [low, high] = [low, high].map(|limit| limit.map(whole).unwrap_or_default());
            limits.push(format!("{low}..{high}"));
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<&str> = values.iter().map(|it| it.as_str().unwrap()).collect();
        limits.push(values.join(" or "));
    }
    for key in ["minItems", "maxItems", "minLength", "maxLength", "pattern"] {
        if let Some(value) = schema.get(key) {
            limits.push(format!("{key} {}", value.as_str().map_or(value.to_string(), Into::into)));
        }
    }
    if let Some(type_) = schema["x-kubernetes-list-type"].as_str() {
        let keys = schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default();
        let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        limits.push(format!("list {type_} {}", keys.join(" ")).trim_end().to_owned());
    }
    if let Some(type_) = schema["x-kubernetes-map-type"].as_str() {
        limits.push(format!("map {type_}"));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
        limits.push("open".to_owned());
    }
    limits.join(", ")
}

fn undescribed(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let fields = map.iter().filter(|(key, value)| *key != "description" || !value.is_string());
            Value::Object(fields.map(|(key, value)| (key.clone(), undescribed(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(undescribed).collect()),
        other => other.clone(),
    }
}

fn label_selector() -> Value {
    let strings = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"});
    let expression = json!({
        "type": "object", "required": ["key", "operator"],
        "properties": {"key": {"type": "string"}, "operator": {"type": "string"}, "values": strings},
    });
    json!({
        "type": "object",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matchExpressions": {"type": "array", "items": expression, "x-kubernetes-list-type": "atomic"},
        },
        "x-kubernetes-map-type": "atomic",
    })
}

fn condition() -> Value {
    let type_ = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    json!({
        "type": "object", "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "message": {"type": "string", "maxLength": 32768},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0.0},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024,
                       "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "type": {"type": "string", "maxLength": 316, "pattern": type_},
        },
    })
}

/// A row without the spaces that only align it.
fn normal(row: &str) -> String {
    row.splitn(5, '|').map(str::trim).collect::<Vec<_>>().join(" | ")
}

fn definition(plural: &str) -> CustomResourceDefinition {
    ferrolb_api::crds().into_iter().find(|crd| crd.spec.names.plural == plural).expect(plural)
}

fn version(plural: &str, name: &str) -> CustomResourceDefinitionVersion {
    let found = definition(plural).spec.versions.into_iter().find(|version| version.name == name);
    found.unwrap_or_else(|| panic!("{plural} {name}"))
}

fn seen(plural: &str, name: &str) -> Seen {
    let schema = version(plural, name).schema.unwrap().open_api_v3_schema.unwrap();
    let mut seen = Seen::default();
    seen.object("", &serde_json::to_value(schema).unwrap());
    seen
}

#[test]
fn every_field_is_as_the_table_says_and_no_field_is_missing_in_it() {
    let mut differences = Vec::new();
    for (plural, name, table) in FIELDS {
        let wanted: Vec<String> = table.lines().filter(|line| !line.trim().is_empty()).map(normal).collect();
        let found = seen(plural, name).fields;
        for row in wanted.iter().filter(|row| !found.contains(row)) {
            differences.push(format!("{plural} {name} lacks    {row}"));
        }
        for row in found.iter().filter(|row| !wanted.contains(row)) {
            differences.push(format!("{plural} {name} has also {row}"));
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

#[test]
fn every_rule_is_in_the_table() {
    let mut wanted: Vec<_> = RULES.to_vec();
    for (plural, name, _) in FIELDS {
        for (path, rule, message) in seen(plural, name).rules {
            let found = (*plural, *name, path.as_str(), rule.as_str(), message.as_str());
            let place = wanted.iter().position(|row| *row == found);
            wanted.remove(place.unwrap_or_else(|| panic!("not in the table: {found:?}")));
        }
    }
    assert!(wanted.is_empty(), "no CRD has {wanted:?}");
}

#[test]
fn every_version_of_every_kind_is_served_as_the_table_says() {
    let mut found = Vec::new();
    for crd in ferrolb_api::crds() {
        let names = crd.spec.names;
        let added = crd.spec.versions.iter().any(|version| version.name == "v1alpha1");
        let group = if added { "ferrolb.io" } else { "metallb.io" };
        assert_eq!((crd.spec.group.as_str(), crd.spec.scope.as_str()), (group, "Namespaced"));
        assert_eq!(names.list_kind, Some(format!("{}List", names.kind)));
        assert_eq!(names.singular, Some(names.kind.to_lowercase()));
        assert_eq!((names.short_names, names.categories), (None, None));
        assert_eq!(crd.metadata.name, Some(format!("{}.{group}", names.plural)));
        // A webhook that is not there could only fail; the one that is registers itself.
        assert_eq!(crd.spec.conversion, None, "{}", names.plural);
        for version in crd.spec.versions {
            let subresources = version.subresources.unwrap();
            assert!(subresources.status.is_some() && subresources.scale.is_none(), "{}", names.plural);
            assert!(FIELDS.iter().any(|it| (it.0, it.1) == (names.plural.as_str(), version.name.as_str())));
            let row = [
                names.kind.clone(),
                names.plural.clone(),
                version.name,
                if version.storage { "stored" } else { "" }.to_owned(),
                version.deprecation_warning.filter(|_| version.deprecated == Some(true)).unwrap_or_default(),
            ];
            assert!(version.served, "{row:?}");
            found.push(normal(&row.join("|")));
        }
    }
    let mut wanted: Vec<String> = VERSIONS.lines().filter(|line| !line.is_empty()).map(normal).collect();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn kubectl_get_shows_the_columns_of_the_table() {
    for (plural, name, _) in FIELDS {
        let columns = version(plural, name).additional_printer_columns.unwrap_or_default();
        let found: Vec<String> = columns
            .iter()
            .map(|it| {
                let priority = it.priority.map(|it| it.to_string()).unwrap_or_default();
                normal(&[plural, &*it.name, &it.type_, &it.json_path, &priority].join("|"))
            })
            .collect();
        let wanted: Vec<String> =
            COLUMNS.lines().map(normal).filter(|row| row.starts_with(&format!("{plural} |"))).collect();
        assert_eq!(found, wanted, "{plural} {name}");
    }
}

#[test]
fn every_field_is_described() {
    fn look(path: &str, schema: &Value, missing: &mut Vec<String>) {
        let none = Map::new();
        for (name, field) in schema["properties"].as_object().unwrap_or(&none) {
            let path = format!("{path}.{name}");
            if !path.ends_with(".metadata") && field["description"].as_str().is_none_or(str::is_empty) {
                missing.push(path.clone());
            }
            if !FOREIGN.iter().any(|(place, _)| path.ends_with(place)) {
                look(&path, field, missing);
                look(&path, &field["items"], missing);
            }
        }
    }
    let mut missing = Vec::new();
    for (plural, name, _) in FIELDS {
        let schema = version(plural, name).schema.unwrap().open_api_v3_schema.unwrap();
        look(plural, &serde_json::to_value(schema).unwrap(), &mut missing);
    }
    assert!(missing.is_empty(), "kubectl explain has nothing to say of {missing:#?}");
}
