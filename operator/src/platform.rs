//! The cluster as the operator reads and writes it. All of the operator's I/O is here; nothing is
//! decided.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ferrolb_api::v1beta1::{IPAddressPool, MetalLB, MetalLBStatus, ServiceBGPStatus, ServiceL2Status};
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_api::well_known::{field_manager, label, object, pod_condition};
use ferrolb_runtime::Process;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::watch::{Store, Watched, Watches};
use ferrolb_runtime::write::{self, WriteError};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use crate::drift::Live;
use crate::gate::{Announcement, ServiceName, announced};
use crate::memberlist::key_in;
use crate::render::monitoring::{PrometheusRule, ServiceMonitor};
use crate::render::{Kind, ObjectKey, OpenShift, for_each_kind, manager, openshift, owned_labels};

/// Namespace and name of what says where the API server is.
const API_SERVER: (&str, &str) = ("default", "kubernetes");

/// The operator's view of the cluster: the `MetalLB` objects, the Secrets that BGPPeers name, and everything
/// that carries its labels.
pub(crate) struct Platform {
    client: Client,
    namespace: String,
    metallbs: Store<MetalLB>,
    peers: Store<BGPPeer>,
    pods: Store<Pod>,
    layer2: Store<ServiceL2Status>,
    bgp: Store<ServiceBGPStatus>,
    operands: Vec<(Kind, Box<dyn Snapshot>)>,
}

/// A store of any kind.
trait Snapshot: Send + Sync {
    /// Name and content of every object.
    fn objects(&self) -> Vec<(String, Value)>;
    /// Whether the cluster has the kind.
    fn is_served(&self) -> bool;
}

impl<K: Watched + Serialize> Snapshot for Store<K> {
    fn objects(&self) -> Vec<(String, Value)> {
        self.list().iter().map(|object| (object.name_any(), to_value(object.as_ref()))).collect()
    }

    fn is_served(&self) -> bool {
        Self::is_served(self)
    }
}

macro_rules! api {
    (Namespaced, $kind:ident, $client:expr, $namespace:expr) => {
        Api::<$kind>::namespaced($client, $namespace)
    };
    (Cluster, $kind:ident, $client:expr, $namespace:expr) => {
        Api::<$kind>::all($client)
    };
}

macro_rules! access {
    ($($kind:ident: $scope:ident),* $(,)?) => {
        fn watch_operands(process: &Process, watches: &Watches) -> Vec<(Kind, Box<dyn Snapshot>)> {
            let labels: Vec<_> =
                owned_labels(&process.namespace).iter().map(|(key, value)| format!("{key}={value}")).collect();
            let config = watcher::Config::default().labels(&labels.join(","));
            vec![$({
                let api = api!($scope, $kind, process.client.clone(), &process.namespace);
                let store: Box<dyn Snapshot> = Box::new(if Kind::$kind.is_optional() {
                    watches.add_optional(api, config.clone())
                } else {
                    watches.add_with(api, config.clone())
                });
                (Kind::$kind, store)
            }),*]
        }

        impl Platform {
            /// Applies an operand; the answer is what the API server made of it.
            pub(crate) async fn apply(&self, key: &ObjectKey, desired: &Value) -> Result<Live, WriteError> {
                let (client, namespace) = (self.client.clone(), &self.namespace);
                match key.kind {
                    $(Kind::$kind => apply(api!($scope, $kind, client, namespace), key, desired).await,)*
                }
            }

            /// An object as it is now, with who manages which of its fields.
            pub(crate) async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, WriteError> {
                let (client, namespace) = (self.client.clone(), &self.namespace);
                match key.kind {
                    $(Kind::$kind => get(api!($scope, $kind, client, namespace), key).await,)*
                }
            }

            /// Makes the operator the manager of fields that others set.
            pub(crate) async fn take_over(&self, key: &ObjectKey, patch: &Value) -> Result<(), WriteError> {
                let (client, namespace) = (self.client.clone(), &self.namespace);
                match key.kind {
                    $(Kind::$kind => merge(api!($scope, $kind, client, namespace), key, patch).await,)*
                }
            }

            /// Deletes an operand, unless another of the same name took its place.
            pub(crate) async fn delete(&self, key: &ObjectKey, uid: &str) -> Result<(), WriteError> {
                let (client, namespace) = (self.client.clone(), &self.namespace);
                match key.kind {
                    $(Kind::$kind => {
                        write::delete(&api!($scope, $kind, client, namespace), &key.name, Some(uid)).await
                    })*
                }
            }
        }
    };
}
for_each_kind!(access);

async fn apply<K>(api: Api<K>, key: &ObjectKey, desired: &Value) -> Result<Live, WriteError>
where
    K: Watched + Serialize,
{
    // Read as the type that the watch reads, so that the two can be compared.
    let answer = write::apply(&api, field_manager::OPERATOR, &key.name, desired).await?;
    Ok(Live::new(to_value(&answer)))
}

async fn get<K>(api: Api<K>, key: &ObjectKey) -> Result<Option<Value>, WriteError>
where
    K: Watched + Serialize,
{
    Ok(write::bounded(api.get_opt(&key.name)).await?.map(|object| to_value(&object)))
}

async fn merge<K: Watched>(api: Api<K>, key: &ObjectKey, patch: &Value) -> Result<(), WriteError> {
    write::bounded(api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))).await.map(drop)
}

#[expect(clippy::expect_used, reason = "what was just read from JSON is JSON")]
fn to_value(object: &(impl Serialize + Debug)) -> Value {
    serde_json::to_value(object).expect("a Kubernetes object is JSON")
}

/// There may be thousands of them.
fn bare(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta { name: metadata.name.clone(), namespace: metadata.namespace.clone(), ..ObjectMeta::default() }
}

impl Platform {
    /// Starts the watches.
    pub(crate) fn watch(process: &Process, watches: &Watches) -> Self {
        Self {
            client: process.client.clone(),
            namespace: process.namespace.clone(),
            // One in another namespace is told so.
            metallbs: watches.add(Api::all(process.client.clone())),
            peers: watches.add_pruned(
                Api::namespaced(process.client.clone(), &process.namespace),
                watcher::Config::default(),
                |peer| {
                    // Nothing else is looked at, least of all passwords.
                    let password_secret = peer.spec.password_secret.take();
                    peer.spec = BGPPeerSpec { password_secret, ..BGPPeerSpec::default() };
                    peer.metadata.annotations = None;
                },
            ),
            pods: watches.add_with(
                Api::namespaced(process.client.clone(), &process.namespace),
                watcher::Config::default().labels(&format!("{}={}", label::APP, label::APP_VALUE)),
            ),
            layer2: watches.add_pruned(
                Api::namespaced(process.client.clone(), &process.namespace),
                watcher::Config::default(),
                |status| status.metadata = bare(&status.metadata),
            ),
            bgp: watches.add_pruned(
                Api::namespaced(process.client.clone(), &process.namespace),
                watcher::Config::default(),
                |status| status.metadata = bare(&status.metadata),
            ),
            operands: watch_operands(process, watches),
        }
    }

    /// The one object that is honoured.
    pub(crate) fn metallb(&self) -> Option<Arc<MetalLB>> {
        self.metallbs.get(&self.namespace, object::METALLB)
    }

    /// All `MetalLB` objects of the cluster.
    pub(crate) fn metallbs(&self) -> Vec<Arc<MetalLB>> {
        self.metallbs.list()
    }

    /// The Secrets that BGPPeers name.
    pub(crate) fn peer_secrets(&self) -> BTreeSet<String> {
        let peers = self.peers.list();
        let names = peers.iter().filter_map(|peer| peer.spec.password_secret.as_ref()?.name.clone());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// The product's pods.
    pub(crate) fn pods(&self) -> Vec<Arc<Pod>> {
        self.pods.list()
    }

    /// What speakers say that they announce.
    pub(crate) fn announced(&self) -> BTreeSet<Announcement> {
        announced(&self.layer2.list(), &self.bgp.list())
    }

    /// Names of all BGPPeers.
    pub(crate) fn peer_names(&self) -> BTreeSet<String> {
        self.peers.list().iter().map(|peer| peer.name_any()).collect()
    }

    /// Whether a Service has an address to announce.
    pub(crate) async fn has_address(&self, (namespace, name): &ServiceName) -> Result<bool, WriteError> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let service = write::bounded(services.get_opt(name)).await?;
        let status = service.and_then(|service| service.status?.load_balancer?.ingress);
        Ok(status.is_some_and(|ingress| !ingress.is_empty()))
    }

    /// Lets a speaker count as ready.
    pub(crate) async fn open_gate(&self, pod: &str, uid: &str) -> Result<(), WriteError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = json!({
            "metadata": {"uid": uid},
            "status": {"conditions": [{
                "type": pod_condition::ANNOUNCING, "status": "True", "reason": "AsBefore",
                "lastTransitionTime": Time(Timestamp::now()),
            }]},
        });
        let limit = Duration::from_secs(10);
        write::strategic_status(&pods, field_manager::OPERATOR, pod, &patch, limit).await.map(drop)
    }

    /// Pod Security level that the namespace enforces, if it names one.
    pub(crate) async fn pod_security(&self) -> Result<Option<String>, WriteError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = write::bounded(namespaces.get(&self.namespace)).await?;
        Ok(namespace.labels().get(manager::POD_SECURITY_ENFORCE).cloned())
    }

    /// Events about a DaemonSet of the product.
    pub(crate) async fn events_of(&self, daemon_set: &str) -> Result<Vec<Event>, WriteError> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let fields = format!("involvedObject.kind=DaemonSet,involvedObject.name={daemon_set}");
        Ok(write::bounded(events.list(&ListParams::default().fields(&fields))).await?.items)
    }

    /// Every object that carries the operator's labels.
    pub(crate) fn live(&self) -> BTreeMap<ObjectKey, Live> {
        self.operands
            .iter()
            .flat_map(|(kind, store)| {
                let key = |name| ObjectKey { kind: *kind, name };
                store.objects().into_iter().map(move |(name, object)| (key(name), Live::new(object)))
            })
            .collect()
    }

    /// The kinds of operands that the cluster does not have.
    pub(crate) fn absent(&self) -> BTreeSet<Kind> {
        self.operands.iter().filter(|(_, store)| !store.is_served()).map(|(kind, _)| *kind).collect()
    }

    /// Whether the cluster is an OpenShift.
    pub(crate) async fn is_openshift(&self) -> Result<bool, WriteError> {
        let groups = write::bounded(self.client.list_api_groups()).await?;
        Ok(groups.groups.iter().any(|group| group.name == openshift::GROUP))
    }

    /// What an OpenShift asks of who runs on it. Small ones do not have the object; then its defaults hold.
    pub(crate) async fn openshift(&self) -> Result<OpenShift, WriteError> {
        let path = "/apis/config.openshift.io/v1/apiservers/cluster";
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
        let answer = match request {
            Ok(request) => write::bounded(self.client.request::<Value>(request)).await,
            Err(error) => Err(WriteError::Api(error)),
        };
        match answer {
            Err(error) if !error.is_not_found() => Err(error),
            answer => Ok(OpenShift::of(&answer.unwrap_or_default())),
        }
    }

    /// TCP ports on which the API server listens, by its own word.
    pub(crate) async fn api_ports(&self) -> Result<BTreeSet<i32>, WriteError> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), API_SERVER.0);
        let slice = write::bounded(slices.get_opt(API_SERVER.1)).await?;
        Ok(slice.into_iter().filter_map(|slice| slice.ports).flatten().filter_map(|port| port.port).collect())
    }

    /// Uid of the CRD that owns cluster-scoped operands.
    pub(crate) async fn crd_uid(&self) -> Result<Option<String>, WriteError> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        Ok(write::bounded(crds.get(object::METALLB_CRD)).await?.metadata.uid)
    }

    /// Takes our webhook out of the conversion of BGPPeers, in the name of its field manager, if it is
    /// there: whoever asks for the older version would wait for it.
    pub(crate) async fn release_conversion(&self) -> Result<bool, WriteError> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let Some(crd) = write::bounded(crds.get_opt(object::BGP_PEER_CRD)).await? else { return Ok(false) };
        let webhook = crd.spec.conversion.and_then(|conversion| conversion.webhook);
        let service = webhook.and_then(|webhook| webhook.client_config).and_then(|config| config.service);
        if !service.is_some_and(|it| it.namespace == self.namespace && it.name == object::WEBHOOK_SERVICE) {
            return Ok(false);
        }
        let nothing = json!({
            "apiVersion": CustomResourceDefinition::api_version(&()),
            "kind": CustomResourceDefinition::kind(&()),
            "metadata": {"name": object::BGP_PEER_CRD, "uid": crd.metadata.uid},
        });
        write::apply(&crds, field_manager::WEBHOOK, object::BGP_PEER_CRD, &nothing).await.map(|_| true)
    }

    /// The membership key that is in its Secret already, with or without the operator's labels.
    pub(crate) async fn memberlist_key(&self) -> Result<Option<String>, WriteError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(write::bounded(secrets.get_opt(object::MEMBERLIST_SECRET)).await?.and_then(key_in))
    }

    /// The pools of the product.
    pub(crate) fn address_pools(&self) -> Api<IPAddressPool> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Image of the operator's own pod.
    pub(crate) async fn own_image(&self, pod: &str, container: &str) -> Result<Option<String>, WriteError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let spec = write::bounded(pods.get(pod)).await?.spec.unwrap_or_default();
        Ok(spec.containers.into_iter().find(|of| of.name == container).and_then(|of| of.image))
    }

    /// Writes the status of a `MetalLB` object.
    pub(crate) async fn write_status(
        &self,
        metallb: &MetalLB,
        status: &MetalLBStatus,
    ) -> Result<(), WriteError> {
        let namespace = metallb.namespace().unwrap_or_default();
        let api: Api<MetalLB> = Api::namespaced(self.client.clone(), &namespace);
        let name = metallb.name_any();
        let object = json!({
            "apiVersion": MetalLB::api_version(&()),
            "kind": MetalLB::kind(&()),
            // The uid keeps the status of a deleted object off its successor.
            "metadata": {"name": name, "uid": metallb.metadata.uid},
            "status": status,
        });
        write::apply_status(&api, field_manager::OPERATOR, &name, &object).await.map(|_| ())
    }
}

/// Why a request failed, in the API server's own words where it answered.
pub(crate) fn explain(error: &WriteError) -> String {
    match error {
        WriteError::Api(kube::Error::Api(status)) if !status.message.is_empty() => status.message.clone(),
        other => chain(other),
    }
}
