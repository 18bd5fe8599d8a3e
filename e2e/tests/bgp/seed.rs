//! The walk of a well-known tutorial on MetalLB and FRR: the router takes host routes of the pool only, and
//! what it shows after each step is what is shown there.

use serde_json::Value;

use crate::router::{Bgp, SOON, V4, WORKER_ADDRESSES};
use crate::support::{NAMESPACE, text, until};

/// Takes the filter off at the end.
struct Filter<'a>(&'a Bgp);

impl<'a> Filter<'a> {
    fn on(bgp: &'a Bgp) -> Self {
        bgp.vtysh(&[
            "configure terminal",
            "ip prefix-list METALLB-IN seq 10 permit 192.168.20.100/30 ge 32",
            "route-map METALLB-IN permit 10",
            "match ip address prefix-list METALLB-IN",
            "exit",
            "route-map DENY-ALL deny 10",
            "exit",
            "router bgp 64513",
            "address-family ipv4 unicast",
            "neighbor nodes route-map METALLB-IN in",
            "neighbor nodes route-map DENY-ALL out",
        ])
        .unwrap();
        Self(bgp)
    }
}

impl Drop for Filter<'_> {
    fn drop(&mut self) {
        let _ = self.0.vtysh(&[
            "configure terminal",
            "router bgp 64513",
            "address-family ipv4 unicast",
            "no neighbor nodes route-map METALLB-IN in",
            "no neighbor nodes route-map DENY-ALL out",
            "exit",
            "exit",
            "no route-map METALLB-IN",
            "no route-map DENY-ALL",
            "no ip prefix-list METALLB-IN",
        ]);
    }
}

/// Prefixes that the router has from each node, the control plane first.
fn received(bgp: &Bgp, expected: [u8; 3]) {
    until(&format!("prefixes {expected:?} in the summary"), SOON, || {
        let summary = bgp.show("ipv4 unicast summary")?;
        let seen = ["192.168.10.17", "192.168.10.20", "192.168.10.21"]
            .map(|node| (summary["peers"][node]["state"].clone(), summary["peers"][node]["pfxRcd"].clone()));
        let wanted = expected.map(|count| (Value::from("Established"), Value::from(count)));
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

fn logged(bgp: &Bgp, parts: &[&str]) {
    until(&format!("a line with {parts:?}"), SOON, || {
        let selector = ["-l", "component=speaker", "--tail=-1"];
        let log = bgp.product.kubectl(&[&["-n", NAMESPACE, "logs"][..], &selector].concat());
        let has = log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        if has { Ok(()) } else { Err(log.lines().rev().take(5).collect::<Vec<_>>().join("\n")) }
    });
}

#[test]
fn the_walk_with_a_filter_on_the_router() {
    let bgp = Bgp::ready();
    // One Service, as there.
    bgp.product.kubectl(&["-n", "demo", "delete", "service", "alone-bgp"]);
    let _filter = Filter::on(&bgp);
    let prefix = format!("{V4}/32");
    received(&bgp, [0, 1, 1]);
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);
    logged(&bgp, &["\"event\":\"peerAdded\"", "peer configured, starting BGP session", "192.168.10.1"]);
    logged(&bgp, &["\"event\":\"sessionUp\"", "BGP session established", "\"peerASN\":64513"]);
    let neighbor = bgp.show("neighbors 192.168.10.20").unwrap()["192.168.10.20"].clone();
    for (field, expected) in [
        ("remoteAs", 64512.into()),
        ("localAs", 64513.into()),
        ("remoteRouterId", "192.168.10.20".into()),
        ("bgpTimerHoldTimeMsecs", 90_000.into()),
        ("bgpTimerKeepAliveIntervalMsecs", 30_000.into()),
    ] as [(&str, Value); 5]
    {
        assert_eq!(neighbor[field], expected, "{field} of {neighbor}");
    }
    let advertise = |spec: &str| {
        let patch = format!(r#"{{"spec": {spec}}}"#);
        let place = ["-n", NAMESPACE, "patch", "bgpadvertisement", "bgp", "--type=merge", "-p", &patch];
        bgp.product.kubectl(&place);
    };
    advertise(r#"{"localPref": 200, "communities": ["64512:100"]}"#);
    until("the community and no preference", SOON, || {
        let route = bgp.show(&format!("ipv4 unicast {prefix}"))?;
        let paths = route["paths"].as_array().cloned().unwrap_or_default();
        let right = |path: &Value| path["community"]["string"] == "64512:100" && path["locPrf"].is_null();
        if paths.len() == 2 && paths.iter().all(right) { Ok(()) } else { Err(route.to_string()) }
    });
    // An aggregate is nothing that the filter lets in.
    advertise(r#"{"aggregationLength": 30}"#);
    received(&bgp, [0, 0, 0]);
    bgp.has_paths("192.168.20.100/30", &[]);
    advertise(r#"{"aggregationLength": null, "communities": null, "localPref": null}"#);
    received(&bgp, [0, 1, 1]);

    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    bgp.product.kubectl(&["label", "node", "k8s-node-2", &format!("{label}=true")]);
    received(&bgp, [0, 1, 0]);
    logged(&bgp, &["\"event\":\"serviceWithdrawn\"", "nodeLabeledExcludeBalancers", V4]);
    let statuses = || bgp.product.items(&["-n", NAMESPACE, "servicebgpstatuses"]);
    until("the status of one node", SOON, || {
        let nodes: Vec<String> = statuses().iter().map(|it| text(&it["status"]["node"])).collect();
        if nodes == ["k8s-node-1"] { Ok(()) } else { Err(format!("{nodes:?}")) }
    });
    bgp.product.kubectl(&["label", "node", "k8s-node-2", &format!("{label}-")]);
    received(&bgp, [0, 1, 1]);

    bgp.product.kubectl(&["-n", NAMESPACE, "delete", "bgppeer", "router"]);
    until("no session and no route", SOON, || {
        let states = bgp.states()?;
        let none = states.iter().all(|(_, state)| state != "Established") && bgp.paths(&prefix)?.is_empty();
        if none { Ok(()) } else { Err(format!("{states:?}")) }
    });
}
