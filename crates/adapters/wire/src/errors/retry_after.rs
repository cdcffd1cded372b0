//! How long a server asks to wait.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use neuraxis_core::jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use serde_json::Value;

/// The longest wait that is believed; a larger number could overflow.
const MOST_SECONDS: f64 = 365.0 * 24.0 * 3_600.0;

/// Phrases that precede the time to wait, in lower case.
const WAIT_FOLLOWS: [&str; 3] = ["try again in ", "retry in ", "retry after "];

/// Returns how long a response asks to wait: `retry-after-ms`, or else `retry-after` in seconds or as a date.
///
/// A date is measured from the server's own `date`, so a wrong clock does no harm.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|millis| seconds(millis, 1_000.0)) {
        return Some(wait);
    }
    let value = text(header::RETRY_AFTER.as_str())?;
    seconds(value, 1.0).or_else(|| {
        let until = date(value)?;
        let now = text(header::DATE.as_str()).and_then(date).or_else(now)?;
        // A date in the past means no wait.
        Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
    })
}

/// Returns the value of `x-should-retry`, if the response has it.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get("x-should-retry")?.to_str().ok()?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Returns the time until the exhausted limits reset, by `x-ratelimit-remaining-…` and `x-ratelimit-reset-…`. Some
/// servers write -1 for unknown values.
pub(crate) fn limits_reset(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: String| headers.get(name)?.to_str().ok().map(str::trim);
    let resets = ["requests", "tokens"].into_iter().filter_map(|what| {
        let remaining = text(format!("x-ratelimit-remaining-{what}"))?;
        let reset = text(format!("x-ratelimit-reset-{what}"))?;
        (remaining == "0").then(|| span(reset))?
    });
    resets.max()
}

/// Returns how long an error's body asks to wait: Gemini's in a field of its details, others' in the text of their
/// message. Errors inside a stream have no headers for this.
pub(crate) fn wait_in_body(error: &Value, message: &str) -> Option<Duration> {
    let details = error.get("details").and_then(Value::as_array);
    let delay = |detail: &Value| span(detail.get("retryDelay")?.as_str()?);
    let in_details = details.into_iter().flatten().find_map(delay);
    in_details.or_else(|| wait_in_words(message))
}

/// Returns the duration that a message asks to wait, such as `1.5s`, `6m0s` or `17 seconds`.
fn wait_in_words(message: &str) -> Option<Duration> {
    let message = message.to_ascii_lowercase();
    let wait_after = |phrase: &&str| {
        let (_, rest) = message.split_once(*phrase)?;
        let mut words = rest
            .split_whitespace()
            .map(|word| word.trim_end_matches(|sign: char| !sign.is_ascii_alphanumeric()));
        let first = words.next()?;
        let is_number = first.ends_with(|sign: char| sign.is_ascii_digit());
        let unit = words.next().filter(|_| is_number).unwrap_or_default();
        span(&[first, unit].concat())
    };
    WAIT_FOLLOWS.iter().find_map(wait_after)
}

/// Parses a duration such as `6m0s`, `12ms` or `17seconds`; a bare number is in seconds.
fn span(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 9] = [
        ("ms", 0.001),
        ("s", 1.0),
        ("second", 1.0),
        ("seconds", 1.0),
        ("m", 60.0),
        ("minute", 60.0),
        ("minutes", 60.0),
        ("h", 3_600.0),
        ("d", 86_400.0),
    ];
    if let Some(span) = seconds(text, 1.0) {
        return Some(span);
    }
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, others) = rest.split_at(end);
        let end = others.find(|letter: char| letter.is_ascii_digit());
        let (unit, others) = others.split_at(end.unwrap_or(others.len()));
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * factor;
        rest = others;
    }
    (sum > 0.0 && sum <= MOST_SECONDS).then(|| Duration::from_secs_f64(sum))
}

fn now() -> Option<Timestamp> {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?;
    Timestamp::from_second(i64::try_from(since.as_secs()).ok()?).ok()
}

fn seconds(text: &str, per_second: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    let seconds = number / per_second;
    (0.0..=MOST_SECONDS)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

fn date(text: &str) -> Option<Timestamp> {
    // A wrong weekday does not make the date wrong.
    static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    PARSER.parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        retry_after(&headers.collect())
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_understood() {
        assert_eq!(asked(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(
            asked(&[("retry-after-ms", "1500"), ("retry-after", "7")]),
            Some(Duration::from_millis(1_500))
        );
        assert_eq!(
            asked(&[
                ("date", "Sun, 06 Nov 1994 08:49:00 GMT"),
                ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")
            ]),
            Some(Duration::from_secs(37))
        );
        let far = asked(&[("retry-after", "Sun, 06 Nov 2094 08:49:37 GMT")]).unwrap();
        assert!(far > Duration::from_secs(1_000_000), "{far:?}");
    }

    fn reset(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        limits_reset(&headers.collect())
    }

    #[test]
    fn the_reset_time_of_an_exhausted_limit_is_read() {
        for (span, millis) in [
            ("1s", 1_000),
            ("6m0s", 360_000),
            ("12ms", 12),
            ("1m30.5s", 90_500),
            ("1h2m3s", 3_723_000),
            ("1d", 86_400_000),
            ("20", 20_000),
        ] {
            let headers = [
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", span),
                ("x-ratelimit-remaining-tokens", "17"),
                ("x-ratelimit-reset-tokens", "9h"),
            ];
            assert_eq!(
                reset(&headers),
                Some(Duration::from_millis(millis)),
                "{span}"
            );
        }
    }

    #[test]
    fn the_later_of_two_exhausted_limits_counts() {
        let headers = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "2s"),
        ];
        assert_eq!(reset(&headers), Some(Duration::from_secs(2)));
    }

    #[test]
    fn limits_without_a_valid_reset_time_are_ignored() {
        for (remaining, span) in [
            ("-1", "1s"),
            ("5", "1s"),
            ("0", "-1"),
            ("0", ""),
            ("0", "soon"),
            ("0", "5x"),
            ("0", "1e9d"),
            ("0", "s"),
            ("0", "99999999d"),
        ] {
            let headers = [
                ("x-ratelimit-remaining-tokens", remaining),
                ("x-ratelimit-reset-tokens", span),
            ];
            assert_eq!(reset(&headers), None, "{remaining} {span}");
        }
        assert_eq!(reset(&[("x-ratelimit-reset-tokens", "1s")]), None);
    }

    #[test]
    fn the_should_retry_header_is_true_or_false() {
        let said = |value| {
            let mut headers = HeaderMap::new();
            headers.insert("x-should-retry", HeaderValue::from_static(value));
            should_retry(&headers)
        };
        assert_eq!(said("true"), Some(true));
        assert_eq!(said("false"), Some(false));
        assert_eq!(said("perhaps"), None);
        assert_eq!(should_retry(&HeaderMap::new()), None);
    }

    #[test]
    fn a_retry_date_in_the_past_means_no_wait() {
        assert_eq!(
            asked(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn an_invalid_retry_after_is_ignored() {
        for value in ["", "soon", "-1", "NaN", "inf", "1e300"] {
            assert_eq!(asked(&[("retry-after", value)]), None, "{value:?}");
        }
        assert_eq!(asked(&[]), None);
    }
}
