//! What there is to say, made from a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrolb_api::v1beta1::{ServiceBGPStatusStatus, ServiceL2StatusStatus};
use ferrolb_core::config::Diagnostic;
use ferrolb_core::planner::{ServicePlan, Withheld};
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status::{service_bgp_status, service_l2_status};

use crate::agent::view::{Plan, World};

/// What to say of the present plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What is wrong with the configuration.
    pub diagnostics: Vec<Diagnostic>,
    /// What is announced; nothing is known as long as nothing was planned.
    pub services: Option<BTreeMap<ServiceKey, ServiceReport>>,
    /// Nodes whose speakers look after their objects themselves.
    pub living: BTreeSet<String>,
}

/// What to say of a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceReport {
    /// Identity of the Service, for Events.
    pub uid: String,
    /// What is announced from here on layer 2, if anything.
    pub layer2: Option<ServiceL2StatusStatus>,
    /// To whom it is announced by BGP, if to anybody.
    pub bgp: Option<ServiceBGPStatusStatus>,
    /// Addresses that should be announced from here but cannot be.
    pub failed: BTreeSet<IpAddr>,
}

impl Report {
    /// Of a plan and what it was made of.
    pub fn new(plan: &Plan, diagnostics: &[Diagnostic], world: &World) -> Self {
        let services = plan.services.iter().filter_map(|(key, plan)| {
            let layer2 = service_l2_status(plan, &world.this_node);
            let bgp = service_bgp_status(plan, &world.this_node);
            let failed = failed(plan);
            let uid = || world.services.get(key).map(|service| service.uid.clone()).unwrap_or_default();
            let anything = layer2.is_some() || bgp.is_some() || !failed.is_empty();
            anything.then(|| (key.clone(), ServiceReport { uid: uid(), layer2, bgp, failed }))
        });
        Self {
            diagnostics: diagnostics.to_vec(),
            services: world.settled.then(|| services.collect()),
            living: world.members.clone(),
        }
    }
}

fn failed(plan: &ServicePlan) -> BTreeSet<IpAddr> {
    let addresses = plan.layer2.iter().flat_map(|plan| plan.addresses.iter());
    let failed = addresses.filter(|(_, plan)| matches!(plan.decision, Err(Withheld::NoInterface { .. })));
    failed.map(|(address, _)| *address).collect()
}
