//! How many pods of what runs more than once may go at a time when nodes are drained.

use ferrolb_api::well_known::{component, object};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Context, Object, controller, pod_selector};

/// Budgets of the webhook and of a controller with replicas. They count what may be missing, not what
/// must be there, so that a drain of the only node is never blocked.
pub(super) fn budgets(context: &Context<'_>) -> Vec<Object> {
    let mut budgets = vec![budget(context, object::WEBHOOK, component::WEBHOOK)];
    if controller::replicas(context) > 1 {
        budgets.push(budget(context, object::CONTROLLER, component::CONTROLLER));
    }
    budgets.into_iter().map(Object::from).collect()
}

fn budget(context: &Context<'_>, name: &str, component: &str) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: context.namespaced(name, component),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(pod_selector(component)),
            // A pod that is not ready protects nobody.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
            ..Default::default()
        }),
        status: None,
    }
}
