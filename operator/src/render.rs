//! What must exist for a `MetalLB` object: the whole list of operands, or why there is none.
//!
//! Inputs: the object, the installation's [`Settings`], and [`Observed`], the few facts of the cluster
//! that operands are made from. Output: typed [`Object`]s in the order in which they are applied. The
//! same list drives apply, drift repair and pruning; the operator's own rights are the union of what
//! the list grants ([`rbac::operator`]). Labels tell the operator's objects from everybody else's.

mod budget;
mod controller;
mod log_level;
pub mod manager;
pub mod monitoring;
mod network_policy;
mod object;
pub mod openshift;
mod pod;
pub mod rbac;
mod speaker;
mod tls;
mod validate;
pub mod verifier;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_api::v1beta1::{LeaseTimesError, MembershipMode, MetalLB};
use ferrolb_api::well_known::{self, component, label};
use ferrolb_runtime::tls::PolicyError;
use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::core::Resource;

pub(crate) use object::for_each_kind;
pub use object::{Kind, Object, ObjectKey, Scope};
pub use openshift::OpenShift;
pub(crate) use speaker::renews_lease;

use crate::image::ImageReference;

/// Who installs the operands and keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installer {
    /// The operator: it finds its objects by their labels, and makes the membership key.
    Operator,
    /// Somebody with a file. Nobody repairs or prunes what is installed, so nothing carries the
    /// operator's labels; a key cannot stand in a file, so the controller's pod makes it in the cluster.
    Manifest,
}

/// What is the same for every `MetalLB` object of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who installs.
    pub installer: Installer,
    /// Namespace of the operator and of its operands.
    pub namespace: String,
    /// The one image of all processes.
    pub image: ImageReference,
    /// Version of the product, for labels.
    pub version: String,
    /// The webhook's certificate, if somebody else makes it.
    pub certificate: Option<Certificate>,
}

/// A certificate of the webhook that cert-manager, OLM or an administrator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Secret with `tls.crt` and `tls.key`.
    pub secret: String,
    /// Whether the webhook tells the API server whom to trust, by the Secret's `ca.crt`; else others do.
    pub tell_authority: bool,
}

/// Facts of the cluster that operands are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Uid of the CRD `metallbs.metallb.io`, which owns cluster-scoped operands. Unknown outside a
    /// cluster; operands then have no owner.
    pub crd_uid: Option<String>,
    /// Key of the speakers' membership traffic. Without one its Secret is not rendered: keys are made
    /// where randomness is, and never change.
    pub memberlist_key: Option<String>,
    /// Secrets that BGPPeers name: what speakers may read.
    pub peer_secrets: BTreeSet<String>,
    /// TCP ports on which the API server listens, as far as they are known.
    pub api_ports: BTreeSet<i32>,
    /// Where the cluster is an OpenShift.
    pub openshift: Option<OpenShift>,
    /// Whether a running speaker renews a Lease: it may until it is replaced by one that does not.
    pub leases_are_used: bool,
    /// Kinds that operands may have and the cluster does not.
    pub absent: BTreeSet<Kind>,
}

/// Which BGP implementation was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The speaker's own.
    Native,
    /// FRR in the speaker's pod; the native one does its work.
    Frr,
    /// A frr-k8s that the operator installs; the native one does its work.
    FrrK8s,
}

impl Backend {
    /// The backend of an object, which is native unless it names another.
    pub fn of(metallb: &MetalLB) -> Result<Self, Refusal> {
        match metallb.spec.bgp_backend.as_deref() {
            None | Some("" | "native") => Ok(Self::Native),
            Some("frr") => Ok(Self::Frr),
            Some("frr-k8s") => Ok(Self::FrrK8s),
            Some("frr-k8s-external") => Err(Refusal::ExternalBackend),
            Some(other) => Err(Refusal::UnknownBackend(other.into())),
        }
    }

    /// The value of `spec.bgpBackend`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Frr => "frr",
            Self::FrrK8s => "frr-k8s",
        }
    }
}

/// Why nothing is rendered: the object asks for what cannot be done. What is installed stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A frr-k8s installed by others.
    #[error(
        "bgpBackend frr-k8s-external is not supported: the speaker talks BGP itself; use native, frr or frr-k8s"
    )]
    ExternalBackend,
    /// A word that is no backend.
    #[error("invalid BGP Backend, must be one of native, frr, frr-k8s, frr-k8s-external")]
    UnknownBackend(String),
    /// The API server would refuse the pods.
    #[error("{0} effect must be NoExecute when tolerationSeconds is set")]
    TolerationSeconds(&'static str),
    /// The same.
    #[error("{0} {1} set with invalid weight for preferred scheduling term")]
    AffinityWeight(&'static str, &'static str),
    /// No server of ours can do that.
    #[error("tls: {0}")]
    Tls(PolicyError),
    /// Times by which no speaker could live.
    #[error("membership: {0}")]
    Membership(LeaseTimesError),
    /// What is to be blocked is no prefix.
    #[error("invalid CIDR {0} in AlwaysBlock")]
    AlwaysBlock(String),
}

/// All operands of `metallb`, in the order in which they are applied.
pub fn render(metallb: &MetalLB, settings: &Settings, observed: &Observed) -> Result<Vec<Object>, Refusal> {
    validate::check(metallb)?;
    let context = Context { metallb, settings, observed };
    let mut objects = rbac::operands(&context);
    objects.extend(speaker::configuration(&context));
    objects.extend(log_level::configuration(&context));
    objects.extend(network_policy::policies(&context));
    objects.extend(budget::budgets(&context));
    objects.extend(webhook::certificate(&context).map(Into::into));
    objects.extend([
        webhook::service(&context).into(),
        controller::deployment(&context).into(),
        webhook::deployment(&context).into(),
        speaker::daemon_set(&context).into(),
        webhook::registration(&context).into(),
    ]);
    objects.extend(monitoring::objects(&context));
    Ok(objects)
}

/// Labels that every operand carries and that no object of others does: what the operator watches and
/// what it may delete.
pub fn owned_labels(namespace: &str) -> BTreeMap<String, String> {
    labels([(label::MANAGED_BY, label::MANAGED_BY_OPERATOR), (label::INSTANCE, namespace)])
}

fn labels<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// What every part of the rendering needs.
struct Context<'a> {
    metallb: &'a MetalLB,
    settings: &'a Settings,
    observed: &'a Observed,
}

impl Context<'_> {
    /// The container of a process, with what all of them have in common.
    fn container(&self, process: pod::Process<'_>) -> Container {
        let mut args = vec![log_level::flag(self)];
        args.extend(tls::flags(self));
        let common = pod::Common { image: &self.settings.image, metrics: self.has_metrics(), args };
        pod::container(common, process)
    }

    /// Of pods that need no privilege at all.
    fn unprivileged(&self) -> PodSecurityContext {
        let context = pod::unprivileged();
        if self.observed.openshift.is_none() {
            return context;
        }
        PodSecurityContext { run_as_user: None, run_as_group: None, fs_group: None, ..context }
    }

    /// Whether speakers learn by Leases which of them live.
    fn has_leases(&self) -> bool {
        let mode = self.metallb.spec.membership.as_ref().and_then(|membership| membership.mode);
        mode == Some(MembershipMode::Lease)
    }

    /// Whether metrics are served.
    fn has_metrics(&self) -> bool {
        self.metallb.spec.metrics.as_ref().and_then(|metrics| metrics.enabled).unwrap_or(true)
    }

    /// Metadata of a namespaced operand: owned by the `MetalLB` object.
    fn namespaced(&self, name: &str, component: &str) -> ObjectMeta {
        let owner = self.metallb.metadata.uid.as_ref().map(|uid| OwnerReference {
            api_version: MetalLB::api_version(&()).into_owned(),
            kind: MetalLB::kind(&()).into_owned(),
            name: well_known::object::METALLB.into(),
            uid: uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        });
        ObjectMeta {
            namespace: Some(self.settings.namespace.clone()),
            ..self.metadata(name, component, owner)
        }
    }

    /// Metadata of a cluster-scoped operand. A namespaced owner would be an error to the garbage
    /// collector, so the CRD owns it: when that goes, the whole product goes.
    fn cluster_scoped(&self, name: &str, component: &str) -> ObjectMeta {
        let owner = self.observed.crd_uid.as_ref().map(|uid| OwnerReference {
            api_version: "apiextensions.k8s.io/v1".into(),
            kind: "CustomResourceDefinition".into(),
            name: well_known::object::METALLB_CRD.into(),
            uid: uid.clone(),
            ..Default::default()
        });
        self.metadata(name, component, owner)
    }

    fn metadata(&self, name: &str, component: &str, owner: Option<OwnerReference>) -> ObjectMeta {
        let mut labels = pod_labels(component);
        if self.settings.installer == Installer::Operator {
            labels.extend(owned_labels(&self.settings.namespace));
        }
        labels.insert(label::VERSION.into(), self.settings.version.clone());
        ObjectMeta {
            name: Some(name.into()),
            labels: Some(labels),
            owner_references: owner.map(|owner| vec![owner]),
            ..Default::default()
        }
    }
}

/// Labels of the pods of a component, by which its workload selects them. Selectors cannot be changed
/// once a workload exists, so nothing may be added here.
fn pod_labels(component: &str) -> BTreeMap<String, String> {
    labels([(label::APP, label::APP_VALUE), (label::COMPONENT, component)])
}

/// Whether a pod is of a component.
pub(crate) fn is_pod_of(pod: &Pod, component: &str) -> bool {
    pod.labels().get(label::COMPONENT).is_some_and(|of| of == component)
}

fn pod_selector(component: &str) -> LabelSelector {
    LabelSelector { match_labels: Some(pod_labels(component)), ..Default::default() }
}

/// Seconds until a Deployment that does not get ahead says so, and the `MetalLB` object with it.
const PROGRESS_DEADLINE: i32 = 120;

/// The three processes that the operator installs.
const COMPONENTS: [&str; 3] = [component::CONTROLLER, component::SPEAKER, component::WEBHOOK];

#[cfg(test)]
mod tests;
