//! `BGPPeer` from one version of the API to the other, without a loss.
//!
//! `v1beta1` has room for a part of `v1beta2` only. What does not fit is put into an annotation of the
//! `v1beta1` object, and taken from there on the way back; a field that was changed in between counts as
//! it is in the object, not as it was kept.
//!
//! As in MetalLB, timers that are absent in `v1beta1` mean 0 (no hold time), not the default of
//! `v1beta2`: the same manifest gives the same session. A port of 0 says no more than none.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use kube::core::TypeMeta;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::v1beta1::{self, MatchExpression, NodeSelector};
use crate::v1beta2;
use crate::well_known::annotation::KEPT_FOR_V1BETA2;

const NO_TIME: &str = "0s";

/// Why an object cannot be converted.
#[derive(Debug, thiserror::Error)]
#[error(
    "BGPPeer {namespace}/{name}: annotation {KEPT_FOR_V1BETA2} does not hold fields of v1beta2 (remove the annotation, or write the object as v1beta2)"
)]
pub struct ConversionError {
    namespace: String,
    name: String,
    #[source]
    source: serde_json::Error,
}

impl ConversionError {
    fn new(metadata: &ObjectMeta, source: serde_json::Error) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self { namespace: text(&metadata.namespace), name: text(&metadata.name), source }
    }
}

/// From the deprecated version to the stored one.
pub fn to_v1beta2(old: v1beta1::BGPPeer) -> Result<v1beta2::BGPPeer, ConversionError> {
    let mut metadata = old.metadata;
    let kept = metadata.annotations.as_mut().and_then(|it| it.remove(KEPT_FOR_V1BETA2));
    metadata.annotations = metadata.annotations.filter(|it| !it.is_empty());
    let spec = match kept {
        None => wider(&old.spec),
        Some(kept) => restored(&old.spec, &kept).map_err(|error| ConversionError::new(&metadata, error))?,
    };
    let status = old.status.map(|v1beta1::BGPPeerStatus {}| v1beta2::BGPPeerStatus {});
    Ok(v1beta2::BGPPeer { types: TypeMeta::resource::<v1beta2::BGPPeer>(), metadata, spec, status })
}

/// From the stored version to the deprecated one.
pub fn to_v1beta1(new: v1beta2::BGPPeer) -> Result<v1beta1::BGPPeer, ConversionError> {
    let mut metadata = new.metadata;
    let spec = narrower(&new.spec);
    let kept = lost(&new.spec, &wider(&spec)).map_err(|error| ConversionError::new(&metadata, error))?;
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.remove(KEPT_FOR_V1BETA2);
    if !kept.is_empty() {
        annotations.insert(KEPT_FOR_V1BETA2.to_owned(), Value::Object(kept).to_string());
    }
    metadata.annotations = metadata.annotations.filter(|it| !it.is_empty());
    let status = new.status.map(|v1beta2::BGPPeerStatus {}| v1beta1::BGPPeerStatus {});
    Ok(v1beta1::BGPPeer { types: TypeMeta::resource::<v1beta1::BGPPeer>(), metadata, spec, status })
}

/// The fields that both versions have, as `v1beta2`.
fn wider(old: &v1beta1::BGPPeerSpec) -> v1beta2::BGPPeerSpec {
    let time = |field: &Option<String>| Some(field.clone().unwrap_or_else(|| NO_TIME.to_owned()));
    v1beta2::BGPPeerSpec {
        my_asn: old.my_asn,
        peer_asn: Some(old.peer_asn).filter(|asn| *asn != 0),
        peer_address: Some(old.peer_address.clone()).filter(|it| !it.is_empty()),
        source_address: old.source_address.clone(),
        peer_port: old.peer_port.filter(|port| *port != 0),
        hold_time: time(&old.hold_time),
        keepalive_time: time(&old.keepalive_time),
        router_id: old.router_id.clone(),
        node_selectors: old.node_selectors.iter().map(label_selector).collect(),
        password: old.password.clone(),
        bfd_profile: old.bfd_profile.clone(),
        ebgp_multi_hop: old.ebgp_multi_hop,
        ..v1beta2::BGPPeerSpec::default()
    }
}

/// The fields that both versions have, as `v1beta1`.
fn narrower(new: &v1beta2::BGPPeerSpec) -> v1beta1::BGPPeerSpec {
    let time = |field: &Option<String>| Some(field.clone().unwrap_or_else(|| NO_TIME.to_owned()));
    v1beta1::BGPPeerSpec {
        my_asn: new.my_asn,
        peer_asn: new.peer_asn.unwrap_or_default(),
        peer_address: new.peer_address.clone().unwrap_or_default(),
        source_address: new.source_address.clone(),
        peer_port: new.peer_port,
        hold_time: time(&new.hold_time),
        keepalive_time: time(&new.keepalive_time),
        router_id: new.router_id.clone(),
        node_selectors: new.node_selectors.iter().map(node_selector).collect(),
        password: new.password.clone(),
        bfd_profile: new.bfd_profile.clone(),
        ebgp_multi_hop: new.ebgp_multi_hop,
    }
}

fn label_selector(selector: &NodeSelector) -> LabelSelector {
    let requirement = |it: &MatchExpression| LabelSelectorRequirement {
        key: it.key.clone(),
        operator: it.operator.clone(),
        values: Some(it.values.clone()).filter(|values| !values.is_empty()),
    };
    LabelSelector {
        match_labels: Some(selector.match_labels.clone()).filter(|it| !it.is_empty()),
        match_expressions: Some(selector.match_expressions.iter().map(requirement).collect())
            .filter(|it: &Vec<_>| !it.is_empty()),
    }
}

fn node_selector(selector: &LabelSelector) -> NodeSelector {
    let expression = |it: &LabelSelectorRequirement| MatchExpression {
        key: it.key.clone(),
        operator: it.operator.clone(),
        values: it.values.clone().unwrap_or_default(),
    };
    NodeSelector {
        match_labels: selector.match_labels.clone().unwrap_or_default(),
        match_expressions: selector.match_expressions.iter().flatten().map(expression).collect(),
    }
}

/// The fields of `original` that did not survive, with their values; null where there was none.
fn lost(
    original: &v1beta2::BGPPeerSpec,
    survived: &v1beta2::BGPPeerSpec,
) -> serde_json::Result<Map<String, Value>> {
    let (original, survived) = (fields(original)?, fields(survived)?);
    let mut lost = Map::new();
    for field in original.keys().chain(survived.keys()) {
        if original.get(field) != survived.get(field) {
            lost.insert(field.clone(), original.get(field).cloned().unwrap_or_default());
        }
    }
    Ok(lost)
}

/// `old` as `v1beta2` with the fields that were kept, except those that have been changed since.
fn restored(old: &v1beta1::BGPPeerSpec, kept: &str) -> serde_json::Result<v1beta2::BGPPeerSpec> {
    let kept: Map<String, Value> = serde_json::from_str(kept)?;
    let told = fields(old)?;
    let mut spec = wider(old);
    for (field, value) in kept {
        let mut candidate = fields(&spec)?;
        match value {
            Value::Null => candidate.remove(&field),
            value => candidate.insert(field.clone(), value),
        };
        let candidate: v1beta2::BGPPeerSpec = serde_json::from_value(Value::Object(candidate))?;
        if fields(&narrower(&candidate))?.get(&field) == told.get(&field) {
            spec = candidate;
        }
    }
    Ok(spec)
}

fn fields(spec: &impl Serialize) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_value(serde_json::to_value(spec)?)
}
