//! The schema of a type, as MetalLB's CRDs would write it.

use kube::core::schema::StructuralSchemaRewriter;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub(super) fn schema_of<S: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3()
        .with(|s| {
            s.inline_subschemas = true;
            s.meta_schema = None;
        })
        .with_transform(StructuralSchemaRewriter);
    let mut value = settings.into_generator().into_root_schema_for::<S>().to_value();
    tidy(&mut value);
    value
}

/// Takes out what is Rust's rather than the API's.
fn tidy(value: &mut Value) {
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
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            if let Some(Value::Array(values)) = map.get_mut("enum") {
                values.retain(|v| !v.is_null());
            }
            collapse_enum(map);
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
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
