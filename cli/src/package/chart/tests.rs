use ferrolb_operator::image::DEFAULT;

use super::*;

fn chart() -> Vec<File> {
    files(&DEFAULT.parse().unwrap()).unwrap()
}

fn text(path: &str) -> String {
    chart().into_iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).text
}

fn templates() -> impl Iterator<Item = File> {
    chart().into_iter().filter(|file| file.path.starts_with("templates/"))
}

/// The actions of a template, without their braces and trim marks.
fn actions(text: &str) -> Vec<String> {
    // Braces that are text.
    let text = text.replace("{{ \"{{\" }}", "");
    let actions = text.split("{{").skip(1).map(|rest| rest.split_once("}}").unwrap().0);
    actions.map(|action| action.trim_matches(['-', ' ']).to_owned()).collect()
}

#[test]
fn every_value_that_a_template_reads_is_in_the_values() {
    let values: Value = serde_saphyr::from_str(&text("values.yaml")).unwrap();
    let mut read = 0;
    for file in templates() {
        for part in file.text.split(".Values.").skip(1) {
            let path: String = part.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
            let pointer = format!("/{}", path.trim_end_matches('.').replace('.', "/"));
            assert!(values.pointer(&pointer).is_some(), "{}: .Values.{path}", file.path);
            read += 1;
        }
    }
    assert!(read > 50, "{read}");
}

#[test]
fn every_value_is_read_by_a_template() {
    let values: Value = serde_saphyr::from_str(&text("values.yaml")).unwrap();
    let all: String = templates().map(|file| file.text).collect();
    for (group, fields) in values.as_object().unwrap() {
        if ["frrk8s", "global"].contains(&group.as_str()) {
            continue;
        }
        for field in fields.as_object().into_iter().flat_map(|fields| fields.keys()) {
            let direct = all.contains(&format!(".Values.{group}.{field}"));
            let within = group == "image" && all.contains(&format!(".{field}"));
            assert!(direct || within, "{group}.{field}");
        }
    }
}

#[test]
fn blocks_are_closed() {
    for file in templates() {
        let mut open = 0_i32;
        for action in actions(&file.text) {
            let word = action.split_whitespace().next().unwrap_or_default();
            open += i32::from(["if", "with", "range", "define"].contains(&word)) - i32::from(word == "end");
            assert!(open >= 0, "{}: an end too many at {action:?}", file.path);
        }
        assert_eq!(open, 0, "{}", file.path);
    }
}

#[test]
fn nothing_is_left_of_the_generator_in_a_template() {
    for file in templates() {
        assert!(!file.text.contains(['⟦', '⟧']), "{}", file.path);
        assert!(!file.text.contains(template::NAMESPACE), "{}", file.path);
        assert!(!file.text.contains(": null"), "{}", file.path);
        assert!(
            !file.text.contains("metallb-system:"),
            "{}: a namespace that is not the release's",
            file.path
        );
    }
}

#[test]
fn the_schema_knows_every_value_and_refuses_others() {
    let values: Value = serde_saphyr::from_str(&text("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&text("values.schema.json")).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    for (group, fields) in values.as_object().unwrap() {
        let schema = &schema["properties"][group];
        assert!(schema["type"].is_string(), "{group}");
        for field in fields.as_object().into_iter().flat_map(|fields| fields.keys()) {
            assert!(schema["properties"][field].is_object(), "{group}.{field}");
        }
        if ["controller", "speaker", "operator", "webhook"].contains(&group.as_str()) {
            assert_eq!(schema["additionalProperties"], false, "{group}");
            assert_eq!(schema["properties"]["logLevel"]["oneOf"][0]["const"], "all", "{group}");
        }
    }
}

#[test]
fn values_are_documented() {
    let text = text("values.yaml");
    let mut before = "";
    for line in text.lines().skip(1) {
        let key = line.trim_start();
        let is_own = !key.starts_with(['#', '-'])
            && line.len() - key.len() <= 2
            && !before.trim_start().starts_with('#');
        // Entries of free maps have no documentation of their own.
        let free = ["cpu", "memory", "requests", "maxUnavailable", "rollingUpdate", "type"];
        let is_free = free.iter().any(|name| key.starts_with(&format!("{name}:")));
        assert!(!is_own || is_free, "{line}");
        before = line;
    }
}

#[test]
fn what_only_warns_is_never_in_the_way_of_anybody() {
    let configuration = text("templates/configuration.yaml");
    let kept = configuration.matches("failurePolicy: Ignore").count();
    let chosen = configuration.matches("failurePolicy: {{ .Values.crds.validationFailurePolicy }}").count();
    assert!(kept > 0 && chosen > 0, "{kept} {chosen}");
    assert!(!configuration.contains("failurePolicy: Fail"));
}

#[test]
fn definitions_come_with_upgrades_and_stay_with_the_pools_in_them() {
    let crds = text("templates/crds.yaml");
    let count = ferrolb_api::crds().len();
    assert_eq!(crds.matches("kind: CustomResourceDefinition").count(), count);
    assert_eq!(crds.matches("helm.sh/resource-policy: keep").count(), count);
}

#[test]
fn a_registry_tag_or_digest_of_its_own_reaches_the_values() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let image = format!("registry.example.com:5000/a/ferrolb:v9@{digest}").parse().unwrap();
    let values: Value = crate::package::value(&values::Values::new(&image)).unwrap();
    assert_eq!(values["image"]["repository"], "registry.example.com:5000/a/ferrolb");
    assert_eq!(values["image"]["tag"], "v9");
    assert_eq!(values["image"]["digest"], digest);
    let own: Value = crate::package::value(&values::Values::new(&DEFAULT.parse().unwrap())).unwrap();
    assert_eq!(own["image"]["tag"], "", "the chart's own version");
}
