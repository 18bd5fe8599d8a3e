//! What one Service gets: the table that the allocator and the controller are both held to.

use ferrolb_api::v1beta1::{IPAddressPool, ServiceAllocation};

use super::{ServiceBuilder, match_labels, pool, service};

/// A Service alone in the world.
pub struct OneService {
    /// Its line in the table.
    pub name: &'static str,
    /// The pools that there are.
    pub pools: Vec<IPAddressPool>,
    /// The Service as it is found.
    pub service: ServiceBuilder,
    /// The addresses that it has in the end, with spaces between.
    pub expected: &'static str,
    /// Whether its owner is warned.
    pub warned: bool,
}

/// A pool that is given from on request only.
pub fn on_request(name: &str, entries: &[&str]) -> IPAddressPool {
    let mut object = pool(name, entries);
    object.spec.auto_assign = false;
    object
}

/// A pool for a namespace, for the Services of a team, or with a rank alone.
pub fn restricted(
    name: &str,
    entry: &str,
    namespace: Option<&str>,
    team: Option<&str>,
    priority: i64,
) -> IPAddressPool {
    let mut object = pool(name, &[entry]);
    object.spec.service_allocation = Some(ServiceAllocation {
        priority: Some(priority),
        namespaces: namespace.map(ToOwned::to_owned).into_iter().collect(),
        service_selectors: team.map(|team| match_labels(&[("team", team)])).into_iter().collect(),
        ..Default::default()
    });
    object
}

/// Pools of one family each, some of them restricted.
pub fn case_pools() -> Vec<IPAddressPool> {
    vec![
        pool("pool1", &["1.2.3.0/31"]),
        on_request("pool2", &["3.4.5.6/32"]),
        pool("pool3", &["1000::/127"]),
        on_request("pool4", &["2000::1/128"]),
        restricted("pool6", "7.8.9.0/31", Some("test-ns1"), None, 10),
        restricted("pool7", "10.11.12.0/31", Some("test-ns1"), None, 11),
        restricted("pool8", "13.14.15.0/31", None, Some("metallb"), 9),
        restricted("pool9", "16.17.18.0/31", Some("test-ns2"), None, 0),
        restricted("pool10", "19.20.21.0/31", None, Some("metallb"), 8),
        restricted("pool11", "22.23.24.0/31", Some("test-ns1"), Some("metallb"), 8),
        restricted("pool12", "25.26.27.0/31", Some("test-ns1"), Some("metallb"), 5),
    ]
}

/// One pool of both families.
pub fn dual_pool() -> Vec<IPAddressPool> {
    vec![pool("pool5", &["1.2.3.0/31", "1000::/127"])]
}

/// The table.
pub fn one_service_cases() -> Vec<OneService> {
    [with_one_family(), with_two_families(), wrong()].into_iter().flatten().collect()
}

const V6: &[&str] = &["fd00:96::1"];
const DUAL: &[&str] = &["10.96.0.1", "fd00:96::1"];

type Line = (&'static str, Vec<IPAddressPool>, ServiceBuilder, &'static str, bool);

fn lines(lines: impl IntoIterator<Item = Line>) -> Vec<OneService> {
    let read =
        |(name, pools, service, expected, warned)| OneService { name, pools, service, expected, warned };
    lines.into_iter().map(read).collect()
}

fn svc() -> ServiceBuilder {
    service("ns", "s")
}

fn ips(it: ServiceBuilder, text: &str) -> ServiceBuilder {
    it.annotations(&[("metallb.io/loadBalancerIPs", text)])
}

fn from(it: ServiceBuilder, text: &str) -> ServiceBuilder {
    it.annotations(&[("metallb.io/address-pool", text)])
}

fn with_one_family() -> Vec<OneService> {
    let plain = case_pools;
    let team = |it: ServiceBuilder| it.labels(&[("team", "metallb")]);
    lines([
        ("H3", plain(), svc(), "1.2.3.0", false),
        ("H4", plain(), svc().load_balancer_ip("1.2.3.1"), "1.2.3.1", false),
        ("H5", plain(), ips(svc(), "1.2.3.1"), "1.2.3.1", false),
        ("H12", plain(), from(svc(), "pool1"), "1.2.3.0", false),
        ("H13", plain(), from(svc().holding(&["1.2.3.0"]), "pool2"), "3.4.5.6", false),
        ("H15", plain(), svc().holding(&["2.3.4.5"]), "1.2.3.0", false),
        ("H16", plain(), svc().holding(&["foo.bar.local", "10.10.10.10"]), "1.2.3.0", false),
        ("H17", plain(), svc().kind("NodePort").holding(&["1.2.3.0"]), "", false),
        ("H19", plain(), from(svc().local(true), "pool2"), "3.4.5.6", false),
        ("H23", plain(), svc().holding(&["1000::"]), "1.2.3.0", false),
        ("H24", plain(), svc().cluster(V6).holding(&["1.2.3.0"]), "1000::", false),
        ("H28", plain(), service("test-ns1", "s").policy("PreferDualStack"), "7.8.9.0", false),
        ("H31", plain(), from(svc().cluster(V6).policy("PreferDualStack"), "pool3"), "1000::", false),
        ("H32", dual_pool(), from(svc().policy("PreferDualStack"), "pool5"), "1.2.3.0", false),
        ("H39", plain(), service("test-ns1", "s"), "7.8.9.0", false),
        ("H40", plain(), service("test-ns2", "s"), "16.17.18.0", false),
        ("H41", plain(), team(svc()), "19.20.21.0", false),
        ("both by namespace and label", plain(), team(service("test-ns1", "s")), "25.26.27.0", false),
        ("mapped", plain(), ips(svc(), "::ffff:1.2.3.1"), "1.2.3.1", false),
        // What the pool is recorded to be is no reason to have it where there is no address.
        ("O32", plain(), svc().kind("ClusterIP").from_pool("pool1"), "", false),
        ("O39", plain(), svc().local(true).shared("k"), "1.2.3.0", false),
    ])
}

fn with_two_families() -> Vec<OneService> {
    let dual = |policy| svc().cluster(DUAL).policy(policy);
    let turned = svc().cluster(&["fd00:96::1", "10.96.0.1"]).policy("RequireDualStack");
    lines([
        ("H25", dual_pool(), dual("RequireDualStack"), "1.2.3.0 1000::", false),
        ("H27", dual_pool(), dual("PreferDualStack"), "1.2.3.0 1000::", false),
        ("H29", dual_pool(), from(dual("PreferDualStack"), "pool5"), "1.2.3.0 1000::", false),
        ("H36", dual_pool(), ips(dual("RequireDualStack"), "1.2.3.0,1000::"), "1.2.3.0 1000::", false),
        ("H37", dual_pool(), turned.holding(&["foo.local", "1000::"]), "1.2.3.0 1000::", false),
        ("O2", case_pools(), from(dual("PreferDualStack"), "pool1"), "1.2.3.0", false),
        ("O4", dual_pool(), ips(dual("RequireDualStack"), "1.2.3.0, 1000::1"), "1.2.3.0 1000::1", false),
    ])
}

fn wrong() -> Vec<OneService> {
    let plain = case_pools;
    let prefer = || svc().cluster(DUAL).policy("PreferDualStack");
    lines([
        ("H7", plain(), svc().load_balancer_ip("please"), "", true),
        ("H8", plain(), from(ips(svc(), "1.2.3.1"), "pool2"), "", true),
        ("H9", plain(), ips(svc(), "please"), "", true),
        ("H11", plain(), svc().holding(&["1.2.3.1"]).load_balancer_ip("1.2.3.4"), "", true),
        ("H20", plain(), svc().cluster(&[]), "", false),
        ("H21", plain(), ips(svc().cluster(V6), "1.2.3.0"), "", true),
        ("H21 by the field", plain(), svc().cluster(V6).load_balancer_ip("1.2.3.0"), "", true),
        ("H33", dual_pool(), svc().policy("RequireDualStack"), "", true),
        ("H35", dual_pool(), ips(prefer(), "1.2.3.0"), "", true),
        ("H43", plain(), svc().holding(&["1.2.3.0", "1.2.3.1", "1.2.3.2"]), "1.2.3.0", true),
        ("O3", plain(), from(svc().cluster(V6), "pool1"), "", true),
        ("O6", plain(), ips(svc().holding(&["1.2.3.1"]), "bogus"), "1.2.3.1", true),
        ("O8", plain(), ips(svc().holding(&["1.2.3.1"]), "9.9.9.9"), "", true),
        ("both ways", plain(), ips(svc(), "1.2.3.1").load_balancer_ip("1.2.3.1"), "", true),
        ("dual without the wish", dual_pool(), svc().cluster(DUAL), "", true),
        ("headless", plain(), svc().cluster(&["None"]), "", true),
        ("pool of nobody", plain(), from(svc(), "pool99"), "", true),
        ("closed pool", plain(), from(svc(), "pool6"), "", true),
        ("address of a closed pool", plain(), ips(svc(), "7.8.9.0"), "", true),
    ])
}
