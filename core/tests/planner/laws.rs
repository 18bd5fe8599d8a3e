//! What holds for every cluster.

use super::*;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

fn some_nodes() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(&NODES[..], 0..=4)
}

proptest! {
    /// Over the views of all nodes an address has at most one announcer; exactly one if all Services
    /// that hold it accept a common node; none if nobody can serve.
    #[test]
    fn exactly_one_owner(
        services in prop::collection::vec((1..6u8, any::<bool>(), some_nodes()), 1..8),
        excluded in some_nodes(),
        members in some_nodes(),
        selected in some_nodes(),
    ) {
        let mut world = World::new(&NODES);
        world.members = members.iter().map(|node| (*node).to_owned()).collect();
        for node in &excluded {
            world = world.excluded(node);
        }
        world = world.ads(selected.iter().map(|node| ad_on(node, node)));
        for (index, (last, local, endpoints)) in services.iter().enumerate() {
            let svc = service("ns", &format!("s{index}")).holding(&[&format!("10.20.30.{last}")]);
            let svc = svc.shared("k").ports(&[("TCP", 80 + i32::try_from(index).unwrap())]);
            world = world.service(svc.local(*local).ready_on(endpoints));
        }
        let mut announcers: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        for node in &members {
            for address in world.announced(node).into_keys() {
                announcers.entry(address).or_default().push(node);
            }
        }
        let usable = |node: &&&str| members.contains(*node) && selected.contains(*node) && !excluded.contains(*node);
        for last in 1..6 {
            let address = std::net::IpAddr::from([10, 20, 30, last]);
            let possible = services.iter().any(|(it, local, endpoints)| {
                *it == last && !endpoints.is_empty()
                    && NODES.iter().filter(usable).any(|node| !*local || endpoints.contains(node))
            });
            let count = announcers.get(&address).map_or(0, Vec::len);
            prop_assert_eq!(count, usize::from(possible), "{:?}", announcers);
        }
    }

    /// Removing a node that does not own an address moves nothing.
    #[test]
    fn losing_another_node_moves_nothing(last in 1..=255u8, lost in 0..4usize) {
        let world = |members: &[&str]| {
            let mut world = World::new(&NODES).everywhere().service(holding(last).ready_on(&["n1"]));
            world.members = members.iter().map(|node| (*node).to_owned()).collect();
            world
        };
        let before = world(&NODES).announcers();
        let rest: Vec<&str> = NODES.iter().copied().filter(|node| *node != NODES[lost]).collect();
        let after = world(&rest).announcers();
        prop_assert_eq!(after.split(' ').count(), 1);
        prop_assert!(before == NODES[lost] || after == before);
    }
}
