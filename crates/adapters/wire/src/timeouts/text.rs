//! Durations as people write them: `"60s"`, `"3m"`. A bare number is refused, since it names no unit.

use std::fmt;
use std::time::Duration;

use neuraxis_core::jiff::fmt::friendly::{Designator, SpanParser, SpanPrinter};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

static PARSER: SpanParser = SpanParser::new();
static PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::Compact);

pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&PRINTER.unsigned_duration_to_string(value))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(DurationVisitor)
}

/// The same for a duration that may be missing.
pub(super) mod optional {
    use super::{Deserializer, Duration, Serializer};

    pub(in crate::timeouts) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(in crate::timeouts) fn deserialize<'de, D: Deserializer<'de>>(
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
        PARSER
            .parse_unsigned_duration(text)
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}
