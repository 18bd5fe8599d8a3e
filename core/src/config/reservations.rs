//! Reservations: which addresses of pools are kept for whom, and how many a namespace may have.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::v1alpha1::{AddressReservation, AddressReservationSpec};

use super::diagnostic::ReservationProblem;
use super::ranges::{Family, IpRange, RangeError, host_bits, to_number};
use super::selectors::Finding;
use crate::service::ServiceKey;

/// Who may be given the addresses of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This Service.
    Service(ServiceKey),
    /// Services of this namespace.
    Namespace(String),
    /// Nobody.
    Nobody,
}

impl Holder {
    /// Whether a Service is meant.
    pub fn is(&self, service: &ServiceKey) -> bool {
        match self {
            Self::Service(key) => key == service,
            Self::Namespace(namespace) => *namespace == service.namespace,
            Self::Nobody => false,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(key) => write!(f, "Service {key}"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

/// Addresses of one pool that are reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The addresses.
    pub range: IpRange,
    /// Their pool.
    pub pool: String,
    /// Whom they are for.
    pub holder: Arc<Holder>,
    /// Name of the object that says so.
    pub reservation: String,
}

/// All reservations in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    /// Keyed by where they start; no two share an address.
    by_address: BTreeMap<(Family, u128), Reserved>,
    /// The same for who has any, in the order in which they are given.
    of_service: BTreeMap<ServiceKey, Vec<Reserved>>,
    of_namespace: BTreeMap<String, Vec<Reserved>>,
    quotas: BTreeMap<String, Quota>,
}

/// How many addresses a namespace may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Their number.
    pub addresses: usize,
    /// Name of the object that says so.
    pub reservation: String,
}

impl Reservations {
    /// What is reserved, in the order of the addresses.
    pub fn all(&self) -> impl Iterator<Item = &Reserved> {
        self.by_address.values()
    }

    /// What an address is reserved by.
    pub fn around(&self, address: IpAddr) -> Option<&Reserved> {
        let key = (Family::of(address), to_number(address));
        let (_, reserved) = self.by_address.range(..=key).next_back()?;
        reserved.range.contains(address).then_some(reserved)
    }

    /// What is reserved of the addresses from `first` to `last`, in their order.
    pub fn between(&self, first: IpAddr, last: IpAddr) -> impl Iterator<Item = &Reserved> {
        let family = Family::of(first);
        let (from, to) = ((family, to_number(first)), (family, to_number(last)));
        let begun = self.around(first).filter(|it| it.range.first() < first);
        begun.into_iter().chain(self.by_address.range(from..=to).map(|(_, reserved)| reserved))
    }

    /// What keeps an address from a Service.
    pub fn against(&self, address: IpAddr, service: &ServiceKey) -> Option<&Reserved> {
        self.around(address).filter(|reserved| !reserved.holder.is(service))
    }

    /// What is reserved for this very Service.
    pub fn of_service(&self, service: &ServiceKey) -> &[Reserved] {
        self.of_service.get(service).map(Vec::as_slice).unwrap_or_default()
    }

    /// What is reserved for a Service or its namespace, that for itself first.
    pub fn open_to(&self, service: &ServiceKey) -> impl Iterator<Item = &Reserved> {
        let of_namespace = self.of_namespace.get(&service.namespace).map(Vec::as_slice).unwrap_or_default();
        self.of_service(service).iter().chain(of_namespace)
    }

    /// How many addresses Services of a namespace may have.
    pub fn quota(&self, namespace: &str) -> Option<&Quota> {
        self.quotas.get(namespace)
    }

    pub(super) fn add(&mut self, reserved: Reserved) {
        match &*reserved.holder {
            Holder::Service(key) => self.of_service.entry(key.clone()).or_default().push(reserved.clone()),
            Holder::Namespace(name) => {
                self.of_namespace.entry(name.clone()).or_default().push(reserved.clone());
            }
            Holder::Nobody => {}
        }
        let first = reserved.range.first();
        self.by_address.insert((Family::of(first), to_number(first)), reserved);
    }

    /// Of several quotas the smallest counts.
    pub(super) fn limit(&mut self, namespace: &str, quota: Quota) {
        match self.quotas.get_mut(namespace) {
            Some(known) if known.addresses <= quota.addresses => {}
            Some(known) => *known = quota,
            None => drop(self.quotas.insert(namespace.to_owned(), quota)),
        }
    }
}

/// A reservation as far as it can be read.
pub(super) struct Parsed {
    pub(super) holder: Holder,
    /// Its ranges, each with its place in the object.
    pub(super) ranges: Vec<(usize, IpRange)>,
    pub(super) quotas: Vec<(String, usize)>,
    /// Everything that is wrong with it in itself.
    pub(super) findings: Vec<Finding<ReservationProblem>>,
}

/// Reads a reservation.
pub(super) fn parse(object: &AddressReservation) -> Parsed {
    let AddressReservationSpec { addresses, service, namespace, quotas } = &object.spec;
    let mut findings = Vec::new();
    if addresses.is_empty() && quotas.is_empty() {
        findings.push(("spec".to_owned(), ReservationProblem::Nothing));
    }
    let mut missing = |field: String, value: &str| {
        if value.is_empty() {
            findings.push((field.clone(), ReservationProblem::Empty { field }));
        }
    };
    if let Some(service) = service {
        missing("spec.service.namespace".to_owned(), &service.namespace);
        missing("spec.service.name".to_owned(), &service.name);
    }
    if let Some(namespace) = namespace {
        missing("spec.namespace".to_owned(), namespace);
    }
    for (index, quota) in quotas.iter().enumerate() {
        missing(format!("spec.quotas[{index}].namespace"), &quota.namespace);
    }
    let holder = match (service, namespace) {
        (Some(service), None) => {
            Holder::Service(ServiceKey { namespace: service.namespace.clone(), name: service.name.clone() })
        }
        (None, Some(namespace)) => Holder::Namespace(namespace.clone()),
        (None, None) => Holder::Nobody,
        (Some(_), Some(_)) => {
            findings.push(("spec.namespace".to_owned(), ReservationProblem::TwoHolders));
            Holder::Nobody
        }
    };
    if addresses.is_empty() && !quotas.is_empty() && (service.is_some() || namespace.is_some()) {
        findings.push(("spec.addresses".to_owned(), ReservationProblem::HolderOfNothing));
    }
    let mut ranges = Vec::with_capacity(addresses.len());
    for (index, entry) in addresses.iter().enumerate() {
        match read(entry) {
            Ok(range) => {
                ranges.push((index, range));
                if let Some(cidr) = host_bits(entry) {
                    let problem = ReservationProblem::HostBits { entry: entry.clone(), cidr };
                    findings.push((format!("spec.addresses[{index}]"), problem));
                }
            }
            Err(error) => {
                let field = format!("spec.addresses[{index}]");
                findings.push((field, ReservationProblem::InvalidEntry(error)));
            }
        }
    }
    let mut limits = Vec::with_capacity(quotas.len());
    for (index, quota) in quotas.iter().enumerate() {
        match usize::try_from(quota.max_addresses) {
            Ok(limit) => limits.push((quota.namespace.clone(), limit)),
            Err(_) => {
                let field = format!("spec.quotas[{index}].maxAddresses");
                findings.push((field, ReservationProblem::NegativeQuota(quota.max_addresses)));
            }
        }
    }
    Parsed { holder, ranges, quotas: limits, findings }
}

/// As an entry of a pool; a single address is enough here.
fn read(entry: &str) -> Result<IpRange, RangeError> {
    match entry.trim().parse::<IpAddr>() {
        Ok(address) => format!("{address}-{address}").parse(),
        Err(_) => entry.parse(),
    }
}
