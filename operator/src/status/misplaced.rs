//! What a `MetalLB` object says that is in another namespace than the operator: that it counts for nothing,
//! and what to do.
//!
//! Inputs: the object, the operator's namespace, the time. Output: the status to write, if any. An object
//! that says anything else is another operator's, and left alone.

use ferrolb_api::v1beta1::{MetalLB, MetalLBStatus};
use ferrolb_api::well_known::condition::{self, reason};
use ferrolb_api::well_known::object;
use jiff::Timestamp;
use kube::ResourceExt;

use super::Verdict;

/// The status of an object in another namespace than `namespace`, or `None` where there is nothing to say.
pub(crate) fn misplaced(metallb: &MetalLB, namespace: &str, now: Timestamp) -> Option<MetalLBStatus> {
    let own = metallb.namespace().unwrap_or_default();
    if own == namespace || metallb.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let present = metallb.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if present.iter().any(|condition| condition.reason != reason::INCORRECT_NAMESPACE) {
        return None;
    }
    let message = format!(
        "counts for nothing: the operator is in namespace {namespace}, and the MetalLB object belongs there; \
         create it there by the name {}, and: kubectl -n {own} delete metallb {}",
        object::METALLB,
        metallb.name_any()
    );
    let conditions = condition::ALL
        .into_iter()
        .map(|type_| {
            let degraded = type_ == condition::DEGRADED;
            let message = if degraded { message.as_str() } else { "" };
            let before = present.iter().find(|condition| condition.type_ == type_);
            let verdict = Verdict::new(degraded, reason::INCORRECT_NAMESPACE, message);
            verdict.condition(type_, before, metallb.metadata.generation, now)
        })
        .collect();
    let status = MetalLBStatus { conditions, components: Vec::new() };
    (metallb.status.as_ref() != Some(&status)).then_some(status)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    fn object(namespace: &str) -> MetalLB {
        let metadata = ObjectMeta {
            name: Some("metallb".into()),
            namespace: Some(namespace.into()),
            generation: Some(1),
            ..Default::default()
        };
        MetalLB { metadata, ..Default::default() }
    }

    #[test]
    fn an_object_elsewhere_is_told_once_where_it_belongs() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(misplaced(&object("metallb-system"), "metallb-system", now), None);
        let mut elsewhere = object("demo");
        let status = misplaced(&elsewhere, "metallb-system", now).unwrap();
        let said: Vec<_> = status
            .conditions
            .iter()
            .map(|it| (it.type_.as_str(), it.status.as_str(), it.reason.as_str()))
            .collect();
        let expected = condition::ALL
            .map(|type_| (type_, if type_ == "Degraded" { "True" } else { "False" }, "IncorrectNamespace"));
        assert_eq!(said, expected);
        let message = &status.conditions[3].message;
        assert!(message.contains("kubectl -n demo delete metallb metallb"), "{message}");
        assert!(message.contains("namespace metallb-system"), "{message}");

        elsewhere.status = Some(status);
        let later = Timestamp::from_second(60).unwrap();
        assert_eq!(misplaced(&elsewhere, "metallb-system", later), None, "said already");
        // Now it is asked for something else; the condition holds since when it held.
        elsewhere.metadata.generation = Some(2);
        let status = misplaced(&elsewhere, "metallb-system", later).unwrap();
        assert!(status.conditions.iter().all(|it| it.last_transition_time == Time(now)));
    }

    #[test]
    fn one_that_goes_or_that_another_operator_looks_after_is_left_alone() {
        let now = Timestamp::UNIX_EPOCH;
        let mut going = object("demo");
        going.metadata.deletion_timestamp = Some(Time(now));
        assert_eq!(misplaced(&going, "metallb-system", now), None);
        let mut foreign = object("demo");
        let available =
            Verdict::new(true, reason::AS_EXPECTED, "").condition("Available", None, Some(1), now);
        foreign.status = Some(MetalLBStatus { conditions: vec![available], ..Default::default() });
        assert_eq!(misplaced(&foreign, "metallb-system", now), None);
    }
}
