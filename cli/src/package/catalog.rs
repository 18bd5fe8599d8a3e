//! A file-based catalog for the Operator Lifecycle Manager: what `opm serve` offers.
//!
//! Inputs: the bundle, the name of its image, and the catalog of the version before. Output: one file with
//! the package, the channel and the bundles. What is in it already stays as it is, and the new version
//! replaces the newest one there.

use anyhow::{Context, bail};
use ferrolb_operator::image::ImageReference;
use serde_json::{Value, json};

use super::File;
use super::bundle::{self, CHANNEL, PACKAGE};
use crate::manifest::{self, HEADER};

/// Fields of the ClusterServiceVersion's spec that a catalog shows before anything is pulled.
const SHOWN: [&str; 10] = [
    "description",
    "displayName",
    "installModes",
    "keywords",
    "links",
    "maintainers",
    "maturity",
    "minKubeVersion",
    "provider",
    "apiServiceDefinitions",
];

/// The catalog's file.
pub(crate) fn file(
    image: &ImageReference,
    bundle_image: &ImageReference,
    previous: &[Value],
) -> anyhow::Result<File> {
    let csv = bundle::csv(image)?;
    let new = entry(&csv, bundle_image)?;
    let mut documents = vec![package(&csv), channel(&new["name"], &csv, previous)?];
    documents.extend(previous.iter().filter(|it| it["schema"] == "olm.bundle").cloned());
    documents.push(new);
    let documents = documents.iter().map(manifest::yaml).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(File::new(format!("{PACKAGE}/catalog.yaml"), format!("{HEADER}{}", documents.join("---\n"))))
}

/// The documents of a catalog.
pub(crate) fn read(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("the catalog is not YAML")?;
    if let Some(other) = documents.iter().find(|it| !it["schema"].as_str().is_some_and(is_schema)) {
        bail!("the catalog has a document with schema {}; a file-based catalog is wanted", other["schema"]);
    }
    Ok(documents)
}

fn is_schema(schema: &str) -> bool {
    schema.starts_with("olm.")
}

fn package(csv: &Value) -> Value {
    let icon = &csv["spec"]["icon"][0];
    json!({
        "schema": "olm.package",
        "name": PACKAGE,
        "defaultChannel": CHANNEL,
        "description": csv["spec"]["description"],
        "icon": {"base64data": icon["base64data"], "mediatype": icon["mediatype"]},
    })
}

fn channel(name: &Value, csv: &Value, previous: &[Value]) -> anyhow::Result<Value> {
    let is_ours = |it: &&Value| it["schema"] == "olm.channel" && it["name"] == CHANNEL;
    let mut entries: Vec<Value> =
        previous.iter().find(is_ours).and_then(|it| it["entries"].as_array().cloned()).unwrap_or_default();
    if entries.iter().any(|entry| entry["name"] == *name) {
        bail!(
            "{name} is in the catalog already; a version that was released does not change: raise the version"
        );
    }
    let replaced = |entry: &Value| entries.iter().any(|other| other["replaces"] == entry["name"]);
    let newest = entries.iter().find(|entry| !replaced(entry)).map(|entry| entry["name"].clone());
    let mut entry = json!({"name": name, "skipRange": csv["metadata"]["annotations"]["olm.skipRange"]});
    if let (Some(newest), Some(entry)) = (newest, entry.as_object_mut()) {
        entry.insert("replaces".into(), newest);
    }
    entries.push(entry);
    Ok(json!({"schema": "olm.channel", "package": PACKAGE, "name": CHANNEL, "entries": entries}))
}

/// The bundle, as a catalog describes it.
fn entry(csv: &Value, bundle_image: &ImageReference) -> anyhow::Result<Value> {
    let spec = &csv["spec"];
    let owned = spec["customresourcedefinitions"]["owned"].as_array().context("no owned kinds")?;
    let mut properties: Vec<Value> = owned
        .iter()
        .map(|it| {
            let group = it["name"].as_str().and_then(|name| name.split_once('.')).map(|(_, group)| group);
            json!({"type": "olm.gvk", "value": {"group": group, "kind": it["kind"], "version": it["version"]}})
        })
        .collect();
    properties
        .push(json!({"type": "olm.package", "value": {"packageName": PACKAGE, "version": spec["version"]}}));
    let mut shown = json!({
        "annotations": csv["metadata"]["annotations"],
        "labels": csv["metadata"]["labels"],
        "crdDescriptions": spec["customresourcedefinitions"],
    });
    if let Some(shown) = shown.as_object_mut() {
        let there = SHOWN.iter().filter(|name| !spec[**name].is_null());
        shown.extend(there.map(|name| ((*name).to_owned(), spec[*name].clone())));
    }
    properties.push(json!({"type": "olm.csv.metadata", "value": shown}));
    let mut related = spec["relatedImages"].as_array().cloned().unwrap_or_default();
    related.push(json!({"name": "", "image": bundle_image.to_string()}));
    Ok(json!({
        "schema": "olm.bundle",
        "name": csv["metadata"]["name"],
        "package": PACKAGE,
        "image": bundle_image.to_string(),
        "properties": properties,
        "relatedImages": related,
    }))
}

#[cfg(test)]
mod tests {
    use ferrolb_operator::image::DEFAULT;

    use super::*;

    const BUNDLE: &str = "registry.example/ferrolb-bundle:v1";

    fn made(previous: &[Value]) -> anyhow::Result<Vec<Value>> {
        read(&file(&DEFAULT.parse().unwrap(), &BUNDLE.parse().unwrap(), previous)?.text)
    }

    #[test]
    fn a_first_version_replaces_nothing() {
        let documents = made(&[]).unwrap();
        let schemas: Vec<_> = documents.iter().map(|it| it["schema"].as_str().unwrap()).collect();
        assert_eq!(schemas, ["olm.package", "olm.channel", "olm.bundle"]);
        let [entry] = documents[1]["entries"].as_array().unwrap().as_slice() else { panic!("one entry") };
        assert!(entry.get("replaces").is_none());
        assert_eq!(entry["name"], documents[2]["name"]);
        assert_eq!(documents[2]["image"], BUNDLE);
    }

    #[test]
    fn the_next_version_replaces_the_newest_and_leaves_the_others_as_they_are() {
        let names = ["ferrolb-operator.v0.0.1", "ferrolb-operator.v0.0.3", "ferrolb-operator.v0.0.2"];
        let [first, newest, second] = names;
        let mut before =
            vec![json!({"schema": "olm.channel", "package": PACKAGE, "name": CHANNEL, "entries": [
                {"name": first}, {"name": newest, "replaces": second}, {"name": second, "replaces": first},
            ]})];
        before.extend(names.map(|name| json!({"schema": "olm.bundle", "name": name, "image": "old"})));
        let documents = made(&before).unwrap();
        let entries = documents[1]["entries"].as_array().unwrap();
        assert_eq!(entries[..3], *before[0]["entries"].as_array().unwrap());
        assert_eq!(entries[3]["replaces"], newest);
        assert_eq!(documents[2..5], before[1..]);
    }

    #[test]
    fn a_released_version_is_not_replaced_by_itself() {
        let error = made(&made(&[]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("raise the version"), "{error}");
        assert!(read("apiVersion: v1\nkind: Pod\n").unwrap_err().to_string().contains("file-based catalog"));
    }
}
