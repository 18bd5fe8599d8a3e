use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::bgp::testing::apply;
use crate::bgp::{Asn, Community};
use crate::testing::unhex;

fn export(internal: bool) -> Export {
    let external = AsPath::External { asn: Asn(64512), four_octets: true };
    Export {
        path: if internal { AsPath::Internal } else { external },
        ipv4: true,
        ipv6: true,
        extended_next_hop: false,
        next_hops: NextHops { v4: "192.168.10.20".parse().ok(), v6: "fd00:10::20".parse().ok() },
    }
}

fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix::around(address.parse().unwrap(), length.parse().unwrap()).unwrap()
}

fn with(communities: &[u32]) -> PathAttributes {
    PathAttributes {
        communities: communities.iter().copied().map(Community).collect(),
        ..PathAttributes::default()
    }
}

fn rib(routes: &[(&str, &[u32])]) -> AdjRibOut {
    routes.iter().map(|(route, communities)| (prefix(route), Arc::new(with(communities)))).collect()
}

#[test]
fn routes_with_equal_attributes_share_a_message_and_withdrawals_come_first() {
    let sent = rib(&[("10.0.0.1/32", &[]), ("10.0.0.2/32", &[7]), ("fd00::1/128", &[])]);
    let wanted =
        rib(&[("10.0.0.2/32", &[7]), ("10.0.0.3/32", &[]), ("10.1.2.0/24", &[]), ("fd00::2/128", &[])]);
    let updates = export(false).updates(&sent, &wanted);
    let marker = "ff".repeat(16);
    let expected = [
        format!("{marker}001c 02 0005 20 0a000001 0000"),
        format!("{marker}002e 02 0000 0017 800f14 0002 01 80 fd00{}01", "00".repeat(13)),
        format!(
            "{marker}0034 02 0000 0014 40010100 400206 02010000fc00 400304c0a80a14 \
             20 0a000003 18 0a0102"
        ),
        format!(
            "{marker}004d 02 0000 0036 800e26 0002 01 10 fd000010{}20 00 80 fd00{}02 \
             40010100 400206 02010000fc00",
            "00".repeat(11),
            "00".repeat(13)
        ),
    ];
    let hex = |it: &Vec<u8>| it.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected: Vec<String> = expected.iter().map(|it| hex(&unhex(&it.replace(' ', "")))).collect();
    assert_eq!(updates.iter().map(hex).collect::<Vec<_>>(), expected);
}

#[test]
fn nothing_changed_means_nothing_sent() {
    let routes = rib(&[("10.0.0.1/32", &[7]), ("fd00::1/128", &[])]);
    assert!(export(false).updates(&routes, &routes).is_empty());
    // An external peer never sees a local preference, so a change of it is none.
    let preferred = |value| {
        let attributes = PathAttributes { local_preference: value, ..PathAttributes::default() };
        AdjRibOut::from([(prefix("10.0.0.1/32"), Arc::new(attributes))])
    };
    let (before, _) = export(false).sendable(&preferred(None));
    let (after, _) = export(false).sendable(&preferred(Some(300)));
    assert!(export(false).updates(&before, &after).is_empty());
    // An internal one does, and gets the usual value where none is configured.
    let (before, _) = export(true).sendable(&preferred(None));
    let (after, _) = export(true).sendable(&preferred(Some(300)));
    assert_eq!(export(true).updates(&before, &after).len(), 1);
    assert_eq!(before[&prefix("10.0.0.1/32")].local_preference, Some(100));
}

#[test]
fn what_cannot_be_sent_is_left_out_with_its_reason() {
    let huge: Vec<u32> = (0..1100).collect();
    let wanted = rib(&[("10.0.0.1/32", &[]), ("10.0.0.2/32", &huge), ("fd00::1/128", &[])]);
    let reasons = |export: &Export| {
        let (sendable, unsent) = export.sendable(&wanted);
        assert_eq!(sendable.len() + unsent.len(), wanted.len());
        unsent.into_iter().map(|(prefix, why)| (prefix.to_string(), why)).collect::<Vec<_>>()
    };
    let too_long = ("10.0.0.2/32".to_owned(), Unsent::AttributesTooLong);
    assert_eq!(reasons(&export(false)), std::slice::from_ref(&too_long));
    let ipv6 = |why| ("fd00::1/128".to_owned(), why);
    let without_family = Export { ipv6: false, ..export(false) };
    let not_negotiated = ipv6(Unsent::FamilyNotNegotiated(Family::Ipv6Unicast));
    assert_eq!(reasons(&without_family), [too_long.clone(), not_negotiated]);
    let next_hops = NextHops { v6: None, ..export(false).next_hops };
    let without_address = Export { next_hops, ..export(false) };
    assert_eq!(reasons(&without_address), [too_long, ipv6(Unsent::NoNextHop(Family::Ipv6Unicast))]);
}

/// One octet of length counts 63 communities (RFC 4271 §4.3).
#[test]
fn more_communities_than_one_octet_counts_are_sent() {
    for (count, header) in [(63, "c008fc"), (64, "d0080100"), (900, "d0080e10")] {
        let communities: Vec<u32> = (0..count).collect();
        let wanted = rib(&[("10.0.0.1/32", &communities), ("10.0.0.2/32", &[])]);
        let (sendable, unsent) = export(false).sendable(&wanted);
        assert!(unsent.is_empty(), "{count}");
        let mut table = BTreeMap::new();
        apply(&mut table, &export(false).updates(&AdjRibOut::new(), &sendable));
        let octets: Vec<u8> = communities.iter().flat_map(|it| it.to_be_bytes()).collect();
        let attribute = [unhex(header), octets].concat();
        let has = |attributes: &Vec<u8>| attributes.ends_with(&attribute);
        assert_eq!(table.values().map(has).collect::<Vec<_>>(), [true, false], "{count}");
    }
}

#[test]
fn ipv4_takes_an_ipv6_next_hop_only_where_that_was_agreed() {
    let next_hops = NextHops { v4: None, ..export(false).next_hops };
    let agreed = Export { extended_next_hop: true, next_hops, ..export(false) };
    let wanted = rib(&[("10.0.0.1/32", &[])]);
    let (sendable, unsent) = agreed.sendable(&wanted);
    assert!(unsent.is_empty());
    let [update] = agreed.updates(&AdjRibOut::new(), &sendable).try_into().unwrap();
    // MP_REACH_NLRI of AFI 1 with a next hop of 16 octets, and no NEXT_HOP.
    assert_eq!(update[23..31], [0x80, 14, 26, 0, 1, 1, 16, 0xfd]);
    let (sendable, unsent) = Export { extended_next_hop: false, ..agreed }.sendable(&wanted);
    assert!(sendable.is_empty());
    assert_eq!(unsent.into_values().collect::<Vec<_>>(), [Unsent::NoNextHop(Family::Ipv4Unicast)]);
}

#[test]
fn ten_thousand_routes_need_few_messages() {
    let attributes = Arc::new(with(&[1, 2, 3]));
    let wanted: AdjRibOut = (0..10_000u32)
        .map(|it| {
            let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + it));
            (Prefix::around(address, 32).unwrap(), Arc::clone(&attributes))
        })
        .collect();
    let updates = export(false).updates(&AdjRibOut::new(), &wanted);
    assert_eq!(updates.len(), 13, "50,000 octets of routes, over 4,000 a message");
    let withdrawn = export(false).updates(&wanted, &AdjRibOut::new());
    assert_eq!(withdrawn.len(), 13);
    let mut table = BTreeMap::new();
    apply(&mut table, &updates);
    assert_eq!(table.len(), 10_000);
    apply(&mut table, &withdrawn);
    assert!(table.is_empty());
}

#[test]
fn the_end_of_each_table_is_told() {
    let ends = export(false).end_of_rib();
    assert_eq!(
        ends.iter().map(|it| it[19..].to_vec()).collect::<Vec<_>>(),
        [vec![0, 0, 0, 0], vec![0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1],]
    );
}

fn any_rib() -> impl Strategy<Value = AdjRibOut> {
    let v4 = (0u32..40, 24u8..=32).prop_map(|(host, length)| {
        Prefix::around(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + host * 64)), length).unwrap()
    });
    let v6 = (0u128..40, 120u8..=128).prop_map(|(host, length)| {
        Prefix::around(IpAddr::V6(Ipv6Addr::from((0xfd00u128 << 112) + host * 64)), length).unwrap()
    });
    let attributes = (proptest::option::of(0u32..3), proptest::collection::btree_set(0u32..4, 0..3))
        .prop_map(|(local_preference, communities)| {
            let communities: BTreeSet<Community> = communities.into_iter().map(Community).collect();
            Arc::new(PathAttributes { local_preference, communities, ..PathAttributes::default() })
        });
    proptest::collection::btree_map(prop_oneof![v4, v6], attributes, 0..60)
}

proptest! {
    /// From any table to any other: the peer ends with exactly what it would have of a fresh session,
    /// and is told nothing twice.
    #[test]
    fn the_difference_leads_to_what_is_wanted(a in any_rib(), b in any_rib(), internal: bool) {
        let export = export(internal);
        let (a, b) = (export.sendable(&a).0, export.sendable(&b).0);
        let mut table = BTreeMap::new();
        apply(&mut table, &export.updates(&AdjRibOut::new(), &a));
        apply(&mut table, &export.updates(&a, &b));
        let mut fresh = BTreeMap::new();
        apply(&mut fresh, &export.updates(&AdjRibOut::new(), &b));
        prop_assert_eq!(&table, &fresh);
        prop_assert_eq!(table.len(), b.len());
    }
}
