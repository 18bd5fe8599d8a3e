//! The ports that a Service occupies on its addresses.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ServicePort;

/// A port that a Service occupies on its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Cow<'static, str>,
    /// The number.
    pub number: i32,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.protocol, self.number)
    }
}

impl Port {
    pub(super) fn new(port: &ServicePort) -> Self {
        let protocol = match port.protocol.as_deref() {
            None | Some("TCP") => "TCP".into(),
            Some("UDP") => "UDP".into(),
            Some(other) => other.to_owned().into(),
        };
        Self { protocol, number: port.port }
    }
}

/// The ports of a Service in order, each once. Whoever remembers them shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(Arc<[Port]>);

impl Ports {
    /// Whether no port is in both.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.iter().all(|port| other.binary_search(port).is_err())
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.0
    }
}

impl FromIterator<Port> for Ports {
    fn from_iter<I: IntoIterator<Item = Port>>(ports: I) -> Self {
        Self(ports.into_iter().collect::<BTreeSet<_>>().into_iter().collect())
    }
}
