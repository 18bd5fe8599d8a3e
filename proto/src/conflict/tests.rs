use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::decode::{Decoded, decode};
use crate::testing::{MAC_A, MAC_B};

const V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 200);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 0x200);
const STRANGER: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0x99]);
const LINK: LinkAddress =
    LinkAddress { mac: MAC_B, link_local: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x0b)) };

type Candidates = Vec<(&'static str, u64)>;

/// The link of node `b`, with MAC B; node `a` has MAC A and ranks before it.
struct Bench {
    machine: Claimant,
    start: Instant,
    now: u64,
    alive: Liveness,
    life: u64,
    /// Whether `a` told its MACs.
    told: bool,
    /// All addresses: their candidates with preference, and the turn of `b`.
    claim: Option<(Candidates, Option<u32>)>,
    preempt: bool,
    hold: bool,
    heard: Vec<(u64, String)>,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the zero of a made-up clock")]
    fn new() -> Self {
        let start = Instant::now();
        let machine = Claimant::new(LINK, Rules::default());
        let claim = Some((vec![("a", 0), ("b", 0)], Some(0)));
        Self {
            machine,
            start,
            now: 0,
            alive: Liveness::Alive,
            life: 1,
            told: true,
            claim,
            preempt: false,
            hold: false,
            heard: Vec::new(),
        }
    }

    /// A link that owns both addresses, 10 s after it came up.
    fn owning() -> Self {
        let mut bench = Self::new();
        bench.plan();
        bench.run_to(10_000);
        assert!(bench.machine.owns(V4.into()) && bench.machine.owns(V6.into()));
        bench.heard.clear();
        bench
    }

    fn plan(&mut self) {
        let member = |liveness, mac, told: bool| Member {
            liveness,
            life: self.life,
            links: told.then(|| BTreeMap::from([(mac, true)])),
        };
        let members = BTreeMap::from([
            ("a".into(), member(self.alive, MAC_A, self.told)),
            ("b".into(), member(Liveness::Alive, MAC_B, true)),
        ]);
        let claim = self.claim.clone().map(|(candidates, turn)| {
            let candidate = |(node, preference): (&str, u64)| Candidate { node: node.into(), preference };
            let candidates = candidates.into_iter().map(candidate).collect();
            Arc::new(Claim { candidates, turn, preempt: self.preempt })
        });
        let claims = [IpAddr::from(V4), V6.into()].into_iter().filter_map(|ip| Some((ip, claim.clone()?)));
        let members = Arc::new(Members::new("b".into(), members));
        self.input(Input::Plan(Plan { members, claims: claims.collect(), hold: self.hold }));
    }

    fn turn(&mut self, candidates: &[(&'static str, u64)], turn: Option<u32>) {
        self.claim = Some((candidates.to_vec(), turn));
        self.plan();
    }

    fn input(&mut self, input: Input<'_>) {
        let now = self.start + Duration::from_millis(self.now);
        self.machine.handle_input(now, input);
        self.drain();
    }

    /// A says that it has both addresses, in answer or to everybody: here it is the same.
    fn says(&mut self, mac: MacAddr) {
        for frame in arp::gratuitous(mac, V4) {
            self.input(Input::Frame(&frame));
        }
        self.input(Input::Frame(&ndp::unsolicited(mac, "fe80::1".parse().unwrap(), V6)));
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            let what = match output {
                Output::Send { cause: None, about, frame } => {
                    assert!(matches!(
                        decode(&frame),
                        Some(Decoded::Arp { .. } | Decoded::NeighborSolicitation { .. })
                    ));
                    format!("probe {about}")
                }
                Output::Send { cause: Some(Cause::Announcement(ip)), .. } => format!("announce {ip}"),
                Output::Send { cause: Some(Cause::Answer(_)), .. } | Output::Event(Event::Ignored(_)) => {
                    continue;
                }
                Output::Event(Event::Standing(ip, standing)) => match standing {
                    Some(Standing::Owner) => format!("own {ip}"),
                    Some(Standing::Other(node)) => format!("other {ip} {}", node.as_deref().unwrap_or("?")),
                    Some(Standing::Conflict(mac)) => format!("conflict {ip} {mac}"),
                    None => format!("none {ip}"),
                },
                Output::Event(Event::Claimed(ip, after)) => format!("claimed {ip} {}", after.as_millis()),
                Output::Event(Event::Contested(ip, mac)) => format!("contested {ip} {mac}"),
            };
            self.heard.push((self.now, what));
        }
    }

    fn run_to(&mut self, end: u64) {
        while let Some(next) = self.machine.next_timeout() {
            let next = (next - self.start).as_millis() as u64;
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.machine.handle_timeout(self.start + Duration::from_millis(self.now));
            self.drain();
        }
        self.now = end;
    }

    /// When what about the IPv4 address was heard (frames of one moment once); IPv6 must agree.
    fn times(&mut self, what: &str) -> Vec<u64> {
        let of = |ip: IpAddr| {
            let wanted = format!("{what} {ip}");
            let heard = self.heard.iter().filter(|(_, it)| it.starts_with(&wanted));
            let mut times: Vec<u64> = heard.map(|(at, _)| *at).collect();
            times.dedup();
            times
        };
        let (v4, v6) = (of(V4.into()), of(V6.into()));
        assert_eq!(v4, v6, "{what}: {:?}", self.heard);
        v4
    }

    fn owns(&self) -> bool {
        let (v4, v6) = (self.machine.owns(V4.into()), self.machine.owns(V6.into()));
        assert_eq!(v4, v6);
        v4
    }
}

#[test]
fn a_link_that_came_up_asks_carefully_and_takes_what_nobody_has() {
    let mut bench = Bench::new();
    bench.plan();
    bench.run_to(8000);
    let probes = bench.times("probe");
    assert_eq!((probes.len(), probes[0], probes[14]), (15, 0, 280));
    assert_eq!(bench.times("announce"), [300, 1300, 2300, 4300]);
    assert_eq!((bench.times("own"), bench.times("claimed")), (vec![300], vec![300]));
}

#[test]
fn an_address_that_nobody_ever_had_is_asked_for_three_times() {
    let mut bench = Bench::new();
    bench.claim = None;
    bench.plan();
    bench.run_to(5000);
    bench.turn(&[("b", 0)], Some(0));
    bench.run_to(6000);
    assert_eq!((bench.times("probe"), bench.times("own")), (vec![5000, 5050, 5100], vec![5150]));
}

#[test]
fn each_waits_for_its_turn() {
    let mut bench = Bench::new();
    bench.turn(&[("a", 0), ("b", 0)], Some(2));
    bench.run_to(1200);
    assert_eq!(bench.times("probe")[0], 1000);
    // The better asks too: it goes first.
    bench.input(Input::Frame(&arp::probe(MAC_A, V4)));
    bench.input(Input::Frame(&ndp::probe(MAC_A, V6)));
    bench.run_to(1600);
    assert!(!bench.owns());
    bench.says(MAC_A);
    bench.run_to(2500);
    assert_eq!((bench.times("other"), bench.owns()), (vec![1600], false));
}

#[test]
fn a_member_that_answers_stays_the_owner_until_it_is_suspected() {
    let mut bench = Bench::new();
    bench.turn(&[("b", 0), ("a", 0)], Some(0));
    bench.run_to(100);
    bench.says(MAC_A);
    bench.run_to(8000);
    assert_eq!((bench.owns(), bench.times("other")), (false, vec![100]));
    bench.heard.clear();
    bench.alive = Liveness::Suspect;
    bench.plan();
    bench.run_to(8010);
    assert_eq!(bench.times("probe")[0], 8000, "at once");
    bench.says(MAC_A);
    bench.run_to(9000);
    assert!(!bench.owns(), "it lives");
    bench.run_to(9700);
    assert_eq!(bench.times("own"), [9310], "asked again after a second, since it is still suspected");
}

#[test]
fn who_started_anew_is_asked_whether_it_still_has_the_address() {
    let mut bench = Bench::new();
    bench.plan();
    bench.says(MAC_A);
    bench.run_to(3000);
    bench.heard.clear();
    assert!(!bench.owns());
    bench.life = 2;
    bench.plan();
    bench.run_to(3400);
    assert_eq!((bench.times("probe")[0], bench.times("own")), (3000, vec![3300]));
}

#[test]
fn a_stranger_that_has_the_address_is_named_and_replaced_when_it_leaves() {
    let mut bench = Bench::new();
    bench.plan();
    bench.run_to(40);
    bench.says(STRANGER);
    bench.run_to(1050);
    assert_eq!(bench.times("conflict"), [] as [u64; 0], "once is not yet a conflict");
    bench.says(STRANGER);
    assert_eq!(bench.times("conflict"), [1050]);
    bench.run_to(2060);
    bench.says(STRANGER);
    assert!(!bench.owns());
    let left = bench.now;
    bench.run_to(6000);
    assert_eq!(bench.times("announce")[0], left + 1300);
}

#[test]
fn a_stranger_is_asked_for_until_it_leaves_although_nobody_is_to_have_the_address() {
    let mut bench = Bench::new();
    bench.plan();
    bench.run_to(40);
    bench.says(STRANGER);
    bench.run_to(1050);
    bench.says(STRANGER);
    assert_eq!(bench.times("conflict"), [1050]);
    bench.turn(&[], Some(0));
    bench.run_to(2060);
    bench.says(STRANGER);
    assert_eq!(bench.times("none"), [] as [u64; 0]);
    bench.run_to(9000);
    assert_eq!((bench.times("none").len(), bench.times("announce"), bench.owns()), (1, vec![], false));
}

#[test]
fn a_stranger_is_defended_against_once() {
    let mut bench = Bench::owning();
    bench.says(STRANGER);
    assert_eq!((bench.times("announce"), bench.owns()), (vec![10_000], true));
    bench.run_to(14_000);
    bench.says(STRANGER);
    assert_eq!((bench.owns(), bench.times("conflict")), (false, vec![14_000]));
    let mut bench = Bench::owning();
    bench.says(STRANGER);
    bench.run_to(25_000);
    bench.says(STRANGER);
    assert!(bench.owns(), "after ten seconds it is the first conflict again");
}

#[test]
fn of_two_owners_the_worse_falls_silent() {
    let mut bench = Bench::owning();
    bench.says(MAC_A);
    assert_eq!((bench.owns(), bench.times("announce")), (false, vec![]));
    assert_eq!(bench.times("other"), [10_000]);
    // It was late word: nobody has the address.
    bench.run_to(12_000);
    assert_eq!(bench.times("own"), [11_300]);
}

#[test]
fn the_better_announces_again_and_yields_to_who_insists() {
    let mut bench = Bench::owning();
    bench.turn(&[("b", 0), ("a", 0)], Some(0));
    bench.says(MAC_A);
    assert_eq!((bench.owns(), bench.times("announce")), (true, vec![10_000]));
    bench.run_to(11_050);
    assert!(bench.times("probe").contains(&11_000), "asked whether it insists");
    bench.says(MAC_A);
    assert!(bench.owns(), "it may fall silent this moment, since it asks too");
    bench.run_to(11_150);
    bench.says(MAC_A);
    assert_eq!((bench.owns(), bench.times("other")), (false, vec![11_150]));
}

/// After a partition the members learn of each other one after the other, and each announces when it does.
#[test]
fn the_worse_asks_whom_it_heard_before_it_knew_that_it_lives() {
    let mut bench = Bench::owning();
    bench.alive = Liveness::Dead;
    bench.plan();
    bench.says(MAC_A);
    assert!(bench.owns(), "it may be the late word of one that is gone");
    bench.run_to(10_050);
    bench.alive = Liveness::Alive;
    bench.plan();
    assert_eq!((bench.times("probe").last(), bench.owns()), (Some(&10_050), true));
    bench.says(MAC_A);
    assert!(!bench.owns());
}

#[test]
fn who_must_not_own_an_address_answers_until_another_announces_it() {
    let mut bench = Bench::owning();
    bench.turn(&[("a", 0)], None);
    bench.run_to(10_400);
    assert_eq!((bench.owns(), bench.times("announce")), (true, vec![]));
    bench.says(MAC_A);
    assert!(!bench.owns());
    // Nobody takes it: silence all the same.
    let mut bench = Bench::owning();
    bench.turn(&[("a", 0)], None);
    bench.run_to(11_999);
    assert!(bench.owns());
    bench.run_to(12_000);
    assert!(!bench.owns());
    // Nobody could take it.
    let mut bench = Bench::owning();
    bench.turn(&[], None);
    assert!(!bench.owns());
    let mut bench = Bench::owning();
    bench.input(Input::Leave);
    assert!(bench.owns());
    bench.says(MAC_A);
    assert!(!bench.owns() && bench.machine.is_silent());
}

#[test]
fn what_is_not_planned_any_more_falls_silent_at_once() {
    let mut bench = Bench::owning();
    bench.claim = None;
    bench.plan();
    assert!(!bench.owns() && bench.machine.is_silent());
    assert_eq!(bench.times("none"), [10_000]);
}

#[test]
fn a_living_owner_is_replaced_only_where_the_user_wants_it() {
    for (candidates, preempt, takes) in [
        (&[("b", 0), ("a", 0)][..], false, false),
        (&[("b", 0), ("a", 0)], true, true),
        (&[("a", 0), ("b", 0)], true, false),
        (&[("b", 1), ("a", 0)], false, true),
        (&[("b", 0)], false, true),
    ] {
        let mut bench = Bench::new();
        bench.preempt = preempt;
        bench.turn(candidates, Some(0));
        for now in 0..6 {
            bench.run_to(now * 100);
            if !bench.owns() {
                bench.says(MAC_A);
            }
        }
        assert_eq!(bench.owns(), takes, "{candidates:?} {preempt}");
    }
    // Right after the API server came back who may not own it may only not be seen yet.
    let mut bench = Bench::new();
    bench.hold = true;
    bench.turn(&[("b", 0)], Some(0));
    bench.run_to(100);
    bench.says(MAC_A);
    bench.run_to(900);
    assert!(!bench.owns());
    bench.hold = false;
    bench.plan();
    bench.run_to(1200);
    assert!(bench.owns());
    // A speaker that said goodbye answers still.
    let mut bench = Bench::new();
    bench.alive = Liveness::Left;
    bench.plan();
    bench.run_to(100);
    bench.says(MAC_A);
    bench.run_to(400);
    assert!(bench.owns());
}

#[test]
fn while_macs_are_missing_nobody_is_a_stranger() {
    let mut bench = Bench::new();
    bench.told = false;
    bench.plan();
    for now in 1..60 {
        bench.run_to(now * 100);
        bench.says(MAC_A);
    }
    assert_eq!((bench.owns(), bench.times("conflict")), (false, vec![]));
    bench.told = true;
    bench.plan();
    bench.run_to(6100);
    assert!(bench.heard.iter().any(|(_, it)| *it == format!("other {V4} a")), "{:?}", bench.heard);
}

#[test]
fn ipv6_needs_a_link_local_address() {
    let mut bench = Bench::owning();
    let without = LinkAddress { link_local: None, ..LINK };
    bench.input(Input::LinkAddress(without));
    assert_eq!((bench.machine.owns(V4.into()), bench.machine.owns(V6.into())), (true, false));
    bench.run_to(20_000);
    assert!(!bench.machine.owns(V6.into()));
    bench.input(Input::LinkAddress(LINK));
    bench.run_to(21_000);
    assert!(bench.owns());
}

#[test]
fn an_owner_announces_again_when_a_member_appears() {
    let mut bench = Bench::owning();
    bench.alive = Liveness::Dead;
    bench.plan();
    bench.run_to(12_000);
    assert_eq!(bench.times("announce"), [] as [u64; 0]);
    bench.alive = Liveness::Alive;
    bench.plan();
    assert_eq!(bench.times("announce"), [12_000]);
}

#[test]
fn owners_ask_now_and_then_whether_they_are_alone() {
    let mut bench = Bench::owning();
    bench.run_to(40_000);
    let probes = bench.heard.iter().filter(|(_, it)| it.starts_with("probe")).count();
    assert!((5..=7).contains(&probes), "two addresses in 30 s: {:?}", bench.heard);
}

#[test]
fn while_held_nothing_is_taken_away() {
    let claim = |candidates: &[&str], turn| {
        let candidate = |node: &&str| Candidate { node: (*node).into(), preference: 0 };
        Arc::new(Claim { candidates: candidates.iter().map(candidate).collect(), turn, preempt: false })
    };
    let before =
        Claims::from([(V4.into(), claim(&["a", "b"], Some(1))), (V6.into(), claim(&["b"], Some(0)))]);
    let now = Claims::from([(V4.into(), claim(&["c", "a"], None))]);
    let held = hold(&now, &before);
    assert_eq!(held[&IpAddr::from(V4)], claim(&["c", "a", "b"], Some(1)));
    assert_eq!(held[&IpAddr::from(V6)], claim(&["b"], Some(0)));
    assert_eq!(hold(&before, &Claims::new()), before);
}
