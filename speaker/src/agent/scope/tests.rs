//! Whatever happens from one pass to the next: a plan that takes over what still holds is the plan made of
//! nothing, and so is what is said of it.

use ferrolb_api::v1beta1::{BGPAdvertisementSpec, L2AdvertisementSpec};
use ferrolb_core::planner::{Member, Seen};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{bgp_advertisement, bgp_peer, endpoint, l2_advertisement, node, pool, service};
use proptest::prelude::*;

use super::super::readings::LoadBalancers;
use super::super::testing::world;
use super::super::view::{Plan, plan};
use super::*;
use crate::status::Report;

const NODES: [&str; 3] = ["a", "b", "c"];

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A Service, by number, is this: some of the addresses, with or without a sharing key, Local or not, with
    /// endpoints on some nodes.
    Is {
        number: u8,
        addresses: Vec<u8>,
        shares: bool,
        local: bool,
        ready: u8,
    },
    Gone {
        number: u8,
    },
    Seen {
        address: u8,
        by: u8,
    },
    Member {
        node: u8,
        alive: bool,
    },
    Excluded {
        node: u8,
        excluded: bool,
    },
    Stands {
        address: u8,
        on_interface: bool,
    },
    Settled(bool),
    Hold(bool),
    Recompiled,
}

fn step() -> impl Strategy<Value = Step> {
    let address = || 0..4u8;
    let service = (0..5u8, prop::collection::vec(address(), 0..3), any::<bool>(), any::<bool>(), 0..8u8);
    prop_oneof![
        6 => service.prop_map(|(number, addresses, shares, local, ready)| {
            Step::Is { number, addresses, shares, local, ready }
        }),
        2 => (0..5u8).prop_map(|number| Step::Gone { number }),
        4 => (address(), 0..4u8).prop_map(|(address, by)| Step::Seen { address, by }),
        1 => (0..3u8, any::<bool>()).prop_map(|(node, alive)| Step::Member { node, alive }),
        1 => (0..3u8, any::<bool>()).prop_map(|(node, excluded)| Step::Excluded { node, excluded }),
        1 => (address(), any::<bool>())
            .prop_map(|(address, on_interface)| Step::Stands { address, on_interface }),
        1 => prop::bool::weighted(0.8).prop_map(Step::Settled),
        1 => prop::bool::weighted(0.2).prop_map(Step::Hold),
        1 => Just(Step::Recompiled),
    ]
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

fn resources() -> Resources {
    let peers = ["10.9.0.1", "10.9.0.2"].map(|it| bgp_peer(&format!("peer-{it}"), it));
    Resources::default()
        .with_pools([pool("pool", &["10.0.0.0-10.0.0.2"])])
        .with_l2_advertisements([l2_advertisement("l2", L2AdvertisementSpec::default())])
        .with_bgp_advertisements([bgp_advertisement("bgp", BGPAdvertisementSpec::default())])
        .with_bgp_peers(peers)
        .with_nodes(NODES.map(|name| node(name, &[])))
}

fn beginning() -> World {
    world(&resources(), LoadBalancers::new())
}

fn after(world: &World, step: &Step) -> World {
    let mut world = world.clone();
    let key = |number: &u8| ServiceKey { namespace: "demo".to_owned(), name: number.to_string() };
    let name = |node: &u8| NODES[usize::from(*node)];
    match step {
        Step::Is { number, addresses, shares, local, ready } => {
            let texts: Vec<String> = addresses.iter().map(|it| address(*it).to_string()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let on = (0..3u8).filter(|node| ready & (1 << node) != 0);
            let mut service = service("demo", &number.to_string()).uid(&number.to_string()).holding(&texts);
            service = service.local(*local).endpoints(on.map(|node| endpoint(name(&node), Some(true), None)));
            if *shares {
                service = service.shared("key");
            }
            world.services.insert(key(number), Arc::new(service.lb()));
        }
        Step::Gone { number } => drop(world.services.remove(&key(number))),
        Step::Seen { address: of, by } => {
            let seen = match by {
                0 => Some(Seen::Here),
                1 => Some(Seen::Elsewhere(Some("b".to_owned()))),
                2 => Some(Seen::Conflict([2, 0, 0, 0, 0, 9].into())),
                _ => None,
            };
            match seen {
                Some(seen) => drop(world.wire.insert(address(*of), seen)),
                None => drop(world.wire.remove(&address(*of))),
            }
        }
        Step::Member { node, alive } => {
            let member = Member { alive: *alive, interfaces: None };
            world.members.insert(name(node).to_owned(), member);
        }
        Step::Excluded { node: of, excluded } => {
            let label = [("node.kubernetes.io/exclude-from-external-load-balancers", "")];
            let object = node(name(of), label.get(usize::from(!excluded)..).unwrap_or_default());
            world.nodes.insert(name(of).to_owned(), (&object).into());
        }
        Step::Stands { address: of, on_interface: true } => {
            world.kernel.insert(address(*of), "lo".to_owned());
        }
        Step::Stands { address: of, on_interface: false } => drop(world.kernel.remove(&address(*of))),
        Step::Settled(settled) => world.settled = *settled,
        Step::Hold(hold) => world.hold = *hold,
        Step::Recompiled => world.compiled = beginning().compiled,
    }
    world
}

proptest! {
    #[test]
    fn what_is_taken_over_is_what_would_be_planned(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = beginning();
        let mut planned = plan(&world, None, &Plan::default());
        let mut said = Report::new(&planned, &[], &world, None);
        for step in steps {
            let next = after(&world, &step);
            let anew = plan(&next, None, &planned);
            let taken = plan(&next, Some(&world), &planned);
            prop_assert_eq!(&taken, &anew, "{:?}", step);
            let report = Report::new(&taken, &[], &next, Some((&planned, &said)));
            prop_assert_eq!(&report, &Report::new(&anew, &[], &next, None), "{:?}", step);
            (world, planned, said) = (next, taken, report);
        }
    }
}

/// A Service that changes leaves the plans of those alone that share nothing with it.
#[test]
fn others_are_not_planned_anew() {
    let is =
        |number: u8, of: u8| Step::Is { number, addresses: vec![of], shares: true, local: false, ready: 7 };
    let world = [is(0, 0), is(1, 0), is(2, 1)].iter().fold(beginning(), |world, step| after(&world, step));
    let before = plan(&world, None, &Plan::default());
    let kept = |step: Step| -> Vec<bool> {
        let next = after(&world, &step);
        let now = plan(&next, Some(&world), &before);
        let same =
            |(key, plan): (&ServiceKey, _)| now.services.get(key).is_some_and(|it| Arc::ptr_eq(it, plan));
        before.services.iter().map(same).collect()
    };
    assert_eq!(kept(is(0, 0)), [false, false, true], "it has the address together with the second");
    assert_eq!(kept(is(2, 2)), [true, true, false]);
    assert_eq!(kept(Step::Gone { number: 1 }), [false, false, true]);
    assert_eq!(kept(Step::Seen { address: 1, by: 0 }), [true, true, false]);
    assert_eq!(kept(Step::Stands { address: 1, on_interface: true }), [true; 3]);
    assert_eq!(kept(Step::Excluded { node: 2, excluded: true }), [false; 3]);
}
