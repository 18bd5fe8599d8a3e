//! Received UPDATEs (RFC 4271 §4.3): checked as RFC 7606 says. Nothing received is ever installed; which
//! routes the peer has is counted. A fault is told, and the session stays: routes with it count as withdrawn.
//! Only what makes routes unreadable ends it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::error::{Fault, MessageError};
use super::{Family, Prefix, attribute};
use crate::reader::Reader;

const OPTIONAL: u8 = 0x80;
const TRANSITIVE: u8 = 0x40;
const EXTENDED_LENGTH: u8 = 0x10;

/// A fault that RFC 7606 answers without ending the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// §3(c): its flags are not those of its type.
    #[error("attribute {0} has the wrong flags")]
    Flags(u8),
    /// §7: its value is none that its type has.
    #[error("attribute {0} is malformed")]
    Value(u8),
    /// §3(d): a route has no such attribute.
    #[error("routes without attribute {0}")]
    Missing(u8),
    /// §4: the last attribute does not fit where attributes are.
    #[error("attributes do not fit their total length")]
    AttributeLengths,
}

impl Malformed {
    /// Whether the routes stay, without the attribute (RFC 7606 §7.6, §7.7; RFC 6793 §6).
    fn spares_routes(self) -> bool {
        let spared = [attribute::ATOMIC_AGGREGATE, attribute::AGGREGATOR, attribute::AS4_PATH];
        matches!(self, Self::Flags(kind) | Self::Value(kind) if spared.contains(&kind))
    }
}

/// What an UPDATE says of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) announced: Vec<Prefix>,
    pub(super) withdrawn: Vec<Prefix>,
    pub(super) malformed: Option<Malformed>,
}

impl Update {
    fn new(announced: Vec<Prefix>, mut withdrawn: Vec<Prefix>, malformed: Option<Malformed>) -> Self {
        if malformed.is_some_and(|it| !it.spares_routes()) {
            withdrawn.extend(announced);
            return Self { announced: Vec::new(), withdrawn, malformed };
        }
        Self { announced, withdrawn, malformed }
    }
}

/// Reads the body of an UPDATE, whose first byte is at `offset` of the message.
pub(super) fn decode(body: &[u8], offset: usize, four_octets: bool) -> Result<Update, MessageError> {
    let lengths = |offset: usize| MessageError { offset, fault: Fault::UpdateLengths };
    let mut reader = Reader::new(body, offset);
    let mut field = || {
        let at = reader.offset();
        let length = reader.u16().map_err(|_| lengths(at))?;
        let start = reader.offset();
        Ok((start, reader.bytes(usize::from(length)).map_err(|_| lengths(at))?))
    };
    let (withdrawn_at, withdrawn) = field()?;
    let (attributes_at, attributes) = field()?;
    let routes_at = reader.offset();
    let routes = reader.bytes(reader.remaining()).map_err(|_| lengths(routes_at))?;

    let unreadable = |offset| MessageError { offset, fault: Fault::Routes };
    let mut withdrawn = prefixes(withdrawn, Family::Ipv4Unicast).ok_or(unreadable(withdrawn_at))?;
    let mut announced = prefixes(routes, Family::Ipv4Unicast).ok_or(unreadable(routes_at))?;
    let plain = announced.len();
    let reader = Reader::new(attributes, attributes_at);
    let mut attributes =
        Attributes { reader, four_octets, seen: [false; 256], reached: Vec::new(), unreached: Vec::new() };
    let mut malformed = None;
    while !attributes.reader.is_empty() {
        match attributes.next()? {
            Ok(()) => {}
            Err(fault @ Malformed::AttributeLengths) => {
                malformed = Some(fault);
                break;
            }
            // Of two the graver one counts.
            Err(fault) => malformed = malformed.filter(|it| !it.spares_routes()).or(Some(fault)),
        }
    }
    announced.append(&mut attributes.reached);
    withdrawn.append(&mut attributes.unreached);
    if malformed == Some(Malformed::AttributeLengths) {
        return Ok(Update::new(announced, withdrawn, malformed));
    }
    let multiprotocol = attributes.has(attribute::MP_REACH_NLRI);
    let mandatory: &[u8] = match (plain, multiprotocol) {
        (0, false) => &[],
        (0, true) => &[attribute::ORIGIN, attribute::AS_PATH],
        (_, _) => &[attribute::ORIGIN, attribute::AS_PATH, attribute::NEXT_HOP],
    };
    let missing = mandatory.iter().find(|kind| !attributes.has(**kind));
    let missing = missing.map(|kind| Malformed::Missing(*kind));
    let malformed = malformed.filter(|it| !it.spares_routes()).or(missing).or(malformed);
    Ok(Update::new(announced, withdrawn, malformed))
}

struct Attributes<'a> {
    reader: Reader<'a>,
    four_octets: bool,
    seen: [bool; 256],
    /// Routes in MP_REACH_NLRI and MP_UNREACH_NLRI.
    reached: Vec<Prefix>,
    unreached: Vec<Prefix>,
}

impl<'a> Attributes<'a> {
    fn has(&self, kind: u8) -> bool {
        self.seen.get(usize::from(kind)).copied().unwrap_or_default()
    }

    /// The outer error ends the session.
    fn next(&mut self) -> Result<Result<(), Malformed>, MessageError> {
        let at = self.reader.offset();
        let Some((flags, kind, value)) = self.cut() else { return Ok(Err(Malformed::AttributeLengths)) };
        let fatal = |fault| MessageError { offset: at, fault };
        let is_multiprotocol = matches!(kind, attribute::MP_REACH_NLRI | attribute::MP_UNREACH_NLRI);
        if self.has(kind) {
            // §3(g): of any other attribute the first one counts.
            return if is_multiprotocol { Err(fatal(Fault::TwiceMultiprotocol(kind))) } else { Ok(Ok(())) };
        }
        if let Some(seen) = self.seen.get_mut(usize::from(kind)) {
            *seen = true;
        }
        if is_multiprotocol {
            let routes = multiprotocol(kind, value).ok_or(fatal(Fault::MultiprotocolRoutes(kind)))?;
            let of_kind =
                if kind == attribute::MP_REACH_NLRI { &mut self.reached } else { &mut self.unreached };
            of_kind.extend(routes);
        }
        let Some(expected) = flags_of(kind) else {
            let well_known = flags & OPTIONAL == 0;
            return if well_known { Err(fatal(Fault::WellKnownAttribute(kind))) } else { Ok(Ok(())) };
        };
        if flags & (OPTIONAL | TRANSITIVE) != expected {
            return Ok(Err(Malformed::Flags(kind)));
        }
        Ok(if self.is_sound(kind, value) { Ok(()) } else { Err(Malformed::Value(kind)) })
    }

    fn cut(&mut self) -> Option<(u8, u8, &'a [u8])> {
        let (flags, kind) = (self.reader.u8().ok()?, self.reader.u8().ok()?);
        let length = if flags & EXTENDED_LENGTH == 0 {
            u16::from(self.reader.u8().ok()?)
        } else {
            self.reader.u16().ok()?
        };
        Some((flags, kind, self.reader.bytes(usize::from(length)).ok()?))
    }

    fn is_sound(&self, kind: u8, value: &[u8]) -> bool {
        let octets = if self.four_octets { 4 } else { 2 };
        match kind {
            attribute::ORIGIN => matches!(value, [0..=2]),
            attribute::AS_PATH => is_path(value, octets),
            attribute::AS4_PATH => is_path(value, 4),
            attribute::NEXT_HOP | attribute::MULTI_EXIT_DISC | attribute::LOCAL_PREF => value.len() == 4,
            attribute::ATOMIC_AGGREGATE => value.is_empty(),
            attribute::AGGREGATOR => value.len() == octets + 4,
            attribute::COMMUNITIES => !value.is_empty() && value.len().is_multiple_of(4),
            attribute::LARGE_COMMUNITIES => !value.is_empty() && value.len().is_multiple_of(12),
            _ => true,
        }
    }
}

/// The flags that tell what kind of attribute it is; none for types unknown here.
fn flags_of(kind: u8) -> Option<u8> {
    Some(match kind {
        attribute::ORIGIN
        | attribute::AS_PATH
        | attribute::NEXT_HOP
        | attribute::LOCAL_PREF
        | attribute::ATOMIC_AGGREGATE => TRANSITIVE,
        attribute::MULTI_EXIT_DISC | attribute::MP_REACH_NLRI | attribute::MP_UNREACH_NLRI => OPTIONAL,
        attribute::AGGREGATOR
        | attribute::COMMUNITIES
        | attribute::AS4_PATH
        | attribute::LARGE_COMMUNITIES => OPTIONAL | TRANSITIVE,
        _ => return None,
    })
}

/// RFC 7606 §7.2: segments of a known type that are not empty and fill the attribute.
fn is_path(mut value: &[u8], octets: usize) -> bool {
    while let [kind, count, rest @ ..] = value {
        let Some(rest) = rest.get(usize::from(*count) * octets..) else { return false };
        if !matches!(kind, 1..=4) || *count == 0 {
            return false;
        }
        value = rest;
    }
    value.is_empty()
}

/// The routes of a multiprotocol attribute, none if they cannot be read; those of other families are
/// skipped.
fn multiprotocol(kind: u8, value: &[u8]) -> Option<Vec<Prefix>> {
    let mut reader = Reader::new(value, 0);
    let (afi, safi) = (reader.u16().ok()?, reader.u8().ok()?);
    if kind == attribute::MP_REACH_NLRI {
        let next_hop = reader.u8().ok()?;
        reader.bytes(usize::from(next_hop)).ok()?;
        reader.u8().ok()?;
    }
    match Family::from_wire(afi, safi) {
        Some(family) => prefixes(reader.bytes(reader.remaining()).ok()?, family),
        None => Some(Vec::new()),
    }
}

/// Which prefixes these are; none if they cannot be told from each other.
fn prefixes(mut bytes: &[u8], family: Family) -> Option<Vec<Prefix>> {
    let mut all = Vec::new();
    while let [length, rest @ ..] = bytes {
        let (octets, after) = rest.split_at_checked(usize::from(length.div_ceil(8)))?;
        let address = match family {
            Family::Ipv4Unicast => Ipv4Addr::from(filled(octets)?).into(),
            Family::Ipv6Unicast => Ipv6Addr::from(filled::<16>(octets)?).into(),
        };
        all.push(Prefix::around(address, *length)?);
        bytes = after;
    }
    Some(all)
}

/// With zeros behind, if they are not too many.
fn filled<const N: usize>(octets: &[u8]) -> Option<[u8; N]> {
    let mut all = [0; N];
    all.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &[u8] = &[0x40, 1, 1, 0];
    const PATH: &[u8] = &[0x40, 2, 6, 2, 1, 0, 0, 0xfc, 1];
    const NEXT_HOP: &[u8] = &[0x40, 3, 4, 10, 0, 0, 1];
    const ROUTE: &[u8] = &[24, 10, 1, 2];
    const REACH: &[u8] = &[0x80, 14, 5, 0, 25, 70, 0, 0];

    fn body(withdrawn: &[u8], attributes: &[&[u8]], routes: &[u8]) -> Vec<u8> {
        let attributes = attributes.concat();
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length(withdrawn)[..], withdrawn, &length(&attributes), &attributes, routes].concat()
    }

    fn checked(withdrawn: &[u8], attributes: &[&[u8]], routes: &[u8]) -> Result<Option<Malformed>, Fault> {
        let body = body(withdrawn, attributes, routes);
        decode(&body, 19, true).map(|update| update.malformed).map_err(|error| error.fault)
    }

    #[test]
    fn routes_are_read_and_those_with_a_fault_count_as_withdrawn() {
        let text = |all: &[Prefix]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let read = |withdrawn: &[u8], attributes: &[&[u8]], routes: &[u8]| {
            let update = decode(&body(withdrawn, attributes, routes), 19, true).unwrap();
            (text(&update.announced), text(&update.withdrawn))
        };
        let of = |announced: &str, withdrawn: &str| (announced.to_owned(), withdrawn.to_owned());
        let reach = [&[0x80, 14, 24, 0, 2, 1, 16][..], &[0xfd; 16], &[0, 16, 0xfd, 0]].concat();
        let unreach = &[0x80, 15, 5, 0, 2, 1, 8, 0xfc];
        assert_eq!(
            read(ROUTE, &[&reach, ORIGIN, PATH, NEXT_HOP, unreach], &[0]),
            of("0.0.0.0/0 fd00::/16", "10.1.2.0/24 fc00::/8")
        );
        assert_eq!(read(&[], &[ORIGIN, PATH], ROUTE), of("", "10.1.2.0/24"));
        assert_eq!(read(&[], &[ORIGIN, PATH, NEXT_HOP, &[0x40, 6, 1, 0]], ROUTE), of("10.1.2.0/24", ""));
        assert_eq!(read(&[], &[&[0x40, 6, 1, 0], PATH], ROUTE), of("", "10.1.2.0/24"));
    }

    #[test]
    fn sound_updates_pass() {
        assert_eq!(checked(&[], &[], &[]), Ok(None), "End-of-RIB");
        assert_eq!(checked(ROUTE, &[], &[]), Ok(None));
        assert_eq!(checked(&[0], &[ORIGIN, PATH, NEXT_HOP], &[ROUTE, &[32, 1, 2, 3, 4]].concat()), Ok(None));
        let unknown_optional = &[0xc0, 99, 1, 7];
        assert_eq!(checked(&[], &[ORIGIN, PATH, NEXT_HOP, unknown_optional], ROUTE), Ok(None));
        assert_eq!(checked(&[], &[ORIGIN, PATH, REACH], &[]), Ok(None), "another family");
        let twice = checked(&[], &[ORIGIN, ORIGIN, PATH, NEXT_HOP], ROUTE);
        assert_eq!(twice, Ok(None), "the first one counts");
    }

    #[test]
    fn faults_that_leave_routes_readable_keep_the_session() {
        for (attributes, expected) in [
            (&[ORIGIN, PATH][..], Malformed::Missing(3)),
            (&[PATH, NEXT_HOP], Malformed::Missing(1)),
            (&[&[0x40, 1, 1, 3], PATH, NEXT_HOP], Malformed::Value(1)),
            (&[&[0x80, 1, 1, 0], PATH, NEXT_HOP], Malformed::Flags(1)),
            (&[ORIGIN, &[0x40, 2, 2, 2, 0], NEXT_HOP], Malformed::Value(2)),
            (&[ORIGIN, &[0x40, 2, 4, 2, 1, 0, 0], NEXT_HOP], Malformed::Value(2)),
            (&[ORIGIN, &[0x40, 2, 6, 9, 1, 0, 0, 0, 1], NEXT_HOP], Malformed::Value(2)),
            (&[ORIGIN, PATH, &[0x40, 3, 3, 1, 2, 3]], Malformed::Value(3)),
            (&[ORIGIN, PATH, NEXT_HOP, &[0xc0, 8, 3, 1, 2, 3]], Malformed::Value(8)),
            (&[ORIGIN, PATH, NEXT_HOP, &[0xc0, 32, 0]], Malformed::Value(32)),
            (&[ORIGIN, PATH, NEXT_HOP, &[0x40, 6, 1, 0]], Malformed::Value(6)),
            (&[ORIGIN, PATH, NEXT_HOP, &[0xc0, 99, 200, 0]], Malformed::AttributeLengths),
            (&[ORIGIN, PATH, NEXT_HOP, &[0x40]], Malformed::AttributeLengths),
        ] {
            assert_eq!(checked(&[], attributes, ROUTE), Ok(Some(expected)), "{attributes:?}");
        }
    }

    #[test]
    fn unreadable_routes_end_the_session() {
        let all: &[&[u8]] = &[ORIGIN, PATH, NEXT_HOP];
        assert_eq!(checked(&[33, 1, 2, 3, 4, 5], &[], &[]), Err(Fault::Routes));
        assert_eq!(checked(&[], all, &[24, 10, 1]), Err(Fault::Routes));
        assert_eq!(checked(&[], &[&[0x40, 99, 0]], &[]), Err(Fault::WellKnownAttribute(99)));
        assert_eq!(checked(&[], &[REACH, REACH], &[]), Err(Fault::TwiceMultiprotocol(14)));
        let short = &[0x80, 15, 4, 0, 2, 1, 129];
        assert_eq!(checked(&[], &[short], &[]), Err(Fault::MultiprotocolRoutes(15)));
        let next_hop_too_long = &[0x80, 14, 4, 0, 2, 1, 16];
        assert_eq!(checked(&[], &[next_hop_too_long], &[]), Err(Fault::MultiprotocolRoutes(14)));
        assert_eq!(decode(&[0, 5, 0, 0], 19, true).map_err(|it| it.fault), Err(Fault::UpdateLengths));
        assert_eq!(decode(&[0, 0, 0, 1], 19, true).map_err(|it| it.fault), Err(Fault::UpdateLengths));
    }
}
