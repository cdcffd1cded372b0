//! What Anthropic's errors mean, besides what holds everywhere.

use neuraxis_wire::{ErrorRule, Mark, Meaning};

const fn kind(kind: &'static str, meaning: Meaning) -> ErrorRule {
    ErrorRule::new(Mark::Type(kind), meaning)
}

const fn words(words: &'static str, meaning: Meaning) -> ErrorRule {
    ErrorRule::new(Mark::Message(words), meaning)
}

/// The rules, the first that fits counts. Inside a stream there is no status, so that the type alone tells
/// (docs.claude.com/en/api/errors).
pub(crate) const RULES: [ErrorRule; 13] = [
    // A limit on money is told with the type of a bad request, or with that of a rate which no waiting helps.
    ErrorRule::new(
        Mark::Code("enforced_spend_limit_reached"),
        Meaning::QuotaExhausted,
    ),
    words("credit balance is too low", Meaning::QuotaExhausted),
    words("api usage limits", Meaning::QuotaExhausted),
    words("prompt is too long", Meaning::ContextOverflow),
    words("exceed context limit", Meaning::ContextOverflow),
    words("content filtering policy", Meaning::ContentFiltered),
    kind("billing_error", Meaning::QuotaExhausted),
    kind("request_too_large", Meaning::BadRequest),
    kind("invalid_request_error", Meaning::BadRequest),
    kind("conflict_error", Meaning::Server),
    kind("api_error", Meaning::Server),
    kind("timeout_error", Meaning::Server),
    kind("overloaded_error", Meaning::Server),
];
