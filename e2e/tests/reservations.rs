//! Addresses that are kept for somebody, quotas, addresses that a foreign host uses, and a pair from two pools.

mod support;

use std::time::Duration;

use serde_json::Value;
use support::{NAMESPACE, Product, text, until};

const SOON: Duration = Duration::from_secs(30);

fn service(name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: demo, annotations: {{{annotations}}}}}\nspec:\n  \
         type: LoadBalancer\n  selector: {{app.kubernetes.io/name: hello}}\n  ports: [{{port: 80, targetPort: http}}]\n{spec}"
    )
}

fn asking(name: &str, address: &str) -> String {
    service(name, &format!("metallb.io/loadBalancerIPs: {address}"), "")
}

fn addresses(product: &Product, name: &str) -> Result<Vec<String>, String> {
    let service = product.get(&["-n", "demo", "service", name])?;
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    match ingress.iter().map(|it| text(&it["ip"])).collect::<Vec<_>>() {
        none if none.is_empty() => Err(service["status"].to_string()),
        addresses => Ok(addresses),
    }
}

fn wait_refused(product: &Product, name: &str, reason: &str) -> String {
    until(reason, SOON, || {
        let service = product.get(&["-n", "demo", "service", name])?;
        let condition: &Value = &service["status"]["conditions"][0];
        if condition["reason"] == reason {
            Ok(text(&condition["message"]))
        } else {
            Err(condition.to_string())
        }
    })
}

/// A Service is deleted and created again; strangers are refused with the reason; so is one more than the quota.
#[test]
fn an_address_is_kept_for_a_service_and_a_quota_for_a_namespace() {
    let product = Product::ready();
    let lab = &product.lab;
    let pool = format!(
        "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: kept, namespace: {NAMESPACE}}}\n\
         spec: {{addresses: [192.168.10.240-192.168.10.247], autoAssign: false}}\n"
    );
    let reservation = format!(
        "apiVersion: ferrolb.io/v1alpha1\nkind: AddressReservation\nmetadata: {{name: kept, namespace: {NAMESPACE}}}\n\
         spec:\n  addresses: [192.168.10.245]\n  service: {{namespace: demo, name: kept}}\n  \
         quotas: [{{namespace: demo, maxAddresses: 4}}]\n"
    );
    lab.apply(&pool).unwrap();
    lab.apply(&reservation).unwrap();
    // hello-lb has one; of a pool that gives nothing by itself, the Service gets what is kept for it.
    lab.apply(&service("kept", "", "")).unwrap();
    let kept = || until("the address that is kept", SOON, || addresses(&product, "kept"));
    assert_eq!(kept(), ["192.168.10.245"]);
    lab.delete(&service("kept", "", "")).unwrap();
    let from = "metallb.io/address-pool: kept";
    for name in ["other-1", "other-2"] {
        lab.apply(&service(name, from, "")).unwrap();
        until(name, SOON, || addresses(&product, name));
    }
    lab.apply(&asking("stranger", "192.168.10.245")).unwrap();
    assert_eq!(
        wait_refused(&product, "stranger", "Reserved"),
        r#""192.168.10.245" is reserved for Service demo/kept by AddressReservation "kept""#
    );
    lab.apply(&service("kept", "", "")).unwrap();
    assert_eq!(kept(), ["192.168.10.245"]);
    lab.apply(&service("fifth", from, "")).unwrap();
    assert_eq!(
        wait_refused(&product, "fifth", "QuotaExceeded"),
        "namespace demo may have 4 addresses (maxAddresses of an AddressReservation) and has no more left"
    );
    // What cannot be right is refused at once.
    let wrong = reservation.replace("name: kept, namespace: metallb", "name: again, namespace: metallb");
    let denied = lab.apply(&wrong).unwrap_err().to_string();
    assert!(denied.contains(r#"192.168.10.245 shares addresses with AddressReservation "kept""#), "{denied}");

    for name in ["kept", "other-1", "other-2", "stranger", "fifth"] {
        product.kubectl(&["-n", "demo", "delete", "service", name]);
    }
    lab.delete(&reservation).unwrap();
    lab.delete(&pool).unwrap();
}

/// A host of the LAN has an address of the pool; the Service that had it is gone.
#[test]
fn an_address_in_conflict_is_given_to_nobody_until_it_is_clear() {
    const CONTESTED: &str = "192.168.10.218";
    let product = Product::ready();
    let router = product.lab.host("router").unwrap();
    let address = format!("{CONTESTED}/32");
    router.output(&["ip", "addr", "add", &address, "dev", router.spec.nic()]).unwrap();
    product.lab.apply(&asking("victim", CONTESTED)).unwrap();
    let told = |wanted: bool| {
        until("what speakers tell of the stranger", SOON, || {
            let states = product.items(&["-n", NAMESPACE, "configurationstates"]);
            let told: Vec<String> = states
                .iter()
                .map(|state| text(&state["metadata"]["annotations"]["ferrolb.io/address-conflicts"]))
                .collect();
            match told.iter().any(|it| it.contains(CONTESTED)) == wanted {
                true => Ok(()),
                false => Err(format!("{told:?}")),
            }
        });
    };
    told(true);
    product.lab.delete(&asking("victim", CONTESTED)).unwrap();
    product.lab.apply(&asking("next", CONTESTED)).unwrap();
    assert_eq!(
        wait_refused(&product, "next", "AddressConflict"),
        format!(
            "a host outside the cluster uses \"{CONTESTED}\": remove it there, or ask for another address"
        )
    );
    let (code, why) = product.plugin(&["why", "demo/next"]);
    let line =
        "Service demo/next, metadata.annotations[metallb.io/loadBalancerIPs] (or spec.loadBalancerIP): ";
    assert!(code == 1 && why.starts_with(line) && why.contains("remove the address from the host"), "{why}");
    router.output(&["ip", "addr", "del", &address, "dev", router.spec.nic()]).unwrap();
    told(false);
    assert_eq!(until("the address", SOON, || addresses(&product, "next")), [CONTESTED]);
    product.lab.delete(&asking("next", CONTESTED)).unwrap();
}

/// One pool a family: the Service has an address of both, and a client reaches both.
#[test]
fn a_pair_comes_from_two_pools() {
    const SIX: &str = "fd00:10::1:220";
    let product = Product::ready();
    let lab = &product.lab;
    let six = format!(
        "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: six-only, namespace: {NAMESPACE}}}\n\
         spec: {{addresses: ['{SIX}/128']}}\n---\n\
         apiVersion: metallb.io/v1beta1\nkind: L2Advertisement\nmetadata: {{name: six-only, namespace: {NAMESPACE}}}\n\
         spec: {{ipAddressPools: [six-only]}}\n"
    );
    lab.apply(&six).unwrap();
    let dual = service("dual", "", "  ipFamilyPolicy: PreferDualStack\n");
    lab.apply(&dual).unwrap();
    let pair = until("two addresses", SOON, || {
        let addresses = addresses(&product, "dual")?;
        if addresses.len() == 2 { Ok(addresses) } else { Err(format!("{addresses:?}")) }
    });
    assert_eq!(pair[1], SIX);
    let object = product.get(&["-n", "demo", "service", "dual"]).unwrap();
    assert_eq!(object["metadata"]["annotations"]["metallb.io/ip-allocated-from-pool"], "default,six-only");
    for url in [format!("http://{}/hostname", pair[0]), format!("http://[{SIX}]/hostname")] {
        until(&url, SOON, || lab.curl("client", &url).map_err(|error| error.to_string()));
    }
    lab.delete(&dual).unwrap();
    lab.delete(&six).unwrap();
}
