use std::num::NonZeroU8;
use std::time::Duration;

use super::*;
use crate::bfd::packet::{Diagnostic, State};

fn number(number: u32) -> Discriminator {
    Discriminator::new(number).unwrap()
}

fn packet(yours: u32) -> ControlPacket {
    ControlPacket {
        diagnostic: Diagnostic::NONE,
        state: State::Down,
        poll: false,
        is_final: false,
        control_plane_independent: false,
        demand: false,
        detect_mult: NonZeroU8::MIN,
        my_discriminator: number(77),
        your_discriminator: Discriminator::new(yours),
        desired_min_tx: Duration::ZERO,
        required_min_rx: Duration::ZERO,
        required_min_echo_rx: Duration::ZERO,
    }
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn path(remote: u8) -> Path {
    Path { remote: ip(remote), local: None, device: None, multihop: false }
}

fn arrival(source: u8, ttl: u8) -> Arrival<'static> {
    Arrival { source: ip(source), destination: ip(2), ttl, device: None, multihop: false }
}

#[test]
fn a_packet_goes_to_the_session_that_it_names_if_it_came_on_its_path() {
    let mut demux = Demux::default();
    demux.insert(number(1), path(1), 0);
    demux.insert(number(3), path(3), 0);
    assert_eq!(demux.find(&packet(1), arrival(1, 255)), Ok(number(1)));
    assert_eq!(demux.find(&packet(3), arrival(1, 255)), Err(Unmatched::NoSession), "of another router");
    assert_eq!(demux.find(&packet(9), arrival(1, 255)), Err(Unmatched::NoSession), "of nobody");
    let over_the_other_port = Arrival { multihop: true, ..arrival(1, 255) };
    assert_eq!(demux.find(&packet(1), over_the_other_port), Err(Unmatched::NoSession));
    let in_a_vrf = Arrival { device: Some("red"), ..arrival(1, 255) };
    assert_eq!(demux.find(&packet(1), in_a_vrf), Err(Unmatched::NoSession));
    demux.remove(number(1));
    assert_eq!(demux.find(&packet(1), arrival(1, 255)), Err(Unmatched::NoSession));
}

#[test]
fn a_packet_that_names_none_goes_to_the_session_with_its_sender() {
    let mut demux = Demux::default();
    demux.insert(number(1), Path { local: Some(ip(2)), ..path(1) }, 0);
    demux.insert(number(2), path(1), 0);
    assert_eq!(demux.find(&packet(0), arrival(1, 255)), Ok(number(1)), "the one for exactly this address");
    let to_another = Arrival { destination: ip(4), ..arrival(1, 255) };
    assert_eq!(demux.find(&packet(0), to_another), Ok(number(2)));
    assert_eq!(demux.find(&packet(0), arrival(9, 255)), Err(Unmatched::NoSession));
}

/// RFC 5881 §5: over one hop nothing but 255. RFC 5883 leaves it to the configuration.
#[test]
fn a_packet_from_too_far_away_is_none() {
    let mut demux = Demux::default();
    demux.insert(number(1), path(1), 200);
    demux.insert(number(2), Path { multihop: true, ..path(1) }, 200);
    assert_eq!(demux.find(&packet(1), arrival(1, 254)), Err(Unmatched::Ttl { got: 254, least: 255 }));
    let far = |ttl| Arrival { multihop: true, ..arrival(1, ttl) };
    assert_eq!(demux.find(&packet(2), far(200)), Ok(number(2)));
    assert_eq!(demux.find(&packet(2), far(199)), Err(Unmatched::Ttl { got: 199, least: 200 }));
}
