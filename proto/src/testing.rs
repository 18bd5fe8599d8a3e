//! Frames that a Linux kernel (6.18) sent on a veth pair: 02:…:0a (10.9.0.1, fd00:10::a) and
//! 02:…:0b (10.9.0.2, fd00:10::b). Their checksums are not of our computing.

use crate::ethernet::MacAddr;

pub(crate) const MAC_A: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0x0a]);
pub(crate) const MAC_B: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0x0b]);

/// A asks everybody for 10.9.0.2.
pub(crate) const ARP_REQUEST: &str =
    "ffffffffffff02000000000a0806000108000604000102000000000a0a0900010000000000000a090002";
/// B's answer.
pub(crate) const ARP_REPLY: &str =
    "02000000000a02000000000b0806000108000604000202000000000b0a09000202000000000a0a090001";
/// B checks by unicast that A still has 10.9.0.1.
pub(crate) const ARP_UNICAST: &str =
    "02000000000a02000000000b0806000108000604000102000000000b0a0900020000000000000a090001";
/// A's answer to that.
pub(crate) const ARP_UNICAST_REPLY: &str =
    "02000000000b02000000000a0806000108000604000202000000000a0a09000102000000000b0a090002";
/// A asks the group for fd00:10::b, with its link-layer address.
pub(crate) const SOLICITATION: &str = "3333ff00000b02000000000a86dd6000000000203aff\
    fd00001000000000000000000000000aff0200000000000000000001ff00000b\
    87007d5300000000fd00001000000000000000000000000b010102000000000a";
/// B's answer.
pub(crate) const ADVERTISEMENT: &str = "02000000000a02000000000b86dd6000000000203aff\
    fd00001000000000000000000000000bfd00001000000000000000000000000a\
    88001c4660000000fd00001000000000000000000000000b020102000000000b";
/// B checks by unicast that A still has fd00:10::a.
pub(crate) const UNICAST_SOLICITATION: &str = "02000000000a02000000000b86dd6000000000203aff\
    fe80000000000000000000fffe00000bfd00001000000000000000000000000a\
    87007dd700000000fd00001000000000000000000000000a010102000000000b";
/// A's answer to that, without option.
pub(crate) const BARE_ADVERTISEMENT: &str = "02000000000b02000000000a86dd6000000000183aff\
    fd00001000000000000000000000000afe80000000000000000000fffe00000b\
    88003feb40000000fd00001000000000000000000000000a";
/// A wants to use fd00:10::c: duplicate address detection with a nonce option (RFC 7527).
pub(crate) const DAD_PROBE: &str = "3333ff00000c02000000000a86dd6000000000203aff\
    00000000000000000000000000000000ff0200000000000000000001ff00000c\
    870048e000000000fd00001000000000000000000000000c0e01d7c3c16e8d63";

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("hexadecimal") as u8;
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { panic!("odd number of digits") };
    pairs.iter().map(|&[high, low]| digit(high) << 4 | digit(low)).collect()
}
