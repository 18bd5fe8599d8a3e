//! Two thousand Services: how long until the router has them all, and what an edit of one costs.

use std::time::{Duration, Instant};

use crate::router::{Bgp, NODE_ADDRESSES};
use crate::support::{NAMESPACE, NODES, measured, measured_all, until};

const MANY: usize = 2000;
const AT_A_TIME: usize = 250;
/// For what the control plane does: creating, assigning, endpoints, removing.
const CLUSTER: Duration = Duration::from_secs(300);
/// Nothing is told any more when nothing was for so long.
const QUIET: Duration = Duration::from_secs(5);
/// From one edit to the next.
const BETWEEN: Duration = Duration::from_secs(2);
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

const POOL: &str = r"
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: many, namespace: metallb-system}
spec: {addresses: [10.200.0.0/16], autoAssign: false}
";
const ADVERTISEMENT: &str = r"
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: many, namespace: metallb-system}
spec: {ipAddressPools: [many]}
";

/// Takes the Services away at the end.
struct Many<'a>(&'a Bgp);

impl<'a> Many<'a> {
    fn assigned(bgp: &'a Bgp) -> Self {
        let lab = &bgp.product.lab;
        lab.apply(POOL).unwrap();
        let many = Self(bgp);
        std::thread::scope(|scope| {
            for from in (0..MANY).step_by(AT_A_TIME) {
                scope.spawn(move || {
                    let one = |number: usize| {
                        format!(
                            "apiVersion: v1\nkind: Service\nmetadata: {{name: many-{number}, namespace: demo, labels: {{many: there}}, \
                             annotations: {{metallb.io/address-pool: many}}}}\nspec: {{type: LoadBalancer, \
                             allocateLoadBalancerNodePorts: false, selector: {{app.kubernetes.io/name: hello}}, \
                             ports: [{{port: 80, targetPort: http}}]}}\n"
                        )
                    };
                    let objects: Vec<String> = (from..from + AT_A_TIME).map(one).collect();
                    lab.apply(&objects.join("---\n")).unwrap();
                });
            }
        });
        let count = |resource: &str, selector: &str, column: usize, part: &str| {
            let table = bgp.product.kubectl(&["-n", "demo", "get", resource, "-l", selector, "--no-headers"]);
            let has = |line: &&str| line.split_whitespace().nth(column).is_some_and(|it| it.contains(part));
            table.lines().filter(has).count()
        };
        until("all have addresses and endpoints", CLUSTER, || {
            let addresses = count("services", "many=there", 3, "10.200.");
            let endpoints = count("endpointslices", "many=there", 3, "10.244.");
            if addresses == MANY && endpoints == MANY {
                Ok(())
            } else {
                Err(format!("{addresses} and {endpoints}"))
            }
        });
        many
    }
}

impl Drop for Many<'_> {
    fn drop(&mut self) {
        let _ = self.0.product.lab.delete(ADVERTISEMENT);
        let services = ["-n", "demo", "delete", "services", "-l", "many=there", "--wait=false"];
        let _ = self.0.product.lab.kubectl(&services);
        let _ = self.0.product.lab.delete(POOL);
        let exclude = format!("{EXCLUDE}=");
        let _ = self.0.product.lab.kubectl(&["label", "node", NODES[0], "--overwrite", &exclude]);
    }
}

/// Prefixes that the router has from each node.
fn received(bgp: &Bgp) -> Result<Vec<u64>, String> {
    let summary = bgp.show("ipv4 unicast summary")?;
    let of = |node: &&str| summary["peers"][*node]["pfxRcd"].as_u64().unwrap_or_default();
    Ok(NODE_ADDRESSES.iter().map(of).collect())
}

/// UPDATEs that the router has had from each node.
fn updates(bgp: &Bgp) -> Vec<u64> {
    let neighbors = bgp.show("neighbors").unwrap();
    let of = |node: &&str| neighbors[*node]["messageStats"]["updatesRecv"].as_u64().unwrap();
    NODE_ADDRESSES.iter().map(of).collect()
}

#[test]
#[ignore = "a measurement: hack/bench bgp-lab"]
fn two_thousand_services() {
    let bgp = Bgp::ready();
    bgp.product.kubectl(&["label", "node", NODES[0], &format!("{EXCLUDE}-")]);
    let _many = Many::assigned(&bgp);
    let others = received(&bgp).unwrap();
    let all: Vec<u64> = others.iter().map(|before| before + MANY as u64).collect();
    bgp.product.lab.apply(ADVERTISEMENT).unwrap();
    let began = Instant::now();
    until("all of every node", Duration::from_secs(60), || {
        let seen = received(&bgp)?;
        if seen == all { Ok(()) } else { Err(format!("{seen:?} of {all:?}")) }
    });
    measured(
        &format!("BGPAdvertisement applied until the router has {MANY} routes of each node"),
        format!("{:.2} s", began.elapsed().as_secs_f64()),
    );

    let statuses = || bgp.product.items(&["-n", NAMESPACE, "servicebgpstatuses"]).len();
    until("all statuses", Duration::from_secs(120), || {
        let seen = statuses();
        if seen >= 3 * MANY { Ok(()) } else { Err(seen.to_string()) }
    });
    measured(
        &format!("statuses of {MANY} Services on three nodes are there"),
        format!("{:.0} s after it was applied", began.elapsed().as_secs_f64()),
    );

    // At rest: the Events come last, one of each node about each Service.
    let mut told = (0, Instant::now());
    until("no more Events", CLUSTER, || {
        let of_assignment = ["--field-selector", "reason=nodeAssigned"];
        let list = [&["-n", "demo", "get", "events", "-o", "name"], &of_assignment[..]].concat();
        let seen = bgp.product.kubectl(&list).lines().count();
        if seen != told.0 {
            told = (seen, Instant::now());
        }
        if told.1.elapsed() > QUIET { Ok(()) } else { Err(seen.to_string()) }
    });
    let mut times = Vec::new();
    let before = updates(&bgp);
    const EDITS: u64 = 10;
    for number in 0..EDITS {
        // Of what the edit before brought with it the API server has seen the last.
        std::thread::sleep(BETWEEN);
        let expected: Vec<u64> = all.iter().map(|it| it - number - 1).collect();
        let spec = r#"{"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}}"#;
        bgp.product.kubectl(&[
            "-n",
            "demo",
            "patch",
            "service",
            &format!("many-{number}"),
            "--type=merge",
            "-p",
            spec,
        ]);
        let edited = Instant::now();
        loop {
            let looked = edited.elapsed();
            let seen = received(&bgp).unwrap();
            if seen == expected {
                times.push(looked.as_secs_f64() * 1e3);
                break;
            }
            assert!(looked < Duration::from_secs(10), "{seen:?} of {expected:?}");
        }
    }
    let sent: Vec<u64> = updates(&bgp).iter().zip(&before).map(|(now, before)| now - before).collect();
    assert_eq!(sent, [EDITS; 3], "one UPDATE an edit and node");
    measured_all("one Service edited at that size, kubectl returned until the router has lost it, ms", times);
}
