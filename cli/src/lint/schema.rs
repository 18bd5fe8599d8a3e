//! An object against the schema of its kind: what the API server would refuse by itself. Rules written in
//! CEL are not evaluated; those on the configuration are the compiler's as well.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::Number;

use super::Rule;
use super::document::{Entry, Node, Value};

/// The definitions of all kinds.
static DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(ferrolb_api::crds);

/// What is wrong with an object by its schema.
#[derive(Debug, PartialEq)]
pub(super) struct Violation {
    pub(super) rule: Rule,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) help: String,
}

impl Violation {
    fn schema(field: &str, message: String) -> Self {
        Self { rule: Rule::Schema, field: field.to_owned(), message, help: String::new() }
    }
}

/// Whether one of our API groups has a kind of this name.
pub(super) fn has_kind(kind: &str) -> bool {
    DEFINITIONS.iter().any(|crd| crd.spec.names.kind == kind)
}

/// Checks an object of one of our API groups.
pub(super) fn violations(group: &str, version: &str, kind: &str, object: &Node) -> Vec<Violation> {
    let kinds = || DEFINITIONS.iter().map(|crd| crd.spec.names.kind.as_str());
    let is_meant = |crd: &&CustomResourceDefinition| crd.spec.names.kind == kind && crd.spec.group == group;
    let Some(crd) = DEFINITIONS.iter().find(is_meant) else {
        return vec![Violation {
            rule: Rule::UnknownKind,
            field: "kind".into(),
            message: format!("{group} has no kind {kind:?}"),
            help: nearest(kind, kinds()).map_or_else(String::new, |it| format!("did you mean {it}?")),
        }];
    };
    let versions = &crd.spec.versions;
    let Some(found) = versions.iter().find(|it| it.name == version) else {
        let known: Vec<_> = versions.iter().map(|it| format!("{group}/{}", it.name)).collect();
        return vec![Violation {
            rule: Rule::UnknownKind,
            field: "apiVersion".into(),
            message: format!("{kind} has no version {version:?}"),
            help: format!("write {}", known.join(" or ")),
        }];
    };
    let mut violations = Vec::new();
    if found.deprecated == Some(true) {
        violations.push(Violation {
            rule: Rule::Deprecated,
            field: "apiVersion".into(),
            message: found.deprecation_warning.clone().unwrap_or_default(),
            help: String::new(),
        });
    }
    if let Some(schema) = found.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref()) {
        check("", object, schema, &mut violations);
    }
    violations
}

fn check(path: &str, node: &Node, schema: &JSONSchemaProps, violations: &mut Vec<Violation>) {
    if schema.x_kubernetes_int_or_string == Some(true) {
        if !matches!(node.value, Value::Number(_) | Value::String(_)) {
            violations.push(Violation::schema(path, format!("{path} must be a number or a string")));
        }
        return;
    }
    let type_ = schema.type_.as_deref().unwrap_or("object");
    match (&node.value, type_) {
        (Value::Map(entries), "object") => map(path, entries, schema, violations),
        (Value::List(items), "array") => list(path, items, schema, violations),
        (Value::String(text), "string") => string(path, text, schema, violations),
        (Value::Number(number), "integer") if number.is_f64() => {
            violations.push(Violation::schema(path, format!("{path} must be a whole number, not {number}")));
        }
        (Value::Number(number), "integer" | "number") => self::number(path, number, schema, violations),
        (Value::Bool(_), "boolean") => {}
        (found, wanted) => violations.push(Violation::schema(
            path,
            format!("{path} must be {}, not {}", of_type(wanted), what(found)),
        )),
    }
}

fn map(path: &str, entries: &[Entry], schema: &JSONSchemaProps, violations: &mut Vec<Violation>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let none = Default::default();
    let known = schema.properties.as_ref().unwrap_or(&none);
    let values = match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(schema)) => Some(schema.as_ref()),
        _ => None,
    };
    // Anything goes in an object that says nothing of itself, as metadata.
    let open = known.is_empty() || schema.x_kubernetes_preserve_unknown_fields == Some(true);
    // A field that is null is as good as absent: the API server takes it out.
    let given = |entry: &&Entry| !matches!(entry.node.value, Value::Null);
    for entry in entries.iter().filter(given) {
        let path = below(&entry.key);
        match (known.get(&entry.key).or(values), open) {
            (Some(schema), _) => check(&path, &entry.node, schema, violations),
            (None, true) => {}
            (None, false) => violations.push(Violation {
                rule: Rule::UnknownField,
                help: nearest(&entry.key, known.keys().map(String::as_str))
                    .map_or_else(String::new, |it| format!("did you mean {it}?")),
                message: format!("unknown field {path:?}"),
                field: path,
            }),
        }
    }
    for key in schema.required.iter().flatten() {
        if !entries.iter().filter(given).any(|entry| entry.key == *key) {
            let path = below(key);
            violations.push(Violation::schema(&path, format!("{path} is missing")));
        }
    }
}

fn list(path: &str, items: &[Node], schema: &JSONSchemaProps, violations: &mut Vec<Violation>) {
    if let Some(least) =
        schema.min_items.filter(|least| usize::try_from(*least).is_ok_and(|it| items.len() < it))
    {
        violations.push(Violation::schema(path, format!("{path} must have at least {least} items")));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            check(&format!("{path}[{index}]"), item, schema, violations);
        }
    }
}

fn string(path: &str, text: &str, schema: &JSONSchemaProps, violations: &mut Vec<Violation>) {
    let values = schema.enum_.as_deref().unwrap_or_default();
    let values: Vec<&str> = values.iter().filter_map(|value| value.0.as_str()).collect();
    if !values.is_empty() && !values.contains(&text) {
        violations.push(Violation {
            help: nearest(text, values.iter().copied())
                .map_or_else(String::new, |it| format!("did you mean {it}?")),
            ..Violation::schema(path, format!("{path} must be one of {}, not {text:?}", values.join(", ")))
        });
    }
    let pattern = schema.pattern.as_deref().map(|it| (it, Regex::new(it)));
    if let Some((pattern, Ok(regex))) = pattern
        && !regex.is_match(text)
    {
        violations
            .push(Violation::schema(path, format!("{path} must match {pattern}, and {text:?} does not")));
    }
}

fn number(path: &str, number: &Number, schema: &JSONSchemaProps, violations: &mut Vec<Violation>) {
    let Some(value) = number.as_f64() else { return };
    let bounds = match schema.format.as_deref() {
        Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let (low, high) =
        (schema.minimum.unwrap_or(bounds.0).max(bounds.0), schema.maximum.unwrap_or(bounds.1).min(bounds.1));
    if value < low {
        violations.push(Violation::schema(path, format!("{path} must be at least {low}, not {number}")));
    }
    if value > high {
        violations.push(Violation::schema(path, format!("{path} must be at most {high}, not {number}")));
    }
}

fn of_type(type_: &str) -> &'static str {
    match type_ {
        "object" => "a map",
        "array" => "a list",
        "string" => "a string (in quotes)",
        "boolean" => "true or false",
        _ => "a number",
    }
}

fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    }
}

/// The word that was meant, if one is near enough.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .map(|it| (strsim::damerau_levenshtein(&lower, &it.to_lowercase()), it))
        .min()
        .filter(|(distance, _)| *distance <= 1.max(word.len() / 3))
        .map(|(_, it)| it)
}

#[cfg(test)]
mod tests {
    use crate::lint::document;

    fn of(yaml: &str) -> Vec<String> {
        let node = document::read(yaml).0.remove(0);
        let version = node.text_at(&["apiVersion"]).unwrap().rsplit('/').next().unwrap().to_owned();
        let kind = node.text_at(&["kind"]).unwrap().to_owned();
        let violations = super::violations("metallb.io", &version, &kind, &node);
        violations.into_iter().map(|it| format!("{}: {} {}", it.rule.id(), it.message, it.help)).collect()
    }

    fn pool(spec: &str) -> Vec<String> {
        of(&format!(
            "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: a, anything: 1}}\nspec: {spec}"
        ))
    }

    #[test]
    fn a_good_object_has_no_violation() {
        let spec = "{addresses: [10.0.0.0/8], autoAssign: null, serviceAllocation: {priority: 5, \
                    namespaceSelectors: [{matchLabels: {any/thing.goes: here}}]}}";
        assert_eq!(pool(spec), Vec::<String>::new());
    }

    #[test]
    fn what_the_api_server_would_refuse_is_named_with_the_nearest_word() {
        for (spec, wanted) in [
            (
                "{addreses: [10.0.0.0/8], addresses: []}",
                "unknown-field: unknown field \"spec.addreses\" did you mean addresses?",
            ),
            (
                "{addresses: [], Auto_Assign: true}",
                "unknown-field: unknown field \"spec.Auto_Assign\" did you mean autoAssign?",
            ),
            ("{addresses: [], quite-another: 1}", "unknown-field: unknown field \"spec.quite-another\" "),
            ("{}", "schema: spec.addresses is missing "),
            ("{addresses: null}", "schema: spec.addresses is missing "),
            ("{addresses: 10.0.0.0/8}", "schema: spec.addresses must be a list, not a string "),
            ("{addresses: [1]}", "schema: spec.addresses[0] must be a string (in quotes), not a number "),
            (
                "{addresses: [], autoAssign: 'true'}",
                "schema: spec.autoAssign must be true or false, not a string ",
            ),
            (
                "{addresses: [], serviceAllocation: {priority: 1.5}}",
                "schema: spec.serviceAllocation.priority must be a whole number, not 1.5 ",
            ),
            ("7", "schema: spec must be a map, not a number "),
        ] {
            assert_eq!(pool(spec), [wanted], "{spec}");
        }
    }

    #[test]
    fn limits_are_those_of_the_schema() {
        let bfd = |spec: &str| of(&format!("apiVersion: metallb.io/v1beta1\nkind: BFDProfile\nspec: {spec}"));
        assert_eq!(bfd("{receiveInterval: 9}"), ["schema: spec.receiveInterval must be at least 10, not 9 "]);
        assert_eq!(bfd("{minimumTtl: 255}"), ["schema: spec.minimumTtl must be at most 254, not 255 "]);
        let peer = |spec: &str| of(&format!("apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nspec: {spec}"));
        assert_eq!(
            peer("{myASN: 4294967296, dynamicASN: external}"),
            ["schema: spec.myASN must be at most 4294967295, not 4294967296 "]
        );
        assert_eq!(
            peer("{myASN: 1, dynamicASN: extern}"),
            [
                "schema: spec.dynamicASN must be one of internal, external, not \"extern\" did you mean external?"
            ]
        );
        let old = "apiVersion: metallb.io/v1beta1\nkind: BGPPeer\nspec: {myASN: 1, peerASN: 2, peerAddress: a, \
                   nodeSelectors: [{matchExpressions: [{key: a, operator: In, values: []}]}]}";
        let values = "spec.nodeSelectors[0].matchExpressions[0].values";
        assert_eq!(
            of(old),
            [
                "deprecated: v1beta1 is deprecated, please use v1beta2 ",
                &format!("schema: {values} must have at least 1 items ")
            ]
        );
        let metallb = "apiVersion: metallb.io/v1beta1\nkind: MetalLB\nspec: {loadBalancerClass: a b}";
        assert!(
            of(metallb)[0].starts_with("schema: spec.loadBalancerClass must match "),
            "{:?}",
            of(metallb)
        );
        let advertisement =
            "apiVersion: metallb.io/v1beta1\nkind: BGPAdvertisement\nspec: {localPref: 2147483648}";
        assert_eq!(of(advertisement), ["schema: spec.localPref must be at most 2147483647, not 2147483648 "]);
    }

    #[test]
    fn kinds_and_versions_of_our_group_are_known() {
        assert_eq!(
            of("apiVersion: metallb.io/v1beta1\nkind: IPAdressPool"),
            ["unknown-kind: metallb.io has no kind \"IPAdressPool\" did you mean IPAddressPool?"]
        );
        assert_eq!(
            of("apiVersion: metallb.io/v1\nkind: BGPPeer"),
            ["unknown-kind: BGPPeer has no version \"v1\" write metallb.io/v1beta1 or metallb.io/v1beta2"]
        );
    }
}
