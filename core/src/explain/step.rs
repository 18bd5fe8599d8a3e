//! One thing to do.

use std::fmt;

use crate::config::Diagnostic;
use crate::service::LoadBalancer;

/// What is wrong, where it is changed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Kind and name of the object, with its namespace where it is not the product's.
    pub object: String,
    /// Path of the field in it.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl Step {
    pub(super) fn new(
        object: impl Into<String>,
        field: impl Into<String>,
        message: impl ToString,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            object: object.into(),
            field: field.into(),
            message: message.to_string(),
            remedy: remedy.into(),
        }
    }

    /// About a field of a Service.
    pub(super) fn of_service(
        service: &LoadBalancer,
        field: impl Into<String>,
        message: impl ToString,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(format!("Service {}", service.key), field, message, remedy)
    }
}

impl From<&Diagnostic> for Step {
    fn from(diagnostic: &Diagnostic) -> Self {
        Self::new(
            format!("{} {}", diagnostic.object.kind, diagnostic.object.name),
            &diagnostic.field,
            // Some texts have several lines.
            diagnostic.to_string().replace('\n', ": "),
            diagnostic.remedy(),
        )
    }
}

/// `IPAddressPool lan, spec.addresses: no available IPs in pool lan: add addresses`
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, field, message, remedy } = self;
        write!(f, "{object}, {field}: {message}: {remedy}")
    }
}
