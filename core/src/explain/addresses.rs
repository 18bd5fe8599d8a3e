//! The first thing to fix where a Service has no address, or not the one it asks for.

use ferrolb_api::well_known::annotation;

use super::{Cluster, Step};
use crate::allocator::Refusal;
use crate::config::ranges::Family;
use crate::config::{Kind, Pool};
use crate::service::{Families, LoadBalancer, RequestError};

const REQUEST: &str = "metadata.annotations[metallb.io/loadBalancerIPs]";
/// Where the Service asks for addresses, the one or the other.
const REQUESTED: &str = "metadata.annotations[metallb.io/loadBalancerIPs] (or spec.loadBalancerIP)";
const POOL: &str = "metadata.annotations[metallb.io/address-pool]";
const SHARING: &str = "metadata.annotations[metallb.io/allow-shared-ip]";
const CLASS: &str = "spec.loadBalancerClass";
const ADDRESSES: &str = "spec.addresses";

/// A Service that is none of ours.
pub(super) fn not_handled(cluster: &Cluster, service: &LoadBalancer) -> Option<Step> {
    let step = |field, message, remedy| Some(Step::of_service(service, field, message, remedy));
    if !service.is_load_balancer {
        return step(
            "spec.type",
            "the Service is not of type LoadBalancer".to_owned(),
            "set it to LoadBalancer".to_owned(),
        );
    }
    if service.is_handled_by(cluster.class.as_deref()) {
        return None;
    }
    let class = service.class.as_deref().unwrap_or("none");
    let remedy = match &cluster.class {
        Some(class) => format!("create the Service anew with {class}"),
        None => "create the Service anew without a class, or set spec.loadBalancerClass of MetalLB metallb"
            .to_owned(),
    };
    step(CLASS, format!("class {class} is left to another load balancer"), remedy)
}

/// Somebody else writes the status.
pub(super) fn contested(service: &LoadBalancer, message: &str) -> Step {
    let remedy = "stop the other writer, or create the Service anew with the class of one load balancer";
    Step::of_service(service, CLASS, message, remedy)
}

/// It could have an address; nobody gave it one.
pub(super) fn not_given_yet(cluster: &Cluster, service: &LoadBalancer) -> Step {
    let (message, remedy) = if cluster.controller_ready {
        (
            "an address is free for it and not given yet",
            "wait a second, then look at kubectl logs deployment/controller",
        )
    } else {
        (
            "no controller is ready to give an address",
            "look at kubectl describe deployment/controller and its pods",
        )
    };
    Step::new(
        "Deployment controller",
        "status.readyReplicas",
        format!("Service {}: {message}", service.key),
        remedy,
    )
}

/// What to do about a refusal.
pub(super) fn step(cluster: &Cluster, service: &LoadBalancer, refusal: &Refusal) -> Step {
    let of_service = |field: &str, remedy: &str| Step::of_service(service, field, refusal, remedy);
    let of_pool = |pool: &str, field: &str, remedy: String| {
        Step::new(format!("{} {pool}", Kind::IpAddressPool), field, refusal, remedy)
    };
    match refusal {
        Refusal::NoPools => Step::new(
            Kind::IpAddressPool.to_string(),
            ADDRESSES,
            refusal,
            "create one with addresses of your network that nobody else uses",
        ),
        Refusal::NoClusterIp => {
            of_service("spec.clusterIP", "create the Service anew without clusterIP None")
        }
        Refusal::NotEnoughClusterIps | Refusal::ClusterFamilies(_) => of_service(
            "spec.clusterIPs",
            "create the Service anew with the ipFamilyPolicy and ipFamilies that the cluster has",
        ),
        Refusal::Request(RequestError::Twice) => {
            of_service("spec.loadBalancerIP", "remove it, the annotation is enough")
        }
        Refusal::Request(RequestError::InvalidField(_)) => {
            of_service("spec.loadBalancerIP", "write one IP address")
        }
        Refusal::Request(RequestError::InvalidAnnotation(_) | RequestError::Families(_)) => {
            of_service(REQUEST, "write one IP address, or one of each family with a comma between them")
        }
        Refusal::RequestedFamilies(_) => {
            of_service(REQUESTED, "ask for an address of each family in spec.ipFamilies")
        }
        Refusal::RequestedPool { .. } => of_service(
            POOL,
            "remove it, the address says which pool is meant, or ask for an address of this pool",
        ),
        Refusal::Exhausted => exhausted(cluster, service, refusal),
        Refusal::PoolExhausted(pool) => {
            of_pool(pool, ADDRESSES, "add addresses, or let the Service ask for another pool".to_owned())
        }
        Refusal::NoDualStack(pool) => of_pool(pool, ADDRESSES, missing_family(cluster, pool)),
        Refusal::OneFamily(address) => {
            let family = name(Family::of(*address).other());
            match cluster.compiled.config.pool_around(*address) {
                Some(pool) => of_pool(&pool.name, ADDRESSES, format!("add {family} addresses")),
                None => of_service("spec.ipFamilyPolicy", "set it to SingleStack"),
            }
        }
        Refusal::UnknownPool(pool) => {
            let finding = cluster.compiled.diagnostics.iter().find(|it| {
                it.object.kind == Kind::IpAddressPool && it.object.name == *pool && it.leaves_out()
            });
            match finding {
                Some(finding) => finding.into(),
                None => of_service(POOL, &format!("name one of the pools: {}", pools(cluster))),
            }
        }
        Refusal::NotInPool(addresses) if addresses.iter().all(Option::is_none) => {
            match &service.requested_pool {
                Some(pool) => of_pool(pool, ADDRESSES, missing_family(cluster, pool)),
                None => of_service(POOL, &format!("name one of the pools: {}", pools(cluster))),
            }
        }
        Refusal::NotInPool(_) => of_service(
            REQUESTED,
            &format!(
                "ask for an address of one of the pools ({}), or add this one to a pool",
                pools(cluster)
            ),
        ),
        Refusal::NotAdmitted(pool) => of_pool(pool, "spec.serviceAllocation", admit(service)),
        Refusal::SharingMismatch { .. } => of_service(
            SHARING,
            "give all of them the same value (with externalTrafficPolicy Local also the same selector), or ask \
             for another address",
        ),
        Refusal::PortConflict { port, .. } => {
            of_service("spec.ports", &format!("use another port than {port}, or ask for another address"))
        }
        Refusal::Reserved { reservation, .. } => Step::new(
            format!("{} {reservation}", Kind::AddressReservation),
            "spec.addresses",
            refusal,
            "ask for another address, or reserve this one for the Service",
        ),
        Refusal::QuotaExceeded { namespace, .. } => Step::new(
            match cluster.compiled.config.reservations().quota(namespace) {
                Some(quota) => format!("{} {}", Kind::AddressReservation, quota.reservation),
                None => Kind::AddressReservation.to_string(),
            },
            "spec.quotas",
            refusal,
            "raise maxAddresses, or delete Services of the namespace that need no address any more",
        ),
        Refusal::AddressConflict(_) => of_service(
            REQUESTED,
            "remove the address from the host that uses it (Events AddressConflict name its MAC), or ask for another",
        ),
        Refusal::Contested(_) => contested(service, &refusal.to_string()),
    }
}

fn pools(cluster: &Cluster) -> String {
    cluster.compiled.config.pools().keys().cloned().collect::<Vec<_>>().join(", ")
}

fn admit(service: &LoadBalancer) -> String {
    format!(
        "let it admit namespace {} and the labels of the Service, or let the Service ask for another pool",
        service.key.namespace
    )
}

fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

fn missing_family(cluster: &Cluster, pool: &str) -> String {
    let pool = cluster.compiled.config.pools().get(pool);
    let lacks = |family: &Family| pool.is_some_and(|pool| pool.ranges_of(*family).next().is_none());
    match [Family::V4, Family::V6].iter().find(|family| lacks(family)) {
        Some(family) => format!("add {} addresses", name(*family)),
        None => "add addresses, or set spec.ipFamilyPolicy of the Service to PreferDualStack".to_owned(),
    }
}

/// No pool gives an address unasked: which one is nearest to it.
fn exhausted(cluster: &Cluster, service: &LoadBalancer, refusal: &Refusal) -> Step {
    let config = &cluster.compiled.config;
    let wanted = match service.families {
        Ok(Families::Single(family)) => vec![family],
        _ => vec![Family::V4, Family::V6],
    };
    let has = |pool: &Pool| wanted.iter().all(|family| pool.ranges_of(*family).next().is_some());
    let admits = |pool: &Pool| pool.admits(&service.key.namespace, &service.labels);
    let find = |of: &dyn Fn(&Pool) -> bool| config.pools().values().find(|pool| of(pool));
    let (pool, field, remedy) = if let Some(pool) = find(&|it| has(it) && admits(it) && it.auto_assign) {
        (pool, ADDRESSES, "add addresses: all of them are used".to_owned())
    } else if let Some(pool) = find(&|it| has(it) && admits(it)) {
        let key = annotation::ADDRESS_POOL;
        let remedy = format!("set it to true, or annotate the Service with {key}: {}", pool.name);
        (pool, "spec.autoAssign", remedy)
    } else if let Some(pool) = find(&|it| has(it)) {
        (pool, "spec.serviceAllocation", admit(service))
    } else if let Some(finding) = cluster
        .compiled
        .diagnostics
        .iter()
        .find(|it| it.object.kind == Kind::IpAddressPool && it.leaves_out())
    {
        return finding.into();
    } else if let Some(pool) = config.pools().values().next() {
        let families: Vec<&str> = wanted.iter().map(|family| name(*family)).collect();
        (pool, ADDRESSES, format!("add {} addresses", families.join(" and ")))
    } else {
        return Step::new(Kind::IpAddressPool.to_string(), ADDRESSES, refusal, "create a pool");
    };
    Step::new(format!("{} {}", Kind::IpAddressPool, pool.name), field, refusal, remedy)
}
