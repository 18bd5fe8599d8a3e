//! What a `MetalLB` object may not ask for, in the order and words of metallb-operator.

use std::net::IpAddr;

use ferrolb_api::v1beta1::{MetalLB, WorkloadConfig};
use k8s_openapi::api::core::v1::Toleration;

use super::{Backend, Refusal, tls};

/// The first thing that is wrong.
pub(super) fn check(metallb: &MetalLB) -> Result<(), Refusal> {
    let spec = &metallb.spec;
    tolerations("ControllerToleration", &spec.controller_tolerations)?;
    tolerations("SpeakerToleration", &spec.speaker_tolerations)?;
    affinity("SpeakerConfig", spec.speaker_config.as_ref())?;
    affinity("ControllerConfig", spec.controller_config.as_ref())?;
    Backend::of(metallb)?;
    tls::policy(spec.tls.as_ref())?;
    spec.membership.as_ref().map_or(Ok(()), |it| it.lease_times().map(drop)).map_err(Refusal::Membership)?;
    let blocked = spec.frr_k8s_config.iter().flat_map(|config| &config.always_block);
    match blocked.into_iter().find(|prefix| !is_prefix(prefix.trim())) {
        Some(prefix) => Err(Refusal::AlwaysBlock(prefix.clone())),
        None => Ok(()),
    }
}

fn tolerations(list: &'static str, tolerations: &[Toleration]) -> Result<(), Refusal> {
    let refused = |t: &Toleration| t.toleration_seconds.is_some() && t.effect.as_deref() != Some("NoExecute");
    if tolerations.iter().any(refused) { Err(Refusal::TolerationSeconds(list)) } else { Ok(()) }
}

fn affinity(which: &'static str, config: Option<&WorkloadConfig>) -> Result<(), Refusal> {
    let Some(affinity) = config.and_then(|config| config.affinity.as_ref()) else { return Ok(()) };
    let node = affinity.node_affinity.iter();
    let node = node.flat_map(|it| it.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let pod = affinity.pod_affinity.iter();
    let pod = pod.flat_map(|it| it.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let anti = affinity.pod_anti_affinity.iter();
    let anti = anti.flat_map(|it| it.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let wrong = |weight: i32| !(1..=100).contains(&weight);
    if node.into_iter().any(|term| wrong(term.weight)) {
        return Err(Refusal::AffinityWeight(which, "NodeAffinity"));
    }
    if pod.into_iter().any(|term| wrong(term.weight)) {
        return Err(Refusal::AffinityWeight(which, "PodAffinity"));
    }
    if anti.into_iter().any(|term| wrong(term.weight)) {
        return Err(Refusal::AffinityWeight(which, "PodAntiAffinity"));
    }
    Ok(())
}

fn is_prefix(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|length| length <= longest)
}
