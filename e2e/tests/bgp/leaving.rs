//! A speaker that restarts keeps its routes on the router; one that leaves has the traffic led elsewhere
//! before its routes go.

use serde_json::Value;

use crate::router::{Bgp, RECOVERY, SOON, V4, WORKER_ADDRESSES, peer};
use crate::support::{NAMESPACE, text, until};

const NODE: &str = "k8s-node-2";
const ADDRESS: &str = "192.168.10.21";

/// Speakers on the first worker only. On all nodes again at the end.
struct Selected<'a>(&'a Bgp);

fn select(bgp: &Bgp, selector: &str) {
    let patch = format!(r#"{{"spec": {{"nodeSelector": {selector}}}}}"#);
    bgp.product.kubectl(&["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", &patch]);
}

impl<'a> Selected<'a> {
    fn only(bgp: &'a Bgp, node: &str) -> Self {
        select(bgp, &format!(r#"{{"kubernetes.io/hostname": "{node}"}}"#));
        Self(bgp)
    }
}

impl Drop for Selected<'_> {
    fn drop(&mut self) {
        select(self.0, "null");
    }
}

fn neighbor(bgp: &Bgp) -> Result<Value, String> {
    Ok(bgp.show(&format!("neighbors {ADDRESS}"))?[ADDRESS].clone())
}

#[test]
fn a_restart_keeps_the_routes_and_leaving_leads_the_traffic_elsewhere_first() {
    let bgp = Bgp::ready();
    let prefix = format!("{V4}/32");
    let graceful = peer("peerASN: 64513, peerAddress: 192.168.10.1, enableGracefulRestart: true");
    bgp.product.lab.apply(&graceful).unwrap();
    until("graceful restart on the sessions", SOON, || {
        let capabilities = neighbor(&bgp)?["neighborCapabilities"]["gracefulRestart"].clone();
        if capabilities == "advertisedAndReceived" { Ok(()) } else { Err(capabilities.to_string()) }
    });
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);
    let before = neighbor(&bgp).unwrap();
    let speakers = bgp.product.items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"]);
    let here = speakers.iter().find(|pod| pod["spec"]["nodeName"] == NODE).unwrap();
    bgp.product.kubectl(&[
        "-n",
        NAMESPACE,
        "delete",
        "pod",
        &text(&here["metadata"]["name"]),
        "--wait=false",
    ]);
    let mut gone = None;
    let after = until("another session", RECOVERY, || {
        let paths = bgp.paths(&prefix)?;
        assert_eq!(paths.len(), WORKER_ADDRESSES.len(), "the routes stay meanwhile");
        let now = neighbor(&bgp)?;
        if now["bgpState"] != "Established" {
            gone = Some(now.clone());
        }
        if now["connectionsEstablished"] == before["connectionsEstablished"] {
            Err(now.to_string())
        } else {
            Ok(now)
        }
    });
    assert!(gone.is_some(), "there was a time without a session");
    let notifications = |neighbor: &Value| neighbor["messageStats"]["notificationsRecv"].clone();
    assert_eq!(notifications(&after), notifications(&before), "no Cease, which would end the restart");

    let _selected = Selected::only(&bgp, "k8s-node-1");
    until("the request to use other paths", RECOVERY, || {
        let route = bgp.show(&format!("ipv4 unicast {prefix}"))?;
        let paths = route["paths"].as_array().cloned().unwrap_or_default();
        let asked = |path: &Value| {
            path["peer"]["peerId"] == ADDRESS && path["community"]["string"] == "graceful-shutdown"
        };
        if paths.iter().any(asked) { Ok(()) } else { Err(route.to_string()) }
    });
    bgp.has_paths(&prefix, &WORKER_ADDRESSES[..1]);
    until("the reason", SOON, || {
        let now = neighbor(&bgp)?;
        let (reason, text) = (&now["lastNotificationReason"], &now["lastShutdownDescription"]);
        let told = reason == "Cease/Administrative Shutdown" && text == "the speaker is taken off this node";
        if told { Ok(()) } else { Err(now.to_string()) }
    });
}
