//! What the product says of itself in the cluster, as values: the desired status of
//! `ConfigurationState`, `ServiceL2Status` and `ServiceBGPStatus`. Time is an argument, and moves only
//! with a transition.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

use ferrolb_api::v1beta1::{
    ConfigurationResult, ConfigurationState, ConfigurationStateStatus, ServiceBGPStatusStatus,
    ServiceL2InterfaceStatus, ServiceL2StatusStatus,
};
use ferrolb_api::well_known::annotation;
use ferrolb_api::well_known::configuration_state::{CONFIGURATION_ERROR, RECONCILED};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::config::{Diagnostic, Interfaces, Kind};
use crate::planner::{Seen, ServicePlan, Wire};

/// The API server refuses longer messages of conditions.
const MESSAGE_LIMIT: usize = 32768;

/// The status of a process that compiled the configuration and found this.
///
/// `Invalid` while something is left out that the process is in charge of; the message then has one line (or
/// more) for each such finding. Everything else does not make the configuration invalid: the message of the
/// condition tells, the summary stays empty.
pub fn configuration_state(
    diagnostics: &[Diagnostic],
    in_charge: impl Fn(&Diagnostic) -> bool,
    condition_type: &str,
    now: Time,
    previous: Option<&ConfigurationStateStatus>,
) -> ConfigurationStateStatus {
    let errors = texts(diagnostics.iter().filter(|it| it.leaves_out() && in_charge(it)));
    let valid = errors.is_empty();
    let message = if valid { texts(diagnostics) } else { format!("configuration error: {errors}") };
    let message = truncate(message);
    let status = if valid { "True" } else { "False" };
    let before = previous.and_then(|it| it.conditions.iter().find(|it| it.type_ == condition_type));
    let last_transition_time = match before {
        Some(before) if before.status == status => before.last_transition_time.clone(),
        _ => now,
    };
    ConfigurationStateStatus {
        result: Some(if valid { ConfigurationResult::Valid } else { ConfigurationResult::Invalid }),
        error_summary: Some(if valid { String::new() } else { message.clone() }),
        conditions: vec![Condition {
            type_: condition_type.to_owned(),
            status: status.to_owned(),
            reason: if valid { RECONCILED } else { CONFIGURATION_ERROR }.to_owned(),
            message,
            last_transition_time,
            observed_generation: None,
        }],
    }
}

/// Whether the controller is in charge of what a finding is about: it gives addresses, speakers announce
/// them.
pub fn concerns_controller(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic.object.kind, Kind::IpAddressPool | Kind::AddressReservation | Kind::Community)
}

/// Addresses that strangers have, as the links of a node see it.
pub fn conflicts(wire: &Wire) -> BTreeSet<IpAddr> {
    let conflicts = wire.iter().filter(|(_, seen)| matches!(seen, Seen::Conflict(_)));
    conflicts.map(|(address, _)| *address).collect()
}

/// How a speaker tells them to the controller: the value of an annotation on its ConfigurationState.
pub fn conflicts_annotation(conflicts: &BTreeSet<IpAddr>) -> Option<String> {
    let texts: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// Addresses that strangers have, by the word of any speaker; what is no address is passed over.
pub fn conflicts_told<'a>(states: impl IntoIterator<Item = &'a ConfigurationState>) -> BTreeSet<IpAddr> {
    let annotations = states.into_iter().filter_map(|state| state.metadata.annotations.as_ref());
    let told = annotations.filter_map(|it| it.get(annotation::ADDRESS_CONFLICTS));
    told.flat_map(|told| told.split(',')).filter_map(|address| address.parse().ok()).collect()
}

fn texts<'a>(diagnostics: impl IntoIterator<Item = &'a Diagnostic>) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let separator = if out.is_empty() { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = write!(out, "{separator}{diagnostic}");
    }
    out
}

fn truncate(mut message: String) -> String {
    if message.len() > MESSAGE_LIMIT {
        const MARK: &str = "\n…";
        message.truncate(message.floor_char_boundary(MESSAGE_LIMIT - MARK.len()));
        message.push_str(MARK);
    }
    message
}

/// To whom the speaker of a node announces a Service by BGP: nothing where it is nobody.
pub fn service_bgp_status(plan: &ServicePlan, node: &str) -> Option<ServiceBGPStatusStatus> {
    let peers: Vec<String> = plan.bgp_peers().map(ToOwned::to_owned).collect();
    (!peers.is_empty()).then(|| ServiceBGPStatusStatus {
        node: Some(node.to_owned()),
        service_name: Some(plan.service.name.clone()),
        service_namespace: Some(plan.service.namespace.clone()),
        peers,
    })
}

/// What the speaker of a node says of a Service on layer 2: nothing unless it announces it.
pub fn service_l2_status(plan: &ServicePlan, node: &str) -> Option<ServiceL2StatusStatus> {
    let announced: Vec<&Interfaces> = plan.announced().map(|(_, interfaces)| interfaces).collect();
    let (first, rest) = announced.split_first()?;
    let interfaces = rest.iter().fold((*first).clone(), |all, more| all.union(more));
    Some(ServiceL2StatusStatus {
        node: Some(node.to_owned()),
        service_name: Some(plan.service.name.clone()),
        service_namespace: Some(plan.service.namespace.clone()),
        interfaces: match interfaces {
            Interfaces::All => Vec::new(),
            Interfaces::Named(names) => {
                names.into_iter().map(|name| ServiceL2InterfaceStatus { name: Some(name) }).collect()
            }
        },
    })
}
