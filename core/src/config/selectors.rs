//! Lists of label selectors in an object of the configuration: every one is parsed, and all that is wrong
//! with the list is reported, each with the field it is in.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::diagnostic::SelectorField;
use crate::selector::{Repeated, Selector, SelectorError, repetitions};

/// A problem and the field it is in.
pub(super) type Finding<P> = (String, P);

/// A problem that can be one of a list of selectors.
pub(super) trait SelectorProblem {
    /// Something in the list is there twice.
    fn repeated(repeated: Repeated) -> Self;

    /// A selector cannot be read.
    fn invalid(field: SelectorField, selector: LabelSelector, error: SelectorError) -> Self;
}

/// Parses the list `field` below `parent`; what cannot be read is reported and left out.
pub(super) fn parse_list<P: SelectorProblem>(
    selectors: &[LabelSelector],
    parent: &str,
    field: SelectorField,
    findings: &mut Vec<Finding<P>>,
) -> Vec<Selector> {
    let path = format!("{parent}.{}", field.name());
    let repeated = repetitions(field.name(), selectors).into_iter().map(P::repeated);
    findings.extend(repeated.map(|problem| (path.clone(), problem)));
    let mut parsed = Vec::new();
    for (index, selector) in selectors.iter().enumerate() {
        match Selector::parse(selector) {
            Ok(selector) => parsed.push(selector),
            Err(error) => {
                findings.push((format!("{path}[{index}]"), P::invalid(field, selector.clone(), error)));
            }
        }
    }
    parsed
}
