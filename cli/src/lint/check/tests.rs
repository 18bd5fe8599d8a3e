use proptest::prelude::*;
use serde_json::json;

use super::*;

fn source(name: &str, text: &str) -> Source {
    Source { name: name.into(), text: text.into() }
}

/// `file "text that is meant": rule message`, of each finding.
fn lint(sources: &[Source]) -> Vec<String> {
    let checked = check(sources, Resources::default(), "metallb-system");
    let shown = |finding: &Finding| {
        let place = finding.place.as_ref().expect("all is in a file");
        let source = &sources[place.source];
        let text = &source.text[place.span.clone()];
        format!("{} {text:?}: {} {}", source.name, finding.rule.id(), finding.message)
    };
    checked.findings.iter().map(shown).collect()
}

const GOOD: &str = "\
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: a, namespace: metallb-system}
spec: {addresses: [192.168.10.200-192.168.10.220]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: a, namespace: metallb-system}
spec: {ipAddressPools: [a]}
";

#[test]
fn a_good_configuration_has_no_finding_and_other_kinds_do_not_count() {
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}\n---\n- just\n- a list\n";
    let helm = "image:\n  tag: 3\n";
    let sources = [source("a", GOOD), source("b", other), source("values", helm)];
    let checked = check(&sources, Resources::default(), "metallb-system");
    assert_eq!((checked.findings, checked.objects), (vec![], 2));
}

#[test]
fn the_compiler_speaks_at_the_place_that_it_means() {
    let bad = "\
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: bad}
spec:
  addresses:
  - 10.0.0.0/24
  - 192.168.10.220-192.168.10.200
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: adv}
spec: {ipAddressPools: [nowhere]}
";
    let found = lint(&[source("good", GOOD), source("bad", bad)]);
    let range = "192.168.10.220-192.168.10.200";
    assert_eq!(
        found[0],
        format!(
            "bad {range:?}: invalid parsing address pool bad: invalid CIDR \"{range}\" in pool \"bad\": invalid IP range \"{range}\": start IP \"192.168.10.220\" is after the end IP \"192.168.10.200\""
        )
    );
    assert!(found[1].contains("unresolved") && found[1].contains("nowhere"), "{found:?}");
}

#[test]
fn two_files_that_exclude_each_other_are_told() {
    let overlap = GOOD.replace("name: a", "name: b").replace("[a]", "[b]");
    let found = lint(&[source("a", GOOD), source("b", &overlap)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("b \"192.168.10.200-192.168.10.220\": invalid CIDR "), "{found:?}");
    let found = lint(&[source("a", GOOD), source("b", GOOD)]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        found[0],
        "b \"a\": repeated IPAddressPool \"a\" is here again: whichever is applied last counts"
    );
}

#[test]
fn what_the_schema_says_is_not_said_twice() {
    let profile =
        "apiVersion: metallb.io/v1beta1\nkind: BFDProfile\nmetadata: {name: a}\nspec: {receiveInterval: 9}\n";
    let found = lint(&[source("a", profile)]);
    assert_eq!(found, ["a \"9\": schema spec.receiveInterval must be at least 10, not 9"]);
    let typo = GOOD.replace("ipAddressPools", "ipAddresPools");
    let found = lint(&[source("a", &typo)]);
    assert_eq!(found, ["a \"ipAddresPools\": unknown-field unknown field \"spec.ipAddresPools\""]);
}

#[test]
fn lists_and_both_versions_are_read() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "metallb.io/v1beta1", "kind": "BGPPeer", "metadata": {"name": "old"},
         "spec": {"myASN": 64512, "peerASN": 64513, "peerAddress": "10.0.0.400"}},
        {"apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer", "metadata": {"name": "new"},
         "spec": {"myASN": 64512, "peerASN": 64513, "peerAddress": "10.0.0.500"}}]}"#;
    let found = lint(&[source("l", list)]);
    for wanted in [
        r#"l "\"metallb.io/v1beta1\"": deprecated v1beta1 is deprecated, please use v1beta2"#,
        r#"l "\"10.0.0.400\"": invalid parsing peer old invalid BGPPeer address "10.0.0.400""#,
        r#"l "\"10.0.0.500\"": invalid parsing peer new invalid BGPPeer address "10.0.0.500""#,
    ] {
        assert!(found.iter().any(|it| it == wanted), "{wanted}\n{found:#?}");
    }
}

#[test]
fn what_is_no_object_or_in_no_place_is_told() {
    let pool = |metadata: &str| {
        format!(
            "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{{metadata}}}\nspec: {{addresses: [10.0.0.0/24]}}\n"
        )
    };
    let found = lint(&[source("a", &pool("name: a, namespace: default"))]);
    assert_eq!(found, ["a \"default\": namespace resource must be created in metallb-system namespace"]);
    let found = lint(&[source("a", &pool("labels: {}"))]);
    assert!(found[0].ends_with("schema metadata.name is missing"), "{found:?}");
    let found = lint(&[source("a", "kind: [\n")]);
    assert!(found.len() == 1 && found[0].contains("syntax"), "{found:?}");
    let metallb = "apiVersion: metallb.io/v1beta1\nkind: MetalLB\nmetadata: {name: metallb}\nspec: {bgpBackend: bird}\n";
    let found = lint(&[source("m", metallb)]);
    assert_eq!(
        found,
        ["m \"spec\": invalid invalid BGP Backend, must be one of native, frr, frr-k8s, frr-k8s-external"]
    );
}

#[test]
fn what_is_hardly_an_object_is_named_at_its_place() {
    let object = |head: &str, metadata: &str| {
        format!("{head}\nmetadata: {metadata}\nspec: {{addresses: [10.0.0.0/24]}}\n")
    };
    let pool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool";
    let long = "a".repeat(254);
    for (text, expected) in [
        (
            object(pool, "{name: 5}"),
            r#"a "5": schema metadata.name: invalid type: integer `5`, expected a string"#,
        ),
        (
            object(pool, "{name: UPPER_case}"),
            r#"a "UPPER_case": schema metadata.name "UPPER_case" is no name"#,
        ),
        (object(pool, "{name: -a}"), r#"a "-a": schema metadata.name "-a" is no name"#),
        (
            object(pool, &format!("{{name: {long}}}")),
            &format!("a {long:?}: schema metadata.name {long:?} is no name"),
        ),
        (
            object(pool, "{name: a, labels: {zone: 1}}"),
            r#"a "1": schema metadata.labels.zone: invalid type: integer `1`, expected a string"#,
        ),
        (
            object("apiVersion: metallb.io\nkind: IPAddressPool", "{name: a}"),
            r#"a "metallb.io": unknown-kind IPAddressPool has no version """#,
        ),
        (
            object("apiVersion: metalb.io/v1beta1\nkind: IPAddressPool", "{name: a}"),
            r#"a "metalb.io/v1beta1": unknown-kind "metalb.io" is no group of ours"#,
        ),
        (
            object("apiVersion: metallb.io/v1beta1", "{name: a}"),
            r#"a "apiVersion": unknown-kind kind is missing"#,
        ),
        (
            object("apiVersion: metallb.io/v1beta1\nkind: 7", "{name: a}"),
            r#"a "7": unknown-kind kind is missing"#,
        ),
    ] {
        assert_eq!(lint(&[source("a", &text)]), [expected], "{text}");
    }
    // Another product's kind of the same name.
    let other = object("apiVersion: projectcalico.org/v3\nkind: BGPPeer", "{name: a}");
    assert_eq!(lint(&[source("a", &other)]), Vec::<String>::new());
    assert_eq!(lint(&[source("a", &object(pool, "{name: a.b-c.9}"))]), Vec::<String>::new());
}

#[test]
fn files_replace_what_the_cluster_holds_and_are_judged_beside_it() {
    let stored = |name: &str, addresses: &str| {
        let object = json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
            "metadata": {"name": name, "namespace": "metallb-system", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"addresses": [addresses]}});
        serde_json::from_value::<v1beta1::IPAddressPool>(object).unwrap()
    };
    let cluster = || {
        Resources::default().with_pools([
            stored("a", "192.168.10.0/24"),
            stored("z", "192.168.10.210/32"),
            stored("broken", "x"),
        ])
    };
    let checked = check(&[source("a", GOOD)], cluster(), "metallb-system");
    let found: Vec<_> = checked
        .findings
        .iter()
        .filter(|it| it.rule == Rule::Invalid)
        .map(|it| (it.place.is_some(), &*it.object))
        .collect();
    // The file's pool is the younger one.
    assert_eq!(found, [(true, "IPAddressPool \"a\""), (false, "IPAddressPool \"broken\"")]);
}

/// An object of the configuration, right or wrong. What the schema forbids is not among them: it does not get
/// as far as admission.
fn object() -> impl Strategy<Value = serde_json::Value> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let addresses = prop::sample::select(vec![
        "10.0.0.0/24",
        "10.0.0.128/25",
        "10.0.1.0-10.0.1.9",
        "10.0.1.9-10.0.1.0",
        "fd00::/64",
        "127.0.0.1/32",
        "x",
        "",
        "1.2.3.4-2001:db8::1",
        "10.0.2.7/24",
    ]);
    let pools = prop::collection::vec(prop::sample::select(vec!["a", "b", "nowhere"]), 0..3);
    let selectors = prop::sample::select(vec![
        json!([]),
        json!([{}]),
        json!([{"matchLabels": {"a": "b"}}]),
        json!([{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}]),
        json!([{"matchLabels": {"a": "b"}}, {"matchLabels": {"a": "b"}}]),
    ]);
    let pool = (name.clone(), prop::collection::vec(addresses, 0..3), selectors.clone()).prop_map(
        |(name, addresses, selectors)| {
            let allocation = json!({"serviceSelectors": selectors});
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": name},
                   "spec": {"addresses": addresses, "serviceAllocation": allocation}})
        },
    );
    let advertisement =
        (name.clone(), pools.clone(), selectors.clone()).prop_map(|(name, pools, selectors)| {
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "L2Advertisement", "metadata": {"name": name},
                   "spec": {"ipAddressPools": pools, "nodeSelectors": selectors}})
        });
    let some = |texts: &[&'static str]| prop::collection::vec(prop::sample::select(texts.to_vec()), 0..3);
    let numbers = (prop::sample::select(vec![0_i64, 100, 200]), prop::sample::select(vec![24_i64, 26, 32]));
    let bgp = (
        name.clone(),
        pools,
        selectors.clone(),
        some(&["a", "b", "gone"]),
        some(&["web", "1:2", "1:x", "large:1:2:3", "larg:1:2:3"]),
        numbers,
    );
    let bgp = bgp.prop_map(|(name, pools, selectors, peers, communities, (preference, length))| {
        json!({"apiVersion": "metallb.io/v1beta1", "kind": "BGPAdvertisement", "metadata": {"name": name},
               "spec": {"ipAddressPools": pools, "nodeSelectors": selectors, "peers": peers,
                        "communities": communities, "localPref": preference, "aggregationLength": length}})
    });
    let profile =
        (name.clone(), prop::sample::select(vec![10_u32, 50, 60000])).prop_map(|(name, interval)| {
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "BFDProfile", "metadata": {"name": name},
               "spec": {"receiveInterval": interval, "echoMode": true}})
        });
    let community = (name.clone(), some(&["web", "db"]), some(&["1:2", "99999999:1", "larg:1:2:3"]));
    let community = community.prop_map(|(name, aliases, values)| {
        let pairs = aliases.iter().zip(values).map(|(name, value)| json!({"name": name, "value": value}));
        json!({"apiVersion": "metallb.io/v1beta1", "kind": "Community", "metadata": {"name": name},
               "spec": {"communities": pairs.collect::<Vec<_>>()}})
    });
    let address = prop::sample::select(vec!["10.0.9.1", "10.0.9.2", "fd00::1", "10.0.9.400", ""]);
    let time = prop::sample::select(vec!["0s", "1s", "90s", "30s", "soon", "1m30s"]);
    let asn = prop::sample::select(vec![0_u32, 64512, 64513]);
    let bfd = prop::sample::select(vec!["", "a", "gone"]);
    let peer = (name, asn.clone(), asn, address, time.clone(), time, selectors, bfd).prop_map(
        |(name, mine, theirs, address, hold, keepalive, selectors, bfd)| {
            json!({"apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer", "metadata": {"name": name},
                   "spec": {"myASN": mine, "peerASN": theirs, "peerAddress": address, "holdTime": hold,
                            "keepaliveTime": keepalive, "nodeSelectors": selectors, "bfdProfile": bfd}})
        },
    );
    prop_oneof![3 => pool, 1 => advertisement, 3 => bgp, 2 => peer, 1 => profile, 2 => community].prop_map(
        |mut object| {
            object["metadata"]["namespace"] = json!("metallb-system");
            object
        },
    )
}

fn candidate(object: &serde_json::Value) -> Candidate {
    let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
    decode(version, object["kind"].as_str().unwrap(), object.clone()).unwrap().unwrap().1
}

proptest! {
    /// What admission would answer to the last object of a file, were the others there already.
    #[test]
    fn lint_and_admission_agree(stored in prop::collection::vec(object(), 0..5), new in object()) {
        let same = |it: &serde_json::Value| it["kind"] == new["kind"] && it["metadata"]["name"] == new["metadata"]["name"];
        let mut stored: Vec<_> = stored.into_iter().filter(|it| !same(it)).collect();
        for object in &mut stored {
            object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let existing = stored.iter().map(candidate).fold(Resources::default(), put);
        let verdict = admit(&existing, candidate(&new), Operation::Create, "metallb-system");

        let files: Vec<_> = stored.iter().chain([&new]).map(|it| source("", &it.to_string())).collect();
        let reference = format!("{} {}", new["kind"].as_str().unwrap(), new["metadata"]["name"]);
        let findings = check(&files, Resources::default(), "metallb-system").findings;
        let mut invalid: Vec<_> = findings
            .into_iter()
            .filter(|it| it.rule == Rule::Invalid && it.object == reference)
            .map(|it| it.message)
            .collect();
        let mut denied = match verdict {
            Verdict::Allowed { .. } => Vec::new(),
            Verdict::Denied { message } | Verdict::Unreadable { message } => vec![message],
        };
        // The messages of several lines each are in the order of the fields there, of the text here.
        let lines = |messages: &mut Vec<String>| {
            let mut lines: Vec<_> = messages.iter().flat_map(|it| it.lines()).map(ToOwned::to_owned).collect();
            lines.sort();
            lines
        };
        prop_assert_eq!(lines(&mut invalid), lines(&mut denied));
    }
}
