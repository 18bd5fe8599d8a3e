//! ROUTE-REFRESH (RFC 2918): the peer wants the routes of a family again.

use super::Family;

/// The family asked for. None where it is not one of ours, or where the message is one of RFC 7313,
/// which we do not offer, or has any other form (to be ignored).
pub(super) fn decode(body: &[u8]) -> Option<Family> {
    match *body {
        [high, low, 0, safi] => Family::from_wire(u16::from_be_bytes([high, low]), safi),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_requests_for_known_families_count() {
        assert_eq!(decode(&[0, 1, 0, 1]), Some(Family::Ipv4Unicast));
        assert_eq!(decode(&[0, 2, 0, 1]), Some(Family::Ipv6Unicast));
        assert_eq!(decode(&[0, 1, 0, 128]), None, "VPN");
        assert_eq!(decode(&[0, 1, 1, 1]), None, "beginning of an enhanced refresh");
        assert_eq!(decode(&[0, 1, 0, 1, 0]), None);
    }
}
