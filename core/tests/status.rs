//! `configuration_state`: what a process says of the configuration it runs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ferrolb_api::v1beta1::{ConfigurationResult, L2AdvertisementSpec};
use ferrolb_core::config::{Diagnostic, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::status::configuration_state;
use ferrolb_core::testing::{l2_advertisement, pool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

const CONDITION: &str = "poolReconcilerValid";

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn findings(pools: &[(&str, &[&str])], ads: &[(&str, &[&str])]) -> Vec<Diagnostic> {
    let names = |it: &[&str]| it.iter().map(|name| (*name).to_owned()).collect();
    let resources = Resources::default()
        .with_pools(pools.iter().map(|(name, addresses)| pool(name, addresses)))
        .with_l2_advertisements(ads.iter().map(|(name, pools)| {
            let spec = L2AdvertisementSpec { ip_address_pools: names(pools), ..Default::default() };
            l2_advertisement(name, spec)
        }));
    compile(&resources).diagnostics
}

#[test]
fn results_and_texts() {
    let valid = (ConfigurationResult::Valid, "", "True", "Reconciled");
    for (diagnostics, (result, summary, status, reason), message) in [
        (findings(&[("good", &["1.2.3.0/24"])], &[]), valid, ""),
        (
            findings(&[("pool1", &[])], &[]),
            (
                ConfigurationResult::Invalid,
                "configuration error: parsing address pool pool1: pool has no prefixes defined",
                "False",
                "ConfigurationError",
            ),
            "configuration error: parsing address pool pool1: pool has no prefixes defined",
        ),
        (
            findings(&[("pool1", &[]), ("pool2", &[])], &[]),
            (
                ConfigurationResult::Invalid,
                "configuration error: parsing address pool pool1: pool has no prefixes defined\n\
                 parsing address pool pool2: pool has no prefixes defined",
                "False",
                "ConfigurationError",
            ),
            "configuration error: parsing address pool pool1: pool has no prefixes defined\n\
             parsing address pool pool2: pool has no prefixes defined",
        ),
        (
            findings(&[("p", &["1.2.3.0/24"])], &[("ad", &["p", "p"])]),
            (
                ConfigurationResult::Invalid,
                "configuration error: duplicate definition of ipAddressPools \"p\" (L2Advertisement \"ad\")",
                "False",
                "ConfigurationError",
            ),
            "configuration error: duplicate definition of ipAddressPools \"p\" (L2Advertisement \"ad\")",
        ),
        (
            findings(&[], &[("ad", &["later"])]),
            valid,
            "L2Advertisement \"ad\" refers to IPAddressPool \"later\", which does not exist",
        ),
    ] {
        let state = configuration_state(&diagnostics, |_| true, CONDITION, at(1), None);
        assert_eq!(state.result, Some(result));
        assert_eq!(state.error_summary.as_deref(), Some(summary));
        let [condition] = &state.conditions[..] else { panic!("{state:?}") };
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), (status, reason));
        assert_eq!(condition.message, message);
        assert_eq!(condition.type_, CONDITION);
    }
}

#[test]
fn time_moves_with_transitions_only() {
    let bad = |name| findings(&[(name, &[])], &[]);
    let mut previous = None;
    for (second, diagnostics, transition) in
        [(1, vec![], 1), (2, vec![], 1), (3, bad("a"), 3), (4, bad("b"), 3), (5, vec![], 5), (6, vec![], 5)]
    {
        let state = configuration_state(&diagnostics, |_| true, CONDITION, at(second), previous.as_ref());
        assert_eq!(state.conditions[0].last_transition_time, at(transition), "at {second}");
        previous = Some(state);
    }
}

#[test]
fn a_message_is_never_too_long_for_the_api() {
    let name = "ä".repeat(100);
    let names: Vec<String> = (0..1000).map(|index| format!("{name}{index}")).collect();
    let pools: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let state = configuration_state(&findings(&pools, &[]), |_| true, CONDITION, at(1), None);
    assert!(state.conditions[0].message.len() <= 32768);
    assert!(state.conditions[0].message.ends_with('…'));
}
