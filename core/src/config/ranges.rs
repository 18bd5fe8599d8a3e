//! Ranges of IP addresses: reading the entries of a pool, and set questions about them.
//!
//! Decided here: an entry is a prefix (host bits are masked off) or an inclusive range of one
//! family. IPv4 addresses written as IPv6 (`::ffff:1.2.3.4`) become IPv4. A range with ends of
//! different families, which MetalLB takes for an empty one, is refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, IpSubnets, Ipv4Net, Ipv4Subnets, Ipv6Subnets};

use crate::text::Quoted;

/// An IP address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// An address as a number, for arithmetic inside one family.
pub(crate) fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The way back. An IPv4 number is always below 2^32: it came from [`to_number`].
pub(crate) fn from_number(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        Family::V6 => Ipv6Addr::from_bits(number).into(),
    }
}

/// Whether old network equipment is known to drop it: IPv4 that ends in .0 or .255.
pub fn is_buggy(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if matches!(v4.octets()[3], 0 | 255))
}

/// An inclusive range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpRange {
    first: IpAddr,
    last: IpAddr,
}

impl IpRange {
    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// The family of all its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// Whether the address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.family() == Family::of(address) && self.first <= address && address <= self.last
    }

    /// The prefixes it consists of, as few as possible, in ascending order.
    pub fn cidrs(&self) -> impl Iterator<Item = IpNet> + use<> {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => IpSubnets::V4(Ipv4Subnets::new(first, last, 0)),
            (first, last) => IpSubnets::V6(Ipv6Subnets::new(as_v6(first), as_v6(last), 0)),
        }
    }

    /// Length of the largest of the prefixes it consists of.
    pub(crate) fn shortest_prefix(&self) -> u8 {
        let (first, last) = (to_number(self.first), to_number(self.last));
        // All of IPv6 is one more than fits.
        let Some(size) = (last - first).checked_add(1) else { return 0 };
        let bits = size.ilog2();
        let begins = first.checked_next_multiple_of(1 << bits);
        let fits = begins.is_some_and(|begins| begins <= last && last - begins >= (1 << bits) - 1);
        // A block of half that size always fits.
        let bits = if fits { bits } else { bits.saturating_sub(1) };
        let all = if self.first.is_ipv4() { 32 } else { 128 };
        u8::try_from(all - bits).unwrap_or_default()
    }

    /// How many addresses; saturating, since all of IPv6 is one more than fits.
    pub fn len(&self) -> u128 {
        (to_number(self.last) - to_number(self.first)).saturating_add(1)
    }

    /// A range is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// How many of its addresses [`is_buggy`] holds for.
    pub fn buggy(&self) -> u128 {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                // Buggy addresses below n: each full 256 has two, and .0 is the first of a begun one.
                let below = |n: u64| (n / 256) * 2 + u64::from(!n.is_multiple_of(256));
                u128::from(below(u64::from(last.to_bits()) + 1) - below(u64::from(first.to_bits())))
            }
            _ => 0,
        }
    }

    /// The addresses that are in both.
    pub fn common(&self, other: &Self) -> Option<Self> {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        (self.family() == other.family() && first <= last).then_some(Self { first, last })
    }

    pub(crate) fn numbers(&self) -> std::ops::RangeInclusive<u128> {
        to_number(self.first)..=to_number(self.last)
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => self.first.fmt(f),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

impl FromStr for IpRange {
    type Err = RangeError;

    fn from_str(entry: &str) -> Result<Self, RangeError> {
        let fail = |reason| RangeError { entry: entry.to_owned(), reason };
        let Some((start, end)) = entry.split_once('-') else {
            let net = prefix(entry).ok_or_else(|| fail(RangeProblem::NotPrefix))?;
            let net = canonical(net.trunc());
            return Ok(Self { first: net.network(), last: net.broadcast() });
        };
        let address = |text: &str| text.trim().parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let first = address(start).ok_or_else(|| fail(RangeProblem::BadStart(start.to_owned())))?;
        let last = address(end).ok_or_else(|| fail(RangeProblem::BadEnd(end.to_owned())))?;
        if Family::of(first) != Family::of(last) {
            Err(fail(RangeProblem::MixedFamilies { first, last }))
        } else if first > last {
            Err(fail(RangeProblem::Inverted { first, last }))
        } else {
            Ok(Self { first, last })
        }
    }
}

/// What a prefix with bits beyond its length is read as; none if it has none, or is no prefix.
pub(super) fn host_bits(entry: &str) -> Option<IpNet> {
    let net = prefix(entry)?;
    (net.addr() != net.network()).then(|| canonical(net.trunc()))
}

/// Stricter than the parser of `ipnet`, which accepts leading zeros.
fn prefix(entry: &str) -> Option<IpNet> {
    let (address, length) = entry.split_once('/')?;
    if !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

fn canonical(net: IpNet) -> IpNet {
    match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match v6.network().to_ipv4_mapped() {
            Some(v4) => Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(net, IpNet::V4),
            None => net,
        },
        net => net,
    }
}

/// An entry that is neither a prefix nor a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeError {
    /// The entry as written.
    pub entry: String,
    /// What is wrong with it.
    pub reason: RangeProblem,
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeProblem {
    /// Has no `-` and is no prefix either (a bare address is not one).
    NotPrefix,
    /// What stands before the first `-` is no address.
    BadStart(String),
    /// What stands after the first `-` is no address.
    BadEnd(String),
    /// The ends are in the wrong order.
    Inverted {
        /// Start as written.
        first: IpAddr,
        /// End as written.
        last: IpAddr,
    },
    /// One end is IPv4, the other IPv6.
    MixedFamilies {
        /// Start as written.
        first: IpAddr,
        /// End as written.
        last: IpAddr,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = Quoted(&self.entry);
        match &self.reason {
            RangeProblem::NotPrefix => write!(f, "invalid CIDR {entry}"),
            RangeProblem::BadStart(text) => {
                write!(f, "invalid IP range {entry}: invalid start IP {}", Quoted(text))
            }
            RangeProblem::BadEnd(text) => {
                write!(f, "invalid IP range {entry}: invalid end IP {}", Quoted(text))
            }
            RangeProblem::Inverted { first, last } => {
                write!(f, "invalid IP range {entry}: start IP \"{first}\" is after the end IP \"{last}\"")
            }
            RangeProblem::MixedFamilies { first, last } => write!(
                f,
                "invalid IP range {entry}: start IP \"{first}\" and end IP \"{last}\" are of different families"
            ),
        }
    }
}

impl std::error::Error for RangeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_prefixes_and_ranges() {
        for (entry, first, last, cidrs) in [
            ("10.20.30.40/24", "10.20.30.0", "10.20.30.255", "10.20.30.0/24"),
            ("1.2.3.4/32", "1.2.3.4", "1.2.3.4", "1.2.3.4/32"),
            (
                "40.0.0.210 - 40.0.0.240",
                "40.0.0.210",
                "40.0.0.240",
                "40.0.0.210/31 40.0.0.212/30 40.0.0.216/29 40.0.0.224/28 40.0.0.240/32",
            ),
            ("40.0.0.250 - 40.0.0.250", "40.0.0.250", "40.0.0.250", "40.0.0.250/32"),
            ("2001:db8::7/64", "2001:db8::", "2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64"),
            ("fd00::1-fd00::2", "fd00::1", "fd00::2", "fd00::1/128 fd00::2/128"),
            ("::ffff:1.2.3.4/120", "1.2.3.0", "1.2.3.255", "1.2.3.0/24"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
            ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
        ] {
            let range: IpRange = entry.parse().unwrap_or_else(|error| panic!("{entry}: {error}"));
            assert_eq!(
                (range.first().to_string(), range.last().to_string()),
                (first.to_owned(), last.to_owned())
            );
            assert_eq!(range.cidrs().map(|net| net.to_string()).collect::<Vec<_>>().join(" "), cidrs);
        }
    }

    #[test]
    fn refuses_everything_else_with_the_known_text() {
        for (entry, message) in [
            ("1.2.3.0/33", r#"invalid CIDR "1.2.3.0/33""#),
            ("1.2.3.4", r#"invalid CIDR "1.2.3.4""#),
            (" 10.0.0.0/8", r#"invalid CIDR " 10.0.0.0/8""#),
            ("10.0.00.0/8", r#"invalid CIDR "10.0.00.0/8""#),
            ("fe80::%eth0/64", r#"invalid CIDR "fe80::%eth0/64""#),
            ("10.0.0.0/+8", r#"invalid CIDR "10.0.0.0/+8""#),
            ("", r#"invalid CIDR """#),
            ("x -1.2.3.4", r#"invalid IP range "x -1.2.3.4": invalid start IP "x ""#),
            ("1.2.3.4-5-6", r#"invalid IP range "1.2.3.4-5-6": invalid end IP "5-6""#),
            (
                "192.168.10.220-192.168.10.200",
                r#"invalid IP range "192.168.10.220-192.168.10.200": start IP "192.168.10.220" is after the end IP "192.168.10.200""#,
            ),
            (
                "1.2.3.4-2001:db8::1",
                r#"invalid IP range "1.2.3.4-2001:db8::1": start IP "1.2.3.4" and end IP "2001:db8::1" are of different families"#,
            ),
        ] {
            assert_eq!(entry.parse::<IpRange>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_shortest_prefix_is_that_of_the_largest_block() {
        let around = |number: u128| (0..9).map(move |it| number.wrapping_add(it).wrapping_sub(4));
        let numbers = |all: &[u128], max: u128| -> Vec<u128> {
            all.iter().flat_map(|it| around(*it)).filter(|it| *it <= max).collect()
        };
        for (family, max) in [(Family::V4, u128::from(u32::MAX)), (Family::V6, u128::MAX)] {
            let numbers = numbers(&[0, 64, 3 << 20, max / 2 + 1, max], max);
            for (first, last) in numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b))) {
                if first <= last {
                    let (first, last) = (from_number(family, first), from_number(family, last));
                    let range = IpRange { first, last };
                    let shortest = range.cidrs().map(|cidr| cidr.prefix_len()).min();
                    assert_eq!(Some(range.shortest_prefix()), shortest, "{range}");
                }
            }
        }
    }

    #[test]
    fn counts_buggy_addresses() {
        for (entry, buggy) in [
            ("1.2.3.0/24", 2),
            ("1.2.3.0/32", 1),
            ("1.2.3.1-1.2.3.254", 0),
            ("1.2.0.0/16", 512),
            ("1.2.3.255-1.2.4.0", 2),
            ("0.0.0.0/0", 1 << 25),
            ("fd00::/64", 0),
        ] {
            assert_eq!(entry.parse::<IpRange>().unwrap().buggy(), buggy, "{entry}");
        }
    }
}
