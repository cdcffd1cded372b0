//! What the errors of DeepSeek mean, besides what holds everywhere.

use neuraxis_wire::{ErrorRule, Mark, Meaning};

/// The rules, the first that fits counts. Type and code tell nothing: both are `invalid_request_error` for all of it.
pub(crate) const RULES: [ErrorRule; 3] = [
    ErrorRule::new(Mark::Message("model not exist"), Meaning::ModelNotFound),
    ErrorRule::new(
        Mark::Message("content exists risk"),
        Meaning::ContentFiltered,
    ),
    ErrorRule::new(
        Mark::Message("insufficient balance"),
        Meaning::QuotaExhausted,
    ),
];
