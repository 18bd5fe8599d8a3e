//! Label selectors: a line is a label (`key=value`) or an expression (`key operator values`), an empty line
//! begins the next selector. They stand in every list of an advertisement and of a pool.

use ferrolb_api::v1beta1::{IPAddressPoolSpec, L2AdvertisementSpec, ServiceAllocation};
use ferrolb_core::config::compile;
use ferrolb_core::resources::Resources;
use ferrolb_core::selector::{Labels, Selector};
use ferrolb_core::testing::{l2_advertisement, namespace, node, pool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// More would only be slow.
const MOST: usize = 8;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let selectors: Vec<LabelSelector> = text.split("\n\n").take(MOST).map(selector).collect();
    let mut labels = Labels::new();
    for selector in &selectors {
        labels.extend(selector.match_labels.clone().unwrap_or_default());
        judge(selector);
    }
    let pairs: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let allocation = ServiceAllocation {
        namespace_selectors: selectors.clone(),
        service_selectors: selectors.clone(),
        ..ServiceAllocation::default()
    };
    let spec = L2AdvertisementSpec {
        ip_address_pool_selectors: selectors.clone(),
        node_selectors: selectors.clone(),
        service_selectors: selectors,
        ..L2AdvertisementSpec::default()
    };
    let mut labelled = pool("p", &["192.168.0.0/24"]);
    labelled.metadata.labels = Some(labels.clone());
    labelled.spec = IPAddressPoolSpec { service_allocation: Some(allocation), ..labelled.spec };
    let resources = Resources::default()
        .with_pools([labelled])
        .with_l2_advertisements([l2_advertisement("ad", spec)])
        .with_nodes([node("n", &pairs), node("bare", &[])])
        .with_namespaces([namespace("ns", &pairs)]);
    let compiled = compile(&resources);
    for finding in &compiled.diagnostics {
        assert!(!finding.to_string().is_empty() && !finding.remedy().is_empty(), "{finding:?}");
    }
}

fn judge(selector: &LabelSelector) {
    let mut turned = selector.clone();
    turned.match_expressions.iter_mut().for_each(|expressions| expressions.reverse());
    match (Selector::parse(selector), Selector::parse(&turned)) {
        (Ok(parsed), Ok(other)) => {
            assert_eq!(parsed, other, "the order of expressions does not matter");
            // What demands nothing but labels is met by those labels.
            if selector.match_expressions.iter().flatten().next().is_none() {
                assert!(parsed.matches(&selector.match_labels.clone().unwrap_or_default()), "{selector:?}");
            }
        }
        (Err(error), Err(_)) => assert!(!error.to_string().is_empty()),
        (one, other) => assert!(one.is_ok() == other.is_ok(), "{one:?} {other:?}"),
    }
}

fn selector(text: &str) -> LabelSelector {
    let mut labels = Labels::new();
    let mut expressions = Vec::new();
    for line in text.lines().take(MOST) {
        if let Some((key, value)) = line.split_once('=') {
            labels.insert(key.to_owned(), value.to_owned());
        } else {
            let mut words = line.split(' ').map(ToOwned::to_owned);
            expressions.push(LabelSelectorRequirement {
                key: words.next().unwrap_or_default(),
                operator: words.next().unwrap_or_default(),
                values: Some(words.collect()),
            });
        }
    }
    LabelSelector { match_labels: Some(labels), match_expressions: Some(expressions) }
}
