//! The addresses that a Service names: those of the cluster, those it asks for, those its status holds.

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, ServiceSpec, ServiceStatus};

use crate::config::ranges::Family;
use crate::text::{Quoted, quoted_list};

/// Families of a valid list of addresses: one address, or two of different families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// One address.
    Single(Family),
    /// Two addresses.
    Dual,
}

impl Families {
    /// Of addresses as text.
    pub fn of_texts(texts: &[String]) -> Result<Self, FamilyError> {
        let parsed: Option<Vec<IpAddr>> = texts.iter().map(|text| parse(text)).collect();
        match parsed {
            // The count is judged first: three addresses are wrong whatever they are.
            _ if texts.is_empty() || texts.len() > 2 => Err(FamilyError::Count(texts.to_vec())),
            Some(addresses) => Self::of(&addresses),
            None => Err(FamilyError::Invalid(texts.to_vec())),
        }
    }

    /// Of addresses.
    pub fn of(addresses: &[IpAddr]) -> Result<Self, FamilyError> {
        let texts = || addresses.iter().map(ToString::to_string).collect();
        match addresses {
            [one] => Ok(Self::Single(Family::of(*one))),
            [a, b] if Family::of(*a) != Family::of(*b) => Ok(Self::Dual),
            [_, _] => Err(FamilyError::Same(texts())),
            _ => Err(FamilyError::Count(texts())),
        }
    }
}

/// A list of addresses that is neither one address nor one of each family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyError {
    /// One of them is no address.
    Invalid(Vec<String>),
    /// Both are of one family.
    Same(Vec<String>),
    /// None, or more than two.
    Count(Vec<String>),
}

impl fmt::Display for FamilyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IPFamilyForAddresses: ")?;
        match self {
            Self::Invalid(texts) => write!(f, "Invalid address {}", quoted_list(texts)),
            Self::Same(texts) => write!(f, "same address family {}", quoted_list(texts)),
            Self::Count(texts) => write!(f, "invalid ips length {} {}", texts.len(), quoted_list(texts)),
        }
    }
}

/// A request for addresses that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Both the annotation and `spec.loadBalancerIP` ask.
    Twice,
    /// The annotation holds something that is no address.
    InvalidAnnotation(String),
    /// `spec.loadBalancerIP` is no address.
    InvalidField(String),
    /// More addresses than one of each family.
    Families(FamilyError),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => f.write_str(
                "service can not have both metallb.io/loadBalancerIPs and svc.Spec.LoadBalancerIP",
            ),
            Self::InvalidAnnotation(text) => {
                write!(f, "invalid metallb.io/loadBalancerIPs: {}", Quoted(text))
            }
            Self::InvalidField(text) => write!(f, "invalid spec.loadBalancerIP {}", Quoted(text)),
            Self::Families(error) => error.fmt(f),
        }
    }
}

pub(super) fn cluster_ips(spec: &ServiceSpec) -> Vec<String> {
    let list = spec.cluster_ips.as_deref().unwrap_or_default();
    if list.is_empty() {
        spec.cluster_ip.iter().filter(|ip| !ip.is_empty()).cloned().collect()
    } else {
        list.to_vec()
    }
}

pub(super) fn requested(annotation: Option<&str>, field: Option<&str>) -> Result<Vec<IpAddr>, RequestError> {
    let set = |text: &&str| !text.is_empty();
    match (annotation.filter(set), field.filter(set)) {
        (None, None) => Ok(Vec::new()),
        (Some(_), Some(_)) => Err(RequestError::Twice),
        (None, Some(field)) => parse(field)
            .map(|address| vec![address])
            .ok_or_else(|| RequestError::InvalidField(field.to_owned())),
        (Some(annotation), None) => {
            let parsed: Option<Vec<IpAddr>> = annotation.split(',').map(|item| parse(item.trim())).collect();
            let addresses = parsed.ok_or_else(|| RequestError::InvalidAnnotation(annotation.to_owned()))?;
            Families::of(&addresses).map_err(RequestError::Families)?;
            Ok(addresses)
        }
    }
}

fn parse(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// `status.loadBalancer.ingress`. `ipMode` is no part of it: the API server fills it in, so it never
/// makes a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    entries: Box<[Entry]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    ip: String,
    /// What the text means.
    address: Option<IpAddr>,
    /// Whether the entry is what we would write for its address: nothing but that, and spelt like that.
    plain: bool,
}

impl Ingress {
    pub(super) fn of(status: Option<&ServiceStatus>) -> Self {
        let entries = status.and_then(|it| it.load_balancer.as_ref()).and_then(|it| it.ingress.as_ref());
        let entry = |it: &LoadBalancerIngress| {
            let ip = it.ip.clone().unwrap_or_default();
            let address = parse(&ip);
            let spelt = address.is_some_and(|address| address.to_string() == ip);
            Entry { ip, address, plain: spelt && it.hostname.is_none() && it.ports.is_none() }
        };
        Self { entries: entries.into_iter().flatten().map(entry).collect() }
    }

    /// Whether the status has no entry at all, not even one by host name.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether no entry has an address, good or bad.
    pub fn has_no_address(&self) -> bool {
        self.entries.iter().all(|entry| entry.ip.is_empty())
    }

    /// The addresses as written; entries by host name alone are passed over.
    pub fn texts(&self) -> Vec<String> {
        self.entries.iter().map(|entry| &entry.ip).filter(|ip| !ip.is_empty()).cloned().collect()
    }

    /// The addresses, if every entry has one.
    pub fn addresses(&self) -> Option<Vec<IpAddr>> {
        self.entries.iter().map(|entry| entry.address).collect()
    }

    /// The addresses among the entries, whatever else there is.
    pub fn readable(&self) -> impl Iterator<Item = IpAddr> {
        self.entries.iter().filter_map(|entry| entry.address)
    }

    /// The families of the addresses; entries by host name alone are passed over.
    pub fn families(&self) -> Result<Families, FamilyError> {
        match self.addresses() {
            Some(addresses) if addresses.len() <= 2 => Families::of(&addresses),
            _ => Families::of_texts(&self.texts()),
        }
    }

    /// Whether every entry is one of these addresses, and each of them is there.
    pub fn shows(&self, addresses: &[IpAddr]) -> bool {
        self.entries.len() == addresses.len()
            && self.entries.iter().all(|it| it.address.is_some_and(|it| addresses.contains(&it)))
            && addresses.iter().all(|address| self.entries.iter().any(|it| it.address == Some(*address)))
    }

    /// Whether it is what we would write for these addresses.
    pub fn is_exactly(&self, addresses: &[IpAddr]) -> bool {
        self.entries.len() == addresses.len()
            && self
                .entries
                .iter()
                .zip(addresses)
                .all(|(it, address)| it.plain && it.address == Some(*address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families() {
        let of = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            Families::of_texts(&texts).map_err(|error| error.to_string())
        };
        let error = |text: &str| Err(format!("IPFamilyForAddresses: {text}"));
        assert_eq!(of(&["1.1.1.1"]), Ok(Families::Single(Family::V4)));
        assert_eq!(of(&["100::1"]), Ok(Families::Single(Family::V6)));
        assert_eq!(of(&["1.2.3.4", "100::1"]), Ok(Families::Dual));
        assert_eq!(of(&["None"]), error(r#"Invalid address ["None"]"#));
        assert_eq!(of(&["1.1.1.1", "2.2.2.2"]), error(r#"same address family ["1.1.1.1" "2.2.2.2"]"#));
        assert_eq!(of(&[]), error("invalid ips length 0 []"));
        assert_eq!(of(&["a", "b", "c"]), error(r#"invalid ips length 3 ["a" "b" "c"]"#));
    }

    #[test]
    fn requests() {
        let of = |annotation, field| {
            requested(annotation, field)
                .map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
                .map_err(|error| error.to_string())
        };
        let ok = |text: &str| Ok(text.to_owned());
        let error = |text: &str| Err(text.to_owned());
        assert_eq!(of(None, None), ok(""));
        assert_eq!(of(Some(""), Some("")), ok(""));
        assert_eq!(of(Some(" 1.2.3.4 , 1000::1"), None), ok("1.2.3.4 1000::1"));
        assert_eq!(of(Some("::ffff:1.2.3.4"), None), ok("1.2.3.4"));
        assert_eq!(of(None, Some("1.2.3.4")), ok("1.2.3.4"));
        assert_eq!(of(None, Some("x")), error(r#"invalid spec.loadBalancerIP "x""#));
        assert_eq!(of(Some("1.2.3.4,"), None), error(r#"invalid metallb.io/loadBalancerIPs: "1.2.3.4,""#));
        assert_eq!(
            of(Some("1.2.3.4,1.2.3.5"), None),
            error(r#"IPFamilyForAddresses: same address family ["1.2.3.4" "1.2.3.5"]"#)
        );
        assert_eq!(
            of(Some("1.2.3.4"), Some("1.2.3.4")),
            error("service can not have both metallb.io/loadBalancerIPs and svc.Spec.LoadBalancerIP")
        );
    }
}
