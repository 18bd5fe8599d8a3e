//! Reservations: which of them are in force, and for which addresses of which pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Compiling;
use super::pools::overlapping;
use crate::config::diagnostic::{Kind, Message, ObjectRef, ReservationProblem};
use crate::config::ranges::IpRange;
use crate::config::reservations::{self, Holder, Parsed, Quota, Reserved};
use crate::config::selectors::Finding;
use crate::config::table::{Key, key};

impl Compiling<'_> {
    /// After the pools. Of a reservation that is left out the addresses that can be read are given to nobody:
    /// whom they were meant for is not known, but that they were not meant for everybody is.
    pub(super) fn reservations(&mut self) {
        let objects = &self.resources.reservations;
        let in_order = self.by_age(Kind::AddressReservation, objects, |it| &it.metadata);
        let mut claimed: BTreeMap<Key, (IpRange, Arc<str>)> = BTreeMap::new();
        for (name, object) in in_order {
            let Parsed { holder, ranges, quotas, mut findings } = reservations::parse(object);
            let owner: Arc<str> = name.as_str().into();
            let mut own: Vec<(usize, IpRange)> = Vec::with_capacity(ranges.len());
            for (place, range) in ranges {
                match overlapping(&claimed, &range) {
                    Some((_, earlier)) => {
                        let problem = ReservationProblem::Overlap { range, earlier: (**earlier).to_owned() };
                        findings.push((format!("spec.addresses[{place}]"), problem));
                    }
                    None => {
                        claimed.insert(key(range.first()), (range, Arc::clone(&owner)));
                        own.push((place, range));
                    }
                }
            }
            findings.extend(self.unknown_namespaces(&holder, &quotas));
            let located: Vec<(IpRange, String)> =
                own.iter().flat_map(|(place, range)| self.in_pools(*place, range, &mut findings)).collect();
            let reference = ObjectRef::new(Kind::AddressReservation, name);
            let message = |problem| Message::Reservation { reservation: name.clone(), problem };
            let left_out = self.report(&reference, &None, findings, message);
            let holder = Arc::new(if left_out { Holder::Nobody } else { holder });
            let in_force = &mut self.compiled.config.reservations;
            for (range, pool) in located {
                let (holder, reservation) = (Arc::clone(&holder), name.clone());
                in_force.add(Reserved { range, pool, holder, reservation });
            }
            for (namespace, limit) in quotas.iter().filter(|_| !left_out) {
                let quota = Quota { addresses: *limit, reservation: name.clone() };
                in_force.limit(namespace, quota);
            }
        }
    }

    /// The parts of a range that pools in force have.
    fn in_pools(
        &self,
        place: usize,
        range: &IpRange,
        findings: &mut Vec<Finding<ReservationProblem>>,
    ) -> Vec<(IpRange, String)> {
        let shared = self.compiled.config.pools.overlapping(range);
        let parts: Vec<(IpRange, String)> =
            shared.filter_map(|(of_pool, pool)| Some((range.common(of_pool)?, pool.name.clone()))).collect();
        let covered = parts.iter().map(|(part, _)| part.len()).fold(0, u128::saturating_add);
        if covered < range.len() {
            let problem = match parts.is_empty() {
                true => ReservationProblem::NotInPool(*range),
                false => ReservationProblem::PartlyInPool(*range),
            };
            findings.push((format!("spec.addresses[{place}]"), problem));
        }
        parts
    }

    fn unknown_namespaces(
        &self,
        holder: &Holder,
        quotas: &[(String, usize)],
    ) -> Vec<Finding<ReservationProblem>> {
        let known: &BTreeMap<_, _> = &self.resources.namespaces;
        let holder = match holder {
            Holder::Service(key) => Some(("spec.service.namespace".to_owned(), &key.namespace)),
            Holder::Namespace(name) => Some(("spec.namespace".to_owned(), name)),
            Holder::Nobody => None,
        };
        let of_quotas = quotas.iter().enumerate();
        let of_quotas = of_quotas.map(|(index, (name, _))| (format!("spec.quotas[{index}].namespace"), name));
        let all = holder.into_iter().chain(of_quotas);
        // Who knows no Namespace cannot say that one is missing; an empty name is another matter.
        let unknown = all.filter(|(_, name)| !known.is_empty() && !name.is_empty());
        let unknown = unknown.filter(|(_, name)| !known.contains_key(*name));
        unknown.map(|(field, name)| (field, ReservationProblem::UnknownNamespace(name.clone()))).collect()
    }
}
