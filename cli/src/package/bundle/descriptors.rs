//! How consoles show our kinds: each field of spec and status with a name and its documentation, from the
//! CRDs' own schemas.

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
};
use serde_json::{Value, json};

/// The owned CRDs, one entry a version.
pub(super) fn owned() -> anyhow::Result<Vec<Value>> {
    let crds = ferrolb_api::crds();
    let entries = crds.iter().flat_map(|crd| crd.spec.versions.iter().map(move |version| (crd, version)));
    entries.map(|(crd, version)| entry(crd, version)).collect()
}

fn entry(crd: &CustomResourceDefinition, version: &CustomResourceDefinitionVersion) -> anyhow::Result<Value> {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = schema.with_context(|| format!("{} has no schema", crd.spec.names.kind))?;
    Ok(json!({
        "name": crd.metadata.name,
        "kind": crd.spec.names.kind,
        "version": version.name,
        "displayName": spaced(&crd.spec.names.kind),
        "description": schema.description.clone().unwrap_or_default(),
        "resources": resources(&crd.spec.names.kind),
        "specDescriptors": fields(schema, "spec"),
        "statusDescriptors": fields(schema, "status"),
    }))
}

/// Kinds of the objects that come of one: what a console links to.
fn resources(kind: &str) -> Value {
    let of = |kinds: &[(&str, &str)]| {
        kinds.iter().map(|(kind, version)| json!({"kind": kind, "version": version})).collect::<Value>()
    };
    match kind {
        "MetalLB" => of(&[("DaemonSet", "v1"), ("Deployment", "v1"), ("Pod", "v1"), ("Service", "v1")]),
        "ConfigurationState" => of(&[("Pod", "v1")]),
        _ => of(&[("Service", "v1")]),
    }
}

fn fields(schema: &JSONSchemaProps, part: &str) -> Value {
    let part = schema.properties.as_ref().and_then(|properties| properties.get(part));
    let fields = part.and_then(|part| part.properties.as_ref()).into_iter().flatten();
    fields.map(|(name, field)| descriptor(name, field)).collect()
}

fn descriptor(name: &str, field: &JSONSchemaProps) -> Value {
    let display = match name {
        "conditions" => "urn:alm:descriptor:io.kubernetes.conditions",
        _ => match field.type_.as_deref() {
            Some("boolean") => "urn:alm:descriptor:com.tectonic.ui:booleanSwitch",
            Some("integer") => "urn:alm:descriptor:com.tectonic.ui:number",
            _ => "urn:alm:descriptor:com.tectonic.ui:text",
        },
    };
    json!({
        "path": name,
        "displayName": spaced(name),
        "description": field.description.clone().unwrap_or_default(),
        "x-descriptors": [display],
    })
}

/// `ipAddressPools` as "Ip Address Pools", `BGPPeer` as "BGP Peer".
fn spaced(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut words = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(at + 1);
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || (before.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase))
            });
        if begins {
            words.push(' ');
        }
        if at == 0 { words.push(letter.to_ascii_uppercase()) } else { words.push(*letter) }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spaced_where_words_begin() {
        for (name, expected) in [
            ("ipAddressPools", "Ip Address Pools"),
            ("BGPPeer", "BGP Peer"),
            ("IPAddressPool", "IP Address Pool"),
            ("peerASN", "Peer ASN"),
            ("image", "Image"),
        ] {
            assert_eq!(spaced(name), expected);
        }
    }
}
