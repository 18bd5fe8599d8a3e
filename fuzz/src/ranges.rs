//! Entries of a pool, one a line, up to the configuration that they make.

use std::net::IpAddr;

use ferrolb_core::config::compile;
use ferrolb_core::config::ranges::IpRange;
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::pool;

/// More would only be slow.
const MOST: usize = 16;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let entries: Vec<&str> = text.lines().take(MOST).collect();
    for entry in &entries {
        match entry.parse::<IpRange>() {
            Ok(range) => obeys(entry, &range),
            Err(error) => assert!(error.to_string().starts_with("invalid "), "{error}"),
        }
    }
    let resources = Resources::default().with_pools([pool("all", &entries)]);
    let compiled = compile(&resources);
    for finding in &compiled.diagnostics {
        assert!(!finding.to_string().is_empty() && !finding.remedy().is_empty(), "{finding:?}");
    }
    let left_out = compiled.diagnostics.iter().any(|finding| finding.leaves_out());
    assert_eq!(compiled.config.pools().contains_key("all"), !left_out, "{:?}", compiled.diagnostics);
    // What is in force is disjoint, so each address leads back to its pool.
    for range in compiled.config.pools().values().flat_map(|pool| &pool.ranges) {
        for end in [range.first(), range.last()] {
            assert!(compiled.config.pool_around(end).is_some(), "{end} of {range:?} is in no pool");
        }
    }
}

fn obeys(entry: &str, range: &IpRange) {
    assert!(range.first() <= range.last() && range.buggy() <= range.len(), "{entry}: {range:?}");
    assert_eq!(range.first().is_ipv4(), range.last().is_ipv4(), "{entry}: one family");
    assert!(range.contains(range.first()) && range.contains(range.last()), "{entry}");
    // Written out, it reads as the same; but an end that is IPv4 written as IPv6 (that of ::/80) reads as IPv4.
    if [range.first(), range.last()].iter().all(|end| end.to_canonical() == *end) {
        let written = format!("{}-{}", range.first(), range.last());
        assert_eq!(written.parse().as_ref(), Ok(range), "{entry}");
    }
    // Its prefixes are the same addresses, in order and without a gap.
    let mut next = Some(range.first());
    for cidr in range.cidrs() {
        assert_eq!(Some(cidr.network()), next, "{entry}: {cidr}");
        next = successor(cidr.broadcast());
    }
    assert_eq!(next, successor(range.last()), "{entry}");
}

fn successor(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}
