//! An operator that is killed at any write of an installation or an upgrade: the next one ends where an
//! undisturbed one does.

use std::collections::BTreeMap;

use ferrolb_operator::Args;
use serde_json::Value;

use super::api::Api;
use super::{METALLB, SECRET, condition, is_true, roll_out, start_with, until};

const OLD: &str = "ferrolb.io/ferrolb:v0.0.9";
const NEW: &str = "ferrolb.io/ferrolb:v0.1.0";

fn args(image: &str) -> Args {
    clap::Parser::parse_from(["manager", "--image", image, "--pod-name", "operator-1"])
}

async fn install(api: &Api) {
    api.put(METALLB, serde_json::json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
    let running = start_with(api, args(OLD));
    until("progress", api, is_true("Progressing")).await;
    roll_out(api);
    until("available", api, is_true("Available")).await;
    running.shutdown.begin();
    running.task.await.unwrap().unwrap();
}

/// What an installation comes to, without what differs from one to the next.
fn outcome(api: &Api) -> BTreeMap<String, Value> {
    let kept = |path: String| {
        let mut object = api.get(&path)?;
        if path.contains("/leases/") {
            return None;
        }
        for changing in ["uid", "resourceVersion", "generation", "ownerReferences"] {
            object["metadata"].as_object_mut()?.remove(changing);
        }
        object.as_object_mut()?.remove("status");
        if path == SECRET {
            object["data"] = Value::Null;
        }
        Some((path, object))
    };
    api.paths().into_iter().filter_map(kept).collect()
}

/// Runs an operator that is killed at a write, and then another. Says whether the first came that far.
async fn killed_after(api: &Api, writes: usize) -> bool {
    api.stop_after(writes);
    let running = start_with(api, args(NEW));
    let stopped = async {
        while !api.has_stopped() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let killed = tokio::select! {
        () = stopped => true,
        () = until("progress", api, is_true("Progressing")) => api.has_stopped(),
    };
    running.task.abort();
    running.shutdown.begin();
    api.go_on();
    let next = start_with(api, args(NEW));
    until("the next one has seen everything", api, |api| {
        condition(api, "Progressing").is_some() && workloads_are_new(api)
    })
    .await;
    roll_out(api);
    until("available", api, is_true("Available")).await;
    next.shutdown.begin();
    next.task.await.unwrap().unwrap();
    killed
}

fn workloads_are_new(api: &Api) -> bool {
    [super::CONTROLLER, super::WEBHOOK, super::SPEAKER].iter().all(|path| {
        api.get(path).is_some_and(|it| it["spec"]["template"]["spec"]["containers"][0]["image"] == NEW)
    })
}

/// A write that was done and one that was not heard of leave the same behind, so that one way to be killed
/// at each write is enough.
async fn ends_alike(before: impl AsyncFn() -> Api) {
    let undisturbed = before().await;
    assert!(!killed_after(&undisturbed, usize::MAX).await);
    let expected = outcome(&undisturbed);
    let mut writes = 0;
    loop {
        let api = before().await;
        let killed = killed_after(&api, writes).await;
        assert_eq!(outcome(&api), expected, "killed after {writes} writes");
        if !killed {
            break;
        }
        writes += 1;
    }
    assert!(writes >= 3, "only {writes} writes");
}

#[tokio::test]
async fn a_first_installation_ends_alike_wherever_the_operator_is_killed() {
    ends_alike(async || {
        let api = Api::new();
        api.put(METALLB, serde_json::json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
        api
    })
    .await;
}

#[tokio::test]
async fn an_upgrade_ends_alike_wherever_the_operator_is_killed() {
    ends_alike(async || {
        let api = Api::new();
        install(&api).await;
        api
    })
    .await;
}
