//! The table of what one Service gets, by the whole controller.

use ferrolb_api::v1beta1::IPAddressPool;
use ferrolb_core::testing::{OneService, case_pools, dual_pool, on_request, one_service_cases};

use super::*;

/// Replaces all pools, and waits until the controller has counted the new ones.
async fn set_pools(api: &Api, pools: Vec<IPAddressPool>) {
    for old in api.list("ipaddresspools") {
        api.remove("ipaddresspools", NAMESPACE, old["metadata"]["name"].as_str().unwrap());
    }
    let all = pools.into_iter().chain([on_request("canary", &["10.99.0.0/16"])]);
    let names: Vec<String> = all
        .map(|pool| {
            let mut object = json!(pool);
            object["metadata"]["namespace"] = json!(NAMESPACE);
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            api.put("ipaddresspools", object);
            name
        })
        .collect();
    until("the pools are counted", || {
        names.iter().all(|name| !api.get("ipaddresspools", NAMESPACE, name)["status"].is_null())
    })
    .await;
}

/// A Service comes that can always be served: once it is, and its owner told, what was there before it was looked at.
async fn canary(api: &Api, name: &str) {
    let mut object = json!({
        "metadata": {"namespace": "demo", "name": name, "annotations": {"metallb.io/address-pool": "canary"}},
        "spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.8"], "ports": [{"port": 80}]},
    });
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    api.put(SERVICES, object);
    until("the canary is served", || told(api, name, "IPAllocated").len() == 1).await;
    api.remove(SERVICES, "demo", name);
}

fn addresses(service: &Value) -> String {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = ingress.iter().filter_map(|it| it["ip"].as_str()).collect();
    texts.join(" ")
}

#[tokio::test]
async fn each_service_gets_what_the_table_says() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    let running = Running::start(&api, client, "controller-1");
    for pools in [case_pools(), dual_pool()] {
        set_pools(&api, pools.clone()).await;
        let cases = one_service_cases().into_iter().enumerate().filter(|(_, case)| case.pools == pools);
        for (number, OneService { name: case, service, expected, warned, .. }) in cases {
            let name = format!("s{number}");
            let mut object = json!(service.build());
            object["metadata"]["name"] = json!(name);
            let namespace = object["metadata"]["namespace"].as_str().unwrap().to_owned();
            api.put(SERVICES, object);
            let current = || api.get(SERVICES, &namespace, &name);
            until(&format!("{case}: {expected:?}"), || addresses(&current()) == expected).await;
            let warnings = || {
                let events = api.list("events");
                events.iter().any(|it| it["involvedObject"]["name"] == name && it["type"] == "Warning")
            };
            if warned {
                until(&format!("{case}: a warning"), warnings).await;
            }
            canary(&api, &format!("{name}-first")).await;
            let before = current();
            assert_eq!(addresses(&before), expected, "{case}");
            assert_eq!(warnings(), warned, "{case}: {:?}", api.list("events"));
            // At rest from here on.
            canary(&api, &format!("{name}-second")).await;
            assert_eq!(current(), before, "{case}");
            api.remove(SERVICES, &namespace, &name);
        }
    }
    running.stop().await;
}
