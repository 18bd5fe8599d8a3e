//! What is wrong with received bytes, and at which byte.
//!
//! At layer 2 every fault has the same consequence: the frame is discarded.

/// Why a frame could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {fault}")]
pub struct DecodeError {
    /// Where the offending field starts, counted from the first byte given to the parser. For a
    /// fault of the IPv6 header that only the message makes a fault: where the message starts.
    pub offset: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// A rule that received bytes break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The input ends inside a field.
    #[error("input ends, {missing} more bytes needed")]
    Truncated {
        /// How many bytes the field lacks.
        missing: usize,
    },
    /// The frame carries another protocol than the one asked for.
    #[error("EtherType {0:#06x} is another protocol")]
    EtherType(u16),
    /// ARP: only Ethernet (1) is spoken.
    #[error("ARP hardware type {0} is not Ethernet")]
    HardwareType(u16),
    /// ARP: only IPv4 (0x0800) is spoken.
    #[error("ARP protocol type {0:#06x} is not IPv4")]
    ProtocolType(u16),
    /// ARP: an Ethernet address has 6 bytes.
    #[error("ARP hardware address length {0} is not 6")]
    HardwareLength(u8),
    /// ARP: an IPv4 address has 4 bytes.
    #[error("ARP protocol address length {0} is not 4")]
    ProtocolLength(u8),
    /// IPv6: the version field says otherwise.
    #[error("IP version {0} is not 6")]
    IpVersion(u8),
    /// IPv6: what follows the header is not ICMPv6. Extension headers are not followed: no node
    /// sends a solicitation with one, and RFC 6980 forbids the one that matters.
    #[error("next header {0} is not ICMPv6")]
    NextHeader(u8),
    /// ICMPv6: not one of the messages that are read there.
    #[error("ICMPv6 type {0} is another message")]
    IcmpType(u8),
    /// RFC 4861 §7.1: the message crossed a router.
    #[error("hop limit {0} is not 255")]
    HopLimit(u8),
    /// RFC 4861 §7.1: the checksum does not hold.
    #[error("bad ICMPv6 checksum")]
    Checksum,
    /// RFC 4861 §7.1: the code is not 0.
    #[error("ICMPv6 code {0} is not 0")]
    IcmpCode(u8),
    /// RFC 4861 §7.1: the target is a multicast address.
    #[error("target is a multicast address")]
    MulticastTarget,
    /// RFC 4861 §4.6: an option of length 0, or a link-layer address that is not Ethernet's.
    #[error("option length {0} is not possible")]
    OptionLength(u8),
    /// RFC 4291 §2.7: a multicast address never sends. Answering one would answer a whole group.
    #[error("source is a multicast address")]
    MulticastSource,
    /// RFC 4861 §6.1: a router message from elsewhere than the link.
    #[error("source is no link-local address")]
    SourceNotLinkLocal,
    /// RFC 4861 §7.1.1: a solicitation from `::` goes to a solicited-node group.
    #[error("unspecified source, but destination is no solicited-node group")]
    ProbeDestination,
    /// RFC 4861 §7.1.1: a solicitation from `::` names no source link-layer address.
    #[error("unspecified source, but a source link-layer address option")]
    ProbeWithLinkLayer,
    /// RFC 4861 §7.1.2: an advertisement to a group answers nobody.
    #[error("solicited advertisement to a multicast address")]
    SolicitedMulticast,
}
