//! A Service of a file as the API server would hold it after `kubectl apply`. Pure.
//!
//! What decides about addresses is filled in: the namespace, the families of the cluster addresses (by the policy
//! of the Service and the families that the cluster's Services show), and what a Service of that name has already.

use std::net::IpAddr;

use ferrolb_api::well_known::annotation;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};

/// Families as Services spell them.
const V4: &str = "IPv4";
const V6: &str = "IPv6";

/// The Service after it was applied to a cluster that holds these.
pub(crate) fn created(mut service: Service, cluster: &[Service]) -> Service {
    let metadata = &mut service.metadata;
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    let same =
        |it: &&Service| (&it.metadata.namespace, &it.metadata.name) == (&metadata.namespace, &metadata.name);
    let before = cluster.iter().find(same);
    if let Some(before) = before {
        metadata.uid.clone_from(&before.metadata.uid);
        metadata.creation_timestamp.clone_from(&before.metadata.creation_timestamp);
        let kept = before.metadata.annotations.iter().flatten();
        let kept = kept.filter(|(key, _)| {
            [annotation::ALLOCATED_FROM_POOL, annotation::ALLOCATION].contains(&key.as_str())
        });
        let kept = kept.map(|(key, value)| (key.clone(), value.clone()));
        metadata.annotations.get_or_insert_default().extend(kept);
        service.status.clone_from(&before.status);
    }
    let spec = service.spec.get_or_insert_default();
    let has_one = |spec: &ServiceSpec| {
        spec.cluster_ip.is_some() || spec.cluster_ips.iter().any(|list| !list.is_empty())
    };
    if has_one(spec) {
        return service;
    }
    let before = before.and_then(|it| it.spec.as_ref()).filter(|it| has_one(it));
    match before {
        // What somebody applies leaves these alone, unless it asks for other families.
        Some(before) if spec.ip_families.is_none() && spec.ip_family_policy.is_none() => {
            spec.cluster_ip.clone_from(&before.cluster_ip);
            spec.cluster_ips.clone_from(&before.cluster_ips);
            spec.ip_families.clone_from(&before.ip_families);
            spec.ip_family_policy.clone_from(&before.ip_family_policy);
        }
        _ => {
            let families = families(spec, cluster);
            // Only their families count.
            let address = |family: &&str| if *family == V4 { "192.0.2.1" } else { "2001:db8::1" }.to_owned();
            spec.cluster_ips = Some(families.iter().map(address).collect());
            spec.ip_families = Some(families.iter().map(|family| (*family).to_owned()).collect());
        }
    }
    service
}

/// Which families it would have, the first one first.
fn families(spec: &ServiceSpec, cluster: &[Service]) -> Vec<&'static str> {
    let of = |service: &Service| -> Vec<&'static str> {
        let spec = service.spec.iter();
        let list = spec.flat_map(|it| it.cluster_ips.iter().flatten().chain(&it.cluster_ip));
        list.filter_map(|address| family_of(address)).collect()
    };
    let kubernetes = cluster.iter().find(|it| it.metadata.name.as_deref() == Some("kubernetes"));
    let has = |family| cluster.iter().any(|it| of(it).contains(&family));
    let of_cluster = kubernetes.into_iter().chain(cluster).find_map(|it| of(it).first().copied());
    let asked: Vec<&'static str> = spec
        .ip_families
        .iter()
        .flatten()
        .filter_map(|it| [V4, V6].into_iter().find(|family| family == it))
        .collect();
    let first = asked.first().copied().or(of_cluster).unwrap_or(V4);
    let other = if first == V4 { V6 } else { V4 };
    let both = match spec.ip_family_policy.as_deref() {
        Some("RequireDualStack") => true,
        Some("PreferDualStack") => has(other),
        _ => asked.contains(&other),
    };
    if both { vec![first, other] } else { vec![first] }
}

fn family_of(address: &str) -> Option<&'static str> {
    let address: IpAddr = address.parse().ok()?;
    Some(if address.is_ipv4() { V4 } else { V6 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::service::LoadBalancer;
    use ferrolb_core::testing::{ServiceBuilder, service};

    fn read(text: &str) -> Service {
        serde_saphyr::from_str(text).unwrap()
    }

    fn cluster(services: &[ServiceBuilder]) -> Vec<Service> {
        services.iter().map(|it| it.clone().build()).collect()
    }

    #[test]
    fn families_follow_the_policy_and_the_cluster() {
        let v4 = cluster(&[service("default", "kubernetes")]);
        let v6 = cluster(&[service("x", "other"), service("default", "kubernetes").cluster(&["fd00:96::1"])]);
        let both = cluster(&[
            service("default", "kubernetes"),
            service("x", "y").cluster(&["10.96.0.7", "fd00:96::1"]),
        ]);
        for (spec, cluster, expected) in [
            ("", &v4, "IPv4"),
            ("", &v6, "IPv6"),
            ("", &both, "IPv4"),
            ("", &Vec::new(), "IPv4"),
            ("ipFamilies: [IPv6]", &both, "IPv6"),
            ("ipFamilyPolicy: PreferDualStack", &v4, "IPv4"),
            ("ipFamilyPolicy: PreferDualStack", &both, "IPv4 IPv6"),
            ("ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6]", &both, "IPv6 IPv4"),
            ("ipFamilyPolicy: RequireDualStack", &both, "IPv4 IPv6"),
            ("ipFamilies: [IPv6, IPv4]", &both, "IPv6 IPv4"),
        ] {
            let file = format!("{{metadata: {{name: s}}, spec: {{type: LoadBalancer, {spec}}}}}");
            let spec = created(read(&file), cluster).spec.unwrap();
            let texts = spec.cluster_ips.unwrap();
            let families: Vec<&str> = texts.iter().filter_map(|it| family_of(it)).collect();
            assert_eq!(families.join(" "), expected, "{file}");
            assert_eq!(spec.ip_families.unwrap(), families);
        }
        let headless = created(read("{metadata: {name: s}, spec: {clusterIP: None}}"), &v4);
        assert_eq!(headless.spec.unwrap().cluster_ips, None);
    }

    #[test]
    fn what_it_has_already_stays() {
        let holds =
            service("default", "s").uid("u").cluster(&["fd00:96::5"]).holding(&["fd00::1"]).from_pool("p");
        let file = "{metadata: {name: s}, spec: {type: LoadBalancer, ports: [{port: 443}]}}";
        let lb = LoadBalancer::new(&created(read(file), &cluster(&[holds.granted(2)])), []);
        assert_eq!((lb.key.namespace.as_str(), &*lb.uid), ("default", "u"));
        assert_eq!(lb.cluster_ips, ["fd00:96::5"]);
        assert_eq!(lb.ingress.texts(), ["fd00::1"]);
        assert_eq!((lb.recorded_pool.as_deref(), lb.grant.map(|it| it.term)), (Some("p"), Some(2)));
        assert_eq!(lb.ports.len(), 1);
    }
}
