//! Events of the `MetalLB` object: what turned from bad to good or back.
//!
//! Inputs: the conditions before and after. Output: at most one Event for each condition, none where only
//! a message changed.

use ferrolb_api::v1beta1::MetalLBStatus;
use ferrolb_api::well_known::condition;
use ferrolb_runtime::event::EventType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) type_: EventType,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What to tell of a new status.
pub(crate) fn events(before: Option<&MetalLBStatus>, after: &MetalLBStatus) -> Vec<Told> {
    let of = |status: &MetalLBStatus, type_: &str| {
        status.conditions.iter().find(|condition| condition.type_ == type_).cloned()
    };
    let turned = |type_: &str| -> Option<(Condition, bool)> {
        let now = of(after, type_)?;
        let was = before.and_then(|before| of(before, type_));
        let (is, was) = (now.status == "True", was.map(|was| was.status == "True"));
        // A condition that was not there yet is news where it holds.
        (was != Some(is) && (is || was.is_some())).then_some((now, is))
    };
    let event = |type_, reason, message| Told { type_, reason, message };
    let mut told = Vec::new();
    match turned(condition::AVAILABLE) {
        Some((now, true)) => told.push(event(EventType::Normal, "Available", now.message)),
        Some((now, false)) => told.push(event(EventType::Warning, "Unavailable", now.message)),
        None => {}
    }
    match turned(condition::DEGRADED) {
        Some((now, true)) => {
            told.push(event(EventType::Warning, "Degraded", format!("{}: {}", now.reason, now.message)));
        }
        Some((_, false)) => {
            told.push(event(EventType::Normal, "Recovered", "nothing is wrong any more".into()));
        }
        None => {}
    }
    told
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn status(available: bool, degraded: bool, message: &str) -> MetalLBStatus {
        let condition = |type_: &str, holds: bool| Condition {
            type_: type_.into(),
            status: if holds { "True" } else { "False" }.into(),
            reason: "Because".into(),
            message: message.into(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        MetalLBStatus {
            conditions: vec![
                condition(condition::AVAILABLE, available),
                condition(condition::DEGRADED, degraded),
            ],
            ..Default::default()
        }
    }

    #[test]
    fn only_turns_are_told() {
        let table: [(Option<MetalLBStatus>, MetalLBStatus, &[&str]); 6] = [
            (None, status(false, false, "a"), &[]),
            (None, status(false, true, "a"), &["Degraded"]),
            (Some(status(false, false, "a")), status(true, false, "b"), &["Available"]),
            (Some(status(true, false, "a")), status(true, false, "b"), &[]),
            (Some(status(true, false, "a")), status(false, true, "b"), &["Unavailable", "Degraded"]),
            (Some(status(false, true, "a")), status(true, false, "b"), &["Available", "Recovered"]),
        ];
        for (before, after, expected) in table {
            let told = events(before.as_ref(), &after);
            assert_eq!(told.iter().map(|told| told.reason).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_fault_says_reason_and_message() {
        let told = events(None, &status(false, true, "what is wrong"));
        assert_eq!((told[0].type_, told[0].message.as_str()), (EventType::Warning, "Because: what is wrong"));
    }
}
