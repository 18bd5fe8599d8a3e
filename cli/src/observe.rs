//! What a cluster shows of addresses and their announcement, read for `why` and `status`.

use std::collections::BTreeMap;

use anyhow::Context;
use ferrolb_api::v1beta1::{ConfigurationState, ServiceBGPStatus, ServiceL2Status};
use ferrolb_api::well_known::{component, label};
use ferrolb_core::allocator::by_key;
use ferrolb_core::config::compile;
use ferrolb_core::explain::{Cluster, Told};
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_core::status::conflicts_told;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;

use crate::cluster::{Access, Objects};
use crate::lint;

/// What the API server holds.
#[derive(Debug)]
pub(crate) struct Observed {
    /// What is explained.
    pub(crate) cluster: Cluster,
    /// Services of all kinds, those of other load balancers too.
    pub(crate) services: BTreeMap<ServiceKey, LoadBalancer>,
}

/// Reads all that explanations need; the product is in `namespace`.
pub(crate) fn read(access: &Access, namespace: &str) -> anyhow::Result<Observed> {
    let own = [
        &lint::cluster::CONFIGURATION[..],
        &["pods", "configurationstates.v1beta1.metallb.io"],
        &["servicel2statuses.v1beta1.metallb.io", "servicebgpstatuses.v1beta1.metallb.io"],
    ];
    let all = [&lint::cluster::SURROUNDINGS[..], &["services", "endpointslices.discovery.k8s.io"]];
    let own = access.mixed(&own.concat(), Some(namespace))?;
    let all = access.mixed(&all.concat(), None)?;
    observed(&own, &all)
}

fn observed(own: &Objects, all: &Objects) -> anyhow::Result<Observed> {
    let resources = lint::cluster::resources(own, all)?;
    let (services, slices) = (all.of::<Service>("Service")?, all.of::<EndpointSlice>("EndpointSlice")?);
    let mut of_service: BTreeMap<ServiceKey, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in &slices {
        let name = slice.metadata.labels.as_ref().and_then(|it| it.get(label::SERVICE_NAME_OF_SLICE));
        let key = key(slice.metadata.namespace.as_ref(), name);
        of_service.entry(key).or_default().push(slice);
    }
    let services = services.iter().map(|service| {
        let key = key(service.metadata.namespace.as_ref(), service.metadata.name.as_ref());
        let slices = of_service.remove(&key).unwrap_or_default();
        (key, LoadBalancer::new(service, slices))
    });
    let services: BTreeMap<ServiceKey, LoadBalancer> = services.collect();
    let mut cluster = Cluster { compiled: compile(&resources), nodes: resources.nodes, ..Cluster::default() };
    let pods = own.of::<Pod>("Pod")?;
    cluster.class = class(&pods);
    for pod in &pods {
        let component = pod.metadata.labels.as_ref().and_then(|it| it.get(label::COMPONENT));
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        match (component.map(String::as_str), node) {
            (Some(component::CONTROLLER), _) => cluster.controller_ready |= is_ready(pod),
            (Some(component::SPEAKER), Some(node)) => {
                *cluster.speakers.entry(node).or_default() |= is_ready(pod);
                cluster.ignore_exclude_label |= flag(pod, "--ignore-exclude-lb").is_some();
                cluster.withdraw_on_cordon |= flag(pod, "--withdraw-on-cordon").is_some();
            }
            _ => {}
        }
    }
    cluster.conflicts = conflicts_told(&own.of::<ConfigurationState>("ConfigurationState")?);
    for status in own.of::<ServiceL2Status>("ServiceL2Status")?.iter().filter_map(|it| it.status.as_ref()) {
        let key = key(status.service_namespace.as_ref(), status.service_name.as_ref());
        cluster.layer2.entry(key).or_default().extend(status.node.clone());
    }
    for status in own.of::<ServiceBGPStatus>("ServiceBGPStatus")?.iter().filter_map(|it| it.status.as_ref()) {
        let key = key(status.service_namespace.as_ref(), status.service_name.as_ref());
        let node = status.node.clone().unwrap_or_default();
        cluster.bgp.entry(key).or_default().insert(node, status.peers.clone());
    }
    let handled = services.iter().filter(|(_, it)| it.is_handled_by(cluster.class.as_deref()));
    cluster.services = by_key(handled.map(|(_, service)| service.clone()));
    Ok(Observed { cluster, services })
}

/// The class of Services that the controller among these pods handles.
pub(crate) fn class(pods: &[Pod]) -> Option<String> {
    let is_controller = |pod: &&Pod| {
        let component = pod.metadata.labels.as_ref().and_then(|it| it.get(label::COMPONENT));
        component.is_some_and(|it| it == component::CONTROLLER)
    };
    pods.iter()
        .filter(is_controller)
        .find_map(|pod| flag(pod, "--lb-class"))
        .filter(|class| !class.is_empty())
}

/// The Events of a Service, the latest last.
pub(crate) fn events(access: &Access, service: &LoadBalancer) -> anyhow::Result<Vec<Told>> {
    let events: Vec<Event> = access
        .list("events", Some(&service.key.namespace))
        .context("the Events of the Service say what only speakers know")?;
    Ok(told(events, service))
}

fn told(events: Vec<Event>, service: &LoadBalancer) -> Vec<Told> {
    let is_about = |event: &Event| {
        let object = &event.involved_object;
        object.kind.as_deref() == Some("Service")
            && object.name.as_deref() == Some(service.key.name.as_str())
            // One of the same name that was there before has another uid.
            && object.uid.as_deref().is_none_or(|uid| *uid == *service.uid)
    };
    let time = |event: &Event| -> Option<Timestamp> {
        let last = event.last_timestamp.as_ref().map(|it| it.0);
        last.or_else(|| event.event_time.as_ref().map(|it| it.0))
            .or_else(|| event.metadata.creation_timestamp.as_ref().map(|it| it.0))
    };
    let mut events: Vec<Event> = events.into_iter().filter(is_about).collect();
    events.sort_by_key(time);
    let told = events.into_iter().map(|event| Told {
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        warning: event.type_.as_deref() == Some("Warning"),
    });
    told.collect()
}

fn key(namespace: Option<&String>, name: Option<&String>) -> ServiceKey {
    ServiceKey { namespace: namespace.cloned().unwrap_or_default(), name: name.cloned().unwrap_or_default() }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The value of a flag that a pod was started with; empty where it has none.
fn flag(pod: &Pod, name: &str) -> Option<String> {
    let args = pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|it| it.args.iter().flatten());
    let mut values = args.filter_map(|arg| match arg.split_once('=') {
        Some((flag, value)) if flag == name => Some(value.to_owned()),
        None if arg == name => Some(String::new()),
        _ => None,
    });
    values.next()
}
