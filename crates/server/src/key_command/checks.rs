//! Validates the options of a new key.

use std::num::NonZeroU32;

use neuraxis::core::escaped;
use neuraxis::core::jiff::civil::Date;
use neuraxis::core::jiff::tz::TimeZone;
use neuraxis::core::jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, Unit};
use neuraxis::ports::MAX_OWNER_BYTES;

use super::KeyCommandError;

/// Refuses a text that no store could hold as an owner, or that would break the layout of a list.
pub(super) fn line(option: &'static str, text: &str) -> Result<(), KeyCommandError> {
    let is_line = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if is_line && text.len() <= MAX_OWNER_BYTES {
        return Ok(());
    }
    let reason = format!("expected a single line of 1 to {MAX_OWNER_BYTES} bytes");
    Err(KeyCommandError::Wrong { option, reason })
}

/// Refuses a name that the policy does not know: a key restricted to unknown names would allow nothing.
pub(super) fn known<'a>(
    option: &'static str,
    mut named: impl Iterator<Item = &'a String>,
    known: &[&str],
) -> Result<(), KeyCommandError> {
    let Some(unknown) = named.find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let unknown = visible(unknown);
    let reason = match known.is_empty() {
        true => format!("unknown name \"{unknown}\"; none are configured"),
        false => format!("unknown name \"{unknown}\"; known: {}", known.join(", ")),
    };
    Err(KeyCommandError::Wrong { option, reason })
}

/// Returns a text for one line of a terminal, with its control and invisible characters escaped, and no others.
pub(super) fn visible(text: &str) -> String {
    escaped(text.chars(), &['\'', '"', '\\'])
}

/// Parses a limit.
pub(super) fn count(text: &str) -> Result<NonZeroU32, String> {
    let number: u32 = text
        .parse()
        .map_err(|_| format!("expected a whole number from 1 to {}", u32::MAX))?;
    NonZeroU32::new(number).ok_or_else(|| "expected at least 1".to_owned())
}

/// Parses when a key expires.
pub(super) fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, KeyCommandError> {
    let wrong = |reason: &str| KeyCommandError::Wrong {
        option: "--expires",
        reason: reason.to_owned(),
    };
    let at = if let Ok(date) = text.parse::<Date>() {
        date.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp())
    } else {
        let span: Option<Span> = text.parse().ok();
        span.and_then(|span| {
            let days = SpanRelativeTo::days_are_24_hours();
            let seconds = span.total((Unit::Second, days)).ok()?;
            let time = SignedDuration::try_from_secs_f64(seconds).ok()?;
            now.checked_add(time).ok()
        })
    };
    let at = at.ok_or_else(|| {
        wrong("expected a duration such as 30d, 2w or 12h, or a day such as 2030-01-31")
    })?;
    match at > now {
        true => Ok(at),
        false => Err(wrong(
            "this time has passed, so the key would never be accepted",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invisible_characters_are_escaped() {
        assert_eq!(visible("Ada's \"a\\b\""), "Ada's \"a\\b\"");
        assert_eq!(visible("a\nb\u{202e}"), r"a\nb\u{202e}");
    }

    #[test]
    fn a_limit_is_a_whole_number_of_at_least_1() {
        assert_eq!(count("7").unwrap().get(), 7);
        assert_eq!(count("0").unwrap_err(), "expected at least 1");
        for text in ["x", "-1", "1.5", "", "4294967296"] {
            let error = count(text).unwrap_err();
            assert_eq!(error, "expected a whole number from 1 to 4294967295");
        }
    }

    #[test]
    fn a_key_expires_after_a_duration_or_on_a_date() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("30d", "2026-03-31T12:00:00Z"),
            ("2w", "2026-03-15T12:00:00Z"),
            ("90m", "2026-03-01T13:30:00Z"),
            ("2026-03-02", "2026-03-02T00:00:00Z"),
        ] {
            let at = expiry(text, now).unwrap();
            assert_eq!(at, expected.parse().unwrap(), "{text}");
        }
        for text in [
            "",
            "soon",
            "30",
            "-30d",
            "0s",
            "2026-03-01",
            "2026-02-30",
            "9999999y",
        ] {
            let error = expiry(text, now).unwrap_err().to_string();
            assert!(error.starts_with("--expires: "), "{text}: {error}");
        }
    }
}
