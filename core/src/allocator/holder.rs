//! Who keeps an address that several Services hold although they cannot share it.
//!
//! One controller never gives an address twice. It can still happen: no precondition of the API spans
//! two Services, so a leader that was paused between its decision and its write may give away what its
//! successor gave meanwhile. Its write came last, whatever the clocks say, and it is told by its term:
//! the assignment of the later term was there first. The rule needs the two Services only.

use std::cmp::Reverse;

use k8s_openapi::jiff::Timestamp;

use crate::service::LoadBalancer;

/// Sort key: who keeps an address stands before who has to go. Between equals the order of the keys
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// What somebody else wrote into a status is no claim against an assignment.
    overwritten: bool,
    /// Term of the assignment; what is from before there were any comes last.
    term: Reverse<Option<i32>>,
    age: Age,
}

impl Rank {
    /// Of a Service.
    pub fn of(service: &LoadBalancer) -> Self {
        let overwritten = service.is_overwritten();
        let grant = service.grant.as_ref().filter(|_| !overwritten);
        Self { overwritten, term: Reverse(grant.map(|grant| grant.term)), age: age(service) }
    }
}

/// Oldest first, one without a creation time last.
type Age = (bool, Option<Timestamp>);

/// Sort key: oldest first.
pub(super) fn age(service: &LoadBalancer) -> Age {
    let created = service.created.as_ref().map(|time| time.0);
    (created.is_none(), created)
}

/// Of Services that hold one address, those that have to go, each with one that stays and does not share
/// with it. Those stay that are first by [`Rank`], and whoever can share with all before.
pub fn yielding<'a>(
    holders: impl IntoIterator<Item = &'a LoadBalancer>,
) -> Vec<(&'a LoadBalancer, &'a LoadBalancer)> {
    let mut holders: Vec<&LoadBalancer> = holders.into_iter().collect();
    holders.sort_by_key(|service| (Rank::of(service), &service.key));
    let (mut staying, mut yielding): (Vec<&LoadBalancer>, Vec<_>) = Default::default();
    for service in holders {
        let shares =
            |it: &LoadBalancer| it.sharing.allows(&service.sharing) && it.ports.is_disjoint(&service.ports);
        match staying.iter().find(|it| !shares(it)) {
            Some(keeper) => yielding.push((service, *keeper)),
            None => staying.push(service),
        }
    }
    yielding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ServiceBuilder, service};

    fn named(name: &str) -> ServiceBuilder {
        service("ns", name).holding(&["1.2.3.4"])
    }

    /// Names of the Services that stay.
    fn kept(services: &[ServiceBuilder]) -> String {
        let services: Vec<LoadBalancer> = services.iter().map(|it| it.clone().lb()).collect();
        let going: Vec<&str> = yielding(&services).iter().map(|(it, _)| it.key.name.as_str()).collect();
        let names = services.iter().map(|it| it.key.name.as_str());
        let mut names: Vec<&str> = names.filter(|name| !going.contains(name)).collect();
        names.sort_unstable();
        names.join(" ")
    }

    #[test]
    fn the_write_of_an_earlier_term_came_late() {
        let old = || named("old").created(1).granted(5);
        let new = || named("new").created(2).granted(6);
        assert_eq!(kept(&[old(), new()]), "new");
        // One that was there before terms were recorded, and one that was written by hand.
        assert_eq!(kept(&[new(), named("before").created(0)]), "new");
        assert_eq!(kept(&[named("b").created(2), named("a").created(3)]), "b");
        assert_eq!(kept(&[named("b"), named("a")]), "a");
        assert_eq!(
            kept(&[named("old").created(9).granted(1), named("other").granted(9).holding(&["1.2.3.5"])]),
            "old"
        );
    }

    #[test]
    fn what_somebody_wrote_into_a_status_is_no_claim() {
        let thief = named("a").created(1).holding(&["1.2.3.9"]).granted(9).holding(&["1.2.3.4"]);
        assert!(thief.clone().lb().is_overwritten());
        assert_eq!(kept(&[thief, named("b").created(2)]), "b");
    }

    #[test]
    fn whoever_can_share_stays() {
        let shared = |name: &str, port| named(name).shared("k").ports(&[("TCP", port)]);
        assert_eq!(kept(&[shared("a", 80), shared("b", 443), shared("c", 80).granted(1)]), "b c");
        assert_eq!(kept(&[shared("a", 80), named("b").ports(&[("TCP", 443)])]), "a");
    }
}
