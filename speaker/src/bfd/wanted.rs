//! Which sessions the peers ask for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU8;

use ferrolb_core::config::{BfdProfile, Neighbor, Peer, RemoteAs};
use ferrolb_proto::bfd::demux::Path;
use ferrolb_proto::bfd::session::Settings;

use crate::bgp::{Peers, Routers};

/// Lowest TTL over several hops where the profile names none: one other router in between, as FRR has it.
const MINIMUM_TTL: u8 = 254;

/// A session that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) settings: Settings,
    pub(super) minimum_ttl: u8,
    /// The BGPPeers that ask for it, with their identities.
    pub(super) peers: Vec<(String, String)>,
}

/// The sessions, by their path. Peers that are the same router over the same path (at different ports) have
/// one in common (RFC 5881 §2), as the first of them by name wants it.
pub(super) fn wanted(
    peers: &Peers,
    routers: &Routers,
    is_connected: impl Fn(IpAddr) -> bool,
) -> BTreeMap<Path, Wanted> {
    let mut wanted: BTreeMap<Path, Wanted> = BTreeMap::new();
    for (name, desired) in peers {
        let peer = &desired.peer;
        let Some(profile) = &peer.bfd else { continue };
        let path = match &peer.neighbor {
            Neighbor::Address(remote) => Path {
                remote: *remote,
                local: peer.source_address,
                device: peer.vrf.clone(),
                multihop: peer.ebgp_multi_hop || (is_internal(peer) && !is_connected(*remote)),
            },
            Neighbor::Interface(interface) => {
                // Until it is found there is nobody to talk to.
                let Some(router) = routers.get(interface) else { continue };
                let device = Some(interface.clone());
                Path { remote: (*router).into(), local: None, device, multihop: false }
            }
        };
        // RFC 5883 §3: not over several hops.
        let echoes = profile.echo_mode && path.remote.is_ipv4() && !path.multihop;
        let echo_interval = echoes.then_some(profile.echo_interval);
        let settings = Settings { echo_interval, ..settings(profile) };
        let minimum_ttl = profile.minimum_ttl.unwrap_or(MINIMUM_TTL);
        let session = Wanted { settings, minimum_ttl, peers: Vec::new() };
        wanted.entry(path).or_insert(session).peers.push((name.clone(), desired.uid.clone()));
    }
    wanted
}

/// Sessions within an AS may be several hops long without a word about it.
fn is_internal(peer: &Peer) -> bool {
    match peer.remote_as {
        RemoteAs::Asn(asn) => asn == peer.local_asn.unwrap_or(peer.my_asn),
        RemoteAs::Internal => true,
        RemoteAs::External => false,
    }
}

fn settings(profile: &BfdProfile) -> Settings {
    Settings {
        transmit_interval: profile.transmit_interval,
        receive_interval: profile.receive_interval,
        detect_mult: NonZeroU8::new(profile.detect_multiplier).unwrap_or(NonZeroU8::MIN),
        passive: profile.passive_mode,
        echo_interval: None,
    }
}

/// Whether an address lies in a network that one of these interface addresses is in.
pub(super) fn is_in(address: IpAddr, networks: &[(IpAddr, IpAddr)]) -> bool {
    networks.iter().any(|network| match (address, *network) {
        (IpAddr::V4(address), (IpAddr::V4(own), IpAddr::V4(mask))) => {
            (address.to_bits() ^ own.to_bits()) & mask.to_bits() == 0
        }
        (IpAddr::V6(address), (IpAddr::V6(own), IpAddr::V6(mask))) => {
            (address.to_bits() ^ own.to_bits()) & mask.to_bits() == 0
        }
        (IpAddr::V4(_) | IpAddr::V6(_), _) => false,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use ferrolb_proto::bgp::Asn;

    use super::*;
    use crate::bgp::DesiredPeer;
    use crate::bgp::tests::peer;

    fn with(change: impl FnOnce(&mut Peer)) -> Peer {
        let mut peer = peer("10.0.0.1:179".parse().unwrap());
        peer.bfd = Some(BfdProfile::named("fast"));
        change(&mut peer);
        peer
    }

    fn sessions(peers: Vec<Peer>) -> Vec<(Path, Wanted)> {
        let desired = |(index, peer)| {
            let desired = DesiredPeer { peer, uid: format!("uid-{index}"), routes: Arc::default() };
            (format!("peer-{index}"), desired)
        };
        let peers: Peers = peers.into_iter().enumerate().map(desired).collect();
        let near = [("10.0.0.9".parse().unwrap(), "255.255.255.0".parse().unwrap())];
        let routers = [("eth0".to_owned(), "fe80::1".parse().unwrap())].into();
        wanted(&peers, &routers, |address| is_in(address, &near)).into_iter().collect()
    }

    #[test]
    fn a_profile_is_what_the_session_gets() {
        let [(path, wanted)] = &sessions(vec![with(|_| {})])[..] else { panic!("one session") };
        assert_eq!(path.remote, "10.0.0.1".parse::<IpAddr>().unwrap());
        assert!(!path.multihop && path.local.is_none() && path.device.is_none());
        let Settings { transmit_interval, receive_interval, detect_mult, passive, .. } = wanted.settings;
        assert_eq!(
            (transmit_interval, receive_interval),
            (Duration::from_millis(300), Duration::from_millis(300))
        );
        assert_eq!((detect_mult.get(), passive, wanted.minimum_ttl), (3, false, 254));
        assert_eq!(wanted.peers, [("peer-0".to_owned(), "uid-0".to_owned())]);

        let slow = with(|peer| {
            peer.bfd = Some(BfdProfile {
                transmit_interval: Duration::from_millis(61),
                receive_interval: Duration::from_millis(60),
                detect_multiplier: 62,
                passive_mode: true,
                minimum_ttl: Some(250),
                ..BfdProfile::named("full")
            });
            peer.source_address = "10.0.0.9".parse().ok();
            peer.vrf = Some("red".to_owned());
        });
        let [(path, wanted)] = &sessions(vec![slow])[..] else { panic!("one session") };
        let Settings { transmit_interval, receive_interval, detect_mult, passive, .. } = wanted.settings;
        assert_eq!(
            (transmit_interval, receive_interval),
            (Duration::from_millis(61), Duration::from_millis(60))
        );
        assert_eq!((detect_mult.get(), passive, wanted.minimum_ttl), (62, true, 250));
        assert_eq!((path.local, path.device.as_deref()), ("10.0.0.9".parse().ok(), Some("red")));
    }

    #[test]
    fn who_may_be_far_away_has_a_session_over_several_hops() {
        let is_multihop = |change: &dyn Fn(&mut Peer)| sessions(vec![with(change)])[0].0.multihop;
        assert!(!is_multihop(&|_| {}));
        assert!(is_multihop(&|peer| peer.ebgp_multi_hop = true));
        let far = |peer: &mut Peer| peer.neighbor = Neighbor::Address("10.9.0.1".parse().unwrap());
        assert!(!is_multihop(&far), "another AS is next door unless said otherwise");
        assert!(!is_multihop(&|peer| peer.remote_as = RemoteAs::Internal));
        for internal in [RemoteAs::Internal, RemoteAs::Asn(Asn(64512))] {
            assert!(is_multihop(&|peer| {
                far(peer);
                peer.remote_as = internal;
            }));
        }
    }

    #[test]
    fn a_router_that_was_found_has_a_session_on_its_link() {
        let by_interface = with(|peer| peer.neighbor = Neighbor::Interface("eth0".to_owned()));
        let [(path, _)] = &sessions(vec![by_interface])[..] else { panic!("one session") };
        assert_eq!((path.remote, path.device.as_deref()), ("fe80::1".parse().unwrap(), Some("eth0")));
        assert!(!path.multihop);
    }

    #[test]
    fn peers_that_are_one_router_have_one_session_and_others_none() {
        let without = with(|peer| peer.bfd = None);
        let by_interface = with(|peer| peer.neighbor = Neighbor::Interface("eth1".to_owned()));
        let other = with(|peer| peer.port = std::num::NonZeroU16::MIN);
        let [(_, wanted)] = &sessions(vec![with(|_| {}), without, by_interface, other])[..] else {
            panic!("one session")
        };
        let names: Vec<&str> = wanted.peers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["peer-0", "peer-3"]);
    }

    #[test]
    fn networks_hold_addresses_of_their_own_family() {
        let network = |own: &str, mask: &str| (own.parse().unwrap(), mask.parse().unwrap());
        let networks = [network("10.0.0.9", "255.255.255.0"), network("fd00::9", "ffff:ffff:ffff:ffff::")];
        let is_near = |address: &str| is_in(address.parse().unwrap(), &networks);
        assert!(is_near("10.0.0.1") && is_near("fd00::ffff"));
        assert!(
            !is_near("10.0.1.1") && !is_near("fd00:0:0:1::9") && !is_in("10.0.0.1".parse().unwrap(), &[])
        );
    }
}
