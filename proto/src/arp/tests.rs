use proptest::prelude::*;

use super::*;
use crate::ethernet::MIN_FRAME;
use crate::testing::*;

const OWNED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

fn owns(ip: Ipv4Addr) -> bool {
    ip == OWNED
}

/// The request of the kernel with one stretch of bytes replaced.
fn request_with(at: usize, hex: &str) -> Vec<u8> {
    let mut frame = unhex(ARP_REQUEST);
    let bytes = unhex(hex);
    frame[at..at + bytes.len()].copy_from_slice(&bytes);
    frame
}

#[test]
fn requests_get_the_kernels_own_answers_padded() {
    let a = Ipv4Addr::new(10, 9, 0, 1);
    let cases = [
        (ARP_REQUEST, MAC_B, OWNED, ARP_REPLY, a, MAC_A),
        (ARP_UNICAST, MAC_A, a, ARP_UNICAST_REPLY, OWNED, MAC_B),
    ];
    for (request, mac, ip, answer, requester_ip, requester_mac) in cases {
        let reply = respond(&unhex(request), mac, |asked| asked == ip).unwrap();
        let mut expected = unhex(answer);
        expected.resize(MIN_FRAME, 0);
        assert_eq!(reply.frame[..], expected[..]);
        let question = Question { ip: ip.into(), requester_ip: requester_ip.into(), requester_mac };
        assert_eq!(reply.question, question);
    }
}

#[test]
fn who_is_answered_and_where() {
    let broadcast = "ffffffffffff";
    let cases = [
        ("unicast to us", request_with(0, "02000000000b"), "02000000000a", "0a090001"),
        ("probe", request_with(28, "00000000"), "02000000000a", "00000000"),
        ("somebody announces it", request_with(28, "0a090002"), "02000000000a", "0a090002"),
        ("ARP sender is not the frame's", request_with(6, "020000000077"), "02000000000a", "0a090001"),
        ("padded", [request_with(0, broadcast), vec![0xee; 18]].concat(), "02000000000a", "0a090001"),
    ];
    for (name, frame, mac, ip) in cases {
        let reply = respond(&frame, MAC_B, owns).unwrap_or_else(|ignored| panic!("{name}: {ignored}"));
        assert_eq!(reply.frame[..6], unhex(mac), "{name}: Ethernet destination");
        assert_eq!(reply.frame[32..38], unhex(mac), "{name}: ARP target MAC");
        assert_eq!(reply.frame[38..42], unhex(ip), "{name}: ARP target address");
    }
}

#[test]
fn who_is_not_answered() {
    let elsewhere = Question {
        ip: Ipv4Addr::new(10, 9, 0, 3).into(),
        requester_ip: Ipv4Addr::new(10, 9, 0, 1).into(),
        requester_mac: MAC_A,
    };
    let cases = [
        ("reply", request_with(20, "0002"), Ignored::NotARequest),
        ("reverse ARP", request_with(20, "0003"), Ignored::NotARequest),
        (
            "unicast elsewhere",
            request_with(0, "020000000077"),
            Ignored::NotForUs([2, 0, 0, 0, 0, 0x77].into()),
        ),
        ("multicast", request_with(0, "01005e000001"), Ignored::NotForUs([1, 0, 0x5e, 0, 0, 1].into())),
        ("not owned", request_with(38, "0a090003"), Ignored::NotOwned(elsewhere)),
        ("our frame", request_with(6, "02000000000b"), Ignored::OwnFrame),
        ("our ARP sender", request_with(22, "02000000000b"), Ignored::OwnFrame),
        (
            "sender is a group",
            request_with(22, "ffffffffffff"),
            Ignored::SenderNotUnicast(MacAddr::BROADCAST),
        ),
        ("sender is nobody", request_with(22, "000000000000"), Ignored::SenderNotUnicast(MacAddr::ZERO)),
    ];
    for (name, frame, why) in cases {
        assert_eq!(respond(&frame, MAC_B, owns), Err(why), "{name}");
    }
    for frame in gratuitous(MAC_B, OWNED) {
        assert_eq!(respond(&frame, MAC_B, owns), Err(Ignored::OwnFrame));
    }
}

#[test]
fn malformed_frames_say_where() {
    let cases = [
        ("EtherType", request_with(12, "0800"), 12, Fault::EtherType(0x0800)),
        ("hardware type", request_with(14, "0006"), 14, Fault::HardwareType(6)),
        ("protocol type", request_with(16, "86dd"), 16, Fault::ProtocolType(0x86dd)),
        ("hardware length", request_with(18, "08"), 18, Fault::HardwareLength(8)),
        ("protocol length", request_with(19, "10"), 19, Fault::ProtocolLength(16)),
        ("short", request_with(0, "ff")[..40].to_vec(), 40, Fault::Truncated { missing: 2 }),
        ("empty", vec![], 0, Fault::Truncated { missing: 6 }),
    ];
    for (name, frame, offset, fault) in cases {
        let error = DecodeError { offset, fault };
        assert_eq!(parse(&frame), Err(error), "{name}");
        assert_eq!(respond(&frame, MAC_B, owns), Err(Ignored::Malformed(error)), "{name}");
    }
}

#[test]
fn gratuitous_frames_byte_by_byte() {
    let expected = [
        "ffffffffffff02000000000b0806000108000604000102000000000b0a090002ffffffffffff0a090002",
        "ffffffffffff02000000000b0806000108000604000202000000000b0a090002ffffffffffff0a090002",
    ];
    for (frame, hex) in gratuitous(MAC_B, OWNED).iter().zip(expected) {
        let mut expected = unhex(hex);
        expected.resize(MIN_FRAME, 0);
        assert_eq!(frame[..], expected[..]);
    }
}

fn packets() -> impl Strategy<Value = ArpPacket> {
    (any::<u16>(), any::<[u8; 6]>(), any::<[u8; 4]>(), any::<[u8; 6]>(), any::<[u8; 4]>()).prop_map(
        |(operation, sender_mac, sender_ip, target_mac, target_ip)| ArpPacket {
            operation: operation.into(),
            sender_mac: sender_mac.into(),
            sender_ip: sender_ip.into(),
            target_mac: target_mac.into(),
            target_ip: target_ip.into(),
        },
    )
}

proptest! {
    #[test]
    fn packets_round_trip(packet in packets(), source: [u8; 6], destination: [u8; 6]) {
        let frame = packet.frame(source.into(), destination.into());
        let header = Header {
            destination: destination.into(), source: source.into(), ethertype: EtherType::ARP,
        };
        prop_assert_eq!(parse(&frame), Ok((header, packet)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(frame in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = respond(&frame, MAC_B, |_| true);
    }

    /// One hostile byte in a good request: an answer goes to one host or there is none.
    #[test]
    fn answers_go_to_one_host(at in 0usize..42, byte: u8) {
        let mut frame = unhex(ARP_REQUEST);
        frame[at] = byte;
        if let Ok(reply) = respond(&frame, MAC_B, |_| true) {
            let (header, packet) = parse(&reply.frame).unwrap();
            prop_assert!(header.destination.is_unicast());
            prop_assert_eq!(header.destination, packet.target_mac);
            prop_assert_eq!((header.source, packet.sender_mac), (MAC_B, MAC_B));
            prop_assert_eq!(packet.operation, Operation::Reply);
        }
    }
}
