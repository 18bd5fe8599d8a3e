//! Wrong configuration: refused where it is applied, named where it got in, and never in the way of what
//! works.

mod support;

use std::time::Duration;

use support::{ADDRESS, NAMESPACE, NODES, Product, text, until};

const DENIED: &str = r#"admission webhook "ipaddresspoolvalidationwebhook.metallb.io" denied the request: "#;
const INVERTED: &str = r#"parsing address pool bad: invalid CIDR "192.168.10.220-192.168.10.200" in pool "bad": invalid IP range "192.168.10.220-192.168.10.200": start IP "192.168.10.220" is after the end IP "192.168.10.200""#;

fn pool(name: &str, addresses: &str) -> String {
    format!(
        "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\nspec: {{addresses: [{addresses}]}}\n"
    )
}

#[test]
fn the_webhook_refuses_wrong_pools_with_the_known_text() {
    let product = Product::ready();
    let refusal = product.lab.apply(&pool("bad", "192.168.10.220-192.168.10.200")).unwrap_err().to_string();
    assert!(refusal.contains(&format!("{DENIED}{INVERTED}")), "{refusal}");
    let refusal = product.lab.apply(&pool("overlap", "192.168.10.210/32")).unwrap_err().to_string();
    let overlap = r#"CIDR "192.168.10.210/32" in pool "overlap" overlaps with already defined CIDR "#;
    assert!(refusal.contains(&format!("{DENIED}{overlap}")), "{refusal}");
    let pools = product.items(&["-n", NAMESPACE, "ipaddresspools"]);
    assert_eq!(pools.len(), 1, "{pools:?}");
}

#[test]
fn a_wrong_pool_that_got_in_is_left_out_and_named_and_all_else_works() {
    let product = Product::ready();
    let configuration = "validatingwebhookconfiguration/metallb-webhook-configuration";
    // Nothing refuses while the operator is away and the configuration is deleted.
    let operator = ["-n", NAMESPACE, "scale", "deployment/metallb-operator-controller-manager"];
    product.kubectl(&[&operator[..], &["--replicas=0"]].concat());
    until("the operator's pod is gone", Duration::from_secs(60), || {
        let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "control-plane=controller-manager"]);
        if pods.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
    product.kubectl(&["delete", configuration]);
    product.lab.apply(&pool("bad", "192.168.10.220-192.168.10.200")).unwrap();
    until("every ConfigurationState is Invalid and says why", Duration::from_secs(30), || {
        states(&product, |result, summary| result == "Invalid" && summary.contains(INVERTED))
    });
    assert_eq!(product.curl().map(drop), Ok(()));
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS);
    // Another Service still gets an address from the pool that is right.
    let second = "apiVersion: v1\nkind: Service\nmetadata: {name: second, namespace: demo}\nspec: {type: LoadBalancer, selector: {app.kubernetes.io/name: hello}, ports: [{port: 80, targetPort: http}]}\n";
    product.lab.apply(second).unwrap();
    let address = until("the second Service has an address", Duration::from_secs(30), || {
        let service = product.get(&["-n", "demo", "service", "second"])?;
        service["status"]["loadBalancer"]["ingress"][0]["ip"]
            .as_str()
            .map(ToOwned::to_owned)
            .ok_or_else(|| service["status"].to_string())
    });
    until("the second Service answers", Duration::from_secs(30), || {
        let url = format!("http://{address}/hostname");
        product.lab.curl("client", &url).map_err(|error| error.to_string())
    });
    product.lab.delete(second).unwrap();

    product.lab.apply(&pool("bad", "192.168.10.230-192.168.10.235")).unwrap();
    until("every ConfigurationState is Valid again", Duration::from_secs(30), || {
        states(&product, |result, summary| result == "Valid" && summary.is_empty())
    });
    product.kubectl(&["-n", NAMESPACE, "delete", "ipaddresspool", "bad"]);
    product.kubectl(&[&operator[..], &["--replicas=1"]].concat());
    until("the webhook refuses again", Duration::from_secs(60), || {
        match product.lab.apply(&pool("bad", "192.168.10.220-192.168.10.200")) {
            Err(error) if error.to_string().contains(INVERTED) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => {
                product.kubectl(&["-n", NAMESPACE, "delete", "ipaddresspool", "bad"]);
                Err("the wrong pool was accepted".to_owned())
            }
        }
    });
    product.wait_available(Duration::from_secs(60));
}

/// Whether the states of all processes are there and as they should be.
fn states(product: &Product, good: impl Fn(&str, &str) -> bool) -> Result<(), String> {
    let items = product.items(&["-n", NAMESPACE, "configurationstates"]);
    let names: Vec<String> = items.iter().map(|item| text(&item["metadata"]["name"])).collect();
    let speakers = NODES.map(|node| format!("speaker-{node}"));
    let complete = speakers.iter().chain(["controller".to_owned()].iter()).all(|name| names.contains(name));
    let as_wanted = items
        .iter()
        .all(|item| good(&text(&item["status"]["result"]), &text(&item["status"]["errorSummary"])));
    if complete && as_wanted {
        return Ok(());
    }
    let shown: Vec<String> =
        items.iter().map(|item| format!("{}: {}", item["metadata"]["name"], item["status"])).collect();
    Err(shown.join("\n"))
}

fn object(kind: &str, name: &str, spec: &str) -> String {
    let version = if kind == "BGPPeer" { "v1beta2" } else { "v1beta1" };
    format!(
        "apiVersion: metallb.io/{version}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\nspec: {spec}\n"
    )
}

#[test]
fn every_kind_is_judged_where_it_is_applied() {
    let product = Product::ready();
    let peer = |address: &str| format!("{{myASN: 64512, peerASN: 64513, peerAddress: {address}}}");
    let community = |value: &str| format!("{{communities: [{{name: one, value: \"{value}\"}}]}}");
    let there = [
        object("IPAddressPool", "there", "{addresses: [192.168.75.0/24]}"),
        object(
            "BGPPeer",
            "there",
            "{myASN: 64512, peerASN: 64513, peerAddress: 192.168.10.96, bfdProfile: there}",
        ),
        object("BFDProfile", "there", "{}"),
        object("Community", "there", &community("64512:1")),
    ];
    for object in &there {
        product.lab.apply(object).unwrap();
    }
    let elsewhere = pool("wrong", "192.168.74.0/24").replace(NAMESPACE, "default");
    let rows = [
        (
            object("IPAddressPool", "wrong", "{addresses: [192.168.75.15-192.168.75.20]}"),
            "overlaps with already defined CIDR",
        ),
        // The same by an update.
        (
            object("IPAddressPool", "there", "{addresses: [192.168.10.0/24]}"),
            "overlaps with already defined CIDR",
        ),
        (
            object("IPAddressPool", "wrong", "{addresses: [10.9.0.0/24, 10.9.0.5-10.9.0.6]}"),
            "overlaps with already defined CIDR",
        ),
        (elsewhere, "resource must be created in metallb-system namespace"),
        (object("BGPPeer", "wrong", &peer("1.1.1")), "invalid BGPPeer address"),
        (object("BGPPeer", "wrong", &peer("192.168.10.96")), "already exists"),
        (object("Community", "wrong", &community("99999999:1")), "invalid community value: invalid section"),
        (object("Community", "there", &community("99999999:1")), "invalid community value: invalid section"),
        (
            object("Community", "wrong", &community("lar:123:9999:123")),
            "expected community to be of format large",
        ),
        (object("Community", "wrong", &community("1111:2222")), "duplicate definition of community"),
        (
            object(
                "BGPAdvertisement",
                "wrong",
                "{aggregationLength: 26, ipAddressPools: [there], peers: [a, a]}",
            ),
            "duplicate",
        ),
        (
            object(
                "BGPPeer",
                "wrong",
                "{myASN: 64512, peerASN: 64513, peerAddress: 192.168.10.95, holdTime: abc}",
            ),
            "denied the request: time: invalid duration \"abc\"",
        ),
    ];
    for (object, expected) in &rows {
        let refusal = product.lab.apply(object).map(drop).unwrap_err().to_string();
        assert!(refusal.contains("admission webhook") && refusal.contains(expected), "{object}\n{refusal}");
        let code = if expected.contains("duration") { "(BadRequest)" } else { "(Forbidden)" };
        assert!(refusal.contains(code), "{refusal}");
    }
    let refusal = product.lab.delete(&there[2]).map(drop).unwrap_err().to_string();
    assert!(refusal.contains("failed to delete BFDProfile there, used by BGPPeer there"), "{refusal}");
    for object in &there {
        product.lab.delete(object).unwrap();
    }
}

/// What the states say: result and summary, by the name of the process.
fn told(product: &Product) -> Vec<(String, String, String)> {
    let items = product.items(&["-n", NAMESPACE, "configurationstates"]);
    let of = |item: &serde_json::Value| {
        let status = &item["status"];
        (text(&item["metadata"]["name"]), text(&status["result"]), text(&status["errorSummary"]))
    };
    let mut told: Vec<_> = items.iter().map(of).collect();
    told.sort();
    told
}

/// Waits until these processes say this, and all others that nothing is wrong.
fn until_told(product: &Product, what: &str, wrong: &[(&str, &str)]) {
    let processes = NODES.map(|node| format!("speaker-{node}"));
    let mut wanted: Vec<_> = ["controller".to_owned()]
        .into_iter()
        .chain(processes)
        .map(|process| match wrong.iter().find(|(name, _)| *name == process) {
            Some((_, summary)) => (process, "Invalid".to_owned(), (*summary).to_owned()),
            None => (process, "Valid".to_owned(), String::new()),
        })
        .collect();
    wanted.sort();
    until(what, Duration::from_secs(30), || {
        let told = told(product);
        if told == wanted { Ok(()) } else { Err(format!("{told:?}")) }
    });
}

#[test]
fn each_process_tells_what_is_wrong_for_it() {
    let product = Product::ready();
    until_told(&product, "nothing is wrong", &[]);
    for item in product.items(&["-n", NAMESPACE, "configurationstates"]) {
        let (labels, node) = (&item["metadata"]["labels"], text(&item["metadata"]["name"]));
        let node = node.strip_prefix("speaker-").unwrap_or_default();
        let component = if node.is_empty() { "controller" } else { "speaker" };
        assert_eq!(labels["metallb.io/component-type"], component);
        assert_eq!(text(&labels["metallb.io/node-name"]), node);
        assert_eq!(item["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{item}");
    }
    let secret = |type_: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\ntype: {type_}\nmetadata: {{name: bgp-password, namespace: {NAMESPACE}}}\nstringData: {{password: nopass, username: any}}\n"
        )
    };
    let peer = |name: &str, node: &str, more: &str| {
        object(
            "BGPPeer",
            name,
            &format!(
                "{{myASN: 64512, peerASN: 64513, peerAddress: 192.168.10.95, nodeSelectors: [{{matchLabels: {{kubernetes.io/hostname: {node}}}}}], {more}}}"
            ),
        )
    };
    let with_secret = peer("peer1", "k8s-node-1", "passwordSecret: {name: bgp-password}");
    let with_profile = peer("peer2", "k8s-node-2", "bfdProfile: my-bfd-profile");
    let profile = object("BFDProfile", "my-bfd-profile", "{}");
    product.lab.apply(&secret("Opaque")).unwrap();
    product.lab.apply(&with_secret).unwrap();
    let of_secret = "configuration error: parsing peer peer1 secret type mismatch on \"metallb-system\"/\"bgp-password\", type \"kubernetes.io/basic-auth\" is expected \nfailed to parse peer peer1 password secret";
    let of_profile = "configuration error: peer peer2 referencing non existing bfd profile my-bfd-profile";
    let first = ("speaker-k8s-node-1", of_secret);
    until_told(&product, "a Secret of another type, by the node that wants it", &[first]);
    product.lab.apply(&with_profile).unwrap();
    let second = ("speaker-k8s-node-2", of_profile);
    until_told(&product, "a missing profile, by the other", &[first, second]);
    product.kubectl(&["-n", NAMESPACE, "delete", "configurationstates", "--all"]);
    until_told(&product, "the same again", &[first, second]);
    product.lab.delete(&secret("Opaque")).unwrap();
    product.lab.apply(&secret("kubernetes.io/basic-auth")).unwrap();
    until_told(&product, "the profile alone", &[second]);
    product.lab.apply(&profile).unwrap();
    until_told(&product, "nothing any more", &[]);
    product.kubectl(&["-n", NAMESPACE, "delete", "configurationstate", "controller"]);
    until_told(&product, "a state that comes back", &[]);
    for object in [&with_secret, &with_profile, &profile, &secret("kubernetes.io/basic-auth")] {
        product.lab.delete(object).unwrap();
    }
    until_told(&product, "nothing in the end", &[]);
}
