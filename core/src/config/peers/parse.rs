//! From a `BGPPeer` to a [`Peer`]: all that can be checked without any other object.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_proto::bgp::Asn;

use super::{Neighbor, Password, Peer, RemoteAs, Timers};
use crate::config::diagnostic::{PASSWORD_LIMIT, PeerProblem, SelectorField};
use crate::config::selectors::{Finding, parse_list};
use crate::duration;
use crate::selector::Selector;

/// The peer without its nodes, password of a Secret and BFD profile; none if it cannot be read. And
/// everything that is wrong with it in itself.
pub(in crate::config) type Reading = (Option<Peer>, References, Vec<Finding<PeerProblem>>);

/// What the peer says of other objects.
#[derive(Debug)]
pub(in crate::config) struct References {
    pub(in crate::config) nodes: Vec<Selector>,
    pub(in crate::config) bfd_profile: Option<String>,
}

struct Reader<'a> {
    spec: &'a BGPPeerSpec,
    findings: Vec<Finding<PeerProblem>>,
}

/// Reads a peer.
pub(in crate::config) fn parse(peer: &BGPPeer) -> Reading {
    let spec = &peer.spec;
    let mut reader = Reader { spec, findings: Vec::new() };
    let systems = reader.systems();
    let neighbor = reader.neighbor();
    let timers = reader.timers();
    let router_id = reader.router_id();
    let source_address = reader.source_address(neighbor.as_ref());
    let connect_time = reader.connect_time();
    let port = NonZeroU16::new(spec.peer_port.unwrap_or(DEFAULT_PORT));
    if port.is_none() {
        reader.report("peerPort", PeerProblem::Port);
    }
    let vrf = given(&spec.vrf).map(|vrf| reader.interface_name("vrf", vrf).to_owned());
    let nodes = parse_list(&spec.node_selectors, "spec", SelectorField::Nodes, &mut reader.findings);
    let (password, password_secret) = reader.password(peer);
    if spec.disable_mp {
        reader.report("disableMP", PeerProblem::DisableMp);
    }
    let parsed = (|| {
        let (my_asn, remote_as) = systems?;
        Some(Peer {
            name: peer.metadata.name.clone().unwrap_or_default(),
            my_asn,
            local_asn: spec.local_asn.map(Asn),
            remote_as,
            neighbor: neighbor?,
            port: port?,
            source_address,
            router_id,
            timers,
            connect_time,
            nodes: Arc::default(),
            password,
            password_secret,
            bfd: None,
            graceful_restart: spec.enable_graceful_restart.unwrap_or_default(),
            ebgp_multi_hop: spec.ebgp_multi_hop.unwrap_or_default(),
            vrf,
            dual_stack: spec.dual_stack_address_family,
        })
    })();
    let references = References { nodes, bfd_profile: given(&spec.bfd_profile).map(ToOwned::to_owned) };
    (parsed, references, reader.findings)
}

const DEFAULT_PORT: u16 = 179;

/// An empty text counts as none.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Reader<'_> {
    fn report(&mut self, field: &str, problem: PeerProblem) {
        self.findings.push((format!("spec.{field}"), problem));
    }

    fn systems(&mut self) -> Option<(Asn, RemoteAs)> {
        let spec = self.spec;
        let peer_asn = spec.peer_asn.filter(|asn| *asn != 0);
        if spec.my_asn == 0 {
            self.report("myASN", PeerProblem::MissingLocalAsn);
        }
        if spec.local_asn == Some(0) {
            self.report("localASN", PeerProblem::LocalAsn);
        }
        let remote = match (peer_asn, given(&spec.dynamic_asn)) {
            (None, None) => {
                self.report("peerASN", PeerProblem::MissingPeerAsn);
                None
            }
            (Some(_), Some(_)) => {
                self.report("dynamicASN", PeerProblem::BothPeerAsns);
                None
            }
            (Some(asn), None) => Some(RemoteAs::Asn(Asn(asn))),
            (None, Some("internal")) => Some(RemoteAs::Internal),
            (None, Some("external")) => Some(RemoteAs::External),
            (None, Some(other)) => {
                self.report("dynamicASN", PeerProblem::DynamicAsn(other.to_owned()));
                None
            }
        };
        if spec.my_asn != 0 && peer_asn == Some(spec.my_asn) && spec.ebgp_multi_hop == Some(true) {
            self.report("ebgpMultiHop", PeerProblem::MultiHopIbgp);
        }
        (spec.my_asn != 0).then_some((Asn(spec.my_asn), remote?))
    }

    fn neighbor(&mut self) -> Option<Neighbor> {
        match (given(&self.spec.peer_address), given(&self.spec.interface)) {
            (None, None) => {
                self.report("peerAddress", PeerProblem::NoNeighbor);
                None
            }
            (Some(_), Some(_)) => {
                self.report("interface", PeerProblem::BothNeighbors);
                None
            }
            (None, Some(name)) => {
                Some(Neighbor::Interface(self.interface_name("interface", name).to_owned()))
            }
            (Some(text), None) => {
                let address = text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
                let Some(address) = address.filter(|it| !it.is_unspecified() && !it.is_multicast()) else {
                    self.report("peerAddress", PeerProblem::Address(text.to_owned()));
                    return None;
                };
                if matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
                    self.report("peerAddress", PeerProblem::LinkLocal(address));
                }
                Some(Neighbor::Address(address))
            }
        }
    }

    fn interface_name<'n>(&mut self, field: &str, name: &'n str) -> &'n str {
        let fits = name.len() <= 15 && name != "." && name != "..";
        if !fits || name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace()) {
            self.report(field, PeerProblem::InterfaceName(name.to_owned()));
        }
        name
    }

    fn duration(&mut self, field: &str, text: &Option<String>) -> Option<Duration> {
        match duration::parse(text.as_deref()?) {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.report(field, PeerProblem::Duration(error));
                None
            }
        }
    }

    /// Either time follows from the other; a hold time counts in whole seconds.
    fn timers(&mut self) -> Option<Timers> {
        let spec = self.spec;
        let hold = self.duration("holdTime", &spec.hold_time);
        let keepalive = self.duration("keepaliveTime", &spec.keepalive_time);
        let (hold, keepalive) = match (hold, keepalive) {
            (None, None) => return None,
            (Some(hold), None) => (hold, hold / 3),
            (None, Some(keepalive)) => (keepalive * 3, keepalive),
            (Some(hold), Some(keepalive)) => (hold, keepalive),
        };
        let seconds = match u16::try_from(hold.as_secs()) {
            Ok(1 | 2) | Err(_) => {
                self.report("holdTime", PeerProblem::HoldTime(hold));
                None
            }
            Ok(seconds) => Some(seconds),
        };
        if keepalive > hold {
            self.report("keepaliveTime", PeerProblem::KeepaliveTime { keepalive, hold });
        }
        let seconds = seconds?;
        if seconds == 0 && !hold.is_zero() {
            self.report("holdTime", PeerProblem::HoldTimeIsNone(hold));
        }
        Some(Timers { hold: seconds, keepalive: keepalive.min(Duration::from_secs(seconds.into())) })
    }

    fn connect_time(&mut self) -> Option<Duration> {
        let time = self.duration("connectTime", &self.spec.connect_time)?;
        if time.subsec_nanos() != 0 || !(1..=u64::from(u16::MAX)).contains(&time.as_secs()) {
            self.report("connectTime", PeerProblem::ConnectTime(time));
        }
        Some(time)
    }

    fn router_id(&mut self) -> Option<Ipv4Addr> {
        let text = given(&self.spec.router_id)?;
        let id = text.parse::<Ipv4Addr>().ok().filter(|id| !id.is_unspecified());
        if id.is_none() {
            self.report("routerID", PeerProblem::RouterId(text.to_owned()));
        }
        id
    }

    fn source_address(&mut self, neighbor: Option<&Neighbor>) -> Option<IpAddr> {
        let text = given(&self.spec.source_address)?;
        let Some(source) = text.parse::<IpAddr>().ok().map(|address| address.to_canonical()) else {
            self.report("sourceAddress", PeerProblem::SourceAddress(text.to_owned()));
            return None;
        };
        if let Some(Neighbor::Address(peer)) = neighbor
            && peer.is_ipv4() != source.is_ipv4()
        {
            self.report("sourceAddress", PeerProblem::SourceFamily { source, peer: *peer });
        }
        Some(source)
    }

    fn password(&mut self, peer: &BGPPeer) -> (Option<Password>, Option<String>) {
        let password = given(&self.spec.password);
        let secret = self.spec.password_secret.as_ref().and_then(|it| given(&it.name));
        if password.is_some() && secret.is_some() {
            let namespace = peer.metadata.namespace.clone().unwrap_or_default();
            self.report("password", PeerProblem::BothPasswords { namespace });
        }
        if let Some(password) = password.filter(|it| it.len() > PASSWORD_LIMIT) {
            self.report("password", PeerProblem::PasswordLength(password.len()));
        }
        (password.map(Password::new), secret.map(ToOwned::to_owned))
    }
}
