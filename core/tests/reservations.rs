//! `compile` of reservations: every finding with its severity, and what stays in force.

use ferrolb_api::v1alpha1::{AddressQuota, AddressReservation, ReservedService};
use ferrolb_core::admission::{Candidate, Operation, Verdict, admit};
use ferrolb_core::config::{Compiled, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{namespace, pool, reservation};

fn compiled(reservations: impl IntoIterator<Item = AddressReservation>) -> Compiled {
    let pools =
        [pool("a", &["10.0.0.0/28", "fd00::/120"]), pool("b", &["10.0.0.16/28"]), pool("c", &["bad"])];
    let resources = Resources::default().with_pools(pools).with_namespaces([namespace("shop", &[])]);
    let mut compiled = compile(&resources.with_reservations(reservations));
    compiled.diagnostics.retain(|it| it.object.kind.to_string() == "AddressReservation");
    compiled
}

fn told(change: impl FnOnce(&mut AddressReservation)) -> Vec<String> {
    let mut object = reservation("r", &["10.0.0.1"]);
    change(&mut object);
    let compiled = compiled([object]);
    let line = |it: &ferrolb_core::config::Diagnostic| {
        assert!(!it.remedy().is_empty());
        format!("{:?} {}: {it}", it.severity(), it.field)
    };
    compiled.diagnostics.iter().map(line).collect()
}

fn service(namespace: &str, name: &str) -> Option<ReservedService> {
    Some(ReservedService { namespace: namespace.to_owned(), name: name.to_owned() })
}

fn quotas(limit: i64) -> Vec<AddressQuota> {
    vec![AddressQuota { namespace: "shop".to_owned(), max_addresses: limit }]
}

#[test]
fn every_fault_is_named() {
    let entries = |it: &mut AddressReservation, entries: &[&str]| {
        it.spec.addresses = entries.iter().map(|it| (*it).to_owned()).collect();
    };
    assert_eq!(told(|_| ()), [] as [&str; 0]);
    assert_eq!(
        told(|it| entries(it, &[])),
        [r#"Invalid spec: AddressReservation "r" reserves nothing: it has neither addresses nor quotas"#]
    );
    assert_eq!(
        told(|it| (it.spec.service, it.spec.namespace) = (service("shop", "web"), Some("shop".to_owned()))),
        [
            r#"Invalid spec.namespace: AddressReservation "r" is for a Service and for a namespace, it can be for one of them"#
        ]
    );
    assert_eq!(
        told(|it| it.spec.service = service("", "")),
        [
            r#"Invalid spec.service.namespace: AddressReservation "r": spec.service.namespace is empty"#,
            r#"Invalid spec.service.name: AddressReservation "r": spec.service.name is empty"#
        ]
    );
    assert_eq!(
        told(|it| entries(it, &["10.0.0.1-10.0.0.3", "10.0.0.3"])),
        [
            r#"Invalid spec.addresses[1]: AddressReservation "r": 10.0.0.3 shares addresses with AddressReservation "r""#
        ]
    );
    assert!(told(|it| entries(it, &["10.0.0.3-10.0.0.1"]))[0].starts_with("Invalid spec.addresses[0]: "));
    assert_eq!(
        told(|it| entries(it, &["10.0.0.5/29"])),
        [
            r#"Doubtful spec.addresses[0]: AddressReservation "r": "10.0.0.5/29" is read as 10.0.0.0/29 (10.0.0.0-10.0.0.7)"#
        ]
    );
    assert_eq!(
        told(|it| it.spec.quotas = quotas(-1)),
        [r#"Invalid spec.quotas[0].maxAddresses: AddressReservation "r": maxAddresses is -1"#]
    );
    assert_eq!(
        told(|it| entries(it, &["10.9.0.0/24", "10.0.0.30-10.0.0.40"])),
        [
            r#"Unresolved spec.addresses[0]: AddressReservation "r": no IPAddressPool in force has addresses of 10.9.0.0-10.9.0.255"#,
            r#"Doubtful spec.addresses[1]: AddressReservation "r": some addresses of 10.0.0.30-10.0.0.40 are in no IPAddressPool in force"#
        ]
    );
    assert_eq!(
        told(|it| it.spec.namespace = Some("shpo".to_owned())),
        [
            r#"Unresolved spec.namespace: AddressReservation "r" refers to Namespace "shpo", which does not exist"#
        ]
    );
    assert_eq!(
        told(|it| {
            entries(it, &[]);
            (it.spec.namespace, it.spec.quotas) = (Some("shop".to_owned()), quotas(3));
        }),
        [r#"Doubtful spec.addresses: AddressReservation "r" names whom addresses are for, but no addresses"#]
    );
}

#[test]
fn a_range_over_two_pools_and_one_that_overlaps() {
    let mut later = reservation("later", &["10.0.0.14-10.0.0.20", "fd00::1"]);
    later.spec.namespace = Some("shop".to_owned());
    let compiled = compiled([reservation("earlier", &["fd00::/124"]), later]);
    let reserved: Vec<String> = compiled
        .config
        .reservations()
        .all()
        .map(|it| format!("{} {} {} {}", it.range, it.pool, it.holder, it.reservation))
        .collect();
    // The one that overlaps is left out: nobody gets what it names.
    assert_eq!(
        reserved,
        [
            "10.0.0.14-10.0.0.15 a nobody later",
            "10.0.0.16-10.0.0.20 b nobody later",
            "fd00::-fd00::f a nobody earlier"
        ]
    );
    assert_eq!(compiled.diagnostics.len(), 1);
    let overlap = compiled.diagnostics[0].to_string();
    assert_eq!(
        overlap,
        r#"AddressReservation "later": fd00::1 shares addresses with AddressReservation "earlier""#
    );
}

#[test]
fn admission_denies_and_warns() {
    let existing = Resources::default().with_pools([pool("a", &["10.0.0.0/28"])]);
    let judge = |mut object: AddressReservation| {
        object.metadata.namespace = Some("metallb-system".to_owned());
        let candidate = Candidate::AddressReservation(object.into());
        admit(&existing, candidate, Operation::Create, "metallb-system")
    };
    assert_eq!(judge(reservation("r", &["10.0.0.1"])), Verdict::allowed());
    let outside = judge(reservation("r", &["10.9.0.1"]));
    let Verdict::Allowed { warnings } = outside else { panic!("{outside:?}") };
    assert_eq!(warnings, [r#"AddressReservation "r": no IPAddressPool in force has addresses of 10.9.0.1"#]);
    let nothing = judge(reservation("r", &[]));
    assert!(matches!(nothing, Verdict::Denied { message } if message.contains("reserves nothing")));
}
