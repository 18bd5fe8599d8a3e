//! The rules of OLM's validators that a bundle of ours can break, as tests.

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_operator::image::DEFAULT;

use super::*;

fn bundle() -> BTreeMap<String, Value> {
    let files = files(&DEFAULT.parse().unwrap()).unwrap();
    files.into_iter().map(|file| (file.path, serde_saphyr::from_str(&file.text).unwrap())).collect()
}

fn csv() -> Value {
    bundle().remove("manifests/ferrolb-operator.clusterserviceversion.yaml").unwrap()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

#[test]
fn name_and_version_belong_together() {
    let csv = csv();
    let version = csv["spec"]["version"].as_str().unwrap();
    assert_ne!(version, "0.0.0");
    let name = csv["metadata"]["name"].as_str().unwrap();
    assert_eq!(name, format!("{PACKAGE}.v{version}"));
    assert!(name.len() <= 63);
    for version in [version, csv["spec"]["minKubeVersion"].as_str().unwrap()] {
        let parts: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
        assert!(parts.len() == 3 && parts.iter().all(Result::is_ok), "{version}");
    }
}

#[test]
fn owned_definitions_and_files_are_the_same_and_described() {
    let bundle = bundle();
    let csv = csv();
    let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array().unwrap();
    let named: BTreeSet<(&str, &str)> = owned
        .iter()
        .map(|entry| (entry["name"].as_str().unwrap(), entry["version"].as_str().unwrap()))
        .collect();
    assert_eq!(named.len(), owned.len());
    let mut shipped = BTreeSet::new();
    for crd in bundle.values().filter(|object| object["kind"] == "CustomResourceDefinition") {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            shipped.insert((crd["metadata"]["name"].as_str().unwrap(), version["name"].as_str().unwrap()));
        }
    }
    assert_eq!(named, shipped);
    for entry in owned {
        let kind = &entry["kind"];
        assert!(entry["description"].as_str().is_some_and(|text| text.len() > 10), "{kind}");
        assert!(!entry["resources"].as_array().unwrap().is_empty(), "{kind}");
        for list in ["specDescriptors", "statusDescriptors"] {
            for descriptor in entry[list].as_array().unwrap() {
                assert!(!descriptor["description"].as_str().unwrap().is_empty(), "{kind} {descriptor}");
            }
        }
    }
    let metallb = owned.iter().find(|entry| entry["kind"] == "MetalLB").unwrap();
    let paths: Vec<_> = metallb["specDescriptors"].as_array().unwrap().iter().map(|it| &it["path"]).collect();
    assert!(paths.contains(&&json!("nodeSelector")), "{paths:?}");
}

#[test]
fn every_owned_kind_has_an_example_and_every_example_is_of_an_owned_kind() {
    let csv = csv();
    let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
    let examples: Vec<Value> = serde_json::from_str(examples).unwrap();
    let named: BTreeSet<String> = examples
        .iter()
        .map(|example| {
            format!("{} {}", example["apiVersion"].as_str().unwrap(), example["kind"].as_str().unwrap())
        })
        .collect();
    let owned: BTreeSet<String> = csv["spec"]["customresourcedefinitions"]["owned"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let (_, group) = entry["name"].as_str().unwrap().split_once('.').unwrap();
            format!("{group}/{} {}", entry["version"].as_str().unwrap(), entry["kind"].as_str().unwrap())
        })
        .collect();
    assert_eq!(named, owned);
}

/// Whether a schema allows a field; maps and what it leaves open allow any.
fn check(schema: &Value, value: &Value, path: &str) {
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), value.as_object()) {
        for (name, value) in fields {
            let schema = properties.get(name).unwrap_or_else(|| panic!("{path}.{name} is no field"));
            check(schema, value, &format!("{path}.{name}"));
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(fields.contains_key(required.as_str().unwrap()), "{path} needs {required}");
        }
    }
}

#[test]
fn examples_have_only_fields_that_there_are() {
    for example in csv::examples().unwrap() {
        let kind = example["kind"].as_str().unwrap();
        let crd = ferrolb_api::crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        let version = example["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
        let version = crd.spec.versions.into_iter().find(|it| it.name == version).unwrap();
        let schema = serde_json::to_value(version.schema.unwrap().open_api_v3_schema).unwrap();
        check(&schema["properties"]["spec"], &example["spec"], kind);
    }
}

#[test]
fn what_the_hub_asks_for_is_there() {
    let csv = csv();
    let spec = &csv["spec"];
    let icons = spec["icon"].as_array().unwrap();
    assert_eq!(icons.len(), 1);
    assert_eq!(icons[0]["mediatype"], "image/svg+xml");
    assert!(icons[0]["base64data"].as_str().unwrap().starts_with("PHN2Zy"), "base64 of <svg");
    assert!(!spec["provider"]["name"].as_str().unwrap().is_empty());
    assert!(spec["maintainers"][0]["email"].as_str().unwrap().contains('@'));
    assert!(spec["links"][0]["url"].as_str().unwrap().starts_with("https://"));
    let annotations = &csv["metadata"]["annotations"];
    for key in ["containerImage", "createdAt", "description", "support", "olm.skipRange"] {
        assert!(annotations[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    let levels = ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];
    assert!(levels.contains(&annotations["capabilities"].as_str().unwrap()));
    assert_eq!(annotations["categories"], "Networking");
    let first: Value =
        serde_json::from_str(annotations["operatorframework.io/initialization-resource"].as_str().unwrap())
            .unwrap();
    assert_eq!(
        (first["kind"].as_str(), first["metadata"]["name"].as_str()),
        (Some("MetalLB"), Some("metallb"))
    );
    let features = annotations.as_object().unwrap().iter();
    for (key, value) in features.filter(|(key, _)| key.starts_with("features.operators.openshift.io/")) {
        assert!(["true", "false"].contains(&value.as_str().unwrap()), "{key}");
    }
}

#[test]
fn the_operator_is_deployed_with_requests_and_every_image_is_related_and_fixed() {
    let csv = csv();
    let install = &csv["spec"]["install"]["spec"];
    let deployments = install["deployments"].as_array().unwrap();
    assert_eq!(deployments.len(), 1);
    assert_eq!(deployments[0]["name"], "metallb-operator-controller-manager");
    let related: Vec<_> =
        csv["spec"]["relatedImages"].as_array().unwrap().iter().map(|it| &it["image"]).collect();
    for container in deployments[0]["spec"]["template"]["spec"]["containers"].as_array().unwrap() {
        let requests = &container["resources"]["requests"];
        assert!(requests["cpu"].is_string() && requests["memory"].is_string());
        assert!(related.contains(&&container["image"]));
        let image: ImageReference = container["image"].as_str().unwrap().parse().unwrap();
        assert!(image.tag().is_some() || image.digest().is_some());
    }
}

#[test]
fn rights_are_the_operators_without_those_to_make_definitions_or_to_read_secrets_everywhere() {
    let csv = csv();
    let install = &csv["spec"]["install"]["spec"];
    for list in ["permissions", "clusterPermissions"] {
        assert_eq!(install[list].as_array().unwrap().len(), 1, "{list}");
        assert_eq!(install[list][0]["serviceAccountName"], "manager-account");
    }
    for rule in install["clusterPermissions"][0]["rules"].as_array().unwrap() {
        let (resources, verbs) = (strings(&rule["resources"]), strings(&rule["verbs"]));
        assert!(!resources.contains(&"secrets"), "{rule}");
        assert!(!(resources.contains(&"customresourcedefinitions") && verbs.contains(&"create")), "{rule}");
    }
}

#[test]
fn install_modes_stay_as_they_were_released() {
    let modes: Vec<(String, bool)> = csv()["spec"]["installModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| (mode["type"].as_str().unwrap().to_owned(), mode["supported"].as_bool().unwrap()))
        .collect();
    let expected = [
        ("OwnNamespace", true),
        ("SingleNamespace", false),
        ("MultiNamespace", false),
        ("AllNamespaces", true),
    ];
    assert_eq!(modes, expected.map(|(mode, supported)| (mode.to_owned(), supported)));
}

#[test]
fn no_webhook_and_no_object_that_olm_does_not_take_is_in_it() {
    let csv = csv();
    assert!(csv["spec"]["webhookdefinitions"].is_null());
    for (path, object) in bundle().iter().filter(|(path, _)| path.starts_with("manifests/")) {
        let kind = object["kind"].as_str().unwrap();
        assert!(["ClusterServiceVersion", "CustomResourceDefinition"].contains(&kind), "{path}");
    }
}

#[test]
fn the_bundle_is_far_smaller_than_what_a_catalog_takes() {
    let files = files(&DEFAULT.parse().unwrap()).unwrap();
    let size: usize = files.iter().map(|file| file.text.len()).sum();
    assert!(size < 900 * 1024, "{size} bytes; 1 MiB is the end, compressed");
}

#[test]
fn the_dockerfile_says_what_the_annotations_say() {
    let dockerfile = include_str!("../../../../bundle.Dockerfile");
    for (key, value) in annotations()["annotations"].as_object().unwrap() {
        let label = format!("LABEL {key}={}", value.as_str().unwrap());
        assert!(dockerfile.lines().any(|line| line == label), "{label}");
    }
}
