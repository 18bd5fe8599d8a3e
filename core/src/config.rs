//! The configuration in force: what [`compile`] made of the objects in the cluster.
//!
//! Everything in here is checked and resolved (selectors against nodes and namespaces, advertisements
//! against pools), so that nobody downstream checks again. A bad object is left out, not the whole
//! configuration; of a pool that is left out a trace remains ([`LeftOutPool`]), since addresses that
//! Services hold from it are kept and go on being announced.

pub mod advertisements;
pub mod bfd;
pub mod bgp_advertisements;
pub mod communities;
mod compile;
mod diagnostic;
mod kept;
mod lookup;
mod memory;
pub mod peers;
pub mod pools;
pub mod ranges;
mod reserved;
mod selectors;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub use self::advertisements::{Interfaces, L2Advertisement};
pub use self::bfd::BfdProfile;
pub use self::bgp_advertisements::BgpAdvertisement;
pub(crate) use self::compile::compile_with_last;
pub use self::compile::{Compiled, Compiler, compile};
pub use self::diagnostic::{
    AdvertisementProblem, BfdField, BfdProblem, BgpAdvertisementProblem, CommunityProblem,
    CommunityValueError, Diagnostic, Kind, Message, ObjectRef, PeerProblem, PoolProblem, Reserved,
    SelectorField, Severity,
};
pub use self::memory::Memory;
pub use self::peers::{Neighbor, Password, Peer, RemoteAs, Timers};
pub use self::pools::{LeftOutPool, Pool};
use self::ranges::{Family, IpRange, to_number};

/// The configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pools: Arc<BTreeMap<String, Arc<Pool>>>,
    left_out: BTreeMap<String, LeftOutPool>,
    l2_advertisements: BTreeMap<String, Arc<L2Advertisement>>,
    bgp_advertisements: BTreeMap<String, Arc<BgpAdvertisement>>,
    peers: BTreeMap<String, Arc<Peer>>,
    by_address: Arc<ByAddress>,
}

/// The ranges of the pools in force, in order: no two share an address.
type ByAddress = Vec<(IpRange, Arc<Pool>)>;

impl Config {
    /// The pools in force, by name.
    pub fn pools(&self) -> &BTreeMap<String, Arc<Pool>> {
        &self.pools
    }

    /// The pools that are left out, by name.
    pub fn left_out_pools(&self) -> &BTreeMap<String, LeftOutPool> {
        &self.left_out
    }

    /// The L2 advertisements in force, by name.
    pub fn l2_advertisements(&self) -> &BTreeMap<String, Arc<L2Advertisement>> {
        &self.l2_advertisements
    }

    /// The BGP advertisements in force, by name.
    pub fn bgp_advertisements(&self) -> &BTreeMap<String, Arc<BgpAdvertisement>> {
        &self.bgp_advertisements
    }

    /// The BGP peers in force, by name, each with its BFD profile.
    pub fn peers(&self) -> &BTreeMap<String, Arc<Peer>> {
        &self.peers
    }

    /// Whether nobody configured any pool, good or bad.
    pub fn has_no_pools(&self) -> bool {
        self.pools.is_empty() && self.left_out.is_empty()
    }

    /// The pool in force that an address belongs to, whether it may be used or not. Pools never
    /// overlap, so there is at most one.
    pub fn pool_around(&self, address: IpAddr) -> Option<&Pool> {
        let key = (Family::of(address), to_number(address));
        let begins = |range: &IpRange| (range.family(), to_number(range.first()));
        let after = self.by_address.partition_point(|(range, _)| begins(range) <= key);
        let (range, pool) = self.by_address.get(after.checked_sub(1)?)?;
        range.contains(address).then_some(&**pool)
    }

    /// The one pool in force that holds all these addresses and may give them.
    pub fn pool_with(&self, addresses: &[IpAddr]) -> Option<&Pool> {
        let pool = self.pool_around(*addresses.first()?)?;
        addresses.iter().all(|address| pool.offers(*address)).then_some(pool)
    }

    /// The left-out pool that a Service holds these addresses from: the one it was told when the
    /// addresses were given (`recorded`, its annotation); without a usable record the one whose
    /// readable entries contain them; and without any record any pool with an entry that cannot be
    /// read, since the addresses may have been in it.
    pub fn left_out_pool_with(&self, addresses: &[IpAddr], recorded: Option<&str>) -> Option<&LeftOutPool> {
        if addresses.is_empty() {
            return None;
        }
        recorded
            .and_then(|name| self.left_out.get(name))
            .or_else(|| self.left_out.values().find(|pool| addresses.iter().all(|it| pool.contains(*it))))
            .or_else(|| {
                let unreadable = || self.left_out.values().find(|pool| pool.has_unreadable_entries);
                recorded.is_none().then(unreadable)?
            })
    }

    /// Name of the pool, in force or left out, that a Service holds these addresses from.
    pub fn pool_holding(&self, addresses: &[IpAddr], recorded: Option<&str>) -> Option<&str> {
        match self.pool_with(addresses) {
            Some(pool) => Some(&pool.name),
            None => Some(&self.left_out_pool_with(addresses, recorded)?.name),
        }
    }
}
