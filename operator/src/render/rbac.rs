//! Accounts and rights: of each operand, what its process asks of the API server and no more; of the
//! operator, what it does itself and everything it grants (the API server lets nobody grant more).

use std::collections::BTreeSet;

use ferrolb_api::well_known::{ADDED_GROUP, GROUP, component, label, object};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::object::{Kind, Object, Scope};
use super::{COMPONENTS, Context, Installer, labels, openshift};

const FOLLOW: &[&str] = &["list", "watch"];
/// Kinds that make up the configuration.
const CONFIGURATION: &[&str] =
    &["bfdprofiles", "bgpadvertisements", "bgppeers", "communities", "ipaddresspools", "l2advertisements"];
/// What the operator does to operands.
const KEEP: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
/// What a speaker says of Services.
const STATUSES: &[&str] = &["servicebgpstatuses", "servicel2statuses"];
const STATUSES_OF_STATUSES: &[&str] =
    &["configurationstates/status", "servicebgpstatuses/status", "servicel2statuses/status"];
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Rights of one process.
struct Rights {
    /// On cluster-scoped objects and in every namespace.
    cluster: Vec<PolicyRule>,
    /// In the product's namespace.
    own: Vec<PolicyRule>,
}

/// ServiceAccounts, roles and bindings of the operands.
pub(super) fn operands(context: &Context<'_>) -> Vec<Object> {
    let namespace = &context.settings.namespace;
    COMPONENTS
        .iter()
        .flat_map(|component| {
            let own_certificate = context.settings.certificate.is_none();
            let (account, mut rights) =
                of_component(component, &context.observed.peer_secrets, own_certificate);
            if context.settings.installer == Installer::Manifest && *component == component::CONTROLLER {
                rights.own.push(membership_key());
            }
            if context.settings.installer == Installer::Operator {
                rights.own.push(log_level());
            }
            let has_leases = context.has_leases() || context.observed.leases_are_used;
            if has_leases && *component == component::SPEAKER {
                rights.own.push(membership_leases());
            }
            if context.observed.openshift.is_some() && *component == component::SPEAKER {
                rights.own.push(openshift::constraint());
            }
            // Cluster-scoped names carry the namespace, as in MetalLB: metallb-system:controller.
            let global = format!("{namespace}:{component}");
            account_with_rights(
                Names { namespace, account, role: account, cluster_role: &global },
                rights,
                context.namespaced(account, component),
                context.cluster_scoped(&global, component),
            )
        })
        .collect()
}

/// ServiceAccount, roles and bindings of the operator in `namespace`: applied by whoever installs it.
pub fn operator(namespace: &str) -> Vec<Object> {
    let mut rights = operator_itself();
    for component in COMPONENTS {
        // The Secrets that speakers may read are among those that it may read itself.
        let granted = of_component(component, &BTreeSet::new(), true).1;
        add_missing(&mut rights.cluster, granted.cluster);
        add_missing(&mut rights.own, granted.own);
    }
    add_missing(&mut rights.own, vec![membership_leases()]);
    let labels = labels([(label::APP, label::APP_VALUE), (label::COMPONENT, "operator")]);
    let metadata = ObjectMeta { labels: Some(labels), ..Default::default() };
    let names = Names {
        namespace,
        account: object::OPERATOR_ACCOUNT,
        role: object::OPERATOR_ROLE,
        cluster_role: object::OPERATOR_ROLE,
    };
    account_with_rights(
        names,
        rights,
        ObjectMeta { namespace: Some(namespace.into()), ..metadata.clone() },
        metadata,
    )
}

fn add_missing(rules: &mut Vec<PolicyRule>, more: Vec<PolicyRule>) {
    for rule in more {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
}

/// Running processes follow the level in this ConfigMap.
fn log_level() -> PolicyRule {
    named(rule("", &["configmaps"], &["list", "watch"]), object::LOG_LEVEL)
}

fn of_component(
    component: &str,
    peer_secrets: &BTreeSet<String>,
    own_certificate: bool,
) -> (&'static str, Rights) {
    match component {
        component::CONTROLLER => (object::CONTROLLER, controller()),
        component::SPEAKER => (object::SPEAKER, speaker(peer_secrets)),
        _ => (object::WEBHOOK, webhook(own_certificate)),
    }
}

fn controller() -> Rights {
    Rights {
        cluster: vec![
            // Node addresses must not be in pools.
            rule("", &["namespaces", "nodes"], FOLLOW),
            // Who else wrote a Service's status is not in what is followed.
            rule("", &["services"], &["get", "list", "watch"]),
            rule("", &["services/status"], &["patch"]),
            events(),
            token_reviews(),
            access_reviews(),
        ],
        own: vec![
            rule(GROUP, CONFIGURATION, FOLLOW),
            rule(ADDED_GROUP, &["addressreservations"], FOLLOW),
            rule(GROUP, &["ipaddresspools/status", "configurationstates/status"], &["patch"]),
            rule(GROUP, &["configurationstates"], &["create", "delete", "list", "patch", "watch"]),
            // The owner of its ConfigurationState is its own pod.
            rule("", &["pods"], &["get"]),
            new_leases(),
            lease(object::CONTROLLER_LEASE),
        ],
    }
}

/// The controller's pod makes the key where there is no operator.
fn membership_key() -> PolicyRule {
    named(rule("", &["secrets"], &["get", "update"]), object::MEMBERLIST_SECRET)
}

/// Of each node, by which speakers learn which of them live: nobody knows all their names beforehand.
fn membership_leases() -> PolicyRule {
    rule("coordination.k8s.io", &["leases"], &["create", "list", "patch", "watch"])
}

/// A speaker may read the Secrets that BGPPeers name, and no other: the key of the webhook's CA is not
/// for every node.
fn speaker(peer_secrets: &BTreeSet<String>) -> Rights {
    let secrets = PolicyRule {
        resource_names: Some(peer_secrets.iter().cloned().collect()),
        ..rule("", &["secrets"], FOLLOW)
    };
    let mut rights = Rights {
        cluster: vec![
            rule("", &["nodes", "services"], FOLLOW),
            // At its end it asks for its own Node once more.
            rule("", &["nodes"], &["get"]),
            rule("discovery.k8s.io", &["endpointslices"], FOLLOW),
            events(),
            token_reviews(),
            access_reviews(),
        ],
        own: vec![
            rule(GROUP, CONFIGURATION, FOLLOW),
            rule(GROUP, &["configurationstates"], &["create", "list", "patch", "watch"]),
            rule(GROUP, STATUSES, &["create", "delete", "list", "watch"]),
            rule(GROUP, STATUSES_OF_STATUSES, &["patch"]),
            rule(ADDED_GROUP, &["bgpsessions"], &["create", "delete", "list", "patch", "watch"]),
            rule(ADDED_GROUP, &["bgpsessions/status"], &["patch"]),
            // The other speakers' addresses, and its own pod, which owns what it writes.
            rule("", &["pods"], &["get", "list", "watch"]),
            // At its end, whether it will be back.
            named(rule("apps", &["daemonsets"], &["get"]), object::SPEAKER),
            rule("", &["namespaces"], &["get"]),
        ],
    };
    // A rule without names would be one for all of them.
    rights.own.extend((!peer_secrets.is_empty()).then_some(secrets));
    rights
}

/// Who is given a certificate needs no Secret.
fn webhook(own_certificate: bool) -> Rights {
    let secrets = [
        rule("", &["secrets"], &["create"]),
        named(rule("", &["secrets"], &["list", "update", "watch"]), object::WEBHOOK_SECRET),
    ];
    Rights {
        cluster: vec![
            named(
                rule(
                    "admissionregistration.k8s.io",
                    &["validatingwebhookconfigurations"],
                    &["list", "patch", "watch"],
                ),
                object::WEBHOOK_CONFIGURATION,
            ),
            // The conversion of BGPPeers.
            named(
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["list", "patch", "watch"]),
                object::BGP_PEER_CRD,
            ),
            rule("", &["namespaces", "nodes"], FOLLOW),
            rule("networking.k8s.io", &["servicecidrs"], FOLLOW),
            token_reviews(),
            access_reviews(),
        ],
        own: [rule(GROUP, CONFIGURATION, FOLLOW), rule(ADDED_GROUP, &["addressreservations"], FOLLOW)]
            .into_iter()
            .chain(secrets.into_iter().filter(|_| own_certificate))
            .collect(),
    }
}

/// What the operator does itself. The kinds that it applies, watches and prunes come from
/// [`Kind::ALL`].
fn operator_itself() -> Rights {
    let mut cluster = vec![
        named(rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]), object::METALLB_CRD),
        // Without the webhook, its conversion of BGPPeers is taken out.
        named(
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "patch"]),
            object::BGP_PEER_CRD,
        ),
        // An object in another namespace is told so in its status: nobody knows beforehand in which. What
        // these objects say is no secret.
        rule(GROUP, &["metallbs"], FOLLOW),
        rule(GROUP, &["metallbs/status"], &["patch"]),
        // Whether a Service that nobody announces any more is still there.
        rule("", &["services"], &["get"]),
        // Where the API server listens, for NetworkPolicies.
        named(rule("discovery.k8s.io", &["endpointslices"], &["get"]), "kubernetes"),
        // On OpenShift, the cluster's TLS profile.
        named(rule("config.openshift.io", &["apiservers"], &["get"]), "cluster"),
        token_reviews(),
        access_reviews(),
    ];
    let mut own = vec![
        rule(GROUP, &["bgppeers"], FOLLOW),
        // In dry runs: whether the API server reaches the webhook.
        rule(GROUP, &["ipaddresspools"], &["create"]),
        // Where owner references are policed, blocking the owner's deletion needs this.
        rule(GROUP, &["metallbs/finalizers"], &["update"]),
        // The product's pods, for why they do not start, and its own, for the image that all get.
        rule("", &["pods"], &["get", "list", "watch"]),
        // Speakers count as ready when what was announced before is announced again.
        rule("", &["pods/status"], &["patch"]),
        rule(GROUP, STATUSES, FOLLOW),
        // Its own namespace, for the Pod Security level.
        rule("", &["namespaces"], &["get"]),
        // Why a DaemonSet makes no pods stands in its Events only.
        rule("", &["events"], &["create", "list", "patch"]),
        new_leases(),
        lease(object::OPERATOR_LEASE),
        // On OpenShift, what it grants to speakers.
        openshift::constraint(),
    ];
    for kind in Kind::ALL {
        let resource = kind.api_resource();
        let rule = rule(&resource.group, &[&resource.plural], KEEP);
        match kind.scope() {
            Scope::Cluster => cluster.push(rule),
            Scope::Namespaced => own.push(rule),
        }
    }
    Rights { cluster, own }
}

struct Names<'a> {
    namespace: &'a str,
    account: &'a str,
    role: &'a str,
    cluster_role: &'a str,
}

fn account_with_rights(
    names: Names<'_>,
    rights: Rights,
    own: ObjectMeta,
    cluster: ObjectMeta,
) -> Vec<Object> {
    let binding =
        |role: &str| if role == object::OPERATOR_ROLE { object::OPERATOR_BINDING } else { role }.to_owned();
    let named = |metadata: &ObjectMeta, name: String| ObjectMeta { name: Some(name), ..metadata.clone() };
    let subjects = vec![Subject {
        kind: "ServiceAccount".into(),
        name: names.account.into(),
        namespace: Some(names.namespace.into()),
        ..Default::default()
    }];
    vec![
        ServiceAccount { metadata: named(&own, names.account.into()), ..Default::default() }.into(),
        Role { metadata: named(&own, names.role.into()), rules: Some(rights.own) }.into(),
        RoleBinding {
            metadata: named(&own, binding(names.role)),
            role_ref: role_ref("Role", names.role),
            subjects: Some(subjects.clone()),
        }
        .into(),
        ClusterRole {
            metadata: named(&cluster, names.cluster_role.into()),
            rules: Some(rights.cluster),
            ..Default::default()
        }
        .into(),
        ClusterRoleBinding {
            metadata: named(&cluster, binding(names.cluster_role)),
            role_ref: role_ref("ClusterRole", names.cluster_role),
            subjects: Some(subjects),
        }
        .into(),
    ]
}

/// An account that has rights in one namespace only.
pub(super) fn namespaced_account(
    namespace: &str,
    name: &str,
    metadata: ObjectMeta,
    rules: Vec<PolicyRule>,
) -> Vec<Object> {
    let names = Names { namespace, account: name, role: name, cluster_role: name };
    let rights = Rights { cluster: Vec::new(), own: rules };
    let mut objects = account_with_rights(names, rights, metadata.clone(), metadata);
    objects.retain(|object| object.kind().scope() == Scope::Namespaced);
    objects
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some(RBAC_GROUP.into()), kind: kind.into(), name: name.into() }
}

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.into()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..Default::default()
    }
}

fn named(rule: PolicyRule, name: &str) -> PolicyRule {
    PolicyRule { resource_names: Some(vec![name.into()]), ..rule }
}

fn events() -> PolicyRule {
    rule("", &["events"], &["create", "patch"])
}

/// Creation cannot be limited by name.
fn new_leases() -> PolicyRule {
    rule("coordination.k8s.io", &["leases"], &["create"])
}

fn lease(name: &str) -> PolicyRule {
    named(rule("coordination.k8s.io", &["leases"], &["get", "update"]), name)
}

/// The metrics port asks the API server who its client is …
fn token_reviews() -> PolicyRule {
    rule("authentication.k8s.io", &["tokenreviews"], &["create"])
}

/// … and whether it may.
fn access_reviews() -> PolicyRule {
    rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"])
}
