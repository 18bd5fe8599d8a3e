//! The cluster as the operator reads and writes it. All of the operator's I/O is here; nothing is
//! decided.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use ferrolb_api::v1beta1::{MetalLB, MetalLBStatus};
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_api::well_known::{field_manager, object};
use ferrolb_runtime::Process;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::watch::{Store, Watched, Watches};
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use rand::Rng;
use serde::Serialize;
use serde_json::{Value, json};

use crate::drift::Live;
use crate::render::{Kind, ObjectKey, for_each_kind, owned_labels};

/// Length of a membership key, as in MetalLB.
const KEY_BYTES: usize = 128;

/// The operator's view of the cluster: the `MetalLB` objects of its namespace, the Secrets that BGPPeers
/// name, and everything that carries its labels.
pub(crate) struct Platform {
    client: Client,
    namespace: String,
    metallbs: Store<MetalLB>,
    peers: Store<BGPPeer>,
    operands: Vec<(Kind, Box<dyn Snapshot>)>,
}

/// A store of any kind.
trait Snapshot: Send + Sync {
    /// Name and content of every object.
    fn objects(&self) -> Vec<(String, Value)>;
}

impl<K: Watched + Serialize> Snapshot for Store<K> {
    fn objects(&self) -> Vec<(String, Value)> {
        self.list().iter().map(|object| (object.name_any(), to_value(object.as_ref()))).collect()
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
                let store: Box<dyn Snapshot> = Box::new(watches.add_with(api, config.clone()));
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

#[expect(clippy::expect_used, reason = "what was just read from JSON is JSON")]
fn to_value(object: &(impl Serialize + Debug)) -> Value {
    serde_json::to_value(object).expect("a Kubernetes object is JSON")
}

impl Platform {
    /// Starts the watches.
    pub(crate) fn watch(process: &Process, watches: &Watches) -> Self {
        Self {
            client: process.client.clone(),
            namespace: process.namespace.clone(),
            metallbs: watches.add(Api::namespaced(process.client.clone(), &process.namespace)),
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
            operands: watch_operands(process, watches),
        }
    }

    /// The one object that is honoured.
    pub(crate) fn metallb(&self) -> Option<Arc<MetalLB>> {
        self.metallbs.get(&self.namespace, object::METALLB)
    }

    /// The Secrets that BGPPeers name.
    pub(crate) fn peer_secrets(&self) -> BTreeSet<String> {
        let peers = self.peers.list();
        let names = peers.iter().filter_map(|peer| peer.spec.password_secret.as_ref()?.name.clone());
        names.filter(|name| !name.is_empty()).collect()
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

    /// Uid of the CRD that owns cluster-scoped operands.
    pub(crate) async fn crd_uid(&self) -> Result<Option<String>, WriteError> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        Ok(write::bounded(crds.get(object::METALLB_CRD)).await?.metadata.uid)
    }

    /// The membership key that is in its Secret already, with or without the operator's labels.
    pub(crate) async fn memberlist_key(&self) -> Result<Option<String>, WriteError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(write::bounded(secrets.get_opt(object::MEMBERLIST_SECRET)).await?.and_then(key_in))
    }

    /// Image of the operator's own pod.
    pub(crate) async fn own_image(&self, pod: &str, container: &str) -> Result<Option<String>, WriteError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let spec = write::bounded(pods.get(pod)).await?.spec.unwrap_or_default();
        Ok(spec.containers.into_iter().find(|of| of.name == container).and_then(|of| of.image))
    }

    /// Writes the status of the `MetalLB` object.
    pub(crate) async fn write_status(
        &self,
        metallb: &MetalLB,
        status: &MetalLBStatus,
    ) -> Result<(), WriteError> {
        let api: Api<MetalLB> = Api::namespaced(self.client.clone(), &self.namespace);
        let object = json!({
            "apiVersion": MetalLB::api_version(&()),
            "kind": MetalLB::kind(&()),
            // The uid keeps the status of a deleted object off its successor.
            "metadata": {"name": object::METALLB, "uid": metallb.metadata.uid},
            "status": status,
        });
        write::apply_status(&api, field_manager::OPERATOR, object::METALLB, &object).await.map(|_| ())
    }
}

/// Why a request failed, in the API server's own words where it answered.
pub(crate) fn explain(error: &WriteError) -> String {
    match error {
        WriteError::Api(kube::Error::Api(status)) if !status.message.is_empty() => status.message.clone(),
        other => chain(other),
    }
}

/// The key in a membership Secret.
pub(crate) fn key_in(secret: Secret) -> Option<String> {
    let ByteString(key) = secret.data?.remove(object::MEMBERLIST_SECRET_KEY)?;
    String::from_utf8(key).ok().filter(|key| !key.is_empty())
}

/// A fresh membership key, as text.
pub(crate) fn new_memberlist_key() -> String {
    let mut bytes = vec![0; KEY_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    // Kubernetes' own encoding of bytes in JSON: base64.
    to_value(&ByteString(bytes)).as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_of_full_length_and_differ() {
        let key = new_memberlist_key();
        assert_eq!(key.len(), KEY_BYTES.div_ceil(3) * 4);
        assert!(key.is_ascii());
        assert_ne!(key, new_memberlist_key());
    }

    #[test]
    fn a_key_is_read_from_its_secret_unless_it_is_empty() {
        let secret = |name: &str, key: &str| Secret {
            data: Some(BTreeMap::from([(name.into(), ByteString(key.into()))])),
            ..Default::default()
        };
        assert_eq!(key_in(secret("secretkey", "abc")), Some("abc".into()));
        assert_eq!(key_in(secret("secretkey", "")), None);
        assert_eq!(key_in(secret("other", "abc")), None);
        assert_eq!(key_in(Secret::default()), None);
    }
}
