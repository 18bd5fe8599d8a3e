//! The two kinds by which a speaker says what it announces of a Service, as far as they differ.

use std::fmt::Debug;

use ferrolb_api::v1beta1::{
    ServiceBGPStatus, ServiceBGPStatusStatus, ServiceL2Status, ServiceL2StatusStatus,
};
use ferrolb_api::well_known::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ServiceReport;

/// Names of the node and of the Service in a status, which can be set once.
pub(super) type Names<'a> = [&'a Option<String>; 3];

/// A kind of status.
pub(super) trait ServiceStatus:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Default
    + PartialEq
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// What it says.
    type Status: Clone + Debug + PartialEq + Send + Sync;

    /// How names of its objects begin.
    const PREFIX: &'static str;
    /// Whether a Service has one object in the cluster rather than one a node: then a node that takes
    /// over removes what a dead one left.
    const ONE_A_SERVICE: bool;

    /// Which objects a node has to see. Those about BGP are as many as Services times nodes, and each node's
    /// own affair; an object about layer 2 may be what a dead node left.
    fn seen_by(node: &str) -> watcher::Config {
        match Self::ONE_A_SERVICE {
            true => watcher::Config::default(),
            false => watcher::Config::default().labels(&format!("{}={node}", label::NODE)),
        }
    }

    fn status(&self) -> Option<&Self::Status>;

    /// What a report has to say in this kind.
    fn reported(report: &ServiceReport) -> Option<&Self::Status>;

    fn names(status: &Self::Status) -> Names<'_>;

    /// What else it says, for a merge patch: null where that is nothing.
    fn details(status: &Self::Status) -> (&'static str, Value);

    /// The object, without a status.
    fn with_metadata(metadata: ObjectMeta) -> Self {
        let mut object = Self::default();
        *object.meta_mut() = metadata;
        object
    }
}

/// null removes what an earlier status had.
fn list(items: &[impl Serialize]) -> Value {
    if items.is_empty() { Value::Null } else { json!(items) }
}

impl ServiceStatus for ServiceL2Status {
    type Status = ServiceL2StatusStatus;

    const PREFIX: &'static str = "l2-";
    const ONE_A_SERVICE: bool = true;

    fn status(&self) -> Option<&Self::Status> {
        self.status.as_ref()
    }

    fn reported(report: &ServiceReport) -> Option<&Self::Status> {
        report.layer2.as_ref()
    }

    fn names(status: &Self::Status) -> Names<'_> {
        [&status.node, &status.service_name, &status.service_namespace]
    }

    /// No interfaces means all of them.
    fn details(status: &Self::Status) -> (&'static str, Value) {
        ("interfaces", list(&status.interfaces))
    }
}

impl ServiceStatus for ServiceBGPStatus {
    type Status = ServiceBGPStatusStatus;

    const PREFIX: &'static str = "bgp-";
    const ONE_A_SERVICE: bool = false;

    fn status(&self) -> Option<&Self::Status> {
        self.status.as_ref()
    }

    fn reported(report: &ServiceReport) -> Option<&Self::Status> {
        report.bgp.as_ref()
    }

    fn names(status: &Self::Status) -> Names<'_> {
        [&status.node, &status.service_name, &status.service_namespace]
    }

    fn details(status: &Self::Status) -> (&'static str, Value) {
        ("peers", list(&status.peers))
    }
}
