use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::decode::{Decoded, decode};
use crate::testing::*;

const LINK: LinkAddress =
    LinkAddress { mac: MAC_B, link_local: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x0b)) };
const V4: &str = "10.9.0.2";
const V6: &str = "fd00:10::b";

/// A machine under a clock that only moves when told, counted in milliseconds.
struct Bench {
    machine: Announcer,
    owned: BTreeSet<IpAddr>,
    start: Instant,
    now: u64,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the zero of a made-up clock")]
    fn new(link: LinkAddress) -> Self {
        Self { machine: Announcer::new(link), owned: BTreeSet::new(), start: Instant::now(), now: 0 }
    }

    fn at(&mut self, millis: u64) -> &mut Self {
        assert!(millis >= self.now, "time does not go back");
        self.now = millis;
        self
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    fn input(&mut self, input: Input<'_>) -> Vec<Output> {
        let now = self.instant();
        self.machine.handle_input(now, input);
        self.drain()
    }

    /// Makes these the owned addresses.
    fn set(&mut self, owned: &BTreeSet<IpAddr>) {
        let now = self.instant();
        for ip in self.owned.difference(owned) {
            self.machine.handle_input(now, Input::Disown(*ip));
        }
        for ip in owned {
            self.machine.handle_input(now, Input::Own(*ip));
        }
        self.owned.clone_from(owned);
        self.machine.handle_timeout(now);
    }

    fn own(&mut self, ips: &[&str]) -> Vec<String> {
        self.set(&ips.iter().map(|ip| ip.parse().unwrap()).collect());
        announced(&self.drain())
    }

    fn timeout(&mut self) -> Vec<String> {
        let now = self.instant();
        self.machine.handle_timeout(now);
        announced(&self.drain())
    }

    fn drain(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.machine.poll_output()).collect()
    }

    fn next(&self) -> Option<u64> {
        self.machine.next_timeout().map(|at| (at - self.start).as_millis() as u64)
    }

    /// Runs as a driver does, from timeout to timeout, and says when what was announced.
    fn run_to(&mut self, end: u64) -> Vec<(u64, String)> {
        let mut seen = Vec::new();
        while let Some(next) = self.next().filter(|&next| next <= end) {
            seen.extend(self.at(next).timeout().into_iter().map(|ip| (next, ip)));
        }
        self.at(end);
        seen
    }
}

/// The addresses announced, one entry a burst: ARP's two frames make one.
fn announced(outputs: &[Output]) -> Vec<String> {
    let mut ips: Vec<String> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Send { cause: Cause::Announcement(ip), .. } => Some(ip.to_string()),
            _ => None,
        })
        .collect();
    ips.dedup();
    ips
}

fn at(times: &[u64], ip: &str) -> Vec<(u64, String)> {
    times.iter().map(|&time| (time, ip.to_owned())).collect()
}

#[test]
fn a_new_address_is_announced_at_0_1_2_and_4_seconds() {
    for ip in [V4, V6] {
        let mut bench = Bench::new(LINK);
        assert_eq!(bench.next(), None);
        assert_eq!(bench.at(500).own(&[ip]), [ip]);
        assert_eq!(bench.run_to(100_000), at(&[1500, 2500, 4500], ip));
        assert_eq!(bench.next(), None);
    }
}

#[test]
fn a_burst_is_two_arp_frames_or_one_advertisement() {
    let mut bench = Bench::new(LINK);
    let owned = [V4, V6].map(|ip| ip.parse().unwrap()).into();
    bench.set(&owned);
    let decoded: Vec<_> = bench
        .drain()
        .iter()
        .map(|output| match output {
            Output::Send { frame, cause: Cause::Announcement(ip) } => match decode(frame).unwrap() {
                Decoded::Arp { packet, .. } => (u16::from(packet.operation), *ip, packet.sender_ip.into()),
                Decoded::NeighborAdvertisement { advertisement, .. } => {
                    (136, *ip, advertisement.target.into())
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    let [v4, v6]: [IpAddr; 2] = [V4, V6].map(|ip| ip.parse().unwrap());
    assert_eq!(decoded, [(1, v4, v4), (2, v4, v4), (136, v6, v6)]);
}

#[test]
fn the_same_set_again_changes_nothing() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4]);
    assert!(bench.at(700).own(&[V4]).is_empty());
    assert_eq!(bench.run_to(10_000), at(&[1000, 2000, 4000], V4));
    assert!(bench.own(&[V4]).is_empty());
    assert_eq!(bench.next(), None);
}

#[test]
fn a_second_address_does_not_disturb_the_first() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4]);
    assert_eq!(bench.at(500).own(&[V4, V6]), [V6]);
    let mut expected = [at(&[1000, 2000, 4000], V4), at(&[1500, 2500, 4500], V6)].concat();
    expected.sort();
    assert_eq!(bench.run_to(10_000), expected);
}

#[test]
fn a_lost_address_falls_silent_and_starts_anew_when_owned_again() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4]);
    assert!(bench.at(1500).own(&[]).is_empty());
    assert_eq!(bench.next(), None);
    assert!(bench.at(2000).timeout().is_empty());
    assert_eq!(bench.at(2500).own(&[V4]), [V4]);
    assert_eq!(bench.run_to(10_000), at(&[3500, 4500, 6500], V4));
}

#[test]
fn a_quiet_address_is_answered_for_but_not_announced() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4, V6]);
    let quiet = bench.at(500).input(Input::Quiet(V4.parse().unwrap()));
    assert_eq!(quiet, []);
    assert_eq!(bench.run_to(10_000), at(&[1000, 2000, 4000], V6));
    assert_eq!(announced(&bench.input(Input::Announce(V4.parse().unwrap()))), [""; 0]);
    assert_eq!(announced(&bench.input(Input::Reannounce)), [V6]);
    assert!(matches!(
        bench.input(Input::Frame(&unhex(ARP_REQUEST)))[..],
        [Output::Send { cause: Cause::Answer(_), .. }]
    ));
    let again = bench.at(20_000).input(Input::Own(V4.parse().unwrap()));
    assert_eq!(announced(&again), [V4]);
}

#[test]
fn an_owned_address_is_announced_once_more_when_told() {
    let mut bench = Bench::new(LINK);
    let announce = || Input::Announce(V4.parse().unwrap());
    assert_eq!(bench.input(announce()), []);
    bench.own(&[V4]);
    bench.run_to(10_000);
    assert_eq!(announced(&bench.input(announce())), [V4]);
    assert_eq!(bench.next(), None);
}

#[test]
fn a_loss_takes_back_what_was_not_polled() {
    let mut bench = Bench::new(LINK);
    bench.set(&[V4, V6].map(|ip| ip.parse().unwrap()).into());
    // The first of two frames for V4 is out.
    assert!(bench.machine.poll_output().is_some());
    assert!(bench.own(&[]).is_empty());
    assert_eq!(bench.machine.poll_output(), None);
}

#[test]
fn early_and_repeated_timeouts_are_harmless() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4]);
    for time in [0, 1, 999] {
        assert!(bench.at(time).timeout().is_empty());
    }
    assert_eq!(bench.at(1000).timeout(), [V4]);
    assert!(bench.timeout().is_empty());
    assert_eq!(bench.next(), Some(2000));
}

#[test]
fn a_late_timeout_announces_once() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4]);
    assert_eq!(bench.at(2600).timeout(), [V4]);
    assert_eq!(bench.next(), Some(4000));
    assert_eq!(bench.at(60_000).timeout(), [V4]);
    assert_eq!(bench.next(), None);
}

#[test]
fn reannouncing_says_all_once_and_at_most_once_a_second() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4, V6]);
    bench.run_to(10_000);
    assert_eq!(announced(&bench.input(Input::Reannounce)), [V4, V6]);
    for time in [10_001, 10_400, 10_999] {
        assert!(bench.at(time).input(Input::Reannounce).is_empty());
        assert_eq!(bench.next(), Some(11_000));
    }
    assert_eq!(bench.at(11_000).timeout(), [V4, V6]);
    assert_eq!(bench.next(), None);
    assert_eq!(announced(&bench.at(12_000).input(Input::Reannounce)), [V4, V6]);
}

#[test]
fn reannouncing_nothing_sends_nothing() {
    assert!(Bench::new(LINK).input(Input::Reannounce).is_empty());
}

#[test]
fn a_new_mac_is_announced_from_the_start_and_used_in_answers() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4, V6]);
    bench.run_to(10_000);
    let link = LinkAddress { mac: MacAddr::new([2, 0, 0, 0, 0, 0x77]), ..LINK };
    let outputs = bench.input(Input::LinkAddress(link));
    assert_eq!(announced(&outputs), [V4, V6]);
    for output in outputs {
        let Output::Send { frame, .. } = output else { panic!("{output:?}") };
        assert_eq!(Header::parse(&frame).unwrap().source, link.mac);
    }
    assert_eq!(bench.run_to(20_000).len(), 6);
    assert!(bench.input(Input::LinkAddress(link)).is_empty(), "no change, no announcement");

    let answer = bench.input(Input::Frame(&unhex(ARP_REQUEST)));
    let [Output::Send { frame, cause: Cause::Answer(_) }] = answer[..] else { panic!("{answer:?}") };
    assert_eq!(Header::parse(&frame).unwrap().source, link.mac);
}

#[test]
fn ipv6_waits_for_a_link_local_address() {
    let without = LinkAddress { link_local: None, ..LINK };
    let mut bench = Bench::new(without);
    assert_eq!(bench.own(&[V4, V6]), [V4]);
    assert_eq!(bench.run_to(10_000), at(&[1000, 2000, 4000], V4));
    assert_eq!(announced(&bench.input(Input::Reannounce)), [V4]);
    let ignored = bench.input(Input::Frame(&unhex(SOLICITATION)));
    assert_eq!(ignored, [Output::Event(Event::Ignored(Ignored::NoLinkLocal))]);

    assert_eq!(announced(&bench.input(Input::LinkAddress(LINK))), [V6]);
    assert_eq!(bench.next(), Some(11_000));
    assert!(bench.input(Input::LinkAddress(without)).is_empty());
    assert_eq!(bench.next(), None);
}

#[test]
fn another_link_local_address_announces_nothing() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V6]);
    bench.run_to(10_000);
    let link = LinkAddress { link_local: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)), ..LINK };
    assert!(bench.input(Input::LinkAddress(link)).is_empty());
}

#[test]
fn questions_are_answered_for_what_is_owned() {
    let mut bench = Bench::new(LINK);
    for (question, ip) in [(ARP_REQUEST, V4), (SOLICITATION, V6)] {
        let frame = unhex(question);
        let refused = bench.input(Input::Frame(&frame));
        let [Output::Event(Event::Ignored(Ignored::NotOwned(Question { ip: asked, .. })))] = refused[..]
        else {
            panic!("{refused:?}")
        };
        assert_eq!(asked.to_string(), ip);
        bench.own(&[ip]);
        let answered = bench.input(Input::Frame(&frame));
        let [Output::Send { cause: Cause::Answer(question), .. }] = answered[..] else {
            panic!("{answered:?}")
        };
        assert_eq!((question.ip.to_string().as_str(), question.requester_mac), (ip, MAC_A));
    }
    bench.own(&[]);
    assert!(matches!(
        bench.input(Input::Frame(&unhex(ARP_REQUEST)))[..],
        [Output::Event(Event::Ignored(Ignored::NotOwned(_)))]
    ));
}

#[test]
fn other_traffic_is_ignored() {
    let mut bench = Bench::new(LINK);
    let mut frame = [0; 60];
    frame[12] = 8;
    assert_eq!(
        bench.input(Input::Frame(&frame)),
        [Output::Event(Event::Ignored(Ignored::OtherProtocol(EtherType::IPV4)))]
    );
    assert!(matches!(
        bench.input(Input::Frame(&frame[..9]))[..],
        [Output::Event(Event::Ignored(Ignored::Malformed(_)))]
    ));
}

#[test]
fn a_driver_that_does_not_drain_loses_answers_and_knows_how_many() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4]);
    let (frame, now) = (unhex(ARP_REQUEST), bench.instant());
    for _ in 0..QUEUE + 3 {
        bench.machine.handle_input(now, Input::Frame(&frame));
    }
    assert_eq!(bench.drain().len(), QUEUE);
    assert_eq!(bench.machine.dropped(), 3);
}

#[test]
fn answers_come_before_announcements() {
    let mut bench = Bench::new(LINK);
    bench.own(&[V4]);
    let now = bench.at(1000).instant();
    bench.machine.handle_timeout(now);
    let outputs = bench.input(Input::Frame(&unhex(ARP_REQUEST)));
    assert!(matches!(outputs[0], Output::Send { cause: Cause::Answer(_), .. }));
    assert_eq!(outputs.len(), 3);
}

#[test]
fn a_thousand_addresses_are_all_announced_four_times() {
    let mut bench = Bench::new(LINK);
    let owned: BTreeSet<IpAddr> =
        (0..1000u32).map(|host| Ipv4Addr::from_bits(0x0a00_0000 + host).into()).collect();
    bench.set(&owned);
    assert_eq!(bench.drain().len(), 2000);
    assert_eq!(bench.run_to(10_000).len(), 3000);
    assert_eq!(bench.next(), None);
}

#[derive(Debug, Clone)]
enum Step {
    Own(BTreeSet<u8>),
    Reannounce,
    LinkLocal(bool),
    Timeout,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        4 => proptest::collection::btree_set(0u8..6, 0..6).prop_map(Step::Own),
        1 => Just(Step::Reannounce),
        1 => any::<bool>().prop_map(Step::LinkLocal),
        4 => Just(Step::Timeout),
    ];
    proptest::collection::vec((0u64..1500, step), 0..40)
}

/// Even numbers are IPv4 addresses, odd ones IPv6.
fn address(number: u8) -> IpAddr {
    match number % 2 {
        0 => Ipv4Addr::new(10, 9, 0, number).into(),
        _ => Ipv6Addr::new(0xfd00, 0x10, 0, 0, 0, 0, 0, number.into()).into(),
    }
}

proptest! {
    /// Whatever happens: only owned addresses are announced, after draining nothing is overdue,
    /// and the machine comes to rest.
    #[test]
    fn laws_hold_over_any_history(steps in steps()) {
        let mut bench = Bench::new(LINK);
        let mut owned = BTreeSet::new();
        for (wait, step) in steps {
            let now = bench.now + wait;
            bench.at(now);
            let outputs = match step {
                Step::Own(numbers) => {
                    owned = numbers.into_iter().map(address).collect();
                    bench.set(&owned);
                    bench.drain()
                }
                Step::Reannounce => bench.input(Input::Reannounce),
                Step::LinkLocal(present) => {
                    let link_local = LINK.link_local.filter(|_| present);
                    bench.input(Input::LinkAddress(LinkAddress { link_local, ..LINK }))
                }
                Step::Timeout => {
                    let now = bench.instant();
                    bench.machine.handle_timeout(now);
                    bench.drain()
                }
            };
            for ip in announced(&outputs) {
                prop_assert!(owned.contains(&ip.parse::<IpAddr>().unwrap()), "{} is not owned", ip);
            }
            prop_assert!(bench.next().is_none_or(|next| next > bench.now));
            prop_assert!(bench.timeout().is_empty(), "a second look at the same time finds nothing");
        }
        let end = bench.now + 5000;
        bench.run_to(end);
        prop_assert_eq!(bench.next(), None);
    }
}
