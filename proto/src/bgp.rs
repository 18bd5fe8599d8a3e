//! BGP-4 (RFC 4271) as a speaker that announces and never installs needs it.

mod value;

pub use value::{Asn, Community, Family, LargeCommunity, Prefix};
