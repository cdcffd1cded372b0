//! What a reply used, whatever the protocol calls it.

use neuraxis_core::{TokenCount, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// How many bytes of a reply were what, by which counts are estimated that the server does not give.
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
    /// Estimates the tokens of all that came, at four bytes each, for a reply of which the server counted none.
    #[must_use]
    pub fn tokens(self) -> u64 {
        let bytes = self.reasoning + self.text + self.calls;
        u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
    }
}

/// What a server counted of a reply, in tokens; nothing for what it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// The whole prompt, what was in the cache included.
    pub prompt: Option<u64>,
    /// The whole reply, reasoning included.
    pub completion: Option<u64>,
    /// Both together. Their sum if nothing is said.
    pub total: Option<u64>,
    /// What of the reply was reasoning. By its share of bytes if nothing is said.
    pub reasoning: Option<u64>,
    /// What of the prompt was in the cache.
    pub cached: Option<u64>,
    /// What of the prompt was written to the cache.
    pub cache_written: Option<u64>,
}

impl TokenCounts {
    /// Returns what the reply used.
    ///
    /// No server counts the tokens of tool calls, and few those of reasoning. Where the reply has only one kind of content
    /// the count is known all the same; else it is estimated by the share of bytes.
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

/// Returns a count as a server writes it, unless it is negative: some write -1 for what they do not know.
#[must_use]
pub fn known_count(number: Option<i64>) -> Option<u64> {
    number.and_then(|number| u64::try_from(number).ok())
}

/// Reads a count, which some servers write as `12.0`; nothing of what is no whole number, since no reply is to fail for that.
///
/// # Errors
///
/// What the deserializer fails with, so for what is no JSON.
pub fn written_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let written = Value::deserialize(deserializer)?;
    // Without a fraction it is written as a whole number is.
    let whole = |number: f64| number.to_string().parse().ok();
    Ok(written
        .as_i64()
        .or_else(|| written.as_f64().and_then(whole)))
}

fn measured(number: Option<u64>) -> TokenCount {
    number.map_or(TokenCount::UNKNOWN, TokenCount::measured)
}

/// Returns the part of a completion that so many bytes of it are.
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
