//! How BGP sessions stand, as text in the form that routers use. Pure.

use std::fmt::Write;

use ferrolb_api::v1alpha1::{BGPSessionState, BGPSessionStatus};
use k8s_openapi::jiff::Timestamp;

use crate::table::table;

/// Whether somebody who asks for this name or address means the session.
pub(crate) fn concerns(session: &BGPSessionStatus, peer: &str) -> bool {
    let address = &session.address;
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    session.peer == peer || address == peer || host.trim_matches(['[', ']']) == peer
}

/// A line for each session, and for each of `peers` that has none.
pub(crate) fn summary(sessions: &[BGPSessionStatus], peers: &[String], now: Timestamp) -> String {
    let mut rows = vec![
        ["PEER", "NODE", "NEIGHBOR", "AS", "STATE", "UP/DOWN", "PFX SENT", "PFX RCVD", "BFD", "LAST ERROR"]
            .map(str::to_owned),
    ];
    for session in sessions {
        let up = session.state == BGPSessionState::Established;
        // An error that is over is told in the detail.
        let error = session.last_error.as_deref().filter(|_| !up).unwrap_or_default();
        rows.push([
            session.peer.clone(),
            session.node.clone(),
            session.address.clone(),
            asn(session),
            state(session).to_owned(),
            age(session, now),
            sent(session),
            received(session),
            session.bfd_state.clone().unwrap_or_else(|| "-".to_owned()),
            error.to_owned(),
        ]);
    }
    let mut text = if sessions.is_empty() { String::new() } else { table(&rows) };
    without(&mut text, sessions, peers);
    text
}

/// Everything about each session.
pub(crate) fn detail(sessions: &[BGPSessionStatus], peers: &[String], now: Timestamp) -> String {
    let mut text = String::new();
    for session in sessions {
        if !text.is_empty() {
            text.push('\n');
        }
        one(&mut text, session, now);
    }
    without(&mut text, sessions, peers);
    text
}

fn one(text: &mut String, session: &BGPSessionStatus, now: Timestamp) {
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!(
        "BGP neighbor is {}, remote AS {}, local AS {}",
        session.address,
        asn(session),
        session.local_asn
    ));
    line(format!("  BGPPeer {}, node {}", session.peer, session.node));
    let since = session.since.as_ref().map(|it| format!(" for {} (since {})", age(session, now), it.0));
    line(format!("  BGP state = {}{}", state(session), since.unwrap_or_default()));
    line(format!("  Connections established {}", session.established));
    if let Some(agreed) = &session.negotiated {
        line(format!(
            "  Remote router ID {}, local router ID {}",
            agreed.peer_identifier, agreed.local_identifier
        ));
        line(format!(
            "  Hold time is {} s, keepalive interval is {} s",
            agreed.hold_time_seconds, agreed.keepalive_seconds
        ));
        line(format!("  Families: {}", agreed.families.join(", ")));
        line(format!("  Neighbor capabilities: {}", agreed.capabilities.join(", ")));
    }
    line(format!("  Prefixes sent {}, received {}", sent(session), received(session)));
    for why in &session.unsent {
        line(format!("  Some prefixes are not sent: {why}"));
    }
    for (what, value) in [
        ("BFD state", &session.bfd_state),
        ("Last error", &session.last_error),
        ("Last notification sent", &session.last_notification_sent),
        ("Last notification received", &session.last_notification_received),
    ] {
        if let Some(value) = value {
            line(format!("  {what}: {value}"));
        }
    }
}

fn without(text: &mut String, sessions: &[BGPSessionStatus], peers: &[String]) {
    for peer in peers.iter().filter(|peer| !sessions.iter().any(|it| it.peer == **peer)) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "BGPPeer {peer}: no node has a session with it: see its nodeSelectors, and kubectl ferrolb lint --cluster"
        );
    }
}

fn state(session: &BGPSessionStatus) -> &'static str {
    match session.state {
        BGPSessionState::Established => "Established",
        BGPSessionState::Connect => "Connect",
    }
}

fn asn(session: &BGPSessionStatus) -> String {
    session.peer_asn.map_or_else(|| "-".to_owned(), |asn| asn.to_string())
}

fn sent(session: &BGPSessionStatus) -> String {
    if session.prefixes_sent == session.prefixes_wanted {
        return session.prefixes_sent.to_string();
    }
    format!("{} of {}", session.prefixes_sent, session.prefixes_wanted)
}

fn received(session: &BGPSessionStatus) -> String {
    let more = if session.prefixes_received >= 10_000 { "+" } else { "" };
    format!("{}{more}", session.prefixes_received)
}

/// As routers write it: 01:02:03, or days and hours.
fn age(session: &BGPSessionStatus, now: Timestamp) -> String {
    let Some(since) = &session.since else { return "-".to_owned() };
    let seconds = now.as_second().saturating_sub(since.0.as_second()).max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    if days > 0 {
        format!("{days}d{hours:02}h{minutes:02}m")
    } else {
        format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_api::v1alpha1::BGPSessionNegotiated;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const SINCE: i64 = 1_700_000_000;

    fn sessions() -> Vec<BGPSessionStatus> {
        let up = BGPSessionStatus {
            node: "k8s-node-1".to_owned(),
            peer: "router".to_owned(),
            address: "192.168.10.1:179".to_owned(),
            local_asn: 64512,
            peer_asn: Some(64513),
            state: BGPSessionState::Established,
            since: Some(Time(Timestamp::from_second(SINCE).unwrap())),
            established: 2,
            negotiated: Some(BGPSessionNegotiated {
                peer_identifier: "192.168.10.1".to_owned(),
                local_identifier: "192.168.10.20".to_owned(),
                hold_time_seconds: 90,
                keepalive_seconds: 30,
                families: vec!["ipv4 unicast".to_owned()],
                capabilities: vec!["4-octet AS".to_owned(), "ipv4 unicast".to_owned()],
            }),
            prefixes_sent: 3,
            prefixes_wanted: 4,
            prefixes_received: 10_000,
            unsent: vec!["the session does not carry ipv6 unicast".to_owned()],
            last_error: Some("connection closed".to_owned()),
            last_notification_received: Some("Cease: Administrative Reset".to_owned()),
            ..BGPSessionStatus::default()
        };
        let down = BGPSessionStatus {
            node: "k8s-node-2".to_owned(),
            address: "[fd00:10::1]:179".to_owned(),
            peer_asn: None,
            state: BGPSessionState::Connect,
            negotiated: None,
            prefixes_sent: 0,
            prefixes_wanted: 0,
            prefixes_received: 0,
            unsent: Vec::new(),
            last_error: Some("cannot connect".to_owned()),
            last_notification_received: None,
            bfd_state: Some("Down".to_owned()),
            ..up.clone()
        };
        vec![up, down]
    }

    fn later(seconds: i64) -> Timestamp {
        Timestamp::from_second(SINCE + seconds).unwrap()
    }

    #[test]
    fn a_line_for_each_session_and_for_peers_without_one() {
        let peers = ["router", "other"].map(str::to_owned);
        let expected = "\
PEER    NODE        NEIGHBOR          AS     STATE        UP/DOWN   PFX SENT  PFX RCVD  BFD   LAST ERROR
router  k8s-node-1  192.168.10.1:179  64513  Established  01:01:01  3 of 4    10000+    -
router  k8s-node-2  [fd00:10::1]:179  -      Connect      01:01:01  0         0         Down  cannot connect
BGPPeer other: no node has a session with it: see its nodeSelectors, and kubectl ferrolb lint --cluster
";
        assert_eq!(summary(&sessions(), &peers, later(3661)), expected);
    }

    #[test]
    fn everything_about_a_session() {
        let expected = "\
BGP neighbor is 192.168.10.1:179, remote AS 64513, local AS 64512
  BGPPeer router, node k8s-node-1
  BGP state = Established for 2d01h00m (since 2023-11-14T22:13:20Z)
  Connections established 2
  Remote router ID 192.168.10.1, local router ID 192.168.10.20
  Hold time is 90 s, keepalive interval is 30 s
  Families: ipv4 unicast
  Neighbor capabilities: 4-octet AS, ipv4 unicast
  Prefixes sent 3 of 4, received 10000+
  Some prefixes are not sent: the session does not carry ipv6 unicast
  Last error: connection closed
  Last notification received: Cease: Administrative Reset
";
        assert_eq!(detail(&sessions()[..1], &["router".to_owned()], later(176_400)), expected);
    }

    #[test]
    fn peers_are_found_by_name_and_by_address() {
        let [up, down] = <[_; 2]>::try_from(sessions()).unwrap();
        for (session, peer, expected) in [
            (&up, "router", true),
            (&up, "192.168.10.1", true),
            (&up, "192.168.10.1:179", true),
            (&up, "192.168.10", false),
            (&down, "fd00:10::1", true),
            (&down, "192.168.10.1", false),
        ] {
            assert_eq!(concerns(session, peer), expected, "{} {peer}", session.address);
        }
    }
}
