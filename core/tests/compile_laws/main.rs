//! Laws of `compile` over random objects of every kind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod objects;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::v1beta1::BGPAdvertisementSpec;
use ferrolb_api::v1beta2::BGPPeerSpec;
use ferrolb_core::admission::{Admission, Operation, Verdict, admit};
use ferrolb_core::config::{Compiler, Diagnostic, Kind, ObjectRef, Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bgp_advertisement, community, expression, match_labels, namespace, node, peer_with,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

use self::objects::{NAMESPACE, Object, any_object, objects, strangers, with};

fn of_others(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.into_iter().filter(|it| it.object.name != "stranger").collect()
}

/// Lets whoever has no creation time yet be older than one that is new.
fn age<K: Clone>(objects: &mut BTreeMap<String, Arc<K>>, metadata: fn(&mut K) -> &mut ObjectMeta) {
    for object in objects.values_mut() {
        let created = &mut metadata(Arc::make_mut(object)).creation_timestamp;
        created.get_or_insert(Time(Timestamp::from_second(9).unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_order_of_the_input_does_not_matter(objects in objects(), turn in 0..14usize) {
        let straight = compile(&with(objects.clone()));
        let mut turned = objects.clone();
        turned.rotate_left(turn.min(objects.len()));
        turned.reverse();
        prop_assert_eq!(straight, compile(&with(turned)));
    }

    #[test]
    fn an_unrelated_object_changes_no_finding_of_others(objects in objects(), index in 0..7usize) {
        let alone = compile(&with(objects.clone()));
        let stranger = strangers().remove(index);
        let together = compile(&with(objects.into_iter().chain([stranger])));
        prop_assert_eq!(alone.diagnostics, of_others(together.diagnostics));
        prop_assert!(alone.config.peers().iter().all(|(name, peer)| together.config.peers().get(name) == Some(peer)));
    }

    /// What is found decides: an object is left out exactly if a finding says so, and each text is there.
    #[test]
    fn findings_and_configuration_agree(objects in objects()) {
        let resources = with(objects);
        let compiled = compile(&resources);
        for finding in &compiled.diagnostics {
            prop_assert!(!finding.to_string().is_empty() && !finding.remedy().is_empty() && !finding.field.is_empty());
            prop_assert!(finding.severity() != Severity::Invalid || finding.leaves_out());
        }
        let faultless = |kind, name: &str| {
            compiled.diagnostics.iter().all(|it| it.object != ObjectRef::new(kind, name) || !it.leaves_out())
        };
        for name in resources.pools.keys() {
            prop_assert_eq!(compiled.config.pools().contains_key(name), faultless(Kind::IpAddressPool, name));
        }
        for name in resources.l2_advertisements.keys() {
            let in_force = compiled.config.l2_advertisements().contains_key(name);
            prop_assert_eq!(in_force, faultless(Kind::L2Advertisement, name));
        }
        for name in resources.bgp_peers.keys().filter(|name| faultless(Kind::BgpPeer, name)) {
            let peer = compiled.config.peers().get(name);
            // One that selects no Node is for nobody.
            prop_assert!(peer.is_some() || compiled.diagnostics.iter().any(|it| it.object.name == *name));
        }
        // On every node each router has one peer.
        for node in ["n0", "n1", "n2"] {
            let here = compiled.config.peers().values().filter(|it| it.nodes.contains(node));
            let mut routers: Vec<_> = here.map(|it| it.neighbor.to_string()).collect();
            routers.sort();
            let count = routers.len();
            routers.dedup();
            prop_assert_eq!(routers.len(), count);
        }
    }

    /// Admission denies what compile, with the object as the newest, finds invalid; and nothing else.
    #[test]
    fn admission_is_compile(objects in objects(), mut candidate in any_object()) {
        candidate.metadata().creation_timestamp = None;
        let resources = with(objects);
        let (reference, change) = candidate.clone().candidate();
        let verdict = admit(&resources, change, Operation::Create, NAMESPACE);
        let mut stored = resources;
        age(&mut stored.pools, |it| &mut it.metadata);
        age(&mut stored.reservations, |it| &mut it.metadata);
        age(&mut stored.bgp_peers, |it| &mut it.metadata);
        age(&mut stored.communities, |it| &mut it.metadata);
        age(&mut stored.bgp_advertisements, |it| &mut it.metadata);
        let found = compile(&candidate.add_to(stored)).diagnostics;
        let invalid = found.iter().any(|it| it.object == reference && it.severity() == Severity::Invalid);
        prop_assert_eq!(!matches!(verdict, Verdict::Allowed { .. }), invalid, "{:?}", verdict);
    }
}

/// What happens to a cluster.
#[derive(Clone, Debug)]
enum Edit {
    Apply(Object),
    Delete(Object),
    Label(&'static str, &'static str),
    Address(&'static str),
    Namespace(&'static str),
    Nothing,
}

/// Edits, and whether it is compiled after each or only together with the next.
fn edits() -> impl Strategy<Value = Vec<(Edit, bool)>> {
    let edit = prop_oneof![
        8 => any_object().prop_map(Edit::Apply),
        3 => any_object().prop_map(Edit::Delete),
        1 => (select(&["n0", "n9"][..]), select(&["a", "b"][..])).prop_map(|(node, l)| Edit::Label(node, l)),
        1 => select(&["10.0.0.7", "10.0.1.6"][..]).prop_map(Edit::Address),
        1 => select(&["team", "other"][..]).prop_map(Edit::Namespace),
        1 => Just(Edit::Nothing),
    ];
    prop::collection::vec((edit, prop::bool::weighted(0.7)), 1..24)
}

impl Edit {
    fn make(self, mut resources: Resources) -> Resources {
        match self {
            Self::Apply(object) => object.add_to(resources),
            Self::Delete(object) => object.take_out_of(resources),
            Self::Label(name, l) => resources.with_nodes([node(name, &[("l", l)])]),
            Self::Address(address) => {
                resources.nodes.get_mut("n1").unwrap().addresses = vec![address.parse().unwrap()];
                resources
            }
            Self::Namespace(name) => resources.with_namespaces([namespace(name, &[("l", "a")])]),
            Self::Nothing => resources,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// What is kept from one time to the next never shows.
    #[test]
    fn after_every_edit_the_result_is_that_from_nothing(objects in objects(), edits in edits()) {
        let mut compiler = Compiler::default();
        let mut resources = with(objects);
        prop_assert_eq!(compiler.compile(&resources), compile(&resources));
        for (edit, seen) in edits {
            let told = format!("{edit:?}");
            resources = edit.make(resources);
            if seen {
                prop_assert_eq!(compiler.compile(&resources), compile(&resources), "after {}", told);
            }
        }
    }

    /// Nor does what is kept from one review to the next.
    #[test]
    fn every_change_is_judged_as_if_it_were_the_first(
        objects in objects(),
        edits in edits(),
        candidates in prop::collection::vec((any_object(), any::<bool>()), 24),
    ) {
        let mut admission = Admission::default();
        let mut resources = with(objects);
        for ((edit, _), (candidate, update)) in edits.into_iter().zip(candidates) {
            resources = edit.make(resources);
            let (_, change) = candidate.candidate();
            for operation in [if update { Operation::Update } else { Operation::Create }, Operation::Delete] {
                let verdict = admission.admit(&resources, change.clone(), operation, NAMESPACE);
                prop_assert_eq!(verdict, admit(&resources, change.clone(), operation, NAMESPACE));
            }
        }
    }

    /// Whatever text stands in a field, it is judged, and told in a text.
    #[test]
    fn no_text_makes_compile_fail(texts in prop::collection::vec(".*", 12), number in any::<i64>()) {
        let text = |index: usize| texts[index].clone();
        let peer = BGPPeerSpec {
            my_asn: 1,
            peer_asn: Some(2),
            peer_address: Some(text(0)),
            source_address: Some(text(1)),
            hold_time: Some(text(2)),
            keepalive_time: Some(text(3)),
            connect_time: Some(text(4)),
            router_id: Some(text(5)),
            vrf: Some(text(6)),
            bfd_profile: Some(text(7)),
            node_selectors: vec![expression(&text(8), &text(9), &[&text(10)]), match_labels(&[(&text(8), &text(10))])],
            ..Default::default()
        };
        let ad = BGPAdvertisementSpec {
            aggregation_length: number,
            aggregation_length_v6: number,
            local_pref: Some(number),
            communities: vec![text(11), format!("large:{}", text(11))],
            ..Default::default()
        };
        let resources = Resources::default()
            .with_bgp_peers([peer_with("p", peer)])
            .with_communities([community("c", &[(&text(11), &text(0))])])
            .with_bgp_advertisements([bgp_advertisement("a", ad)]);
        let compiled = compile(&resources);
        prop_assert!(compiled.diagnostics.iter().all(|it| !it.to_string().is_empty() && !it.remedy().is_empty()));
        prop_assert!(!compiled.config.peers().contains_key("p") || text(0).parse::<std::net::IpAddr>().is_ok());
    }
}
