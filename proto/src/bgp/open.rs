//! OPEN (RFC 4271 §4.2): who the speaker is and what it can do.

use std::net::Ipv4Addr;

use super::Asn;
use super::capability::Capability;
use super::error::{Fault, MessageError};
use crate::reader::Reader;

const VERSION: u8 = 4;
/// The optional parameter that holds capabilities (RFC 5492).
const CAPABILITIES: u8 = 2;
/// Lengths of two octets follow (RFC 9072).
const EXTENDED: u8 = 255;

/// An OPEN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// From the capability of RFC 6793 where there is one.
    pub(super) asn: Asn,
    /// In seconds; 0: no KEEPALIVEs.
    pub(super) hold_time: u16,
    pub(super) identifier: Ipv4Addr,
    pub(super) capabilities: Vec<Capability>,
}

impl Open {
    /// Reads the body, whose first byte is at `offset` of the message.
    pub(super) fn decode(body: &[u8], offset: usize) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body, offset);
        let malformed = |offset: usize, fault| MessageError { offset, fault };
        let parameters_fault = |offset: usize| malformed(offset, Fault::OptionalParameters);
        let short = |error: crate::error::DecodeError| parameters_fault(error.offset);

        let version = reader.u8().map_err(short)?;
        if version != VERSION {
            return Err(malformed(offset, Fault::Version(version)));
        }
        let two_octets = reader.u16().map_err(short)?;
        let at = reader.offset();
        let hold_time = reader.u16().map_err(short)?;
        if matches!(hold_time, 1 | 2) {
            return Err(malformed(at, Fault::HoldTime(hold_time)));
        }
        let at = reader.offset();
        let identifier = Ipv4Addr::from(reader.array::<4>().map_err(short)?);
        if identifier.is_unspecified() {
            return Err(malformed(at, Fault::Identifier));
        }
        let capabilities = parameters(&mut reader)?;
        let four_octets = capabilities.iter().find_map(|capability| match capability {
            Capability::FourOctetAs(asn) => Some(*asn),
            Capability::Multiprotocol(_)
            | Capability::RouteRefresh
            | Capability::ExtendedNextHop { .. }
            | Capability::GracefulRestart(_)
            | Capability::Other(_) => None,
        });
        let asn = four_octets.unwrap_or(Asn(u32::from(two_octets)));
        Ok(Self { asn, hold_time, identifier, capabilities })
    }

    /// The body.
    pub(super) fn encode(&self) -> Vec<u8> {
        let capabilities: Vec<u8> = self.capabilities.iter().flat_map(Capability::encode).collect();
        // What we offer is far below what one parameter holds.
        let length = u8::try_from(capabilities.len()).unwrap_or_default();
        let mut body = vec![VERSION];
        body.extend(self.asn.two_octets().to_be_bytes());
        body.extend(self.hold_time.to_be_bytes());
        body.extend(self.identifier.octets());
        body.extend([length.saturating_add(2), CAPABILITIES, length]);
        body.extend(capabilities);
        body
    }
}

fn parameters(reader: &mut Reader<'_>) -> Result<Vec<Capability>, MessageError> {
    let fault = |offset: usize, fault| MessageError { offset, fault };
    let short = |error: crate::error::DecodeError| fault(error.offset, Fault::OptionalParameters);

    let at = reader.offset();
    let short_length = reader.u8().map_err(short)?;
    let mut rest = reader.bytes(reader.remaining()).map_err(short)?;
    let extended = matches!((short_length, rest), (1.., [EXTENDED, ..]));
    let mut offset = at + 1;
    let mut length = usize::from(short_length);
    if extended {
        let (header, after) = rest.split_at_checked(3).ok_or(fault(offset, Fault::OptionalParameters))?;
        length = usize::from(u16::from_be_bytes([
            header.get(1).copied().unwrap_or_default(),
            header.get(2).copied().unwrap_or_default(),
        ]));
        rest = after;
        offset += 3;
    }
    if rest.len() != length {
        return Err(fault(at, Fault::OptionalParameters));
    }
    let mut reader = Reader::new(rest, offset);
    let mut capabilities = Vec::new();
    while !reader.is_empty() {
        let at = reader.offset();
        let kind = reader.u8().map_err(short)?;
        let length =
            if extended { reader.u16().map_err(short)? } else { u16::from(reader.u8().map_err(short)?) };
        if kind != CAPABILITIES {
            return Err(fault(at, Fault::OptionalParameter(kind)));
        }
        let at = reader.offset();
        let mut inside = Reader::new(reader.bytes(usize::from(length)).map_err(short)?, at);
        while !inside.is_empty() {
            let at = inside.offset();
            let (code, length) = (inside.u8().map_err(short)?, inside.u8().map_err(short)?);
            let value = inside.bytes(usize::from(length)).map_err(short)?;
            let capability = Capability::decode(code, value).ok_or(fault(at, Fault::OptionalParameters))?;
            capabilities.push(capability);
        }
    }
    Ok(capabilities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bgp::Family;
    use crate::testing::unhex;

    fn open() -> Open {
        Open {
            asn: Asn(4_200_000_001),
            hold_time: 90,
            identifier: Ipv4Addr::new(192, 168, 10, 20),
            capabilities: vec![
                Capability::Multiprotocol(Some(Family::Ipv4Unicast)),
                Capability::RouteRefresh,
                Capability::FourOctetAs(Asn(4_200_000_001)),
            ],
        }
    }

    #[test]
    fn an_open_reads_back_and_has_the_bytes_of_the_rfc() {
        let bytes = open().encode();
        assert_eq!(Open::decode(&bytes, 19), Ok(open()));
        // Version 4, AS_TRANS, 90 s, the identifier, one parameter of 14 octets of capabilities.
        assert_eq!(bytes[..12], [4, 0x5b, 0xa0, 0, 90, 192, 168, 10, 20, 16, 2, 14]);
    }

    #[test]
    fn opens_of_other_routers_are_read() {
        // An Arista without four-octet AS numbers, with graceful restart.
        let arista = unhex("04fde900b4b9ecf0400e020c01040001000102004002 00b4".replace(' ', "").as_str());
        let open = Open::decode(&arista, 19).unwrap();
        assert_eq!((open.asn, open.hold_time), (Asn(65001), 180));
        assert_eq!(open.capabilities.len(), 3);
        // Parameters one capability each, as older ones send them.
        let each = unhex("04fc0100b4c0a80a0110020601040001000102 0641040000fc01".replace(' ', "").as_str());
        assert_eq!(Open::decode(&each, 19).unwrap().capabilities.len(), 2);
        // RFC 9072.
        let extended = unhex("04fc0100b4c0a80a01ffff0009020006410400010000");
        assert_eq!(Open::decode(&extended, 19).unwrap().asn, Asn(65536));
        let none = unhex("04fc0100b4c0a80a0100");
        assert_eq!(Open::decode(&none, 19).unwrap().asn, Asn(64513));
    }

    #[test]
    fn opens_that_cannot_be_are_refused_where_they_are_wrong() {
        for (bytes, offset, fault) in [
            ("03fc0100b4c0a80a0100", 19, Fault::Version(3)),
            ("04fc010002c0a80a0100", 22, Fault::HoldTime(2)),
            ("04fc0100b40000000000", 24, Fault::Identifier),
            ("04fc0100b4c0a80a0101", 28, Fault::OptionalParameters),
            ("04fc0100b4c0a80a010000", 28, Fault::OptionalParameters),
            ("04fc0100b4c0a80a0104010200ff", 29, Fault::OptionalParameter(1)),
            ("04fc0100b4c0a80a010402044104", 33, Fault::OptionalParameters),
            ("04fc0100b4c0a80a01040202 4104", 33, Fault::OptionalParameters),
            ("04fc0100b4c0a80a0105020341 01ff", 31, Fault::OptionalParameters),
            ("04fc0100b4c0a80a01ffff00", 29, Fault::OptionalParameters),
        ] {
            let bytes = unhex(&bytes.replace(' ', ""));
            assert_eq!(Open::decode(&bytes, 19), Err(MessageError { offset, fault }), "{bytes:02x?}");
        }
    }
}
