//! What `compile` warns of: pools that can be read, but hardly mean what they say.

use ferrolb_api::v1beta1::{IPAddressPool, ServiceAllocation};
use ferrolb_core::config::{Compiled, Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{match_labels, namespace, node, pool};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeSpec, NodeStatus};
use k8s_openapi::api::networking::v1::{ServiceCIDR, ServiceCIDRSpec};

fn cluster(pool: IPAddressPool) -> Compiled {
    let address = |type_: &str, address: &str| NodeAddress { type_: type_.into(), address: address.into() };
    let machine = |name: &str, addresses: Vec<NodeAddress>, pods: &[&str]| Node {
        spec: Some(NodeSpec {
            pod_cidrs: Some(pods.iter().map(|it| (*it).to_owned()).collect()),
            ..Default::default()
        }),
        status: Some(NodeStatus { addresses: Some(addresses), ..Default::default() }),
        ..node(name, &[])
    };
    let n1 = vec![address("Hostname", "n1"), address("InternalIP", "192.168.10.2")];
    let n2 = vec![address("InternalIP", "192.168.10.3"), address("InternalIP", "fd00::3")];
    let cidrs = Some(vec!["10.96.0.0/12".to_owned(), "fd00:96::/112".to_owned()]);
    let services = ServiceCIDR { spec: Some(ServiceCIDRSpec { cidrs }), ..Default::default() };
    compile(
        &Resources::default()
            .with_nodes([
                machine("n1", n1, &["10.244.0.0/24"]),
                machine("n2", n2, &["10.244.1.0/24", "fd00:1::/64"]),
            ])
            .with_namespaces([namespace("default", &[("team", "a")])])
            .with_service_cidrs([services])
            .with_pools([pool]),
    )
}

#[test]
fn what_may_not_be_meant_is_told_and_is_in_force() {
    for (entries, field, expected) in [
        (
            &["10.20.30.40/24"][..],
            "spec.addresses[0]",
            r#"IPAddressPool "p": "10.20.30.40/24" is read as 10.20.30.0/24 (10.20.30.0-10.20.30.255)"#,
        ),
        (
            &["192.0.2.200/28"],
            "spec.addresses[0]",
            r#"IPAddressPool "p": "192.0.2.200/28" is read as 192.0.2.192/28 (192.0.2.192-192.0.2.207)"#,
        ),
        (
            &["192.168.20.0/24", "192.168.10.0/24"],
            "spec.addresses[1]",
            r#"IPAddressPool "p" contains 192.168.10.2, an address of Node "n1""#,
        ),
        (
            &["fd00::1-fd00::9"],
            "spec.addresses[0]",
            r#"IPAddressPool "p" contains fd00::3, an address of Node "n2""#,
        ),
        (
            &["10.244.1.200-10.244.1.210"],
            "spec.addresses[0]",
            r#"IPAddressPool "p" overlaps with 10.244.1.0/24, addresses of Pods on Node "n2""#,
        ),
        (
            &["10.95.255.0-10.96.0.1"],
            "spec.addresses[0]",
            r#"IPAddressPool "p" overlaps with 10.96.0.0/12, cluster addresses of Services"#,
        ),
        (
            &["169.254.7.0/24"],
            "spec.addresses[0]",
            r#"IPAddressPool "p": "169.254.7.0/24" contains link-local addresses, which routers do not forward"#,
        ),
        (
            &["223.255.255.0-224.0.0.9"],
            "spec.addresses[0]",
            r#"IPAddressPool "p": "223.255.255.0-224.0.0.9" contains multicast addresses, which routers do not forward"#,
        ),
    ] {
        let compiled = cluster(pool("p", entries));
        let [finding] = &compiled.diagnostics[..] else { panic!("{:?}", compiled.diagnostics) };
        assert_eq!((finding.message.to_string().as_str(), finding.field.as_str()), (expected, field));
        assert_eq!((finding.severity(), finding.leaves_out()), (Severity::Doubtful, false));
        assert!(!finding.remedy().is_empty());
        assert_eq!(compiled.config.pools().len(), 1);
    }
    assert_eq!(cluster(pool("p", &["192.168.30.0/24", "fd00:2::/64"])).diagnostics, []);
}

#[test]
fn what_can_never_work_is_refused() {
    for (entry, what) in [
        ("224.0.1.0/24", "multicast addresses"),
        ("127.0.0.1/32", "loopback addresses"),
        ("0.0.0.1-0.0.0.9", "addresses of \"this network\""),
        ("255.255.255.255/32", "the broadcast address"),
        ("ff05::/64", "multicast addresses"),
        ("::1/128", "loopback addresses"),
    ] {
        let compiled = cluster(pool("p", &[entry]));
        let [finding] = &compiled.diagnostics[..] else { panic!("{:?}", compiled.diagnostics) };
        let expected = format!(
            "parsing address pool p: invalid CIDR \"{entry}\" in pool \"p\": {what} cannot be given to Services"
        );
        assert_eq!((finding.message.to_string(), finding.severity()), (expected, Severity::Invalid));
        assert!(compiled.config.pools().is_empty());
        // What Services hold all the same is kept.
        let address = entry.split(['/', '-']).next().unwrap().parse().unwrap();
        assert!(compiled.config.left_out_pools()["p"].contains(address));
    }
}

#[test]
fn a_pool_that_keeps_everything_back() {
    for (entry, useless) in [("1.2.3.0/32", true), ("1.2.3.255-1.2.4.0", true), ("1.2.3.0/31", false)] {
        let mut object = pool("p", &[entry]);
        object.spec.avoid_buggy_ips = true;
        let texts: Vec<String> = cluster(object).diagnostics.iter().map(ToString::to_string).collect();
        let expected =
            r#"IPAddressPool "p" has no usable address: avoidBuggyIPs keeps every one of them back"#;
        assert_eq!(texts, vec![expected.to_owned(); usize::from(useless)]);
    }
}

#[test]
fn namespaces_that_are_not_there() {
    let for_whom = |allocation: ServiceAllocation| {
        let mut object = pool("p", &["1.2.3.0/24"]);
        object.spec.service_allocation = Some(allocation);
        object
    };
    let named =
        ServiceAllocation { namespaces: vec!["default".to_owned(), "gone".to_owned()], ..Default::default() };
    let selected = |team: &str| ServiceAllocation {
        namespace_selectors: vec![match_labels(&[("team", team)])],
        ..Default::default()
    };
    for (object, expected) in [
        (
            for_whom(named.clone()),
            vec![r#"IPAddressPool "p" refers to Namespace "gone", which does not exist"#],
        ),
        (for_whom(selected("b")), vec![r#"namespaceSelectors of IPAddressPool "p" match no Namespace"#]),
        (for_whom(selected("a")), vec![]),
    ] {
        let compiled = cluster(object);
        let texts: Vec<String> = compiled.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
        assert!(compiled.diagnostics.iter().all(|it| it.severity() == Severity::Unresolved));
        assert_eq!(compiled.config.pools().len(), 1);
    }
    // Who watches no Namespaces cannot tell.
    let unknown = compile(&Resources::default().with_pools([for_whom(named)]));
    assert_eq!(unknown.diagnostics, []);
}
