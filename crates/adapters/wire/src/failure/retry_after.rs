//! How long a server asks to wait.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use neuraxis_core::jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

/// The longest wait that is believed; a larger number is an overflow waiting to happen.
const MOST_SECONDS: f64 = 365.0 * 24.0 * 3_600.0;

/// Returns how long a response asks to wait: `retry-after-ms`, else `retry-after` in seconds or as a date.
///
/// A date is measured from the server's own `date`, so that a clock that is off does no harm.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|millis| seconds(millis, 1_000.0)) {
        return Some(wait);
    }
    let value = text(header::RETRY_AFTER.as_str())?;
    seconds(value, 1.0).or_else(|| {
        let until = date(value)?;
        let now = text(header::DATE.as_str()).and_then(date).or_else(now)?;
        // A date in the past means: at once.
        Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
    })
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
    // A wrong weekday makes no wrong date.
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

    #[test]
    fn a_date_in_the_past_means_at_once() {
        assert_eq!(
            asked(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn nonsense_asks_for_nothing() {
        for value in ["", "soon", "-1", "NaN", "inf", "1e300"] {
            assert_eq!(asked(&[("retry-after", value)]), None, "{value:?}");
        }
        assert_eq!(asked(&[]), None);
    }
}
