//! Durations in configuration, as users write them: `"60s"`, `"3m"`, `"1h 30m"`. For `#[serde(with)]`.
//!
//! The format is jiff's friendly one. This module does not use jiff's own serde module, because its errors do not say
//! what a duration should look like. A bare number is refused, since it names no unit.

use std::fmt;
use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::{Designator, SpanParser, SpanPrinter};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

static PARSER: SpanParser = SpanParser::new();
static PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::Compact);

/// Returns a duration in the format that this module reads.
#[must_use]
pub fn text(duration: &Duration) -> String {
    PRINTER.unsigned_duration_to_string(duration)
}

/// Writes a duration, such as `"1m 30s"`.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(value))
}

/// Reads a duration with its unit.
///
/// # Errors
///
/// An error that says what was expected; it quotes the input only as far as the deserializer does.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(DurationVisitor)
}

/// The same for an optional duration.
pub mod optional {
    use super::{Deserializer, Duration, Serializer};

    /// Writes a duration if there is one.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a duration that is present.
    ///
    /// # Errors
    ///
    /// Same as [`super::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, such as \"60s\" or \"3m\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        let read = PARSER.parse_unsigned_duration(text).ok();
        let read = read.or_else(|| with_days(text));
        read.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Reads a duration that includes days, each of 24 hours.
fn with_days(text: &str) -> Option<Duration> {
    let span = PARSER.parse_span(text).ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours());
    Duration::try_from(duration.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Waits {
        #[serde(with = "super")]
        first: Duration,
        #[serde(with = "super::optional", default)]
        then: Option<Duration>,
    }

    #[test]
    fn a_written_duration_reads_back() {
        for (seconds, written) in [
            (0, "0s"),
            (60, "1m"),
            (5_400, "1h 30m"),
            (90_061, "25h 1m 1s"),
        ] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(text(&duration), written);
            let waits = Waits {
                first: duration,
                then: Some(duration),
            };
            let json = serde_json::to_string(&waits).unwrap();
            assert_eq!(serde_json::from_str::<Waits>(&json).unwrap(), waits);
        }
    }

    #[test]
    fn a_duration_requires_a_unit_which_may_be_spelled_out() {
        for (written, millis) in [
            ("60s", 60_000),
            ("1m30s", 90_000),
            ("1h 30m", 5_400_000),
            ("2 minutes", 120_000),
            ("1.5s", 1_500),
            ("250ms", 250),
            ("1d 12h", 129_600_000),
            ("300d", 25_920_000_000),
        ] {
            let read: Waits =
                serde_json::from_value(serde_json::json!({"first": written})).unwrap();
            assert_eq!(read.first, Duration::from_millis(millis), "{written}");
            assert_eq!(read.then, None);
        }
        for wrong in [
            "60",
            "-5s",
            "-1d",
            "1 month",
            "soon",
            "",
            "999999999999999999999h",
        ] {
            let error = serde_json::from_value::<Waits>(serde_json::json!({"first": wrong}));
            let said = error.unwrap_err().to_string();
            assert!(said.contains("expected a duration with its unit"), "{said}");
        }
    }
}
