//! The controller is killed at random moments while Services come and go: no address is given twice, and in
//! the end every Service has one. Longer: `hack/crash`.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::{NAMESPACE, NODES, Product, measured, text, until};

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

fn services(numbers: impl Iterator<Item = usize>) -> String {
    let one = |number: usize| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s{number}, namespace: crash, annotations: \
             {{metallb.io/address-pool: crash}}}}\nspec: {{type: LoadBalancer, allocateLoadBalancerNodePorts: false, \
             ports: [{{port: 80}}]}}\n"
        )
    };
    numbers.map(one).collect::<Vec<_>>().join("---\n")
}

/// The addresses of the Services, by name.
fn held(product: &Product) -> BTreeMap<String, String> {
    let services = product.items(&["-n", "crash", "services"]);
    let held = services.iter().map(|service| {
        let ip = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
        (text(&service["metadata"]["name"]), text(ip))
    });
    held.collect()
}

fn assert_once(held: &BTreeMap<String, String>) {
    let addresses: Vec<&String> = held.values().filter(|it| !it.is_empty()).collect();
    let distinct: BTreeSet<&&String> = addresses.iter().collect();
    assert_eq!(distinct.len(), addresses.len(), "an address was given twice: {held:?}");
}

#[test]
fn the_controller_is_killed_while_services_come_and_go() {
    let (kills, count) = (number("KILLS", 3), number("SERVICES", 60));
    let product = Product::installed();
    let pool = format!(
        "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: crash, namespace: {NAMESPACE}}}\nspec: {{addresses: [10.201.0.0/21]}}\n"
    );
    product.lab.apply(&pool).unwrap();
    product.lab.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: crash}\n").unwrap();
    product.lab.apply(&services(0..count)).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A third of them goes and comes again, over and over.
        scope.spawn(|| {
            let third = || services((0..count).filter(|it| it % 3 == 0));
            while !ended.load(Ordering::Relaxed) {
                product.lab.delete(&third()).unwrap();
                product.lab.apply(&third()).unwrap();
            }
        });
        for kill in 0..kills {
            // The moments are spread over a second of a pass by the number of the kill.
            std::thread::sleep(Duration::from_millis(200 + 137 * kill as u64 % 1000));
            for node in NODES {
                let host = product.lab.host(node).unwrap();
                host.output(&["pkill", "-KILL", "--exact", "controller"]).unwrap();
            }
            // A pod of its own each time, or the kubelet would wait longer and longer.
            let pods = ["-n", NAMESPACE, "delete", "pods", "-l", "component=controller"];
            product.kubectl(&[&pods[..], &["--force", "--grace-period=0"]].concat());
            until("another controller", Duration::from_secs(60), || {
                let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "component=controller"]);
                match pods.iter().any(|pod| support::condition(pod, "Ready") == Some("True")) {
                    true => Ok(()),
                    false => Err(format!("{} pods", pods.len())),
                }
            });
            assert_once(&held(&product));
        }
        ended.store(true, Ordering::Relaxed);
    });
    let all = until("an address for everybody", Duration::from_secs(60), || {
        let held = held(&product);
        match held.len() == count && held.values().all(|ip| !ip.is_empty()) {
            true => Ok(held),
            false => Err(format!("{held:?}")),
        }
    });
    assert_once(&all);
    measured("controllers killed, Services", format!("{kills}, {count}"));
    product.kubectl(&["delete", "namespace", "crash"]);
    product.lab.delete(&pool).unwrap();
    product.wait_available(Duration::from_secs(60));
}
