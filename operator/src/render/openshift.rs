//! What is different on OpenShift; nothing of it elsewhere.
//!
//! Pods that need no privilege take the user that their namespace has, since a fixed one is refused there.
//! Speakers name the security context constraint that they run under, and may use it. HTTPS servers follow the
//! cluster's TLS profile unless the `MetalLB` object says otherwise.

use ferrolb_api::v1beta1::{TlsConfig, TlsVersion};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use super::rbac;

/// Who has it is on OpenShift.
pub const GROUP: &str = "security.openshift.io";
/// The constraint that allows the node's network and raw sockets.
pub(super) const SPEAKER_CONSTRAINT: &str = "privileged";
/// Annotation of pods with the constraint that they are to run under, whatever else they may use.
pub(super) const REQUIRED_CONSTRAINT: &str = "openshift.io/required-scc";

/// Facts of an OpenShift cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenShift {
    /// What servers are to accept.
    pub tls: TlsConfig,
}

/// Cipher suites of TLS 1.2 that we have: OpenSSL's name, IANA's name.
const SUITES: [(&str, &str); 6] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

impl OpenShift {
    /// From the object `cluster` of `apiservers.config.openshift.io`.
    pub fn of(api_server: &Value) -> Self {
        let profile = &api_server["spec"]["tlsSecurityProfile"];
        let at_least = |version| TlsConfig { min_version: Some(version), ..TlsConfig::default() };
        let tls = match profile["type"].as_str() {
            Some("Modern") => at_least(TlsVersion::Tls13),
            Some("Custom") => custom(&profile["custom"]),
            // Below 1.2 we do not go, and of its suites we have the good ones only.
            _ => at_least(TlsVersion::Tls12),
        };
        Self { tls }
    }
}

fn custom(profile: &Value) -> TlsConfig {
    let named: Vec<&str> =
        profile["ciphers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let cipher_suites: Vec<String> =
        SUITES.iter().filter(|(name, _)| named.contains(name)).map(|(_, name)| (*name).to_owned()).collect();
    // Without a suite of 1.2 there is nothing but 1.3.
    let only_13 = profile["minTLSVersion"] == "VersionTLS13" || cipher_suites.is_empty();
    if only_13 {
        return TlsConfig { min_version: Some(TlsVersion::Tls13), ..TlsConfig::default() };
    }
    TlsConfig { min_version: Some(TlsVersion::Tls12), cipher_suites, ..TlsConfig::default() }
}

/// Speakers may run under their constraint.
pub(super) fn constraint() -> PolicyRule {
    PolicyRule {
        resource_names: Some(vec![SPEAKER_CONSTRAINT.into()]),
        ..rbac::rule(GROUP, &["securitycontextconstraints"], &["use"])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn profiles_become_what_our_servers_can_do() {
        let of = |profile: Value| OpenShift::of(&json!({"spec": {"tlsSecurityProfile": profile}})).tls;
        for (profile, version) in [
            (Value::Null, TlsVersion::Tls12),
            (json!({"type": "Intermediate"}), TlsVersion::Tls12),
            (json!({"type": "Old"}), TlsVersion::Tls12),
            (json!({"type": "Modern"}), TlsVersion::Tls13),
            (json!({"type": "Custom", "custom": {"minTLSVersion": "VersionTLS13"}}), TlsVersion::Tls13),
            (
                json!({"type": "Custom", "custom": {"ciphers": ["AES128-SHA"], "minTLSVersion": "VersionTLS10"}}),
                TlsVersion::Tls13,
            ),
        ] {
            let tls = of(profile.clone());
            assert_eq!((tls.min_version, tls.cipher_suites.len()), (Some(version), 0), "{profile}");
        }
        let some = json!({"type": "Custom", "custom": {
            "ciphers": ["ECDHE-RSA-AES256-GCM-SHA384", "AES128-SHA", "TLS_AES_128_GCM_SHA256"],
            "minTLSVersion": "VersionTLS12",
        }});
        assert_eq!(of(some).cipher_suites, ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]);
    }

    #[test]
    fn every_suite_is_one_that_our_servers_have() {
        let names: Vec<String> = SUITES.iter().map(|(_, name)| (*name).to_owned()).collect();
        ferrolb_runtime::tls::Policy::new(ferrolb_runtime::tls::MinVersion::Tls12, &names, &[]).unwrap();
    }
}
