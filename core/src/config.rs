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
pub mod reservations;
mod reserved;
mod selectors;
mod table;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub use self::advertisements::{Interfaces, L2Advertisement};
pub use self::bfd::BfdProfile;
pub use self::bgp_advertisements::BgpAdvertisement;
pub use self::compile::{Compiled, Compiler, compile};
pub use self::diagnostic::{
    AdvertisementProblem, BfdField, BfdProblem, BgpAdvertisementProblem, CommunityProblem,
    CommunityValueError, Diagnostic, Kind, Message, ObjectRef, PeerProblem, PoolProblem, ReservationProblem,
    Reserved, SelectorField, Severity,
};
pub use self::memory::Memory;
pub use self::peers::{Neighbor, Password, Peer, RemoteAs, Timers};
pub use self::pools::{LeftOutPool, Pool};
pub use self::reservations::{Holder, Quota, Reservations};
use self::table::Table;

/// The configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pools: Arc<Table>,
    left_out: BTreeMap<String, LeftOutPool>,
    l2_advertisements: BTreeMap<String, Arc<L2Advertisement>>,
    bgp_advertisements: BTreeMap<String, Arc<BgpAdvertisement>>,
    peers: BTreeMap<String, Arc<Peer>>,
    reservations: Reservations,
}

/// Between the names of the pools that the addresses of a Service are recorded to come from. It is part of
/// no name.
pub const RECORD_SEPARATOR: char = ',';

impl Config {
    /// The pools in force, by name.
    pub fn pools(&self) -> &BTreeMap<String, Arc<Pool>> {
        self.pools.by_name()
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

    /// Which addresses are kept for whom, and how many a namespace may have.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Whether nobody configured any pool, good or bad.
    pub fn has_no_pools(&self) -> bool {
        self.pools().is_empty() && self.left_out.is_empty()
    }

    /// The pool in force that an address belongs to, whether it may be used or not. Pools never
    /// overlap, so there is at most one.
    pub fn pool_around(&self, address: IpAddr) -> Option<&Pool> {
        self.pools.around(address)
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
        let contains = |pool: &&LeftOutPool| addresses.iter().all(|it| pool.contains(*it));
        let names: Vec<&str> = recorded.into_iter().flat_map(|it| it.split(RECORD_SEPARATOR)).collect();
        let named = || names.iter().filter_map(|name| self.left_out.get(*name));
        named()
            .find(contains)
            // Of two pools that are recorded, who gave which address cannot be told from the record.
            .or_else(|| {
                let alone = addresses.len() == 1;
                named().find(|pool| names.len() == 1 || (alone && pool.has_unreadable_entries))
            })
            .or_else(|| self.left_out.values().find(contains))
            .or_else(|| {
                let unreadable = || self.left_out.values().find(|pool| pool.has_unreadable_entries);
                recorded.is_none().then(unreadable)?
            })
    }

    /// Names of the pools, in force or left out, that a Service holds these addresses from: one for each.
    /// A pool that has all of them comes first; a pair may be from two.
    pub fn pools_holding(&self, addresses: &[IpAddr], recorded: Option<&str>) -> Option<Vec<&str>> {
        let of = |addresses: &[IpAddr]| match self.pool_with(addresses) {
            Some(pool) => Some(pool.name.as_str()),
            None => Some(self.left_out_pool_with(addresses, recorded)?.name.as_str()),
        };
        match of(addresses) {
            Some(pool) => Some(vec![pool; addresses.len()]),
            None => addresses.iter().map(|address| of(&[*address])).collect(),
        }
    }
}
