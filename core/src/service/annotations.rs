//! The annotations of a Service: current and deprecated keys, and keys that mean nothing.

use std::collections::BTreeMap;

use ferrolb_api::well_known::annotation;

type Annotations = BTreeMap<String, String>;

/// The keys that mean something on a Service.
const KNOWN: [&str; 4] = [
    annotation::ADDRESS_POOL,
    annotation::LOAD_BALANCER_IPS,
    annotation::ALLOW_SHARED_IP,
    annotation::ALLOCATED_FROM_POOL,
];

/// A key with one of our prefixes that nobody reads, most likely a slip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAnnotation {
    /// The key as written.
    pub key: String,
    /// The valid key that looks most like it.
    pub nearest: &'static str,
}

/// Value of an annotation, or, where it is absent, of its deprecated form. An empty value counts as
/// present.
pub(super) fn current<'a>(annotations: &'a Annotations, key: &str) -> Option<&'a str> {
    let deprecated = || {
        let suffix = key.strip_prefix(annotation::PREFIX)?;
        annotations.get(&format!("{}{suffix}", annotation::DEPRECATED_PREFIX))
    };
    annotations.get(key).or_else(deprecated).map(String::as_str)
}

/// The keys of the deprecated prefix.
pub(super) fn deprecated(annotations: &Annotations) -> Vec<String> {
    let prefix = annotation::DEPRECATED_PREFIX.trim_end_matches('/');
    annotations.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
}

/// The keys with one of our prefixes that are none of ours.
pub(super) fn unknown(annotations: &Annotations) -> Vec<UnknownAnnotation> {
    let slip = |key: &String| {
        let suffix = key
            .strip_prefix(annotation::PREFIX)
            .or_else(|| key.strip_prefix(annotation::DEPRECATED_PREFIX))?;
        let known = |it: &&str| it.strip_prefix(annotation::PREFIX) == Some(suffix);
        if KNOWN.iter().any(known) {
            return None;
        }
        let nearest = KNOWN.into_iter().min_by_key(|it| {
            let valid = it.strip_prefix(annotation::PREFIX).unwrap_or(it);
            // What is written large or small is no difference to whoever reads it.
            strsim::damerau_levenshtein(&valid.to_lowercase(), &suffix.to_lowercase())
        })?;
        Some(UnknownAnnotation { key: key.clone(), nearest })
    };
    annotations.keys().filter_map(slip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labels;

    #[test]
    fn slips_name_the_nearest_key() {
        for (key, nearest) in [
            ("metallb.io/loadBalancerIP", Some(annotation::LOAD_BALANCER_IPS)),
            ("metallb.io/loadbalancerips", Some(annotation::LOAD_BALANCER_IPS)),
            ("metallb.io/load-balancer-ips", Some(annotation::LOAD_BALANCER_IPS)),
            ("metallb.universe.tf/loadBalancerIPS", Some(annotation::LOAD_BALANCER_IPS)),
            ("metallb.io/addresspool", Some(annotation::ADDRESS_POOL)),
            ("metallb.io/address-pools", Some(annotation::ADDRESS_POOL)),
            ("metallb.io/pool", Some(annotation::ADDRESS_POOL)),
            ("metallb.io/allow-shared-ips", Some(annotation::ALLOW_SHARED_IP)),
            ("metallb.io/ip-allocated-from-pol", Some(annotation::ALLOCATED_FROM_POOL)),
            ("metallb.io/address-pool", None),
            ("metallb.universe.tf/allow-shared-ip", None),
            ("metallb.universe.tf/ip-allocated-from-pool", None),
            ("example.org/address-pol", None),
            ("ferrolb.io/allocation", None),
        ] {
            let found = unknown(&labels(&[(key, "x")]));
            assert_eq!(found.first().map(|it| it.nearest), nearest, "{key}");
        }
    }
}
