//! Real sockets on veth pairs in network namespaces: `lan0` announces, `peer0` is its neighbour.

mod bench;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::mpsc;

use ferrolb_core::config::Interfaces;
use ferrolb_core::planner::LinkClaim;
use ferrolb_proto::arp::{ArpPacket, Operation};
use ferrolb_proto::conflict::{Candidate, Claim, Liveness, Member};
use ferrolb_proto::decode::{Decoded, decode};
use ferrolb_proto::ethernet::{EtherType, Header, MacAddr};
use ferrolb_proto::ndp::{self, Message, NeighborSolicitation, multicast_mac, solicited_node};
use ferrolb_runtime::Readiness;
use nix::unistd::gettid;
use prometheus::Registry;

use super::ndp_socket::NdpSocket;
use super::*;
use crate::links::{self, Excluded};
use crate::packet_socket::{BUFFER, PacketSocket};
use crate::testing::{PATIENCE, in_own_network, ip, until};

const LAN: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0x0a]);
const PEER: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0x0b]);
const V4: &str = "10.9.0.200";
const V6: &str = "fd00:9::1:200";

/// A node with links, and a neighbour on the first of them.
struct Bench {
    layer2: Layer2,
    orders: watch::Sender<Option<Orders>>,
    standings: watch::Receiver<Standings>,
    links: watch::Receiver<Links>,
    readiness: Readiness,
    registry: Registry,
    peer: Peer,
}

struct Peer {
    arp: PacketSocket,
    ndp: NdpSocket,
    link_local: Ipv6Addr,
}

fn veth(number: u8) {
    let (lan, peer) = (0x0a + 0x10 * number, 0x0b + 0x10 * number);
    ip(&format!(
        "link add lan{number} address 02:00:00:00:00:{lan:02x} type veth peer name peer{number} address 02:00:00:00:00:{peer:02x}"
    ));
    ip(&format!("link set lan{number} up"));
    ip(&format!("link set peer{number} up"));
}

fn index(name: &str) -> u32 {
    nix::net::if_::if_nametoindex(name).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Whatever the peer is, this node is to claim these addresses.
fn owning(addresses: &[(&str, Interfaces)]) -> LinkClaims {
    let candidate = |node: &str| Candidate { node: node.into(), preference: 0 };
    let candidates = vec![candidate("here"), candidate("there")];
    let claim = Arc::new(Claim { candidates, turn: Some(0), preempt: false });
    let claim =
        |interfaces: &Interfaces| LinkClaim { claim: Arc::clone(&claim), interfaces: interfaces.clone() };
    addresses.iter().map(|(ip, interfaces)| (address(ip), claim(interfaces))).collect()
}

fn both() -> LinkClaims {
    owning(&[(V4, Interfaces::All), (V6, Interfaces::All)])
}

impl Bench {
    async fn new() -> Self {
        veth(0);
        let excluded = Excluded::parse("announcedInterfacesToExclude: [^peer]").unwrap();
        let mut links = links::watch(excluded).await.unwrap();
        let ready = |links: &Links| {
            links
                .by_index
                .values()
                .any(|it| it.connected && it.name == "lan0" && it.address.link_local.is_some())
        };
        tokio::time::timeout(PATIENCE, links.wait_for(ready)).await.expect("lan0 comes up").unwrap();
        let mut peer_links =
            links::watch(Excluded::parse("announcedInterfacesToExclude: [^lan]").unwrap()).await.unwrap();
        let of_peer = |links: &Links| links.by_index.values().find_map(|it| it.address.link_local);
        tokio::time::timeout(PATIENCE, peer_links.wait_for(|it| of_peer(it).is_some()))
            .await
            .unwrap()
            .unwrap();
        let link_local = of_peer(&peer_links.borrow()).unwrap();
        let peer = Peer {
            arp: PacketSocket::arp(index("peer0")).unwrap(),
            ndp: NdpSocket::open(index("peer0")).unwrap(),
            link_local,
        };
        let (orders, receiver) = watch::channel(None);
        let (see, standings) = watch::channel(Standings::default());
        let registry = Registry::new();
        let metrics = Arc::new(Metrics::register(&registry).unwrap());
        let readiness = Readiness::default();
        let open = readiness.condition("layer 2 sockets");
        let layer2 = Layer2::start(links.clone(), receiver, see, metrics, open).unwrap();
        tokio::time::timeout(PATIENCE, readiness.wait()).await.expect("sockets open");
        Self { layer2, orders, standings, links, readiness, registry, peer }
    }

    /// The peer is a living speaker, too.
    fn plan(&self, claims: LinkClaims) {
        self.plan_with(Some(PEER), claims);
    }

    fn plan_with(&self, peer: Option<MacAddr>, claims: LinkClaims) {
        let member = |mac: Option<MacAddr>| Member {
            liveness: Liveness::Alive,
            life: 1,
            links: Some(mac.into_iter().map(|mac| (mac, true)).collect()),
        };
        let members = BTreeMap::from([("here".into(), member(Some(LAN))), ("there".into(), member(peer))]);
        let members = Arc::new(Members::new("here".into(), members));
        self.orders.send_replace(Some(Orders { members, claims, hold: false }));
    }

    fn metric(&self, line: &str) -> bool {
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap().contains(line)
    }
}

impl Peer {
    /// The next frame that `wanted` makes something of.
    async fn hear<T>(&self, what: &str, wanted: impl Fn(Decoded) -> Option<T>) -> T {
        let (mut arp, mut ndp) = ([0; BUFFER], [0; BUFFER]);
        let heard = async {
            loop {
                let frame = tokio::select! {
                    length = self.arp.receive(&mut arp) => &arp[..length.unwrap()],
                    length = self.ndp.receive(&mut ndp) => &ndp[..length.unwrap()],
                };
                if let Some(found) = decode(frame).and_then(&wanted) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("{what}: nothing heard"))
    }

    /// The MAC that the next announcement to everybody says.
    async fn hear_announcement(&self, of: &str) -> MacAddr {
        let of = address(of);
        self.hear("announcement", |frame| match frame {
            Decoded::Arp { packet, ethernet } if packet.sender_ip == packet.target_ip => {
                (ethernet.destination == MacAddr::BROADCAST && of == packet.sender_ip)
                    .then_some(packet.sender_mac)
            }
            Decoded::NeighborAdvertisement { advertisement, .. } if advertisement.overrides => {
                (of == advertisement.target).then_some(advertisement.target_mac?)
            }
            _ => None,
        })
        .await
    }

    fn ask(&self, ip: &str) {
        match address(ip) {
            IpAddr::V4(target_ip) => {
                let request = ArpPacket {
                    operation: Operation::Request,
                    sender_mac: PEER,
                    sender_ip: "10.9.0.1".parse().unwrap(),
                    target_mac: MacAddr::ZERO,
                    target_ip,
                };
                self.arp.send(&request.frame(PEER, MacAddr::BROADCAST)).unwrap();
            }
            IpAddr::V6(target) => {
                let group = solicited_node(target);
                let packet = ndp::Packet {
                    ethernet: Header {
                        destination: multicast_mac(group),
                        source: PEER,
                        ethertype: EtherType::IPV6,
                    },
                    source: self.link_local,
                    destination: group,
                    message: Message::Solicitation(NeighborSolicitation { target, source_mac: Some(PEER) }),
                };
                self.ndp.send(&packet.frame()).unwrap();
            }
        }
    }

    /// The MAC of the answer.
    async fn hear_answer(&self, of: &str) -> MacAddr {
        let of = address(of);
        self.hear("answer", |frame| match frame {
            Decoded::Arp { packet, ethernet } => {
                (ethernet.destination == PEER && of == packet.sender_ip).then_some(packet.sender_mac)
            }
            Decoded::NeighborAdvertisement { advertisement, .. } if advertisement.solicited => {
                (of == advertisement.target).then_some(advertisement.target_mac?)
            }
            _ => None,
        })
        .await
    }

    /// Asks for an address that is answered and for another one before it: only the first is heard.
    async fn is_silent_about(&self, silent: &str, answered: &str) {
        self.ask(silent);
        self.ask(answered);
        let (silent, answered) = (address(silent), address(answered));
        let answer = self
            .hear("answer", |frame| match frame {
                Decoded::Arp { packet, .. } if packet.operation == Operation::Reply => {
                    Some(IpAddr::from(packet.sender_ip)).filter(|ip| *ip == silent || *ip == answered)
                }
                _ => None,
            })
            .await;
        assert_eq!(answer, answered);
    }
}

#[test]
fn questions_are_answered_for_owned_addresses_only() {
    in_own_network(|| async {
        let bench = Bench::new().await;
        bench.plan(both());
        for ip in [V4, V6] {
            assert_eq!(bench.peer.hear_announcement(ip).await, LAN);
            bench.peer.ask(ip);
            assert_eq!(bench.peer.hear_answer(ip).await, LAN);
        }
        until("counters", || {
            [V4, V6].iter().all(|ip| {
                bench.metric(&format!("metallb_layer2_requests_received{{ip=\"{ip}\"}} 1"))
                    && bench.metric(&format!("metallb_layer2_responses_sent{{ip=\"{ip}\"}} 1"))
            })
        })
        .await;
        assert!(bench.metric(&format!("metallb_layer2_gratuitous_sent{{ip=\"{V4}\"}} ")));

        bench.plan(owning(&[("10.9.0.201", Interfaces::All)]));
        bench.peer.hear_announcement("10.9.0.201").await;
        bench.peer.is_silent_about(V4, "10.9.0.201").await;
        assert!(!bench.metric(V4), "series go with the address");
    });
}

#[test]
fn groups_are_joined_for_ipv6_addresses_and_left_again() {
    in_own_network(|| async {
        let bench = Bench::new().await;
        let memberships = || ip("maddr show dev lan0");
        let (group, mac) = ("ff02::1:ff01:200", "33:33:ff:01:02:00");
        assert!(!memberships().contains(group));
        bench.plan(both());
        until("join", || memberships().contains(group) && memberships().contains(mac)).await;
        // More than one socket can hold.
        let many: Vec<String> = (1..=300).map(|n| format!("fd00:9::{n:x}")).collect();
        let many: Vec<(&str, Interfaces)> = many.iter().map(|ip| (ip.as_str(), Interfaces::All)).collect();
        bench.plan(owning(&many));
        until("many", || memberships().matches("ff02::1:ff00:").count() >= 300).await;
        assert!(!memberships().contains(group));
        bench.plan(LinkClaims::new());
        until("leave", || memberships().matches("ff02::1:ff00:").count() < 3).await;
    });
}

#[test]
fn an_address_is_announced_on_its_interfaces_only() {
    in_own_network(|| async {
        let mut bench = Bench::new().await;
        veth(1);
        let up = |links: &Links| links.by_index.values().filter(|link| link.connected).count() == 2;
        tokio::time::timeout(PATIENCE, bench.links.wait_for(up)).await.expect("lan1 comes up").unwrap();
        let only = |name: &str| Interfaces::Named(BTreeSet::from([name.to_owned()]));
        bench.plan(owning(&[(V4, only("lan1")), ("10.9.0.201", only("lan0"))]));
        bench.peer.hear_announcement("10.9.0.201").await;
        bench.peer.is_silent_about(V4, "10.9.0.201").await;
    });
}

#[test]
fn a_link_that_comes_back_is_announced_again() {
    in_own_network(|| async {
        let mut bench = Bench::new().await;
        bench.plan(both());
        bench.peer.hear_announcement(V4).await;
        let connected =
            |wanted: bool| move |links: &Links| links.by_index.values().any(|link| link.connected) == wanted;
        // Past the schedule of the first announcement, so that what is heard later is another.
        tokio::time::sleep(Duration::from_millis(4500)).await;
        ip("link set peer0 down");
        tokio::time::timeout(PATIENCE, bench.links.wait_for(connected(false)))
            .await
            .expect("no carrier")
            .unwrap();
        ip("link set peer0 up");
        let peer = Peer {
            arp: PacketSocket::arp(index("peer0")).unwrap(),
            ndp: NdpSocket::open(index("peer0")).unwrap(),
            link_local: bench.peer.link_local,
        };
        assert_eq!(peer.hear_announcement(V4).await, LAN);
        peer.ask(V4);
        assert_eq!(peer.hear_answer(V4).await, LAN);
        tokio::time::timeout(PATIENCE, bench.readiness.wait()).await.expect("sockets open again");
    });
}

#[test]
fn a_link_that_is_replaced_is_served_again() {
    in_own_network(|| async {
        let bench = Bench::new().await;
        bench.plan(both());
        bench.peer.hear_announcement(V4).await;
        ip("link del lan0");
        veth(0);
        let arp = PacketSocket::arp(index("peer0")).unwrap();
        let ndp = NdpSocket::open(index("peer0")).unwrap();
        let peer = Peer { arp, ndp, link_local: bench.peer.link_local };
        assert_eq!(peer.hear_announcement(V4).await, LAN);
        assert_eq!(peer.hear_announcement(V6).await, LAN);
    });
}

#[test]
fn a_changed_mac_is_announced() {
    in_own_network(|| async {
        let bench = Bench::new().await;
        bench.plan(owning(&[(V4, Interfaces::All)]));
        assert_eq!(bench.peer.hear_announcement(V4).await, LAN);
        ip("link set lan0 address 02:00:00:00:00:77");
        let new = MacAddr::new([2, 0, 0, 0, 0, 0x77]);
        let heard = async { while bench.peer.hear_announcement(V4).await != new {} };
        tokio::time::timeout(PATIENCE, heard).await.expect("the new MAC is announced");
        bench.peer.ask(V4);
        assert_eq!(bench.peer.hear_answer(V4).await, new);
    });
}

#[test]
fn whoever_ends_answers_until_another_announces() {
    in_own_network(|| async {
        let bench = Bench::new().await;
        bench.plan(both());
        bench.peer.hear_announcement(V4).await;
        bench.peer.hear_announcement(V6).await;
        let ending = tokio::spawn(bench.layer2.hand_over(PATIENCE));
        bench.peer.ask(V4);
        assert_eq!(bench.peer.hear_answer(V4).await, LAN);
        assert!(!ending.is_finished());
        let (IpAddr::V4(v4), IpAddr::V6(v6)) = (address(V4), address(V6)) else { unreachable!() };
        for frame in ferrolb_proto::arp::gratuitous(PEER, v4) {
            bench.peer.arp.send(&frame).unwrap();
        }
        bench.peer.ask(V6);
        assert_eq!(bench.peer.hear_answer(V6).await, LAN);
        bench.peer.ndp.send(&ndp::unsolicited(PEER, bench.peer.link_local, v6)).unwrap();
        let before = std::time::Instant::now();
        tokio::time::timeout(PATIENCE, ending).await.expect("ends").unwrap();
        assert!(before.elapsed() < PATIENCE / 2, "it was over when both were taken over");
    });
}

#[test]
fn a_stranger_that_has_an_address_is_not_fought_and_replaced_when_it_leaves() {
    in_own_network(|| async {
        let mut bench = Bench::new().await;
        // The peer is no speaker, and has the address.
        ip(&format!("addr add {V4}/24 dev peer0"));
        bench.plan_with(None, both());
        let conflict =
            |standings: &Standings| standings.wire().get(&address(V4)) == Some(&Seen::Conflict(PEER));
        let seen = tokio::time::timeout(PATIENCE, bench.standings.wait_for(conflict)).await;
        seen.expect("the conflict is seen").unwrap();
        assert_eq!(bench.peer.hear_announcement(V6).await, LAN, "the other address is announced");
        ip(&format!("addr del {V4}/24 dev peer0"));
        let left = std::time::Instant::now();
        assert_eq!(bench.peer.hear_announcement(V4).await, LAN);
        assert!(left.elapsed() < PATIENCE / 2);
    });
}

#[test]
fn an_owner_falls_silent_for_a_better_one_and_takes_the_address_when_that_is_gone() {
    in_own_network(|| async {
        let mut bench = Bench::new().await;
        ip(&format!("addr add {V4}/24 dev peer0"));
        bench.plan(both());
        let elsewhere = Some(Seen::Elsewhere(Some("there".to_owned())));
        let theirs = |standings: &Standings| standings.wire().get(&address(V4)).cloned() == elsewhere;
        let seen = tokio::time::timeout(PATIENCE, bench.standings.wait_for(theirs)).await;
        seen.expect("the living member stays the owner").unwrap();
        ip(&format!("addr del {V4}/24 dev peer0"));
        assert_eq!(bench.peer.hear_announcement(V4).await, LAN, "an heir looks after it now and then");
    });
}

#[test]
fn whoever_ends_does_not_wait_for_ever() {
    in_own_network(|| async {
        let bench = Bench::new().await;
        bench.plan(both());
        bench.peer.hear_announcement(V4).await;
        tokio::time::timeout(PATIENCE, bench.layer2.hand_over(Duration::from_millis(50)))
            .await
            .expect("ends");
    });
}

/// The kernel of another host resolves the addresses by itself.
#[test]
fn a_real_neighbour_resolves_the_addresses() {
    in_own_network(|| async {
        let (say, told) = mpsc::channel::<Option<i32>>();
        let (heard, tell) = mpsc::channel::<()>();
        let client = std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            say.send(Some(gettid().as_raw())).unwrap();
            tell.recv().unwrap();
            ip("link set peer0 up");
            ip("addr add 10.9.0.1/24 dev peer0");
            ip("addr add fd00:9::1/64 dev peer0 nodad");
            let end = std::time::Instant::now() + PATIENCE;
            let resolved = || {
                let neighbours = ip("neigh show dev peer0");
                [V4, V6].iter().all(|ip| {
                    neighbours.lines().any(|l| l.starts_with(ip) && l.contains("lladdr 02:00:00:00:00:0a"))
                })
            };
            while !resolved() {
                assert!(std::time::Instant::now() < end, "not resolved:\n{}", ip("neigh show dev peer0"));
                for (from, to) in [("0.0.0.0:0", V4), ("[::]:0", V6)] {
                    // Sending may fail while addresses are being resolved; sending is what asks.
                    let socket = std::net::UdpSocket::bind(from).unwrap();
                    let _ = socket.send_to(b"x", (address(to), 9));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let thread = told.recv().unwrap().unwrap();
        let bench = Bench::new().await;
        bench.plan(both());
        bench.peer.hear_announcement(V6).await;
        ip(&format!("link set peer0 netns {thread}"));
        heard.send(()).unwrap();
        let end = std::time::Instant::now() + 2 * PATIENCE;
        while !client.is_finished() {
            assert!(std::time::Instant::now() < end, "the client does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client.join().unwrap();
    });
}

/// What the links say of the kernel is what the kernel does: an address on another interface is answered for
/// by ARP unless `arp_ignore` says otherwise (as kube-proxy's `strictARP` sets it).
#[test]
fn the_kernel_answers_where_the_links_say_so() {
    in_own_network(|| async {
        veth(0);
        veth(1);
        ip("addr add 10.9.0.1/24 dev lan0");
        ip("addr add 10.9.0.200/32 dev lan1");
        let excluded = Excluded::parse("announcedInterfacesToExclude: [^peer]").unwrap();
        let mut links = links::watch(excluded).await.unwrap();
        let mut asker = testing::Asker::new("peer0", &PEER.to_string());
        let time = std::time::Duration::from_millis(300);
        let here = address("10.9.0.200");
        let stands_on = |links: &Links| links.kernel_answers(here).map(ToOwned::to_owned);
        let up = |links: &Links| links.by_index.values().filter(|it| it.connected).count() == 2;
        tokio::time::timeout(PATIENCE, links.wait_for(up)).await.expect("both come up").unwrap();
        assert_eq!(stands_on(&links.borrow()).as_deref(), Some("lan1"));
        let answers = asker.ask("10.9.0.200".parse().unwrap(), time).await;
        assert_eq!(answers, BTreeSet::from([LAN.to_string()]), "the kernel answers on lan0");

        std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1").unwrap();
        // Nothing tells of the setting; any event makes the links look again.
        ip("addr add 10.9.0.2/32 dev lan0");
        let strict = |links: &Links| links.by_index.values().all(|it| !it.answers_for_others);
        tokio::time::timeout(PATIENCE, links.wait_for(strict)).await.expect("seen").unwrap();
        assert_eq!(stands_on(&links.borrow()).as_deref(), Some("lan1"), "lan1 itself is a link of ours");
        assert!(asker.ask("10.9.0.200".parse().unwrap(), time).await.is_empty(), "not on lan0 any more");

        ip("link set lan1 down");
        let down = |links: &Links| links.by_index.values().all(|it| it.name != "lan1");
        tokio::time::timeout(PATIENCE, links.wait_for(down)).await.expect("lan1 goes").unwrap();
        assert_eq!(stands_on(&links.borrow()), None);
    });
}
