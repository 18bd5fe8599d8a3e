use ferrolb_core::resources::Resources;
use serde_json::{Value, json};

use super::*;
use crate::lint::check::check;

const TEXT: &str = "\
# überall
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: bad
spec:
  addresses:
  - 10.0.0.0/33
  autoasign: true
";

fn printed(output: Output) -> String {
    let sources = [Source { name: "pools/my pool,1.yaml".into(), text: TEXT.into() }];
    report(output, &sources, &check(&sources, Resources::default(), "metallb-system"))
}

#[test]
fn people_see_the_line_and_a_caret() {
    let text = printed(Output::Text);
    let wanted = "\
error[invalid]: parsing address pool bad: invalid CIDR \"10.0.0.0/33\" in pool \"bad\": invalid CIDR \"10.0.0.0/33\"
 --> pools/my pool,1.yaml:8:5
  |
8 |   - 10.0.0.0/33
  |     ^^^^^^^^^^^ IPAddressPool \"bad\"
  |
  = help: write a prefix such as 192.168.10.0/24 or a range such as 192.168.10.200-192.168.10.220

error[unknown-field]: unknown field \"spec.autoasign\"
 --> pools/my pool,1.yaml:9:3
  |
9 |   autoasign: true
  |   ^^^^^^^^^ IPAddressPool \"bad\"
  |
  = help: did you mean autoAssign?

2 errors, 0 warnings; 1 object in 1 file
";
    assert_eq!(text, wanted, "{text}");
}

#[test]
fn programs_get_every_fact() {
    let report: Value = serde_json::from_str(&printed(Output::Json)).unwrap();
    assert_eq!(
        (&report["errors"], &report["warnings"], &report["objects"]),
        (&json!(2), &json!(0), &json!(1))
    );
    let wanted = json!({
        "level": "error", "rule": "unknown-field", "object": "IPAddressPool \"bad\"", "field": "spec.autoasign",
        "message": "unknown field \"spec.autoasign\"", "help": "did you mean autoAssign?",
        "file": "pools/my pool,1.yaml", "line": 9, "column": 3, "endLine": 9, "endColumn": 12,
    });
    assert_eq!(report["findings"][1], wanted);
}

#[test]
fn code_scanning_gets_sarif() {
    let report: Value = serde_json::from_str(&printed(Output::Sarif)).unwrap();
    assert_eq!(report["version"], "2.1.0");
    let run = &report["runs"][0];
    let result = &run["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&json!("invalid"), &json!("error")));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "pools/my%20pool%2C1.yaml");
    assert_eq!(place["region"], json!({"startLine": 8, "startColumn": 5, "endLine": 8, "endColumn": 16}));
    // Every rule that a result names is described.
    let rules: Vec<_> =
        run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert!(run["results"].as_array().unwrap().iter().all(|it| rules.contains(&&it["ruleId"])));
}

#[test]
fn github_gets_one_line_a_finding() {
    let text = printed(Output::Github);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        lines[1],
        "::error file=pools/my pool%2C1.yaml,line=9,endLine=9,col=3,endColumn=12,title=IPAddressPool \"bad\" \
         (unknown-field)::unknown field \"spec.autoasign\"%0Adid you mean autoAssign?"
    );
}

#[test]
fn regions_count_characters_from_one() {
    let text = "ä: x\nb: ü";
    let at = text.find('ü').unwrap();
    let wanted = Region { line: 2, column: 4, end_line: 2, end_column: 5 };
    assert_eq!(Region::of(text, &(at..at + 'ü'.len_utf8())), wanted);
}

proptest::proptest! {
    /// Whatever is in a file, it is reported.
    #[test]
    fn nothing_that_is_read_breaks_a_report(
        at in 0..TEXT.chars().count(),
        cut in 0..8_usize,
        put in "(\\PC{0,3}|[\n\r\t\u{feff} :{}\\[\\]&*!|>'\"%@-]{0,4})",
    ) {
        let mut characters: Vec<char> = TEXT.chars().collect();
        let end = (at + cut).min(characters.len());
        characters.splice(at..end, put.chars());
        let sources = [Source { name: "a.yaml".into(), text: characters.into_iter().collect() }];
        let checked = check(&sources, Resources::default(), "metallb-system");
        for output in [Output::Text, Output::Json, Output::Sarif, Output::Github] {
            report(output, &sources, &checked);
        }
    }
}
