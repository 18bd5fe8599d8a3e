//! `admit`: what is let into the cluster.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use ferrolb_api::v1beta1::{IPAddressPool, L2AdvertisementSpec};
use ferrolb_core::admission::{Candidate, Operation, Verdict, admit};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{l2_advertisement, pool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

const NAMESPACE: &str = "metallb-system";

fn here(mut pool: IPAddressPool) -> IPAddressPool {
    pool.metadata.namespace = Some(NAMESPACE.to_owned());
    pool
}

fn created(mut pool: IPAddressPool, second: i64) -> IPAddressPool {
    pool.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
    pool
}

fn judge(existing: &Resources, candidate: IPAddressPool, operation: Operation) -> Verdict {
    admit(existing, Candidate::IpAddressPool(Arc::new(candidate)), operation, NAMESPACE)
}

fn judge_ad(existing: &Resources, pools: &[&str]) -> Verdict {
    let pools = pools.iter().map(|name| (*name).to_owned()).collect();
    let spec = L2AdvertisementSpec { ip_address_pools: pools, ..Default::default() };
    let mut ad = l2_advertisement("ad", spec);
    ad.metadata.namespace = Some(NAMESPACE.to_owned());
    admit(existing, Candidate::L2Advertisement(Arc::new(ad)), Operation::Create, NAMESPACE)
}

fn allowed() -> Verdict {
    Verdict::Allowed { warnings: Vec::new() }
}

fn denied(message: &str) -> Verdict {
    Verdict::Denied { message: message.to_owned() }
}

#[test]
fn a_bad_pool_is_denied_with_the_known_text() {
    let bad = here(pool("bad", &["192.168.10.220-192.168.10.200"]));
    let text = r#"parsing address pool bad: invalid CIDR "192.168.10.220-192.168.10.200" in pool "bad": invalid IP range "192.168.10.220-192.168.10.200": start IP "192.168.10.220" is after the end IP "192.168.10.200""#;
    for operation in [Operation::Create, Operation::Update] {
        assert_eq!(judge(&Resources::default(), bad.clone(), operation), denied(text));
    }
    assert_eq!(judge(&Resources::default(), bad.clone(), Operation::Delete), allowed());
    let mut going = bad;
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(judge(&Resources::default(), going, Operation::Update), allowed(), "finalizers must come off");
}

#[test]
fn all_faults_are_told_at_once() {
    let verdict = judge(&Resources::default(), here(pool("p", &["1", "2"])), Operation::Create);
    assert_eq!(
        verdict,
        denied(
            "parsing address pool p: invalid CIDR \"1\" in pool \"p\": invalid CIDR \"1\"\n\
             parsing address pool p: invalid CIDR \"2\" in pool \"p\": invalid CIDR \"2\""
        )
    );
}

#[test]
fn overlap_is_the_fault_of_the_candidate() {
    let first = || created(here(pool("first", &["1.1.1.1-1.1.1.100"])), 20);
    let second = |entry| created(here(pool("second", &[entry])), 10);
    let stored = Resources::default().with_pools([first()]);
    let overlap = |cidr, earlier| {
        denied(&format!(r#"CIDR "{cidr}" in pool "second" overlaps with already defined CIDR "{earlier}""#))
    };
    assert_eq!(
        judge(&stored, second("1.1.1.15-1.1.1.20"), Operation::Create),
        overlap("1.1.1.15/32", "1.1.1.8/29")
    );
    assert_eq!(judge(&stored, second("1.1.1.101-1.1.1.200"), Operation::Create), allowed());
    // An edit of an old pool that runs into a younger one is denied as well.
    let both = stored.with_pools([second("1.1.1.101-1.1.1.200")]);
    assert_eq!(judge(&both, second("1.1.1.0/24"), Operation::Update), overlap("1.1.1.0/24", "1.1.1.1/32"));
    assert_eq!(judge(&both, second("1.1.1.101-1.1.1.210"), Operation::Update), allowed(), "not with itself");
}

#[test]
fn what_is_wrong_already_blocks_nobody_else() {
    let stored = Resources::default().with_pools([
        created(here(pool("bad", &["nonsense", "10.0.0.0/24"])), 1),
        created(here(pool("a", &["10.1.0.0/24"])), 2),
        created(here(pool("b", &["10.1.0.0/24"])), 3),
    ]);
    assert_eq!(judge(&stored, here(pool("new", &["10.2.0.0/24"])), Operation::Create), allowed());
    assert_eq!(judge(&stored, here(pool("bad", &["10.0.0.0/24"])), Operation::Update), allowed());
    assert_eq!(judge_ad(&stored, &["bad"]), allowed());
}

#[test]
fn only_in_our_namespace() {
    let message = "resource must be created in metallb-system namespace";
    let mut stray = pool("p", &["1.2.3.0/24"]);
    stray.metadata.namespace = Some("default".to_owned());
    assert_eq!(judge(&Resources::default(), stray.clone(), Operation::Create), denied(message));
    let warning = r#"IPAddressPool "p" is not in force: it is not in namespace metallb-system"#;
    let warned = Verdict::Allowed { warnings: vec![warning.to_owned()] };
    assert_eq!(judge(&Resources::default(), stray.clone(), Operation::Update), warned);
    assert_eq!(judge(&Resources::default(), stray, Operation::Delete), allowed());
}

#[test]
fn dangling_references_are_a_warning() {
    let stored = Resources::default().with_pools([here(pool("p", &["1.2.3.0/24"]))]);
    assert_eq!(judge_ad(&stored, &["p"]), allowed());
    assert_eq!(
        judge_ad(&stored, &["later"]),
        Verdict::Allowed {
            warnings: vec![
                r#"L2Advertisement "ad" refers to IPAddressPool "later", which does not exist"#.to_owned()
            ]
        }
    );
    assert_eq!(judge_ad(&stored, &["p", "p"]), denied(r#"duplicate definition of ipAddressPools "p""#));
}
