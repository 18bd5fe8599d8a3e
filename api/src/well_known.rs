//! Every name that the cluster, its users or their tools know: API groups, annotations, labels,
//! field managers, object names, condition types and reasons. Each is written here, once.

/// API group of the custom resources.
pub const GROUP: &str = "metallb.io";
/// API group of the resources that MetalLB does not have.
pub const ADDED_GROUP: &str = "ferrolb.io";
/// Namespace of the product unless it is told otherwise.
pub const DEFAULT_NAMESPACE: &str = "metallb-system";

/// Annotations on Services and advertisements.
pub mod annotation {
    /// On an L2Advertisement, `true`: the node that ranks best takes an address over from a living owner,
    /// so that addresses return to a node that was away.
    pub const PREEMPT: &str = "ferrolb.io/preempt";
    /// Requests an address from the pool of this name.
    pub const ADDRESS_POOL: &str = "metallb.io/address-pool";
    /// Requests these addresses, separated by commas.
    pub const LOAD_BALANCER_IPS: &str = "metallb.io/loadBalancerIPs";
    /// Services with the same value may share an address.
    pub const ALLOW_SHARED_IP: &str = "metallb.io/allow-shared-ip";
    /// Written by the controller: the pool that the address came from.
    pub const ALLOCATED_FROM_POOL: &str = "metallb.io/ip-allocated-from-pool";
    /// Written by the controller: which addresses it gave, and in which term of its Lease.
    pub const ALLOCATION: &str = "ferrolb.io/allocation";
    /// On a speaker's ConfigurationState: addresses that hosts have which are no speakers, as the links of its
    /// node see it, separated by commas.
    pub const ADDRESS_CONFLICTS: &str = "ferrolb.io/address-conflicts";
    /// On a speaker's Lease: what it tells the other speakers of itself, as JSON.
    pub const SPEAKER_CARD: &str = "ferrolb.io/speaker";
    /// Prefix of the annotations in use.
    pub const PREFIX: &str = "metallb.io/";
    /// Prefix of the annotations that MetalLB deprecated; still read where the new key is absent.
    pub const DEPRECATED_PREFIX: &str = "metallb.universe.tf/";
    /// On a BGPPeer read as `v1beta1`: the fields of `v1beta2` that this version has no room for, as JSON.
    pub const KEPT_FOR_V1BETA2: &str = "ferrolb.io/kept-for-v1beta2";
}

/// Labels.
pub mod label {
    /// On a Node (any value): its speaker announces nothing.
    pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    /// On an EndpointSlice: the Service it belongs to.
    pub const SERVICE_NAME_OF_SLICE: &str = "kubernetes.io/service-name";
    /// On status objects: the node that wrote it.
    pub const NODE: &str = "metallb.io/node";
    /// On status objects: the name of the Service.
    pub const SERVICE_NAME: &str = "metallb.io/service-name";
    /// On status objects: the namespace of the Service.
    pub const SERVICE_NAMESPACE: &str = "metallb.io/service-namespace";
    /// On a ConfigurationState: `controller` or `speaker`.
    pub const COMPONENT_TYPE: &str = "metallb.io/component-type";
    /// On a speaker's ConfigurationState: its node.
    pub const NODE_NAME: &str = "metallb.io/node-name";
    /// On operands and their pods: always [`APP_VALUE`].
    pub const APP: &str = "app";
    /// Value of [`APP`].
    pub const APP_VALUE: &str = "metallb";
    /// On operands and their pods: which process.
    pub const COMPONENT: &str = "component";
    /// Recommended label naming who manages an object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Value of [`MANAGED_BY`] on everything that the operator installs.
    pub const MANAGED_BY_OPERATOR: &str = "metallb-operator";
    /// Recommended label telling installations apart: the namespace of the operator.
    pub const INSTANCE: &str = "app.kubernetes.io/instance";
    /// Recommended label with the version of the product.
    pub const VERSION: &str = "app.kubernetes.io/version";
}

/// Values of [`label::COMPONENT`].
pub mod component {
    /// The process that gives addresses to Services.
    pub const CONTROLLER: &str = "controller";
    /// The process on each node that announces addresses.
    pub const SPEAKER: &str = "speaker";
    /// The process that answers admission reviews.
    pub const WEBHOOK: &str = "webhook-server";
}

/// Names of objects that the product installs.
pub mod object {
    /// The one `MetalLB` object that is honoured.
    pub const METALLB: &str = "metallb";
    /// Deployment (and ServiceAccount) of the controller.
    pub const CONTROLLER: &str = "controller";
    /// DaemonSet (and ServiceAccount) of the speakers.
    pub const SPEAKER: &str = "speaker";
    /// Deployment (and ServiceAccount) of the webhook.
    pub const WEBHOOK: &str = "metallb-operator-webhook-server";
    /// Deployment of the operator.
    pub const OPERATOR: &str = "metallb-operator-controller-manager";
    /// ServiceAccount of the operator.
    pub const OPERATOR_ACCOUNT: &str = "manager-account";
    /// Role and ClusterRole of the operator.
    pub const OPERATOR_ROLE: &str = "metallb-manager-role";
    /// Bindings of [`OPERATOR_ROLE`].
    pub const OPERATOR_BINDING: &str = "metallb-manager-rolebinding";
    /// Service in front of the webhook: port 443 to [`super::port::WEBHOOK`].
    pub const WEBHOOK_SERVICE: &str = "metallb-webhook-service";
    /// Secret with the webhook's CA and serving certificate.
    pub const WEBHOOK_SECRET: &str = "metallb-webhook-cert";
    /// The ValidatingWebhookConfiguration.
    pub const WEBHOOK_CONFIGURATION: &str = "metallb-webhook-configuration";
    /// Secret with the key that speakers encrypt their membership traffic with.
    pub const MEMBERLIST_SECRET: &str = "metallb-memberlist";
    /// Key in [`MEMBERLIST_SECRET`].
    pub const MEMBERLIST_SECRET_KEY: &str = "secretkey";
    /// ConfigMap with the interfaces that never announce.
    pub const EXCLUDE_L2: &str = "metallb-excludel2";
    /// Key in [`EXCLUDE_L2`].
    pub const EXCLUDE_L2_KEY: &str = "excludel2.yaml";
    /// ConfigMap with the log level that running processes follow.
    pub const LOG_LEVEL: &str = "metallb-log-level";
    /// Lease of the operator.
    pub const OPERATOR_LEASE: &str = "metallb.io.metallboperator";
    /// Lease of the controller: whoever holds it writes addresses.
    pub const CONTROLLER_LEASE: &str = "metallb.io.controller";
    /// Names of the speakers' Leases begin so; the name of the node follows.
    pub const SPEAKER_LEASE_PREFIX: &str = "speaker-";
    /// The CRD that owns cluster-scoped operands.
    pub const METALLB_CRD: &str = "metallbs.metallb.io";
    /// The CRD whose versions the webhook converts.
    pub const BGP_PEER_CRD: &str = "bgppeers.metallb.io";
}

/// Ports, as in MetalLB 0.16.
pub mod port {
    /// HTTPS `/metrics`, with TokenReview and SubjectAccessReview.
    pub const METRICS: u16 = 9120;
    /// HTTP probes.
    pub const PROBES: u16 = 17472;
    /// HTTPS admission reviews.
    pub const WEBHOOK: u16 = 9443;
    /// Membership among speakers (UDP).
    pub const MEMBERLIST: u16 = 7946;
}

/// Field managers of our server-side applies.
pub mod field_manager {
    /// The operator, on everything it renders.
    pub const OPERATOR: &str = "metallb-operator";
    /// The controller, on Service status.
    pub const CONTROLLER: &str = "metallb-controller";
    /// The speaker, on its status objects.
    pub const SPEAKER: &str = "metallb-speaker";
    /// The webhook, on `caBundle` and the conversion of BGPPeers alone.
    pub const WEBHOOK: &str = "metallb-webhook";
    /// Condition of the controller's ConfigurationState.
    pub const POOL_RECONCILER: &str = "poolReconciler";
    /// Condition of a speaker's ConfigurationState.
    pub const CONFIG_RECONCILER: &str = "configReconciler";
}

/// Components that record Events (the column `From` of `kubectl describe`).
pub mod reporter {
    /// Events on the MetalLB object.
    pub const OPERATOR: &str = "metallb-operator";
    /// Events on Services about their addresses.
    pub const CONTROLLER: &str = "metallb-controller";
    /// Events on Services about their announcement.
    pub const SPEAKER: &str = "metallb-speaker";
}

/// Condition types and reasons of `ConfigurationState`.
pub mod configuration_state {
    /// Condition type of the controller.
    pub const POOL_CONDITION: &str = "poolReconcilerValid";
    /// Condition type of a speaker.
    pub const CONFIG_CONDITION: &str = "configReconcilerValid";
    /// Reason while the configuration is in force.
    pub const RECONCILED: &str = "Reconciled";
    /// Reason while an object is left out.
    pub const CONFIGURATION_ERROR: &str = "ConfigurationError";
    /// Name of the controller's object.
    pub const CONTROLLER: &str = "controller";
}

/// The condition of a Service. The reasons for `False` are those of the allocator's refusals.
pub mod service_condition {
    /// Whether the Service has what it asks for. Appears with the first refusal and stays.
    pub const ADDRESS_ASSIGNED: &str = "ferrolb.io/AddressAssigned";
    /// Reason while it has.
    pub const ASSIGNED: &str = "Assigned";
}

/// Conditions of pods.
pub mod pod_condition {
    /// Readiness gate of speakers: what was announced before this pod came is announced again.
    pub const ANNOUNCING: &str = "ferrolb.io/Announcing";
}

/// Condition types of the `MetalLB` object, in the order of its status.
pub mod condition {
    /// Everything that was asked for is installed and ready.
    pub const AVAILABLE: &str = "Available";
    /// An upgrade of the operator is safe.
    pub const UPGRADEABLE: &str = "Upgradeable";
    /// Something is being rolled out.
    pub const PROGRESSING: &str = "Progressing";
    /// Something cannot be done; the message says what.
    pub const DEGRADED: &str = "Degraded";
    /// All four, in order.
    pub const ALL: [&str; 4] = [AVAILABLE, UPGRADEABLE, PROGRESSING, DEGRADED];

    /// Reasons of these conditions.
    pub mod reason {
        /// All workloads are ready, and nothing else is wrong.
        pub const AS_EXPECTED: &str = "AsExpected";
        /// Ready, but no node is selected for a speaker, so nothing is announced.
        pub const NO_SPEAKER_NODES: &str = "NoSpeakerNodes";
        /// Pods are being created or replaced.
        pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
        /// A workload gave up getting its pods ready.
        pub const ROLLOUT_STALLED: &str = "RolloutStalled";
        /// The object is where no operator looks after it.
        pub const INCORRECT_NAMESPACE: &str = "IncorrectNamespace";
        /// The object asks for a BGP implementation that is not there.
        pub const UNSUPPORTED_BACKEND: &str = "UnsupportedBackend";
        /// The object asks for what Kubernetes would refuse.
        pub const INVALID_SPEC: &str = "InvalidSpec";
        /// An operand could not be written.
        pub const APPLY_FAILED: &str = "ApplyFailed";
        /// An operand that is not wanted any more could not be deleted.
        pub const DELETE_FAILED: &str = "DeleteFailed";
        /// An operand differs in a field that cannot be changed.
        pub const IMMUTABLE_FIELD: &str = "ImmutableField";
        /// Somebody undoes what the operator sets, again and again.
        pub const EDIT_CONFLICT: &str = "EditConflict";
        /// The namespace's Pod Security level refuses the speakers.
        pub const POD_SECURITY: &str = "PodSecurityForbids";
        /// The object asks the operator to leave everything as it is.
        pub const PAUSED: &str = "Paused";
        /// The operator could not read what operands are made from.
        pub const READ_FAILED: &str = "ReadFailed";
    }
}
