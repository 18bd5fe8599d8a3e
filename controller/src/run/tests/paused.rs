//! A leader that is stopped between its decision and its write, again and again.

use super::*;

/// How often, unless `PAUSES` says something else (`hack/pauses`).
const PAUSES: usize = 2;

/// Shorter still: each round waits for a Lease to end.
const FASTER: Times = Times {
    lease: Timing {
        duration: Duration::from_millis(2000),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(100),
    },
    limits: Limits { write: Duration::from_millis(500), margin: Duration::from_millis(100) },
};

/// The pool has one address. In each round the leader decides that the Service which waits gets it, and is
/// stopped when the request is on its way; the next leader gives it to an older Service; then the first goes on
/// and its write arrives.
#[tokio::test]
async fn a_leader_is_stopped_between_decision_and_write_again_and_again() {
    let rounds = std::env::var("PAUSES").ok().and_then(|it| it.parse().ok()).unwrap_or(PAUSES);
    let api = Api::default();
    pool(&api, "10.0.0.0/32");
    service(&api, "first", EARLIER);
    let mut controllers = Vec::new();
    for pod in ["controller-1", "controller-2"] {
        let (client, gate) = api.attach().await;
        controllers.push((Running::start_with(&api, client, pod, FASTER, &[]), gate));
        until("the first address", || address(&api, "first") == "10.0.0.0").await;
    }
    let leader = || api.get("leases", NAMESPACE, "metallb.io.controller")["spec"]["holderIdentity"].clone();
    let mut holder = "first".to_owned();
    for round in 0..rounds {
        let (late, older) = (format!("late-{round}"), format!("older-{round}"));
        service(&api, &late, LATER);
        until("the refusal", || condition(&api, &late)["status"] == "False").await;
        let stopped = leader();
        let gate = &controllers[usize::from(stopped == "controller-2")].1;
        gate.send_replace(Gate::HoldsPatches);
        api.remove(SERVICES, "demo", &holder);
        until("the request at the gate", || api.at_gate() >= 1).await;
        gate.send_replace(Gate::Closed);
        service(&api, &older, EARLIER);
        until("the next leader", || leader() != stopped && address(&api, &older) == "10.0.0.0").await;
        gate.send_replace(Gate::Open);
        until("the repair is told", || told(&api, &late, "AddressGivenTwice").len() == 1).await;
        until("one address, one Service", || {
            let holders = api
                .list(SERVICES)
                .into_iter()
                .filter(|it| it["status"]["loadBalancer"]["ingress"][0]["ip"] == "10.0.0.0");
            holders.map(|it| it["metadata"]["name"].clone()).collect::<Vec<_>>() == [older.as_str()]
        })
        .await;
        api.remove(SERVICES, "demo", &late);
        holder = older;
    }
    for (running, _) in controllers {
        running.stop().await;
    }
}
