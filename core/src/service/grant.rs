//! What the controller wrote onto a Service when it gave it addresses: which ones, and in which term of
//! its Lease.
//!
//! With it everybody who reads Services can tell an assignment from what somebody else wrote into the
//! status, and the assignment of a leader from the late write of one before it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Value of the annotation `ferrolb.io/allocation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How often the Lease had changed hands when the addresses were given.
    pub term: i32,
    /// The Service that is meant: the annotation also travels with copies of an object.
    pub uid: Arc<str>,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        write!(f, "{}/{}/{}", self.term, self.uid, addresses.join(","))
    }
}

/// An annotation that nobody of ours wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotGrant;

impl FromStr for Grant {
    type Err = NotGrant;

    fn from_str(text: &str) -> Result<Self, NotGrant> {
        let mut parts = text.splitn(3, '/');
        let (Some(term), Some(uid), Some(addresses)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(NotGrant);
        };
        let addresses: Option<Vec<IpAddr>> = addresses.split(',').map(|it| it.parse().ok()).collect();
        let mut addresses = addresses.ok_or(NotGrant)?;
        // There may be very many, each with one or two.
        addresses.shrink_to_fit();
        Ok(Self { term: term.parse().map_err(|_| NotGrant)?, uid: uid.into(), addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let grant = Grant {
            term: 7,
            uid: "1b4e".into(),
            addresses: vec!["1.2.3.4".parse().unwrap(), "fd00::1".parse().unwrap()],
        };
        assert_eq!(grant.to_string(), "7/1b4e/1.2.3.4,fd00::1");
        assert_eq!(grant.to_string().parse(), Ok(grant));
        for wrong in ["", "7", "7/u", "7/u/", "x/u/1.2.3.4", "7/u/1.2.3.4,", "7/u/1.2.3.4/5"] {
            assert_eq!(wrong.parse::<Grant>(), Err(NotGrant), "{wrong}");
        }
    }
}
