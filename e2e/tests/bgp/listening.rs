//! Speakers that are told to listen: a router that nobody can dial connects to them.

use std::time::Duration;

use crate::router::{Bgp, RECOVERY, V4, WORKER_ADDRESSES, peer};
use crate::support::{NAMESPACE, until};

/// Longer than the speakers of all nodes need to be replaced one by one.
const ROLLED: Duration = Duration::from_secs(120);

/// Listens until it goes.
struct Listening<'a>(&'a Bgp);

fn listen(bgp: &Bgp, port: &str) {
    let patch = format!(r#"{{"spec": {{"bgpListenPort": {port}}}}}"#);
    bgp.product.kubectl(&["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", &patch]);
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        listen(self.0, "null");
        let rolled = ["-n", NAMESPACE, "rollout", "status", "ds/speaker", "--timeout=120s"];
        let _ = self.0.product.lab.kubectl(&rolled);
    }
}

#[test]
fn a_router_that_cannot_be_dialled_connects_to_every_node() {
    let bgp = Bgp::ready();
    // Nothing listens at this port of the router.
    bgp.product.lab.apply(&peer("peerASN: 64513, peerAddress: 192.168.10.1, peerPort: 1")).unwrap();
    bgp.told("SessionFailed", "cannot connect to 192.168.10.1:1");
    bgp.has_paths(&format!("{V4}/32"), &[]);
    listen(&bgp, "179");
    let _listening = Listening(&bgp);
    bgp.vtysh(&["configure terminal", "router bgp 64513", "neighbor nodes timers connect 1"]).unwrap();
    until("speakers that listen", ROLLED, || {
        let pods = bgp.product.items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"]);
        let listens = |pod: &serde_json::Value| {
            let kept = &pod["spec"]["containers"][0]["securityContext"]["capabilities"]["add"];
            *kept == serde_json::json!(["NET_RAW", "NET_BIND_SERVICE"])
        };
        if pods.len() == 3 && pods.iter().all(listens) { Ok(()) } else { Err(format!("{pods:?}")) }
    });
    bgp.established(RECOVERY);
    bgp.has_paths(&format!("{V4}/32"), &WORKER_ADDRESSES);
    let _ = bgp.vtysh(&["configure terminal", "router bgp 64513", "no neighbor nodes timers connect"]);
}
