//! Schemas of what our types embed from Kubernetes, in the form that controller-gen writes them
//! (list and map types included, their long descriptions left out).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

fn label_selector_value() -> Value {
    json!({
        "type": "object",
        "description": "Label selector; {} matches everything.",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "description": "Requirements that must all hold.",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "description": "Label key."},
                        "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist."},
                        "values": {
                            "type": "array",
                            "description": "Values for In and NotIn; empty for the other operators.",
                            "items": {"type": "string"},
                            "x-kubernetes-list-type": "atomic",
                        },
                    },
                },
            },
            "matchLabels": {
                "type": "object",
                "description": "Labels that must all have these values.",
                "additionalProperties": {"type": "string"},
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

fn as_schema(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_else(|_| json_schema!({"type": "object"}))
}

pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    as_schema(json!({"type": "string", "format": "date-time"}))
}

pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    as_schema(label_selector_value())
}

pub(crate) fn label_selectors(_: &mut SchemaGenerator) -> Schema {
    as_schema(json!({"type": "array", "items": label_selector_value()}))
}

pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    as_schema(json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "When the condition last went from one status to another.",
                },
                "message": {"type": "string", "maxLength": 32768, "description": "Details for people."},
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "Generation of the object that this condition is about.",
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Machine-readable cause, in CamelCase.",
                },
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "True, False or Unknown."},
                "type": {
                    "type": "string", "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    "description": "Type of the condition, in CamelCase.",
                },
            },
        },
    }))
}

/// A string that may be set once: a transition rule of the API server refuses any other value.
pub(crate) fn immutable_string(_: &mut SchemaGenerator) -> Schema {
    as_schema(json!({
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "Value is immutable"}],
    }))
}

/// A duration of whole seconds.
pub(crate) fn connect_time(_: &mut SchemaGenerator) -> Schema {
    as_schema(json!({
        "type": "string",
        "x-kubernetes-validations": [
            {
                "rule": "duration(self).getSeconds() >= 1 && duration(self).getSeconds() <= 65535",
                "message": "connect time should be between 1 seconds to 65535",
            },
            {
                "rule": "duration(self).getMilliseconds() % 1000 == 0",
                "message": "connect time should contain a whole number of seconds",
            },
        ],
    }))
}

/// A switch that keeps the position it was first put in. The rule sees a change only: it is not asked
/// where the old or the new object lacks the field.
pub(crate) fn enable_graceful_restart(_: &mut SchemaGenerator) -> Schema {
    as_schema(json!({
        "type": "boolean",
        "x-kubernetes-validations": [{
            "rule": "self == oldSelf",
            "message": "EnableGracefulRestart cannot be changed after creation",
        }],
    }))
}

/// Where a Secret is.
pub(crate) fn secret_reference(_: &mut SchemaGenerator) -> Schema {
    as_schema(json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Name of the Secret."},
            "namespace": {"type": "string", "description": "Not looked at: the namespace is that of this object."},
        },
        "x-kubernetes-map-type": "atomic",
    }))
}

/// The schema of a type of Kubernetes without its descriptions, which are long and would take a CRD past
/// the size that `kubectl apply` can annotate.
pub(crate) fn undescribed<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut value = generator.subschema_for::<T>().to_value();
    remove_descriptions(&mut value);
    as_schema(value)
}

fn remove_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("description").is_some_and(Value::is_string) {
                map.remove("description");
            }
            map.values_mut().for_each(remove_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}
