//! Certificates of our own making, and the HTTPS server that uses them.
//!
//! A [`Bundle`] is an authority (ECDSA P-256, 10 years) and one serving certificate (1 year) as PEM, the
//! form in which it lies in a Secret. [`Bundle::check`] says whether it still serves; it verifies as a
//! client would, at a time [`RENEW_BEFORE`] in the future, so that renewal needs no arithmetic of dates.

mod policy;
mod server;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SigningKey,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

pub use policy::{MinVersion, Policy, PolicyError};
pub use server::serve;

/// How long before its end a certificate is renewed.
pub const RENEW_BEFORE: Duration = Duration::from_secs(90 * 24 * 3600);
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const SERVING_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// Clocks of API servers may be behind ours.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// An authority and one serving certificate, each PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Certificate of the authority: what clients trust.
    pub ca: String,
    /// Private key of the authority.
    pub ca_key: String,
    /// Serving certificate.
    pub certificate: String,
    /// Private key of the serving certificate.
    pub key: String,
}

/// Shows no key.
impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why a certificate cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It could not be made.
    #[error("cannot make a certificate")]
    Generate(#[from] rcgen::Error),
    /// Not PEM, or not what it should be.
    #[error("{what} is not PEM")]
    Pem {
        /// Which part.
        what: &'static str,
        /// What the parser says.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// Key and certificate do not belong together, or are of an unknown kind.
    #[error("unusable key or certificate")]
    Key(#[source] rustls::Error),
    /// No client would accept it (expired, other names, other authority).
    #[error("a client would refuse the certificate")]
    Refused(#[source] rustls::Error),
    /// The authority's certificate cannot be trusted.
    #[error("unusable authority")]
    Authority(#[source] rustls::server::VerifierBuilderError),
    /// The authority's certificate is not X.509, or not valid for long enough.
    #[error("the authority is unreadable or about to expire")]
    AuthorityExpired,
    /// A name is not a DNS name.
    #[error("{0:?} is not a DNS name")]
    Name(String),
}

impl Bundle {
    /// Makes an authority and a serving certificate for `dns_names`, valid from `now`.
    pub fn generate(dns_names: &[String], now: SystemTime) -> Result<Self, CertificateError> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "metallb-webhook-ca");
        authority.distinguished_name.push(DnType::OrganizationName, "metallb");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority.not_before = (now - CLOCK_SKEW).into();
        authority.not_after = (now + AUTHORITY_LIFETIME).into();
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let (certificate, key) = serving_certificate(&issuer, dns_names, now)?;
        Ok(Self { ca: issuer.pem(), ca_key: issuer.key().serialize_pem(), certificate, key })
    }

    /// The same authority with a new serving certificate, valid from `now`: what clients trust does not
    /// change. Only [`Bundle::check`] tells whether the authority is still good for it.
    pub fn renew(&self, dns_names: &[String], now: SystemTime) -> Result<Self, CertificateError> {
        let issuer = Issuer::from_ca_cert_pem(&self.ca, KeyPair::from_pem(&self.ca_key)?)?;
        let (certificate, key) = serving_certificate(&issuer, dns_names, now)?;
        Ok(Self { ca: self.ca.clone(), ca_key: self.ca_key.clone(), certificate, key })
    }

    /// Whether a client that trusts the authority will accept the certificate for every one of
    /// `dns_names`, now and for [`RENEW_BEFORE`] longer.
    pub fn check(&self, dns_names: &[String], now: SystemTime) -> Result<(), CertificateError> {
        self.certified_key()?;
        [now, now + RENEW_BEFORE]
            .iter()
            .try_for_each(|at| accepted(&self.ca, &self.certificate, dns_names, *at))
    }

    /// Certificate and key in the form that a server uses.
    pub fn certified_key(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        certified_key(&self.certificate, &self.key)
    }
}

fn serving_certificate(
    issuer: &Issuer<'_, impl SigningKey>,
    dns_names: &[String],
    now: SystemTime,
) -> Result<(String, String), rcgen::Error> {
    let mut serving = CertificateParams::new(dns_names.to_vec())?;
    serving.distinguished_name.push(DnType::CommonName, dns_names.first().cloned().unwrap_or_default());
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.use_authority_key_identifier_extension = true;
    serving.not_before = (now - CLOCK_SKEW).into();
    serving.not_after = (now + SERVING_LIFETIME).into();
    let key = KeyPair::generate()?;
    let certificate = serving.signed_by(&key, issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Whether a client that trusts these authorities (PEM, any number) accepts the certificate at the head of
/// this chain (PEM) for every one of `dns_names` at this time.
pub fn accepted(
    authorities: &str,
    chain: &str,
    dns_names: &[String],
    at: SystemTime,
) -> Result<(), CertificateError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities, "the authority")? {
        // Our verifier takes an authority for good without end; that of the API server does not.
        if is_valid(&authority, at) {
            roots.add(authority).map_err(CertificateError::Key)?;
        }
    }
    if roots.is_empty() {
        return Err(CertificateError::AuthorityExpired);
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(CertificateError::Authority)?;
    let chain = certificates(chain, "the certificate")?;
    let Some((end_entity, intermediates)) = chain.split_first() else {
        return Err(CertificateError::Refused(rustls::CertificateError::BadEncoding.into()));
    };
    let at = UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    for name in dns_names {
        let server = ServerName::try_from(name.as_str()).map_err(|_| CertificateError::Name(name.clone()))?;
        verifier
            .verify_server_cert(end_entity, intermediates, &server, &[], at)
            .map_err(CertificateError::Refused)?;
    }
    Ok(())
}

/// The certificates of a PEM text that are valid at this time, each as it stands there.
pub fn valid_certificates(pem: &str, at: SystemTime) -> Vec<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let blocks = pem.split_inclusive(END).filter_map(|block| {
        let begin = block.find("-----BEGIN CERTIFICATE-----")?;
        block.get(begin..)
    });
    blocks
        .filter(|block| certificate(block, "").is_ok_and(|certificate| is_valid(&certificate, at)))
        .collect()
}

/// When the certificate at the head of a chain ends.
pub fn expires(chain: &str) -> Result<SystemTime, CertificateError> {
    let (_, not_after) = validity(&certificate(chain, "the certificate")?)
        .ok_or(CertificateError::Refused(rustls::CertificateError::BadEncoding.into()))?;
    Ok(not_after)
}

fn is_valid(certificate: &CertificateDer<'_>, at: SystemTime) -> bool {
    validity(certificate).is_some_and(|(from, until)| from <= at && at <= until)
}

/// From when until when a certificate is valid.
fn validity(certificate: &CertificateDer<'_>) -> Option<(SystemTime, SystemTime)> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let time = |time: x509_parser::time::ASN1Time| {
        let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    };
    Some((time(parsed.validity().not_before), time(parsed.validity().not_after)))
}

/// Certificate chain and key, both PEM, in the form that a server uses.
pub fn certified_key(chain: &str, key: &str) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain = certificates(chain, "the certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|source| CertificateError::Pem { what: "the key", source })?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map(Arc::new)
        .map_err(CertificateError::Key)
}

fn certificates(pem: &str, what: &'static str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|source| CertificateError::Pem { what, source })
}

fn certificate(pem: &str, what: &'static str) -> Result<CertificateDer<'static>, CertificateError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|source| CertificateError::Pem { what, source })
}

/// The certificate that a running server presents; it can be replaced between two handshakes.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    current: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
}

impl Identity {
    /// Presents `key` from the next handshake on.
    pub fn set(&self, key: Arc<CertifiedKey>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// A server's TLS configuration.
    pub fn server_config(&self, policy: &Policy) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(policy.provider())
            .with_protocol_versions(policy.versions())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["webhook.ns.svc".into(), "webhook.ns.svc.cluster.local".into()]
    }

    #[test]
    fn a_fresh_bundle_is_accepted_and_renewed_in_time() {
        let now = SystemTime::now();
        let bundle = Bundle::generate(&names(), now).unwrap();
        bundle.check(&names(), now).unwrap();
        let late = now + SERVING_LIFETIME - RENEW_BEFORE + Duration::from_secs(60);
        assert!(matches!(bundle.check(&names(), late), Err(CertificateError::Refused(_))));
    }

    #[test]
    fn renewal_keeps_the_authority_until_that_ends() {
        let now = SystemTime::now();
        let bundle = Bundle::generate(&names(), now).unwrap();
        let later = now + SERVING_LIFETIME;
        let renewed = bundle.renew(&names(), later).unwrap();
        assert_eq!((&renewed.ca, &renewed.ca_key), (&bundle.ca, &bundle.ca_key));
        assert!(bundle.check(&names(), later).is_err());
        renewed.check(&names(), later).unwrap();
        let rest = expires(&renewed.certificate).unwrap().duration_since(later).unwrap();
        assert!(SERVING_LIFETIME - rest < Duration::from_secs(2), "{rest:?}");

        let last = now + AUTHORITY_LIFETIME - RENEW_BEFORE + Duration::from_secs(60);
        let renewed = bundle.renew(&names(), last).unwrap();
        assert!(matches!(renewed.check(&names(), last), Err(CertificateError::AuthorityExpired)));
    }

    #[test]
    fn other_names_other_authorities_and_garbage_are_refused() {
        let now = SystemTime::now();
        let bundle = Bundle::generate(&names(), now).unwrap();
        assert!(bundle.check(&["other.ns.svc".into()], now).is_err());
        let other = Bundle::generate(&names(), now).unwrap();
        assert!(Bundle { ca: other.ca.clone(), ..bundle.clone() }.check(&names(), now).is_err());
        assert!(Bundle { key: other.key, ..bundle.clone() }.check(&names(), now).is_err());
        assert!(Bundle { certificate: "x".into(), ..bundle }.check(&names(), now).is_err());
    }

    #[test]
    fn whoever_trusts_one_of_several_authorities_accepts_what_it_signed() {
        let now = SystemTime::now();
        let [old, new] = [(); 2].map(|()| Bundle::generate(&names(), now).unwrap());
        let both = format!("{}\n{}", new.ca, old.ca);
        for bundle in [&old, &new] {
            accepted(&both, &bundle.certificate, &names(), now).unwrap();
        }
        assert!(accepted(&old.ca, &new.certificate, &names(), now).is_err());
        assert!(accepted("", &new.certificate, &names(), now).is_err());
        assert!(accepted(&both, "", &names(), now).is_err());
        let late = now + AUTHORITY_LIFETIME + Duration::from_secs(60);
        let error = accepted(&both, &new.certificate, &names(), late);
        assert!(matches!(error, Err(CertificateError::AuthorityExpired)));

        let texts = valid_certificates(&both, now);
        assert_eq!(texts.iter().map(|it| it.trim()).collect::<Vec<_>>(), [new.ca.trim(), old.ca.trim()]);
        assert_eq!(valid_certificates(&both, late), [""; 0]);
        assert_eq!(valid_certificates("garbage", now), [""; 0]);
    }

    #[test]
    fn a_bundle_in_a_log_shows_no_key() {
        let bundle = Bundle::generate(&names(), SystemTime::now()).unwrap();
        assert!(!format!("{bundle:?}").contains("PRIVATE KEY"));
    }
}
