//! BGP communities: their texts, and the aliases that `Community` objects give them.

use std::collections::BTreeMap;
use std::str::FromStr;

use ferrolb_proto::bgp;

use super::diagnostic::CommunityValueError;

/// A community of either size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyCommunity {
    /// `64512:100`
    Standard(bgp::Community),
    /// `large:64512:1:100`
    Large(bgp::LargeCommunity),
}

/// What the aliases stand for.
pub(super) type Aliases = BTreeMap<String, AnyCommunity>;

impl FromStr for AnyCommunity {
    type Err = CommunityValueError;

    fn from_str(value: &str) -> Result<Self, CommunityValueError> {
        let parts: Vec<&str> = value.split(':').collect();
        let section = |section: &str, error: &std::num::ParseIntError| CommunityValueError::Section {
            section: section.to_owned(),
            value: value.to_owned(),
            out_of_range: matches!(error.kind(), std::num::IntErrorKind::PosOverflow),
        };
        match parts[..] {
            [high, low] => {
                let number = |text| number::<u16>(text).map_err(|error| section(text, &error));
                Ok(Self::Standard(bgp::Community::new(number(high)?, number(low)?)))
            }
            ["large", global, first, second] => {
                let number = |text| number::<u32>(text).map_err(|error| section(text, &error));
                let (global, first, second) = (number(global)?, number(first)?, number(second)?);
                Ok(Self::Large(bgp::LargeCommunity { global, first, second }))
            }
            [_, _, _, _] => Err(CommunityValueError::Marker(value.to_owned())),
            _ => Err(CommunityValueError::Format(value.to_owned())),
        }
    }
}

/// Digits alone: `FromStr` would let a sign pass.
fn number<N: FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<N, N::Err> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse() } else { "x".parse() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_sizes() {
        let standard = |high, low| Ok(AnyCommunity::Standard(bgp::Community::new(high, low)));
        let large =
            |global, first, second| Ok(AnyCommunity::Large(bgp::LargeCommunity { global, first, second }));
        for (text, expected) in [
            ("12345:12345", standard(12345, 12345)),
            ("0:1234", standard(0, 1234)),
            ("007:65535", standard(7, 65535)),
            ("large:12345:12345:12345", large(12345, 12345, 12345)),
            ("large:4294967295:0:1", large(u32::MAX, 0, 1)),
        ] {
            assert_eq!(text.parse::<AnyCommunity>(), expected, "{text}");
        }
    }

    #[test]
    fn refuses_everything_else_with_the_known_text() {
        for (text, message) in [
            ("1234", "invalid community format: 1234"),
            ("", "invalid community format: "),
            ("1:2:3", "invalid community format: 1:2:3"),
            (
                "larg:12345:12345:12345",
                r#"invalid community value: invalid marker for large community, expected community to be of format large:<uint32>:<uint32>:<uint32> but got "larg:12345:12345:12345" instead"#,
            ),
            (
                "99999999:1",
                r#"invalid community value: invalid section "99999999" of community "99999999:1", err: "strconv.ParseUint: parsing \"99999999\": value out of range""#,
            ),
            (
                "1:99999999",
                r#"invalid community value: invalid section "99999999" of community "1:99999999", err: "strconv.ParseUint: parsing \"99999999\": value out of range""#,
            ),
            (
                "large:12345:wrong:12345",
                r#"invalid community value: invalid section "wrong" of community "large:12345:wrong:12345", err: "strconv.ParseUint: parsing \"wrong\": invalid syntax""#,
            ),
            (
                "+1:2",
                r#"invalid community value: invalid section "+1" of community "+1:2", err: "strconv.ParseUint: parsing \"+1\": invalid syntax""#,
            ),
            (
                ":1",
                r#"invalid community value: invalid section "" of community ":1", err: "strconv.ParseUint: parsing \"\": invalid syntax""#,
            ),
        ] {
            let error = text.parse::<AnyCommunity>().map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(error, Err(message.to_owned()));
        }
    }

    #[test]
    fn communities_are_ordered_as_numbers() {
        use bgp::{Community, LargeCommunity};
        let large = |global, first, second| LargeCommunity { global, first, second };
        assert!(Community::new(0, 1234) < Community::new(0, 2345));
        assert!(large(1234, 0, 0) < large(1234, 0, 1));
        assert!(large(1235, 0, 0) > large(1234, 1, 0));
    }
}
