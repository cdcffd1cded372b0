//! The usage of a reply, independent of the protocol's names.

use neuraxis_core::{TokenCount, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The bytes of each kind of content in a reply, used to estimate the counts that the server does not report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shares {
    /// Reasoning.
    pub reasoning: usize,
    /// Text for the user.
    pub text: usize,
    /// Names and arguments of tool calls.
    pub calls: usize,
}

impl Shares {
    /// Estimates the tokens of everything received, at four bytes each, for a reply without any counts from the server.
    #[must_use]
    pub fn tokens(self) -> u64 {
        let bytes = self.reasoning + self.text + self.calls;
        u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
    }
}

/// A server's token counts for a reply; `None` for those it does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// The whole prompt, including cached tokens.
    pub prompt: Option<u64>,
    /// The whole reply, including reasoning.
    pub completion: Option<u64>,
    /// Both together; their sum if not reported.
    pub total: Option<u64>,
    /// The reasoning in the reply; estimated by its share of bytes if not reported.
    pub reasoning: Option<u64>,
    /// The part of the prompt read from the cache.
    pub cached: Option<u64>,
    /// The part of the prompt written to the cache.
    pub cache_written: Option<u64>,
}

impl TokenCounts {
    /// Returns the reply's usage.
    ///
    /// No server counts the tokens of tool calls, and few count those of reasoning. If the reply has only one kind of
    /// content, the count is known anyway; otherwise it is estimated by the share of bytes.
    #[must_use]
    pub fn usage(self, shares: Shares) -> Usage {
        let sum = || Some(self.prompt?.saturating_add(self.completion?));
        Usage {
            prompt: measured(self.prompt),
            completion: measured(self.completion),
            total: measured(self.total.or_else(sum)),
            reasoning: self.reasoning.map_or_else(
                || share(shares.reasoning, shares, self.completion),
                TokenCount::measured,
            ),
            cached: measured(self.cached),
            action: share(shares.calls, shares, self.completion),
            cache_written: self.cache_written.map(TokenCount::measured),
        }
    }
}

/// The largest count of one reply that is believed: a thousand times what the largest contexts hold.
const MAX_COUNT: u64 = 1_000_000_000;

/// Returns a server's count, unless it is negative or implausible: some write -1 for unknown counts, and one number
/// out of a broken counter would use up every budget and spoil all sums that contain it.
#[must_use]
pub fn known_count(number: Option<i64>) -> Option<u64> {
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number <= MAX_COUNT)
}

/// Reads a count, which some servers write as `12.0`. Returns `None` for anything that is not a whole number: no reply
/// should fail because of that.
///
/// # Errors
///
/// The deserializer's error, so for anything that is not JSON.
pub fn written_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let written = Value::deserialize(deserializer)?;
    // A number without a fraction is formatted as an integer.
    let whole = |number: f64| number.to_string().parse().ok();
    Ok(written
        .as_i64()
        .or_else(|| written.as_f64().and_then(whole)))
}

fn measured(number: Option<u64>) -> TokenCount {
    number.map_or(TokenCount::UNKNOWN, TokenCount::measured)
}

/// Returns the part of a completion's tokens that corresponds to `bytes`.
fn share(bytes: usize, shares: Shares, completion: Option<u64>) -> TokenCount {
    let all = shares.reasoning + shares.text + shares.calls;
    if bytes == 0 {
        return TokenCount::measured(0);
    }
    let Some(completion) = completion else {
        return TokenCount::UNKNOWN;
    };
    if bytes == all {
        return TokenCount::measured(completion);
    }
    let part = u128::from(completion) * (bytes as u128) / (all as u128);
    TokenCount::estimated(u64::try_from(part).unwrap_or(completion))
}
