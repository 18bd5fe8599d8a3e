//! What this node announces: for each Service a plan, and for each address what the links are told.
//!
//! ```text
//! Config + nodes + members ─┬─ elect(all Services) ─▶ Elections ─ claims(wire) ─▶ LinkClaims ─▶ the links
//!                           └──────────┬──────────────────┘                                       │
//! LoadBalancer ─▶ plan_service ◀───────┴────────────────────── Wire: who owns what ◀──────────────┘
//!                     └─▶ ServicePlan: announced where, or why not
//! ```
//!
//! Who may own an address is decided here ([`ownership`]); who does is found on the wire. Which
//! pools a Service's addresses come from is asked of the pools in force first; where none contains
//! them, of the pools that are left out for an error ([`Config::pools_holding`]): so an address that is
//! in use goes on being announced, by the advertisements that name the pool, while its pool is wrong.
//! Each address follows the advertisements of its own pool.

mod bgp;
mod doubled;
mod eligible;
mod event;
mod layer2;
pub mod ownership;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_proto::bgp::AdjRibOut;
use ferrolb_proto::ethernet::MacAddr;

pub use self::bgp::{BgpPlan, Conflict};
pub use self::doubled::{Doubled, doubled};
pub use self::event::Event;
pub use self::layer2::{AddressPlan, Layer2Plan, LinkClaim, LinkClaims, Seen, Wire, claims, hold};
pub use self::ownership::{Election, Elections, elect};
use crate::config::{Config, Interfaces, RECORD_SEPARATOR};
use crate::node::Node;
use crate::service::{LoadBalancer, ServiceKey};

/// What is known of a node's speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Whether it answers; the others may come back, or live out of our reach.
    pub alive: bool,
    /// Connected interfaces that it can announce on; none until it told.
    pub interfaces: Option<BTreeSet<String>>,
}

/// All that plans depend on besides the Services.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The configuration in force.
    pub config: &'a Config,
    /// The nodes of the cluster.
    pub nodes: &'a BTreeMap<String, Node>,
    /// Nodes that a speaker was heard of; this one is among them.
    pub members: &'a BTreeMap<String, Member>,
    /// Addresses that not every Service which holds them may have.
    pub doubled: &'a Doubled,
    /// Name of this node.
    pub this_node: &'a str,
    /// Whether the exclude label of nodes is ignored.
    pub ignore_exclude_label: bool,
    /// Whether a cordoned node gives its addresses away.
    pub withdraw_on_cordon: bool,
}

/// What this node does for one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePlan {
    /// The Service.
    pub service: ServiceKey,
    /// The pool that its addresses are from; of two, both names.
    pub pool: Option<String>,
    /// What is done by ARP and NDP, or why nothing is.
    pub layer2: Result<Layer2Plan, Withheld>,
    /// What is done by BGP, or why nothing is.
    pub bgp: Result<BgpPlan, Withheld>,
}

/// How addresses are announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// ARP and NDP.
    Layer2,
    /// BGP.
    Bgp,
}

impl Protocol {
    /// Its name in Events, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Layer2 => "layer2",
            Self::Bgp => "bgp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ServicePlan {
    /// Addresses that this node announces by a protocol.
    pub fn announced_by(&self, protocol: Protocol) -> BTreeSet<IpAddr> {
        match protocol {
            Protocol::Layer2 => self.announced().map(|(address, _)| address).collect(),
            Protocol::Bgp => self.bgp.as_ref().map(|plan| plan.addresses.clone()).unwrap_or_default(),
        }
    }

    /// Why an address is not announced by a protocol; none where it is, or is not the Service's.
    pub fn withheld_from(&self, protocol: Protocol, address: IpAddr) -> Option<&Withheld> {
        match protocol {
            Protocol::Layer2 => match &self.layer2 {
                Err(withheld) => Some(withheld),
                Ok(plan) => plan.addresses.get(&address)?.decision.as_ref().err(),
            },
            Protocol::Bgp => match &self.bgp {
                Err(withheld) => Some(withheld),
                Ok(plan) => plan.withheld.get(&address),
            },
        }
    }

    /// Peers that this node announces the Service to, sorted.
    pub fn bgp_peers(&self) -> impl Iterator<Item = &str> {
        self.bgp.iter().flat_map(|plan| plan.routes.keys()).map(String::as_str)
    }

    /// Addresses that this node announces on layer 2, and where.
    pub fn announced(&self) -> impl Iterator<Item = (IpAddr, &Interfaces)> {
        let addresses = self.layer2.iter().flat_map(|plan| plan.addresses.iter());
        addresses.filter_map(|(address, plan)| Some((*address, plan.decision.as_ref().ok()?)))
    }

    /// Why an address, or else the whole Service, is not announced from here on layer 2.
    pub fn withheld(&self) -> Option<&Withheld> {
        match &self.layer2 {
            Err(withheld) => Some(withheld),
            Ok(plan) => plan.addresses.values().find_map(|it| it.decision.as_ref().err()),
        }
    }
}

/// Why this node does not announce an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Withheld {
    /// The Service is gone. (Known to whoever sees it go, never the result of a plan.)
    ServiceDeleted,
    /// The Service holds other addresses than before. (As above.)
    AddressesChanged,
    /// The Service is of another type.
    NotLoadBalancer,
    /// It has no address yet.
    NoIp,
    /// Its status holds something that is no address, such as a host name.
    InvalidIp,
    /// One of its addresses is in no pool.
    NotAllowedByPools,
    /// Another Service was given the address before, and cannot share it.
    GivenTwice {
        /// That Service.
        keeper: ServiceKey,
    },
    /// None of its endpoints can serve, so nobody announces it.
    NoServingEndpoints,
    /// No advertisement of its pool is for it and this node.
    NoMatchingAdvertisement,
    /// No BGP advertisement of its pool is for this node.
    NodeNotSelected,
    /// Of the BGP advertisements of its pool for this node none is for it.
    NoMatchingBgpAdvertisement,
    /// The BGP advertisements for it contradict each other.
    ConflictingAdvertisements(Box<Conflict>),
    /// The BGP advertisements for it name no peer of this node.
    NoPeer,
    /// It may share its address, and an advertisement selects Services: the two exclude each other.
    SharedIpWithServiceSelector,
    /// This node carries the exclude label.
    NodeExcluded,
    /// This node is cordoned, and that is to count.
    NodeCordoned,
    /// This node has no network.
    NodeNetworkUnavailable,
    /// Its traffic must arrive where its endpoints are, and none is here.
    NoLocalEndpoints,
    /// Another node owns the address, or none does.
    NotElected {
        /// Who does.
        winner: Option<String>,
    },
    /// This node asks on the wire whether it may take the address.
    Claiming,
    /// A host that is no speaker has the address.
    AddressConflict {
        /// Its MAC.
        mac: MacAddr,
    },
    /// This node has none of the interfaces that the address is to be announced on.
    NoInterface {
        /// Those interfaces.
        wanted: BTreeSet<String>,
    },
}

impl Withheld {
    /// The value that logs show and people search for.
    pub fn reason(&self, protocol: Protocol) -> &'static str {
        match self {
            Self::NoServingEndpoints if protocol == Protocol::Bgp => "noEndpoints",
            Self::NodeExcluded if protocol == Protocol::Bgp => "nodeLabeledExcludeBalancers",
            Self::NodeNetworkUnavailable if protocol == Protocol::Bgp => "nodeNetworkUnavailable",
            Self::NoLocalEndpoints if protocol == Protocol::Bgp => "noLocalEndpoints",
            Self::ServiceDeleted => "serviceDeleted",
            Self::AddressesChanged => "loadBalancerIPChanged",
            Self::NotLoadBalancer => "notLoadBalancer",
            Self::NoIp => "noIPAllocated",
            Self::InvalidIp => "invalidIP",
            Self::NotAllowedByPools => "ipNotAllowed",
            Self::GivenTwice { .. } => "addressGivenTwice",
            Self::NoMatchingAdvertisement | Self::NoMatchingBgpAdvertisement => "noMatchingAdvertisement",
            Self::ConflictingAdvertisements(_) => "conflictingAdvertisements",
            Self::NoPeer => "noPeers",
            Self::SharedIpWithServiceSelector => "sharedIPWithServiceSelector",
            Self::NoServingEndpoints
            | Self::NodeExcluded
            | Self::NodeCordoned
            | Self::Claiming
            | Self::NodeNetworkUnavailable
            | Self::NoLocalEndpoints
            | Self::NodeNotSelected
            | Self::NotElected { .. } => "notOwner",
            Self::AddressConflict { .. } => "addressConflict",
            Self::NoInterface { .. } => "announceFailed",
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServiceDeleted => "the Service was deleted",
            Self::AddressesChanged => "the Service has other addresses now",
            Self::NotLoadBalancer => "the Service is not of type LoadBalancer",
            Self::NoIp => "no address was given to the Service",
            Self::InvalidIp => "the status of the Service holds something that is no IP address",
            Self::NotAllowedByPools => "no IPAddressPool contains an address of the Service",
            Self::GivenTwice { keeper } => {
                return write!(f, "Service {keeper} has the address and does not share it with this one");
            }
            Self::NoServingEndpoints => "no endpoint of the Service can serve",
            Self::NoMatchingAdvertisement => "no L2Advertisement is for this pool, Service and node",
            Self::NodeNotSelected => "no BGPAdvertisement is for this pool and node",
            Self::NoMatchingBgpAdvertisement => "no BGPAdvertisement is for this pool, Service and node",
            Self::ConflictingAdvertisements(conflict) => return conflict.fmt(f),
            Self::NoPeer => "the BGPAdvertisements for this Service name no BGPPeer of this node",
            Self::SharedIpWithServiceSelector => {
                "the Service may share its address, which excludes advertisements with serviceSelectors"
            }
            Self::NodeExcluded => "the node carries the label that excludes it from load balancers",
            Self::NodeCordoned => "the node is cordoned",
            Self::Claiming => "the node asks on the network whether the address is free",
            Self::NodeNetworkUnavailable => "the network of the node is unavailable",
            Self::NoLocalEndpoints => {
                "externalTrafficPolicy is Local and the node has no endpoint that can serve"
            }
            Self::NotElected { winner: Some(winner) } => return write!(f, "node {winner} owns the address"),
            Self::NotElected { winner: None } => "no node can own the address",
            Self::AddressConflict { mac } => {
                return write!(f, "host {mac}, which is no speaker, has the address");
            }
            Self::NoInterface { wanted } if wanted.is_empty() => "the node has no connected interface",
            Self::NoInterface { wanted } => {
                let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
                return write!(
                    f,
                    "the node has none of the interfaces {}, or nothing is connected to them",
                    wanted.join(", ")
                );
            }
        })
    }
}

/// Decides what this node does for a Service.
pub fn plan_service(
    input: &PlanInput<'_>,
    elections: &Elections,
    wire: &Wire,
    service: &LoadBalancer,
) -> ServicePlan {
    let key = (*service.key).clone();
    match locate(input.config, service) {
        Ok(located) => ServicePlan {
            service: key,
            pool: Some(pool_names(&located)),
            layer2: layer2::plan(input, elections, wire, service, &located),
            bgp: bgp::plan(input, service, &located),
        },
        Err(withheld) => {
            ServicePlan { service: key, pool: None, layer2: Err(withheld.clone()), bgp: Err(withheld) }
        }
    }
}

/// An address of a Service, and the pool that it is from.
type Located<'a> = (IpAddr, &'a str);

/// The addresses of a Service.
fn locate<'a>(config: &'a Config, service: &LoadBalancer) -> Result<Vec<Located<'a>>, Withheld> {
    if !service.is_load_balancer {
        return Err(Withheld::NotLoadBalancer);
    }
    if service.ingress.is_empty() {
        return Err(Withheld::NoIp);
    }
    let addresses = service.ingress.addresses().ok_or(Withheld::InvalidIp)?;
    match config.pools_holding(&addresses, service.recorded_pool.as_deref()) {
        Some(pools) => Ok(addresses.into_iter().zip(pools).collect()),
        None => Err(Withheld::NotAllowedByPools),
    }
}

/// Whether an address of a Service is to be announced by BGP, on whatever node.
pub fn is_for_bgp(config: &Config, service: &LoadBalancer, address: IpAddr) -> bool {
    let located = locate(config, service).unwrap_or_default();
    let Some((_, pool)) = located.into_iter().find(|(it, _)| *it == address) else { return false };
    let mut advertisements = config.bgp_advertisements().values();
    advertisements.any(|it| it.pools.contains(pool) && it.selects_service(&service.labels))
}

fn pool_names(located: &[Located<'_>]) -> String {
    let mut names: Vec<&str> = located.iter().map(|(_, pool)| *pool).collect();
    names.dedup();
    names.join(&RECORD_SEPARATOR.to_string())
}

/// Why an address is announced for another Service and not for this one.
fn given_twice(input: &PlanInput<'_>, service: &LoadBalancer, address: IpAddr) -> Option<Withheld> {
    let keeper = input.doubled.get(&address)?.get(&*service.key)?;
    Some(Withheld::GivenTwice { keeper: keeper.clone() })
}

/// Routes that this node sends its BGP peers, by name of the peer; to the others none.
pub type Routes = BTreeMap<String, Arc<AdjRibOut>>;

/// Brings the routes of all Services together: one that several have gets the communities of all.
pub fn routes<'a>(plans: impl IntoIterator<Item = &'a ServicePlan>) -> Routes {
    bgp::merge(plans)
}
