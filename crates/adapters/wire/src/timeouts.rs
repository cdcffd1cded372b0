//! Time limits of the parts of an exchange.

use std::time::Duration;

use neuraxis_core::duration_text;
use serde::{Deserialize, Serialize};

/// Time limits of the parts of an exchange. Each is independent: a short one never replaces another.
///
/// In configuration a duration is written with its unit, such as `"10s"` or `"5m"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Timeouts {
    /// Until the connection is established, including name resolution and TLS. Default: 10 s.
    #[serde(with = "duration_text")]
    pub connect: Duration,
    /// From sending a request to the first byte of a streamed reply, while the server processes the prompt. Default: 5
    /// min.
    #[serde(with = "duration_text")]
    pub first_byte: Duration,
    /// Between two pieces of a reply with any content, including keep-alive comments. Default: 2 min.
    #[serde(with = "duration_text")]
    pub idle: Duration,
    /// Between two pieces of a reply with model output; keep-alive comments do not count. Default: 5 min.
    #[serde(with = "duration_text")]
    pub output: Duration,
    /// For a whole reply that is not streamed, from sending the request to its last byte. Default: 10 min.
    #[serde(with = "duration_text")]
    pub whole_reply: Duration,
    /// Until a server that reports that it is loading its model has loaded it. The request is repeated every second,
    /// each time with the limits above, and the deadline of a run that waits for nothing else is paused. Default: 5
    /// min; `0s` does not wait.
    #[serde(with = "duration_text")]
    pub loading: Duration,
    /// For a whole exchange, streamed or not. If the server refuses a request that can be expressed differently, the
    /// second request is a separate exchange. Default: none, since the calling run has its own deadline.
    #[serde(
        with = "duration_text::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            output: Duration::from_secs(300),
            whole_reply: Duration::from_secs(600),
            loading: Duration::from_secs(300),
            total: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_omitted_timeouts_have_defaults() {
        let text = r#"{"connect": "2s", "total": "1h 30m"}"#;
        let timeouts: Timeouts = serde_json::from_str(text).unwrap();
        assert_eq!(timeouts.connect, Duration::from_secs(2));
        assert_eq!(timeouts.total, Some(Duration::from_secs(5_400)));
        assert_eq!(timeouts.idle, Timeouts::default().idle);
        let written = serde_json::to_string(&timeouts).unwrap();
        assert_eq!(
            serde_json::from_str::<Timeouts>(&written).unwrap(),
            timeouts
        );
    }

    #[test]
    fn a_duration_without_a_unit_and_an_unknown_name_are_refused() {
        let error = serde_json::from_str::<Timeouts>(r#"{"idle": 30}"#).unwrap_err();
        assert!(
            error.to_string().contains("a duration with its unit"),
            "{error}"
        );
        let error = serde_json::from_str::<Timeouts>(r#"{"first": "30s"}"#).unwrap_err();
        assert!(
            error.to_string().contains("unknown field `first`"),
            "{error}"
        );
    }
}
