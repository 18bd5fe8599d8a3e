//! Why a Service does not have the address it asks for. The texts are those of MetalLB where it has
//! any; they end up in Events that people search for.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::config::Holder;
use crate::service::{FamilyError, Port, RequestError, ServiceKey};
use crate::text::{Quoted, QuotedList, quoted_list};

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no pool.
    NoPools,
    /// The Service has no cluster address.
    NoClusterIp,
    /// It requires two families, its cluster addresses have one.
    NotEnoughClusterIps,
    /// The families of its cluster addresses cannot be told.
    ClusterFamilies(FamilyError),
    /// Its request for addresses cannot be understood.
    Request(RequestError),
    /// It asks for addresses of other families than its own.
    RequestedFamilies(Vec<IpAddr>),
    /// It asks for addresses and for a pool that does not hold them.
    RequestedPool {
        /// The addresses.
        addresses: Vec<IpAddr>,
        /// The pool.
        pool: String,
    },
    /// No pool that it may use has a free address.
    Exhausted,
    /// The pool that it asks for has no free address.
    PoolExhausted(String),
    /// The pool cannot give an address of each family.
    NoDualStack(String),
    /// The pool that it asks for does not exist, or is left out for an error.
    UnknownPool(String),
    /// No single pool contains (and may give) all the addresses. `None` stands for one that could not
    /// be found.
    NotInPool(Vec<Option<IpAddr>>),
    /// The pool of its one address has none of the other family, which it would prefer to have too.
    OneFamily(IpAddr),
    /// The pool is not for this Service.
    NotAdmitted(String),
    /// Others have the address, and do not share it with this Service.
    SharingMismatch {
        /// The Service.
        service: Arc<ServiceKey>,
        /// The others.
        others: Vec<ServiceKey>,
    },
    /// Another Service occupies the port on the address that both would share.
    PortConflict {
        /// The port.
        port: Port,
        /// The address.
        address: IpAddr,
    },
    /// The address is reserved for somebody else.
    Reserved {
        /// The address.
        address: IpAddr,
        /// Whom it is for.
        holder: Arc<Holder>,
        /// Name of the AddressReservation.
        reservation: String,
    },
    /// The Services of the namespace have as many addresses as they may.
    QuotaExceeded {
        /// The namespace.
        namespace: String,
        /// How many these are.
        limit: usize,
    },
    /// A host that is no speaker has the address.
    AddressConflict(IpAddr),
    /// Somebody else (by the name of its field manager) insists on writing the status.
    Contested(String),
}

impl Refusal {
    /// In one word, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPools => "NoPools",
            Self::NoClusterIp => "NoClusterIP",
            Self::NotEnoughClusterIps => "NotEnoughClusterIPs",
            Self::ClusterFamilies(_) => "InvalidClusterIPs",
            Self::Request(_) => "InvalidRequest",
            Self::RequestedFamilies(_) => "FamilyMismatch",
            Self::RequestedPool { .. } => "PoolMismatch",
            Self::Exhausted => "Exhausted",
            Self::PoolExhausted(_) => "PoolExhausted",
            Self::NoDualStack(_) => "NoDualStack",
            Self::UnknownPool(_) => "UnknownPool",
            Self::NotInPool(_) => "NotInPool",
            Self::OneFamily(_) => "OneFamily",
            Self::NotAdmitted(_) => "NotAdmitted",
            Self::SharingMismatch { .. } => "SharingMismatch",
            Self::PortConflict { .. } => "PortConflict",
            Self::Reserved { .. } => "Reserved",
            Self::QuotaExceeded { .. } => "QuotaExceeded",
            Self::AddressConflict(_) => "AddressConflict",
            Self::Contested(_) => "Contested",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPools => f.write_str("no address pool is configured"),
            Self::NoClusterIp => f.write_str("the service has no cluster IP"),
            Self::NotEnoughClusterIps => f.write_str("the service requires two cluster IPs"),
            Self::ClusterFamilies(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::RequestedFamilies(addresses) => write!(
                f,
                "requested loadBalancer IP(s) {} does not match the ipFamily of the service",
                quoted_list(addresses)
            ),
            Self::RequestedPool { addresses, pool } => write!(
                f,
                "requested loadBalancer IP(s) {} is not compatible with requested address pool {pool}",
                quoted_list(addresses)
            ),
            Self::Exhausted => f.write_str("no available IPs"),
            Self::PoolExhausted(pool) => write!(f, "no available IPs in pool {pool}"),
            Self::NoDualStack(pool) => write!(f, "no available IPs in pool {pool} for dual IPFamily"),
            Self::UnknownPool(pool) => write!(f, "unknown pool {}", Quoted(pool)),
            Self::NotInPool(addresses) => write!(f, "{} is not allowed in config", QuotedList(addresses)),
            Self::OneFamily(address) => {
                write!(f, "{} is not allowed in config", QuotedList(&[Some(*address), None]))
            }
            Self::NotAdmitted(pool) => write!(f, "pool {pool} not compatible for ip assignment"),
            Self::SharingMismatch { service, others } => {
                let others: Vec<String> = others.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "can't change sharing key for \"{service}\", address also in use by {}",
                    others.join(",")
                )
            }
            Self::PortConflict { port, address } => {
                write!(f, "port {port} is already in use on \"{address}\"")
            }
            Self::Reserved { address, holder, reservation } => {
                write!(
                    f,
                    "\"{address}\" is reserved for {holder} by AddressReservation {}",
                    Quoted(reservation)
                )
            }
            Self::QuotaExceeded { namespace, limit } => write!(
                f,
                "namespace {namespace} may have {limit} addresses (maxAddresses of an AddressReservation) and has no \
                 more left"
            ),
            Self::AddressConflict(address) => write!(
                f,
                "a host outside the cluster uses \"{address}\": remove it there, or ask for another address"
            ),
            Self::Contested(writer) => write!(f, "the status is written by {} as well", Quoted(writer)),
        }
    }
}
