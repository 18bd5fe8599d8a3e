//! Durations as the API writes them (`1m30s`): reading, and writing them back in messages. Nothing below a
//! microsecond matters here, and nothing is negative.

use std::fmt;
use std::time::Duration;

use crate::text::Quoted;

const UNITS: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Reads a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, factor) = known
            .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
        seconds += number * factor;
        rest = tail;
    }
    // Where Go's 64 bits of nanoseconds end.
    if seconds > 9_223_372_036.0 { Err(invalid()) } else { Ok(Duration::from_secs_f64(seconds)) }
}

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// Not even numbers and units.
    Invalid(String),
    /// A number without a unit.
    MissingUnit(String),
    /// A unit that nobody knows.
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => write!(f, "time: invalid duration {}", Quoted(text)),
            Self::MissingUnit(text) => write!(f, "time: missing unit in duration {}", Quoted(text)),
            Self::UnknownUnit { unit, text } => {
                write!(f, "time: unknown unit {} in duration {}", Quoted(unit), Quoted(text))
            }
        }
    }
}

/// A duration in hours, minutes and seconds, as Go writes it: `1m30s`, `1.5s`, `500ms`, `0s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InWords(pub(crate) Duration);

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.as_secs(), self.0.subsec_micros());
        if seconds == 0 && micros > 0 {
            return match micros {
                1000.. => write!(f, "{}ms", decimal(u64::from(micros / 1000), micros % 1000, 3)),
                _ => write!(f, "{micros}µs"),
            };
        }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(seconds % 60, micros, 6))
    }
}

/// A number with its fraction of so many digits, without zeros at the end.
fn decimal(whole: u64, fraction: u32, digits: usize) -> String {
    let text = format!("{whole}.{fraction:0digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for (text, written) in [
            ("90s", "1m30s"),
            ("1m30s", "1m30s"),
            ("0", "0s"),
            ("0s", "0s"),
            ("+3s", "3s"),
            ("1.5s", "1.5s"),
            (".5s", "500ms"),
            ("500ms", "500ms"),
            ("1500us", "1.5ms"),
            ("7µs", "7µs"),
            ("2h", "2h0m0s"),
            ("1h1ms", "1h0m0.001s"),
        ] {
            let read = parse(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(InWords(read).to_string(), written, "{text}");
        }
    }

    #[test]
    fn refuses_everything_else_with_the_known_text() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("abc", r#"time: invalid duration "abc""#),
            ("-3s", r#"time: invalid duration "-3s""#),
            ("s", r#"time: invalid duration "s""#),
            ("1..5s", r#"time: invalid duration "1..5s""#),
            ("9999999999999h", r#"time: invalid duration "9999999999999h""#),
            ("90", r#"time: missing unit in duration "90""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
        ] {
            assert_eq!(parse(text).map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }
}
