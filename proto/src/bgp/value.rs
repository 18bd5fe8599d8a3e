//! The values that routes are made of, each with the text people write it in.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// An autonomous system's number (RFC 6793: four octets).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asn(pub u32);

impl Asn {
    /// Stands for a number that does not fit two octets (RFC 6793 §9).
    pub const TRANS: u16 = 23456;

    /// The number in two octets, or what stands for it there.
    pub fn two_octets(self) -> u16 {
        u16::try_from(self.0).unwrap_or(Self::TRANS)
    }
}

impl fmt::Display for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A community (RFC 1997).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Community(pub u32);

impl Community {
    /// RFC 8326: the path is about to go.
    pub const GRACEFUL_SHUTDOWN: Self = Self::new(65535, 0);

    /// `high:low`, as people write it.
    pub const fn new(high: u16, low: u16) -> Self {
        Self((high as u32) << 16 | low as u32)
    }
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// A large community (RFC 8092).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LargeCommunity {
    /// Whose it is: an AS number.
    pub global: u32,
    /// First part of what the owner defines.
    pub first: u32,
    /// Second part.
    pub second: u32,
}

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.global, self.first, self.second)
    }
}

/// What a route is for and a session can be negotiated for: a family of unicast addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// AFI 1, SAFI 1.
    Ipv4Unicast,
    /// AFI 2, SAFI 1.
    Ipv6Unicast,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4Unicast, Self::Ipv6Unicast];
    pub(super) const UNICAST: u8 = 1;

    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Ipv4Unicast } else { Self::Ipv6Unicast }
    }

    pub(super) fn afi(self) -> u16 {
        match self {
            Self::Ipv4Unicast => 1,
            Self::Ipv6Unicast => 2,
        }
    }

    pub(super) fn from_wire(afi: u16, safi: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.afi() == afi && safi == Self::UNICAST)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4Unicast => "ipv4 unicast",
            Self::Ipv6Unicast => "ipv6 unicast",
        })
    }
}

/// A block of addresses, without bits beyond its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpNet);

impl Prefix {
    /// The block of this length around an address; none if no address has so many bits.
    pub fn around(address: IpAddr, length: u8) -> Option<Self> {
        IpNet::new(address, length).ok().map(|net| Self(net.trunc()))
    }

    /// Its first address.
    pub fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// How many bits all its addresses share.
    pub fn length(self) -> u8 {
        self.0.prefix_len()
    }

    /// Its family.
    pub fn family(self) -> Family {
        Family::of(self.address())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_usual_text() {
        assert_eq!(Community::new(65535, 65281).to_string(), "65535:65281");
        assert_eq!(LargeCommunity { global: 1, first: 2, second: 3 }.to_string(), "1:2:3");
        assert!(Community::new(0, 1234) < Community::new(0, 2345));
        let prefix = Prefix::around("10.20.30.45".parse().unwrap(), 24).unwrap();
        assert_eq!(prefix.to_string(), "10.20.30.0/24");
        let prefix = Prefix::around("2001:db8::1234".parse().unwrap(), 124).unwrap();
        assert_eq!(
            (prefix.to_string().as_str(), prefix.family()),
            ("2001:db8::1230/124", Family::Ipv6Unicast)
        );
        assert_eq!(Prefix::around("10.0.0.1".parse().unwrap(), 33), None);
        assert_eq!(Prefix::around("0.0.0.0".parse().unwrap(), 0).unwrap().to_string(), "0.0.0.0/0");
        assert_eq!((Asn(64512).two_octets(), Asn(4_200_000_000).two_octets()), (64512, 23456));
    }
}
