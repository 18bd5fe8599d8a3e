//! From objects to the configuration in force: the only validation there is. Admission, controller,
//! speakers and command line all ask this one function.
//!
//! Decided here:
//! - every finding is reported, not only the first, and the bad object alone is left out;
//! - the result does not depend on the order of the input: when two pools overlap, the one that was
//!   created later is to blame (by creation time, then by name; one without a creation time is not
//!   stored yet and so the latest). A pool that is left out for whatever reason claims no addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::v1beta1::IPAddressPool;
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::diagnostic::{Diagnostic, Kind, Message, ObjectRef, PoolProblem};
use super::pools::{LeftOutPool, Pool};
use super::ranges::{Family, IpRange, to_number};
use super::{Config, advertisements, pools};
use crate::resources::Resources;
use crate::selector::Labels;

/// What [`compile`] makes of the objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// What is in force.
    pub config: Config,
    /// Everything that is wrong, by object.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles the configuration. Total: it has a result for every input.
pub fn compile(resources: &Resources) -> Compiled {
    compile_with_last(resources, None)
}

/// As [`compile`], but the pool of this name counts as the latest, whatever its creation time: so a
/// change that makes an old pool overlap is blamed on the change.
pub(crate) fn compile_with_last(resources: &Resources, last_pool: Option<&str>) -> Compiled {
    let mut compiled = Compiled::default();
    compile_pools(resources, last_pool, &mut compiled);
    compile_l2_advertisements(resources, &mut compiled);
    compiled.diagnostics.sort_by(|a, b| a.object.cmp(&b.object));
    compiled
}

fn compile_pools(resources: &Resources, last_pool: Option<&str>, compiled: &mut Compiled) {
    let mut in_order: Vec<&Arc<IPAddressPool>> = resources.pools.values().collect();
    in_order.sort_by_key(|pool| {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        (last_pool == Some(name), Age::of(pool.metadata.creation_timestamp.as_ref()), name)
    });
    for object in in_order {
        let (pool, findings) = pools::parse(object, &resources.namespaces);
        let unreadable = findings.iter().any(|(_, problem)| matches!(problem, PoolProblem::InvalidEntry(_)));
        let mut messages: Vec<(String, Message)> = findings
            .into_iter()
            .map(|(field, problem)| (field, Message::Pool { pool: pool.name.clone(), problem }))
            .collect();
        let claimed = claim(&pool, object, &compiled.config, &mut messages);
        if messages.is_empty() {
            compiled.config.by_address.extend(claimed);
            compiled.config.pools.insert(pool.name.clone(), pool);
        } else {
            let object = ObjectRef { kind: Kind::IpAddressPool, name: pool.name.clone() };
            let findings = messages.into_iter().map(|(field, message)| Diagnostic {
                object: object.clone(),
                field,
                message,
            });
            compiled.diagnostics.extend(findings);
            let trace = LeftOutPool {
                name: pool.name.clone(),
                ranges: pool.ranges,
                has_unreadable_entries: unreadable,
            };
            compiled.config.left_out.insert(pool.name, trace);
        }
    }
}

/// Creation time as a sort key: no time is later than any.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Age<'a> {
    Created(&'a Time),
    New,
}

impl<'a> Age<'a> {
    fn of(time: Option<&'a Time>) -> Self {
        time.map_or(Self::New, Self::Created)
    }
}

type ByAddress = BTreeMap<(Family, u128), (IpRange, String)>;

/// The ranges of a pool, keyed by where they start. What overlaps, with the pools in force or within
/// the pool itself, is reported, once for each entry.
fn claim(
    pool: &Pool,
    object: &IPAddressPool,
    config: &Config,
    messages: &mut Vec<(String, Message)>,
) -> ByAddress {
    let mut own = ByAddress::new();
    for (index, entry) in object.spec.addresses.iter().enumerate() {
        let Ok(range) = entry.parse::<IpRange>() else { continue };
        let earlier = overlapping(&config.by_address, &range).or_else(|| overlapping(&own, &range));
        if let Some((earlier_range, earlier_pool)) = earlier {
            let (cidr, earlier) = first_common(&range, earlier_range);
            let message = Message::PoolOverlap {
                pool: pool.name.clone(),
                cidr,
                earlier,
                earlier_pool: earlier_pool.clone(),
            };
            messages.push((format!("spec.addresses[{index}]"), message));
        } else {
            own.insert((range.family(), to_number(range.first())), (range, pool.name.clone()));
        }
    }
    own
}

/// The lowest range of `claimed` (whose ranges are disjoint) that shares an address with `range`.
fn overlapping<'a>(claimed: &'a ByAddress, range: &IpRange) -> Option<&'a (IpRange, String)> {
    let family = range.family();
    let (first, last) = (to_number(range.first()), to_number(range.last()));
    let before = claimed.range(..=(family, first)).next_back().map(|(_, it)| it);
    before
        .filter(|(earlier, _)| earlier.contains(range.first()))
        .or_else(|| claimed.range((family, first)..=(family, last)).next().map(|(_, it)| it))
}

/// The first prefixes of two overlapping ranges that overlap.
fn first_common(a: &IpRange, b: &IpRange) -> (IpNet, IpNet) {
    let common = a.first().max(b.first());
    let around = |range: &IpRange| {
        // The common address lies in both ranges, so in one of the prefixes of each.
        range.cidrs().find(|cidr| cidr.contains(&common)).unwrap_or_else(|| IpNet::from(common))
    };
    (around(a), around(b))
}

fn compile_l2_advertisements(resources: &Resources, compiled: &mut Compiled) {
    let no_labels = Labels::new();
    for object in resources.l2_advertisements.values() {
        let (mut parsed, selection, findings) = advertisements::parse(object, &resources.nodes);
        let (kind, name) = (Kind::L2Advertisement, parsed.name.clone());
        let reference = ObjectRef { kind, name: name.clone() };
        let usable = findings.is_empty();
        compiled.diagnostics.extend(findings.into_iter().map(|(field, problem)| Diagnostic {
            object: reference.clone(),
            field,
            message: Message::Advertisement { advertisement: name.clone(), problem },
        }));
        let unknown = selection.names().filter(|pool| !resources.pools.contains_key(*pool));
        compiled.diagnostics.extend(unknown.map(|pool| Diagnostic {
            object: reference.clone(),
            field: "spec.ipAddressPools".to_owned(),
            message: Message::UnknownPool { advertisement: name.clone(), pool: pool.clone() },
        }));
        if usable {
            parsed.pools =
                selection.resolve(resources.pools.iter().map(|(name, pool)| {
                    (name.as_str(), pool.metadata.labels.as_ref().unwrap_or(&no_labels))
                }));
            compiled.config.l2_advertisements.insert(name, parsed);
        }
    }
}
