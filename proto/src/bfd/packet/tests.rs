use proptest::prelude::*;

use super::*;
use crate::testing::unhex;

/// FRR 8.4 that is up, with 300 ms and the multiplier 3.
const UP: &str = "20c003181122334455667788000493e0000493e00000c350";

fn discriminator(number: u32) -> Discriminator {
    Discriminator::new(number).unwrap()
}

#[test]
fn a_packet_says_what_it_says() {
    let packet = ControlPacket {
        diagnostic: Diagnostic::NONE,
        state: State::Up,
        poll: false,
        is_final: false,
        control_plane_independent: false,
        demand: false,
        detect_mult: NonZeroU8::new(3).unwrap(),
        my_discriminator: discriminator(0x1122_3344),
        your_discriminator: Some(discriminator(0x5566_7788)),
        desired_min_tx: Duration::from_millis(300),
        required_min_rx: Duration::from_millis(300),
        required_min_echo_rx: Duration::from_millis(50),
    };
    assert_eq!(ControlPacket::parse(&unhex(UP)), Ok(packet));
    assert_eq!(packet.bytes().to_vec(), unhex(UP));
}

/// RFC 5880 §6.8.6, in its order.
#[test]
fn what_the_rfc_discards_is_discarded() {
    let with = |at: usize, value: &[u8]| {
        let mut bytes = unhex(UP);
        bytes[at..at + value.len()].copy_from_slice(value);
        ControlPacket::parse(&bytes).unwrap_err()
    };
    assert_eq!(with(0, &[0x40]), PacketError::Version(2));
    assert_eq!(with(0, &[0x00]), PacketError::Version(0));
    assert_eq!(with(3, &[23]), PacketError::Length(23));
    assert_eq!(with(3, &[25]), PacketError::Length(25), "longer than what came");
    assert_eq!(with(2, &[0]), PacketError::DetectMult);
    assert_eq!(with(1, &[0xc1]), PacketError::Multipoint);
    assert_eq!(with(4, &[0; 4]), PacketError::MyDiscriminator);
    assert_eq!(with(8, &[0; 4]), PacketError::YourDiscriminator(State::Up));
    assert_eq!(with(1, &[0xc4]), PacketError::Authenticated);
    for length in 0..LENGTH {
        assert!(ControlPacket::parse(&unhex(UP)[..length]).is_err(), "{length}");
    }
    assert_eq!(ControlPacket::parse(&[]), Err(PacketError::Short(0)));
    // Who is down may not know the other end, and what follows the packet is not looked at.
    let mut bytes = unhex(UP);
    bytes[1] = 0x40;
    bytes[8..12].fill(0);
    bytes.push(7);
    assert_eq!(ControlPacket::parse(&bytes).unwrap().your_discriminator, None);
}

pub(in crate::bfd) fn packets() -> impl Strategy<Value = ControlPacket> {
    let interval = || any::<u32>().prop_map(|it| Duration::from_micros(it.into()));
    let states = vec![State::AdminDown, State::Down, State::Init, State::Up];
    let head = (0u8..32, proptest::sample::select(states), 1u8.., any::<[bool; 4]>());
    let body = (1u32.., any::<u32>(), interval(), interval(), interval());
    (head, body).prop_map(|((diagnostic, state, mult, flags), (mine, yours, tx, rx, echo))| {
        let knows_us = matches!(state, State::Init | State::Up);
        ControlPacket {
            diagnostic: Diagnostic(diagnostic),
            state,
            poll: flags[0],
            is_final: flags[1],
            control_plane_independent: flags[2],
            demand: flags[3],
            detect_mult: NonZeroU8::new(mult).unwrap(),
            my_discriminator: discriminator(mine),
            your_discriminator: Discriminator::new(if knows_us { yours.max(1) } else { yours }),
            desired_min_tx: tx,
            required_min_rx: rx,
            required_min_echo_rx: echo,
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(packet in packets()) {
        prop_assert_eq!(ControlPacket::parse(&packet.bytes()), Ok(packet));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(packet) = ControlPacket::parse(&bytes) {
            // What was read is written as it came, but for the length of a longer packet.
            let written = packet.bytes();
            prop_assert_eq!(&written[..3], &bytes[..3]);
            prop_assert_eq!(&written[4..], &bytes[4..LENGTH]);
        }
    }
}
