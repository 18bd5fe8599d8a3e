//! Which `ServiceL2Status` objects are to be made, corrected and deleted. Pure.
//!
//! This speaker keeps one object for each Service that it announces. It deletes what it wrote for others,
//! duplicates, and what a node left behind that owns no address of such a Service any more (its own
//! speaker may be gone with it).

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_api::v1beta1::{ServiceL2Status, ServiceL2StatusStatus};
use ferrolb_api::well_known::label;
use ferrolb_core::planner::ServicePlan;
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status::service_l2_status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

/// An object that the store shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) service: ServiceKey,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) status: Option<ServiceL2StatusStatus>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Create { service: ServiceKey, status: ServiceL2StatusStatus },
    Correct { name: String, service: ServiceKey, status: ServiceL2StatusStatus },
    Delete { name: String, uid: String },
}

impl Seen {
    /// None for an object without the labels that say whose it is: somebody else's affair.
    pub(super) fn of(object: &ServiceL2Status) -> Option<Self> {
        let labels = object.labels();
        Some(Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            node: labels.get(label::NODE)?.clone(),
            service: ServiceKey {
                namespace: labels.get(label::SERVICE_NAMESPACE)?.clone(),
                name: labels.get(label::SERVICE_NAME)?.clone(),
            },
            owners: object.owner_references().to_vec(),
            status: object.status.clone(),
        })
    }
}

/// The labels that say whose an object is.
pub(super) fn labels(service: &ServiceKey, node: &str) -> BTreeMap<String, String> {
    [
        (label::NODE, node),
        (label::SERVICE_NAME, &service.name),
        (label::SERVICE_NAMESPACE, &service.namespace),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

pub(super) fn actions(
    plans: &BTreeMap<ServiceKey, ServicePlan>,
    seen: &[Seen],
    node: &str,
    owner: &OwnerReference,
) -> Vec<Action> {
    let mut wanted: BTreeMap<&ServiceKey, ServiceL2StatusStatus> = plans
        .iter()
        .filter_map(|(service, plan)| Some((service, service_l2_status(plan, node)?)))
        .collect();
    let announced: BTreeSet<&ServiceKey> = wanted.keys().copied().collect();
    let mut by_name: Vec<&Seen> = seen.iter().collect();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let mut actions = Vec::new();
    for object in by_name {
        let delete = || Action::Delete { name: object.name.clone(), uid: object.uid.clone() };
        if object.node != node {
            let left_behind = announced.contains(&object.service)
                && plans.get(&object.service).is_some_and(|plan| !owns_any(plan, &object.node));
            actions.extend(left_behind.then(delete));
            continue;
        }
        // Each is wanted once: a second object of the same Service finds nothing left.
        match wanted.remove(&object.service) {
            None => actions.push(delete()),
            Some(status) if differs_for_good(object.status.as_ref(), &status) => {
                actions.push(delete());
                wanted.extend(plans.get_key_value(&object.service).map(|(key, _)| (key, status)));
            }
            Some(status) => {
                if object.status.as_ref() != Some(&status) || object.owners != [owner.clone()] {
                    let (name, service) = (object.name.clone(), object.service.clone());
                    actions.push(Action::Correct { name, service, status });
                }
            }
        }
    }
    actions.extend(
        wanted.into_iter().map(|(service, status)| Action::Create { service: service.clone(), status }),
    );
    actions
}

fn owns_any(plan: &ServicePlan, node: &str) -> bool {
    let addresses = plan.layer2.iter().flat_map(|layer2| layer2.addresses.values());
    addresses.filter_map(|plan| plan.owner.as_ref()).any(|owner| owner.node == node)
}

/// Node and Service of a status may be set once; where they are wrong only a new object helps.
fn differs_for_good(current: Option<&ServiceL2StatusStatus>, wanted: &ServiceL2StatusStatus) -> bool {
    let wrong = |current: &Option<String>, wanted: &Option<String>| current.is_some() && current != wanted;
    current.is_some_and(|current| {
        wrong(&current.node, &wanted.node)
            || wrong(&current.service_name, &wanted.service_name)
            || wrong(&current.service_namespace, &wanted.service_namespace)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::config::Interfaces;
    use ferrolb_core::planner::ownership::Owner;
    use ferrolb_core::planner::{AddressPlan, Layer2Plan, Withheld};

    const HERE: &str = "node-a";

    fn key() -> ServiceKey {
        ServiceKey { namespace: "demo".into(), name: "hello".into() }
    }

    fn plans(owner: &str) -> BTreeMap<ServiceKey, ServicePlan> {
        let decision = match owner == HERE {
            true => Ok(Interfaces::All),
            false => Err(Withheld::NotElected { winner: Some(owner.into()) }),
        };
        let owner = Some(Owner { node: owner.into(), contested: false });
        let addresses = [("192.0.2.1".parse().unwrap(), AddressPlan { owner, decision })].into();
        let plan = ServicePlan {
            service: key(),
            pool: Some("default".into()),
            layer2: Ok(Layer2Plan { addresses }),
        };
        [(key(), plan)].into()
    }

    fn status(node: &str) -> ServiceL2StatusStatus {
        ServiceL2StatusStatus {
            node: Some(node.into()),
            service_name: Some("hello".into()),
            service_namespace: Some("demo".into()),
            interfaces: Vec::new(),
        }
    }

    fn owner() -> OwnerReference {
        ferrolb_runtime::keep::owned_by_pod("speaker", "u")
    }

    fn seen(name: &str, node: &str) -> Seen {
        Seen {
            name: name.into(),
            uid: name.into(),
            node: node.into(),
            service: key(),
            owners: vec![owner()],
            status: Some(status(node)),
        }
    }

    fn done(owner_node: &str, objects: &[Seen]) -> Vec<Action> {
        actions(&plans(owner_node), objects, HERE, &owner())
    }

    fn delete(name: &str) -> Action {
        Action::Delete { name: name.into(), uid: name.into() }
    }

    #[test]
    fn one_object_for_what_is_announced_here() {
        assert_eq!(done(HERE, &[]), [Action::Create { service: key(), status: status(HERE) }]);
        assert!(done(HERE, &[seen("l2-a", HERE)]).is_empty());
        assert_eq!(done(HERE, &[seen("l2-b", HERE), seen("l2-a", HERE)]), [delete("l2-b")]);
    }

    #[test]
    fn what_others_left_behind_goes_and_what_they_still_do_stays() {
        assert_eq!(done(HERE, &[seen("l2-a", HERE), seen("l2-z", "gone")]), [delete("l2-z")]);
        assert!(done("node-b", &[seen("l2-z", "node-b")]).is_empty());
        assert!(done("node-b", &[seen("l2-z", "node-c")]).is_empty(), "the owner tidies up, not everybody");
        assert_eq!(done("node-b", &[seen("l2-a", HERE)]), [delete("l2-a")]);
    }

    #[test]
    fn edits_are_corrected_or_where_that_is_forbidden_the_object_is_replaced() {
        let mut edited = seen("l2-a", HERE);
        edited.owners.clear();
        let correct = Action::Correct { name: "l2-a".into(), service: key(), status: status(HERE) };
        assert_eq!(done(HERE, &[edited]), [correct]);
        let mut wrong = seen("l2-a", HERE);
        wrong.status = Some(status("node-x"));
        assert_eq!(
            done(HERE, &[wrong]),
            [delete("l2-a"), Action::Create { service: key(), status: status(HERE) }]
        );
    }
}
