use std::collections::{BTreeMap, BTreeSet};

use ferrolb_core::config::{Kind, ObjectRef};
use ferrolb_core::explain::Told;
use ferrolb_core::planner::Withheld;
use ferrolb_core::service::ServiceKey;

use super::*;

fn chain() -> Chain {
    let (a, b) = ("a".to_owned(), "b".to_owned());
    Chain {
        service: ServiceKey { namespace: "demo".into(), name: "web".into() },
        verdict: Verdict::Announced { layer2: BTreeSet::from([a.clone()]), bgp: BTreeSet::new() },
        addresses: vec!["192.0.2.1".parse().unwrap()],
        refusal: None,
        pools: vec!["lan".into()],
        advertisements: vec![ObjectRef::new(Kind::L2Advertisement, "all")],
        layer2: BTreeMap::from([
            (a.clone(), NodeVerdict::Announces(())),
            (b.clone(), NodeVerdict::Withheld(Withheld::NotElected { winner: Some(a.clone()) })),
        ]),
        bgp: BTreeMap::from([
            (a, NodeVerdict::Announces(vec!["tor".into()])),
            (b, NodeVerdict::SpeakerNotReady),
        ]),
        remarks: Vec::new(),
        warnings: vec![Told { reason: "UnknownAnnotation".into(), message: "a slip".into(), warning: true }],
    }
}

#[test]
fn the_chain_reads_from_the_service_to_the_nodes() {
    assert_eq!(
        text(&chain()),
        "\
Service demo/web: announced on layer 2 from a

Service     demo/web
Address     192.0.2.1 from IPAddressPool lan
Advertised  L2Advertisement all

NODE  LAYER 2                  BGP
a     announces                announces to tor
b     node a owns the address  the speaker is not ready

Warnings
  UnknownAnnotation: a slip
"
    );
}

#[test]
fn what_is_to_be_done_comes_first_in_both_forms() {
    let step = Step {
        object: "Node a".into(),
        field: "spec.unschedulable".into(),
        message: "the node is cordoned".into(),
        remedy: "kubectl uncordon a".into(),
    };
    let chain = Chain { verdict: Verdict::Blocked(step), ..chain() };
    let first = "Node a, spec.unschedulable: the node is cordoned: kubectl uncordon a";
    assert_eq!(text(&chain).lines().next(), Some(first));
    let json = json(&chain);
    assert_eq!((&json["headline"], &json["announced"]), (&json!(first), &json!(false)));
    assert_eq!(json["first"]["remedy"], "kubectl uncordon a");
    assert_eq!(json["nodes"][0]["bgp"], json!({"announces": true, "peers": ["tor"]}));
    assert_eq!(json["nodes"][1]["layer2"]["reason"], "notOwner");
    assert_eq!(json["nodes"][1]["bgp"]["reason"], "speakerNotReady");
}
