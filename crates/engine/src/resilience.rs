//! Whether and when a failed attempt of a model call is repeated.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use neuraxis_core::{Attempt, LlmError, LlmErrorKind};

/// How often a failed model call is retried, and how long to wait before each retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The total number of attempts, including the first.
    pub max_attempts: u32,
    /// The wait after the first failure; doubled after each further one, with jitter. Also used if a provider requests
    /// a shorter wait.
    pub first_delay: Duration,
    /// The longest wait that is not requested by a provider.
    pub max_delay: Duration,
    /// The longest wait that a provider may request; if it requests more, the call is not retried. A requested wait is
    /// extended by up to a tenth, so that clients that were told the same do not all return at the same moment. A wait
    /// of more than 5 s is accepted only if no other role serves.
    pub max_retry_after: Duration,
    /// How long a server may take to load its model, if the model itself does not say; until then the server is asked
    /// again every second, whatever [`max_attempts`](Self::max_attempts) is. With zero, loading is not waited for.
    pub loads_within: Duration,
}

impl Default for RetryPolicy {
    /// Three attempts, with a wait of half a second that doubles up to eight seconds: the same as the official OpenAI
    /// client, and like that client at most two minutes at a provider's request.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
            max_retry_after: Duration::from_secs(120),
            loads_within: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// Never retries.
    #[must_use]
    pub const fn never() -> Self {
        Self {
            max_attempts: 1,
            first_delay: Duration::ZERO,
            max_delay: Duration::ZERO,
            max_retry_after: Duration::ZERO,
            loads_within: Duration::ZERO,
        }
    }

    /// Returns how long a model may take to load, given its own statement.
    pub(crate) fn loads_within(&self, says: Option<Duration>) -> Duration {
        match says {
            Some(says) if !self.loads_within.is_zero() => says,
            _ => self.loads_within,
        }
    }

    /// Returns how long to wait before the next attempt; `None` if there is none.
    pub(crate) fn delay(&self, error: &LlmError, failed: Attempt) -> Option<Duration> {
        // The loop repeats a request with an unreadable reply once in a simpler way; do not retry it unchanged.
        let is_unreadable = error.kind == LlmErrorKind::InvalidResponse;
        // Loading is waited for separately, and the wait has already been long enough.
        let has_waited = error.kind == LlmErrorKind::Loading;
        if is_unreadable || has_waited || !error.is_retryable() || failed.0 >= self.max_attempts {
            return None;
        }
        // If a provider requests no wait, or almost none, use our own: otherwise all attempts would be made at the same
        // time.
        if let Some(asked) = error.retry_after()
            && asked >= self.first_delay
        {
            let tenth = asked / 10;
            let jittered = with_jitter(tenth).build().next()?;
            let delay = (asked - tenth).saturating_add(jittered);
            return (asked <= self.max_retry_after).then_some(delay);
        }
        let backoff = with_jitter(self.first_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(usize::try_from(self.max_attempts).unwrap_or(usize::MAX));
        backoff
            .build()
            .nth(usize::try_from(failed.0.saturating_sub(1)).unwrap_or(usize::MAX))
    }
}

/// Creates a sequence of delays that starts with this one, or with up to twice as much.
fn with_jitter(first: Duration) -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: LlmErrorKind) -> LlmError {
        LlmError::new(kind, "test")
    }

    #[test]
    fn only_transient_errors_are_retried_and_only_a_limited_number_of_times() {
        let policy = RetryPolicy::default();
        assert!(
            policy
                .delay(&error(LlmErrorKind::Connection), Attempt(1))
                .is_some()
        );
        assert!(
            policy
                .delay(&error(LlmErrorKind::Connection), Attempt(3))
                .is_none()
        );
        assert!(
            policy
                .delay(&error(LlmErrorKind::Unauthorized), Attempt(1))
                .is_none()
        );
        assert!(
            RetryPolicy::never()
                .delay(&error(LlmErrorKind::Connection), Attempt(1))
                .is_none()
        );
    }

    #[test]
    fn a_provider_delay_is_honored_with_jitter_unless_it_is_too_long() {
        let policy = RetryPolicy::default();
        let limited = |seconds| {
            error(LlmErrorKind::RateLimited {
                retry_after: Some(Duration::from_secs(seconds)),
            })
        };
        let delays: Vec<_> = (0..20)
            .map(|_| policy.delay(&limited(7), Attempt(1)).unwrap())
            .collect();
        let allowed = Duration::from_secs(7)..=Duration::from_millis(7_700);
        assert!(
            delays.iter().all(|delay| allowed.contains(delay)),
            "{delays:?}"
        );
        assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
        assert_eq!(policy.delay(&limited(3_600), Attempt(1)), None);
    }

    #[test]
    fn a_very_short_provider_delay_is_replaced_by_ours() {
        let policy = RetryPolicy::default();
        for asked in [Duration::ZERO, Duration::from_millis(12)] {
            let limited = error(LlmErrorKind::RateLimited {
                retry_after: Some(asked),
            });
            for (failed, least) in [(1, 500), (2, 1_000)] {
                let delay = policy.delay(&limited, Attempt(failed)).unwrap();
                assert!(delay >= Duration::from_millis(least), "{delay:?}");
            }
            assert_eq!(policy.delay(&limited, Attempt(3)), None);
        }
    }

    #[test]
    fn delays_grow_and_stay_below_the_maximum() {
        let policy = RetryPolicy {
            max_attempts: 20,
            ..RetryPolicy::default()
        };
        let delays: Vec<_> = (1..12)
            .map(|failed| {
                policy
                    .delay(&error(LlmErrorKind::Timeout), Attempt(failed))
                    .unwrap()
            })
            .collect();
        // Jitter adds at most the delay itself.
        assert!(
            delays[0] >= Duration::from_millis(500) && delays[0] <= Duration::from_secs(1),
            "{delays:?}"
        );
        assert!(
            delays.iter().all(|delay| *delay <= policy.max_delay * 2),
            "{delays:?}"
        );
        assert!(delays[10] > delays[0], "{delays:?}");
    }
}
