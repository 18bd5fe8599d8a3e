//! The condition `ferrolb.io/AddressAssigned` of a Service: whether it has what it asks for, and why not.

use ferrolb_api::well_known::service_condition;
use k8s_openapi::api::core::v1::ServiceStatus;

/// The condition, without the time of its last change, which is the writer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressAssigned {
    /// Whether the Service has addresses.
    pub status: bool,
    /// In one word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

impl AddressAssigned {
    pub(super) fn of(status: Option<&ServiceStatus>) -> Option<Self> {
        let mut conditions = status?.conditions.iter().flatten();
        let condition = conditions.find(|it| it.type_ == service_condition::ADDRESS_ASSIGNED)?;
        Some(Self {
            status: condition.status == "True",
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
    }
}
