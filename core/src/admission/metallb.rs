//! Whether a change of the `MetalLB` object is admitted: what Kubernetes would refuse in the operands is
//! refused here, and other BGP implementations are named. The operator judges what got in all the same.

use ferrolb_api::v1beta1::{MetalLB, MetalLBSpec, WorkloadConfig};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Toleration;

use super::{Candidate, Operation, Verdict};

const EXTERNAL: &str = "frr-k8s-external";

pub(super) fn admit(candidate: &Candidate, operation: Operation) -> Verdict {
    let Candidate::MetalLb { object, old } = candidate else { return Verdict::allowed() };
    if operation == Operation::Delete || object.metadata.deletion_timestamp.is_some() {
        return Verdict::allowed();
    }
    let mut faults = Vec::new();
    tolerations(&object.spec, &mut faults);
    for (what, config) in
        [("SpeakerConfig", &object.spec.speaker_config), ("ControllerConfig", &object.spec.controller_config)]
    {
        if let Some(config) = config {
            weights(what, config, &mut faults);
        }
    }
    let times = object.spec.membership.as_ref().map_or(Ok(()), |it| it.lease_times().map(drop));
    faults.extend(times.err().map(|error| format!("spec.membership: {error}")));
    let mut warnings = Vec::new();
    match backend(object) {
        "native" => {}
        backend @ ("frr" | "frr-k8s") => warnings.push(format!(
            "bgpBackend {backend} is deprecated: the speaker's own BGP does its work, and there are no FRR \
             containers, no vtysh and no FRRConfiguration objects; set native or remove bgpBackend"
        )),
        EXTERNAL if old.as_deref().is_some_and(|old| backend(old) == EXTERNAL) => warnings.push(format!(
            "bgpBackend {EXTERNAL} is not supported: the speaker talks BGP itself; set native"
        )),
        EXTERNAL => faults.push(format!(
            "bgpBackend {EXTERNAL} is not supported: the speaker talks BGP itself; use native, frr or frr-k8s"
        )),
        _ => faults.push("invalid BGP Backend, must be one of native, frr, frr-k8s, frr-k8s-external".into()),
    }
    let blocks = object.spec.frr_k8s_config.iter().flat_map(|config| &config.always_block);
    let bad_blocks = blocks.filter(|block| block.trim().parse::<IpNet>().is_err());
    faults.extend(bad_blocks.map(|block| format!("invalid CIDR {block} in AlwaysBlock")));
    if faults.is_empty() {
        Verdict::Allowed { warnings }
    } else {
        Verdict::Denied { message: faults.join("\n") }
    }
}

fn backend(object: &MetalLB) -> &str {
    object.spec.bgp_backend.as_deref().filter(|backend| !backend.is_empty()).unwrap_or("native")
}

fn tolerations(spec: &MetalLBSpec, faults: &mut Vec<String>) {
    let wrong = |toleration: &Toleration| {
        toleration.toleration_seconds.is_some() && toleration.effect.as_deref() != Some("NoExecute")
    };
    for (what, tolerations) in
        [("Controller", &spec.controller_tolerations), ("Speaker", &spec.speaker_tolerations)]
    {
        if tolerations.iter().any(wrong) {
            faults.push(format!("{what}Toleration effect must be NoExecute when tolerationSeconds is set"));
        }
    }
}

fn weights(what: &str, config: &WorkloadConfig, faults: &mut Vec<String>) {
    let Some(affinity) = &config.affinity else { return };
    let nodes = affinity.node_affinity.iter();
    let nodes = nodes.flat_map(|it| it.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let pods = affinity.pod_affinity.iter();
    let pods = pods.flat_map(|it| it.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let anti = affinity.pod_anti_affinity.iter();
    let anti = anti.flat_map(|it| it.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let outside = |weight: i32| !(1..=100).contains(&weight);
    for (affinity, wrong) in [
        ("NodeAffinity", nodes.map(|term| term.weight).any(outside)),
        ("PodAffinity", pods.map(|term| term.weight).any(outside)),
        ("PodAntiAffinity", anti.map(|term| term.weight).any(outside)),
    ] {
        if wrong {
            faults.push(format!("{what} {affinity} set with invalid weight for preferred scheduling term"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{
        Affinity, NodeAffinity, PodAffinity, PodAntiAffinity, PreferredSchedulingTerm,
        WeightedPodAffinityTerm,
    };

    use super::*;
    use ferrolb_api::v1beta1::{FrrK8sConfig, MembershipConfig};

    fn judge(spec: MetalLBSpec, old: Option<&str>) -> Verdict {
        let object = |spec| Arc::new(MetalLB { spec, ..Default::default() });
        let old = old.map(|backend| {
            object(MetalLBSpec { bgp_backend: Some(backend.to_owned()), ..Default::default() })
        });
        admit(&Candidate::MetalLb { object: object(spec), old }, Operation::Update)
    }

    fn with_backend(backend: &str) -> MetalLBSpec {
        MetalLBSpec { bgp_backend: Some(backend.to_owned()), ..Default::default() }
    }

    #[test]
    fn backends() {
        for (backend, old, expected) in [
            ("native", None, "allowed"),
            ("", None, "allowed"),
            ("frr", None, "bgpBackend frr is deprecated"),
            ("frr-k8s", Some("native"), "bgpBackend frr-k8s is deprecated"),
            ("frr-k8s-external", None, "denied: bgpBackend frr-k8s-external is not supported"),
            ("frr-k8s-external", Some("frr"), "denied: bgpBackend frr-k8s-external is not supported"),
            ("frr-k8s-external", Some("frr-k8s-external"), "bgpBackend frr-k8s-external is not supported"),
            (
                "bird",
                None,
                "denied: invalid BGP Backend, must be one of native, frr, frr-k8s, frr-k8s-external",
            ),
        ] {
            let text = match judge(with_backend(backend), old) {
                Verdict::Allowed { warnings } if warnings.is_empty() => "allowed".to_owned(),
                Verdict::Allowed { warnings } => warnings.join("\n"),
                Verdict::Denied { message } | Verdict::Unreadable { message } => format!("denied: {message}"),
            };
            assert!(text.starts_with(expected), "{backend}, was {old:?}: {text}");
        }
    }

    #[test]
    fn what_kubernetes_would_refuse_is_refused_all_at_once() {
        let toleration = |effect: &str| Toleration {
            effect: Some(effect.to_owned()),
            toleration_seconds: Some(0),
            ..Default::default()
        };
        let pod_terms = |weight| Some(vec![WeightedPodAffinityTerm { weight, ..Default::default() }]);
        let affinity = |weight| Affinity {
            node_affinity: Some(NodeAffinity {
                preferred_during_scheduling_ignored_during_execution: Some(vec![PreferredSchedulingTerm {
                    weight,
                    ..Default::default()
                }]),
                ..Default::default()
            }),
            pod_affinity: Some(PodAffinity {
                preferred_during_scheduling_ignored_during_execution: pod_terms(weight),
                ..Default::default()
            }),
            pod_anti_affinity: Some(PodAntiAffinity {
                preferred_during_scheduling_ignored_during_execution: pod_terms(weight),
                ..Default::default()
            }),
        };
        let config = |weight| Some(WorkloadConfig { affinity: Some(affinity(weight)), ..Default::default() });
        let spec = |effect, weight, block: &str| MetalLBSpec {
            controller_tolerations: vec![toleration(effect)],
            speaker_tolerations: vec![toleration(effect)],
            speaker_config: config(weight),
            controller_config: config(weight),
            frr_k8s_config: Some(FrrK8sConfig { always_block: vec![block.to_owned()], ..Default::default() }),
            membership: Some(MembershipConfig {
                lease_duration: (weight > 100).then(|| "5s".to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(judge(spec("NoExecute", 100, " 10.0.0.0/8 "), None), Verdict::allowed());
        let expected = "ControllerToleration effect must be NoExecute when tolerationSeconds is set\n\
             SpeakerToleration effect must be NoExecute when tolerationSeconds is set\n\
             SpeakerConfig NodeAffinity set with invalid weight for preferred scheduling term\n\
             SpeakerConfig PodAffinity set with invalid weight for preferred scheduling term\n\
             SpeakerConfig PodAntiAffinity set with invalid weight for preferred scheduling term\n\
             ControllerConfig NodeAffinity set with invalid weight for preferred scheduling term\n\
             ControllerConfig PodAffinity set with invalid weight for preferred scheduling term\n\
             ControllerConfig PodAntiAffinity set with invalid weight for preferred scheduling term\n\
             spec.membership: leaseDuration must be longer than renewDeadline\n\
             invalid CIDR 10.0.0 in AlwaysBlock";
        assert_eq!(
            judge(spec("NoSchedule", 101, "10.0.0"), None),
            Verdict::Denied { message: expected.into() }
        );
    }
}
