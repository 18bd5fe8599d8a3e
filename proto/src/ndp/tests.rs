use proptest::prelude::*;

use super::*;
use crate::testing::*;

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x0b);
const A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0, 0, 0, 0, 0, 0x0a);
const B: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0, 0, 0, 0, 0, 0x0b);
const C: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0, 0, 0, 0, 0, 0x0c);

/// What B, link-local fe80::b, answers to SOLICITATION; computed by another implementation.
const ANSWER: &str = "02000000000a02000000000b86dd6000000000203aff\
    fe80000000000000000000000000000bfd00001000000000000000000000000a\
    88003ad640000000fd00001000000000000000000000000b020102000000000b";
/// Likewise to DAD_PROBE; also the unsolicited advertisement of fd00:10::c.
const TO_ALL_NODES: &str = "33330000000102000000000b86dd6000000000203aff\
    fe80000000000000000000000000000bff020000000000000000000000000001\
    880058ec20000000fd00001000000000000000000000000c020102000000000b";

fn answer(frame: &[u8]) -> Result<Reply, Ignored> {
    respond(frame, MAC_B, LINK_LOCAL, |ip| ip == B || ip == C)
}

/// `hex` with one stretch of bytes replaced, and the checksum put right again.
fn with(hex: &str, at: usize, bytes: &str) -> Vec<u8> {
    let mut frame = unhex(hex);
    let bytes = unhex(bytes);
    frame[at..at + bytes.len()].copy_from_slice(&bytes);
    resum(frame)
}

fn resum(mut frame: Vec<u8>) -> Vec<u8> {
    let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
    let (source, destination) = (address(22), address(38));
    frame[56..58].fill(0);
    let sum = checksum(source, destination, &frame[54..]);
    frame[56..58].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The kernel's solicitation cut to `options`.
fn solicitation(options: &str) -> Vec<u8> {
    let mut frame = unhex(SOLICITATION)[..78].to_vec();
    frame.extend(unhex(options));
    frame[19] = (frame.len() - 54) as u8;
    resum(frame)
}

#[test]
fn checksums_agree_with_the_kernel() {
    for hex in [SOLICITATION, ADVERTISEMENT, UNICAST_SOLICITATION, BARE_ADVERTISEMENT] {
        let frame = unhex(hex);
        let packet = parse(&frame).unwrap_or_else(|error| panic!("{hex}: {error}"));
        assert_eq!(packet.frame()[..], frame[..]);
    }
    assert!(parse(&unhex(DAD_PROBE)).is_ok());
}

#[test]
fn checksum_of_odd_length_pads_with_zero() {
    assert_eq!(checksum(A, B, &[1, 2, 3]), checksum(A, B, &[1, 2, 3, 0]) + 1);
}

#[test]
fn solicited_node_group_and_its_mac() {
    let ip = "fd00:10::12ab:34cd".parse().unwrap();
    let group = solicited_node(ip);
    assert_eq!(group, "ff02::1:ffab:34cd".parse::<Ipv6Addr>().unwrap());
    assert_eq!(multicast_mac(group).to_string(), "33:33:ff:ab:34:cd");
    assert_eq!(multicast_mac(ALL_NODES).to_string(), "33:33:00:00:00:01");
}

#[test]
fn answers_byte_by_byte() {
    let question = |ip: Ipv6Addr, requester_ip: Ipv6Addr| Question {
        ip: ip.into(),
        requester_ip: requester_ip.into(),
        requester_mac: MAC_A,
    };
    let cases = [
        ("to the group", unhex(SOLICITATION), ANSWER, question(B, A)),
        ("by unicast", with(SOLICITATION, 0, "02000000000b"), ANSWER, question(B, A)),
        ("without link-layer address", solicitation(""), ANSWER, question(B, A)),
        ("after an unknown option", solicitation("0e01aaaaaaaaaaaa010102000000000a"), ANSWER, question(B, A)),
        (
            "second address counts not",
            solicitation("010102000000000a0101020000000077"),
            ANSWER,
            question(B, A),
        ),
        ("trailer", [unhex(SOLICITATION), vec![0xee; 9]].concat(), ANSWER, question(B, A)),
        ("duplicate address detection", unhex(DAD_PROBE), TO_ALL_NODES, question(C, Ipv6Addr::UNSPECIFIED)),
    ];
    for (name, frame, expected, question) in cases {
        let reply = answer(&frame).unwrap_or_else(|ignored| panic!("{name}: {ignored:?}"));
        assert_eq!(reply.frame[..], unhex(expected)[..], "{name}");
        assert_eq!(reply.question, question, "{name}");
    }
    assert_eq!(unsolicited(MAC_B, LINK_LOCAL, C)[..], unhex(TO_ALL_NODES)[..]);
}

#[test]
fn who_is_not_answered() {
    let elsewhere = Question { ip: A.into(), requester_ip: A.into(), requester_mac: MAC_A };
    let cases = [
        ("advertisement", unhex(ADVERTISEMENT), Ignored::OwnFrame),
        ("advertisement of another", with(ADVERTISEMENT, 6, "020000000077"), Ignored::NotARequest),
        ("echo request", with(SOLICITATION, 54, "80"), Ignored::NotARequest),
        ("TCP", with(SOLICITATION, 20, "06"), Ignored::NotARequest),
        (
            "another host",
            with(SOLICITATION, 0, "020000000077"),
            Ignored::NotForUs([2, 0, 0, 0, 0, 0x77].into()),
        ),
        ("not owned", with(SOLICITATION, 77, "0a"), Ignored::NotOwned(elsewhere)),
        ("our frame", with(SOLICITATION, 6, "02000000000b"), Ignored::OwnFrame),
        ("our link-layer address", with(SOLICITATION, 80, "02000000000b"), Ignored::OwnFrame),
        (
            "group asks",
            with(SOLICITATION, 80, "333300000001"),
            Ignored::SenderNotUnicast([0x33, 0x33, 0, 0, 0, 1].into()),
        ),
        ("nobody asks", with(SOLICITATION, 80, "000000000000"), Ignored::SenderNotUnicast(MacAddr::ZERO)),
    ];
    for (name, frame, why) in cases {
        assert_eq!(answer(&frame), Err(why), "{name}");
    }
}

#[test]
fn invalid_frames_say_where() {
    let mut summed_wrong = unhex(SOLICITATION);
    summed_wrong[85] ^= 1;
    let no_room = unhex(SOLICITATION)[..80].to_vec();
    let probe_with_address = {
        let mut frame = with(SOLICITATION, 22, "00000000000000000000000000000000");
        frame[38..54].copy_from_slice(&solicited_node(B).octets());
        resum(frame)
    };
    let cases = [
        ("EtherType", with(SOLICITATION, 12, "0806"), 12, Fault::EtherType(0x0806)),
        ("version", with(SOLICITATION, 14, "45"), 14, Fault::IpVersion(4)),
        ("hop limit", with(SOLICITATION, 21, "fe"), 54, Fault::HopLimit(254)),
        ("checksum", summed_wrong, 56, Fault::Checksum),
        ("code", with(SOLICITATION, 55, "01"), 55, Fault::IcmpCode(1)),
        ("target", with(SOLICITATION, 62, "ff"), 62, Fault::MulticastTarget),
        ("source", with(SOLICITATION, 22, "ff"), 54, Fault::MulticastSource),
        ("payload longer than frame", no_room, 80, Fault::Truncated { missing: 6 }),
        ("option of length 0", solicitation("0100aaaaaaaaaaaa"), 79, Fault::OptionLength(0)),
        ("other option of length 0", solicitation("0e00aaaaaaaaaaaa"), 79, Fault::OptionLength(0)),
        ("not Ethernet's", solicitation("0102aaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 79, Fault::OptionLength(2)),
        ("option cut", solicitation("0e02aaaa"), 82, Fault::Truncated { missing: 12 }),
        ("lone byte", solicitation("0e"), 79, Fault::Truncated { missing: 1 }),
        ("probe with address", probe_with_address, 54, Fault::ProbeWithLinkLayer),
        (
            "probe to all nodes",
            with(DAD_PROBE, 38, "ff020000000000000000000000000001"),
            54,
            Fault::ProbeDestination,
        ),
        (
            "probe to a group that only looks like one",
            with(DAD_PROBE, 38, "ff020000000000000000000100000001"),
            54,
            Fault::ProbeDestination,
        ),
        (
            "solicited to a group",
            with(ADVERTISEMENT, 38, "ff020000000000000000000000000001"),
            54,
            Fault::SolicitedMulticast,
        ),
    ];
    for (name, frame, offset, fault) in cases {
        assert_eq!(parse(&frame), Err(DecodeError { offset, fault }), "{name}");
        assert!(matches!(answer(&frame), Err(Ignored::Malformed(_))), "{name}");
    }
}

#[test]
fn messages_shorter_than_24_bytes_are_refused() {
    for length in 0..24 {
        let mut frame = unhex(SOLICITATION)[..54 + length].to_vec();
        frame[19] = length as u8;
        // The checksum is right for what is there, so that only the length is wrong.
        if length >= 4 {
            frame = resum(frame);
        }
        assert!(parse(&frame).is_err(), "{length}");
    }
}

#[test]
fn a_bare_message_needs_its_header() {
    let frame = unhex(SOLICITATION);
    let ip = IpHeader { source: A, destination: solicited_node(B), hop_limit: 255 };
    let expected = Message::Solicitation(NeighborSolicitation { target: B, source_mac: Some(MAC_A) });
    assert_eq!(parse_message(&frame[54..], ip), Ok(expected));
    let routed = IpHeader { hop_limit: 64, ..ip };
    assert_eq!(
        parse_message(&frame[54..], routed),
        Err(DecodeError { offset: 0, fault: Fault::HopLimit(64) })
    );
}

/// Anything but a group.
fn hosts() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u8; 16]>().prop_map(|mut octets| {
        octets[0] &= 0x7f;
        octets[15] |= 1;
        octets.into()
    })
}

fn messages() -> impl Strategy<Value = Message> {
    let mac = || proptest::option::of(any::<[u8; 6]>().prop_map(MacAddr::from));
    prop_oneof![
        (hosts(), mac()).prop_map(|(target, source_mac)| {
            Message::Solicitation(NeighborSolicitation { target, source_mac })
        }),
        (any::<[bool; 3]>(), hosts(), mac()).prop_map(
            |([router, solicited, overrides], target, target_mac)| {
                Message::Advertisement(NeighborAdvertisement {
                    router,
                    solicited,
                    overrides,
                    target,
                    target_mac,
                })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn packets_round_trip(
        message in messages(), source in hosts(), destination in hosts(), macs: [[u8; 6]; 2],
    ) {
        let ethernet = Header {
            destination: macs[0].into(), source: macs[1].into(), ethertype: EtherType::IPV6,
        };
        let packet = Packet { ethernet, source, destination, message };
        prop_assert_eq!(parse(&packet.frame()), Ok(packet));
    }

    #[test]
    fn arbitrary_bytes_never_panic(frame in proptest::collection::vec(any::<u8>(), 0..140)) {
        let _ = respond(&frame, MAC_B, LINK_LOCAL, |_| true);
    }

    /// Arbitrary options behind a right checksum, so that the walk over them is reached.
    #[test]
    fn arbitrary_options_never_panic(options in proptest::collection::vec(any::<u8>(), 0..60)) {
        let mut frame = unhex(SOLICITATION)[..78].to_vec();
        frame.extend(options);
        frame[19] = (frame.len() - 54) as u8;
        let _ = respond(&resum(frame), MAC_B, LINK_LOCAL, |_| true);
    }

    /// A changed bit of the message never passes for another question.
    #[test]
    fn damage_is_noticed(bit in 54 * 8usize..86 * 8) {
        let mut frame = unhex(SOLICITATION);
        frame[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(respond(&frame, MAC_B, LINK_LOCAL, |_| true).is_err());
    }
}
