//! Reads what `tcpdump -w -` writes: the classic capture format (draft-ietf-opsawg-pcap), as it comes.

use std::io::Read;

/// The file header; its first four bytes tell the byte order and the unit of time.
const HEADER: usize = 24;
const RECORD: usize = 16;
/// No frame of the lab is longer; a length beyond that is no capture.
const LONGEST: usize = 256 * 1024;

/// Packets with their time in seconds since the epoch, until the stream ends or is no capture.
pub(super) fn packets(mut stream: impl Read) -> impl Iterator<Item = (f64, Vec<u8>)> {
    let mut header = [0; HEADER];
    let unit = stream.read_exact(&mut header).ok().and_then(|()| unit(&header));
    std::iter::from_fn(move || {
        let (little, fraction) = unit?;
        let mut record = [0; RECORD];
        stream.read_exact(&mut record).ok()?;
        let number = |at: usize| -> Option<u32> {
            let bytes = record.get(at..at + 4)?.try_into().ok()?;
            Some(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
        };
        let at = f64::from(number(0)?) + f64::from(number(4)?) / fraction;
        let length = usize::try_from(number(8)?).ok().filter(|length| *length <= LONGEST)?;
        let mut packet = vec![0; length];
        stream.read_exact(&mut packet).ok()?;
        Some((at, packet))
    })
}

fn unit(header: &[u8; HEADER]) -> Option<(bool, f64)> {
    match header.first_chunk::<4>()? {
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((true, 1e6)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((true, 1e9)),
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((false, 1e6)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((false, 1e9)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(length: u32, packet: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1];
        bytes.resize(HEADER, 0);
        for number in [10, 500_000, length, length] {
            bytes.extend(u32::to_le_bytes(number));
        }
        bytes.extend(packet);
        bytes
    }

    #[test]
    fn packets_come_with_their_time_and_end_where_the_stream_does() {
        let read = |bytes: &[u8]| packets(bytes).collect::<Vec<_>>();
        assert_eq!(read(&capture(3, b"abc")), [(10.5, b"abc".to_vec())]);
        assert!(read(&capture(4, b"abc")).is_empty());
        assert!(read(&capture(u32::MAX, b"abc")).is_empty());
        assert!(read(b"not a capture, and long enough for a header").is_empty());
    }
}
