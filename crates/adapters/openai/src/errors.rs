//! What OpenAI's errors mean, besides what holds everywhere.

use neuraxis_wire::{ErrorRule, Mark, Meaning};

const fn code(code: &'static str, meaning: Meaning) -> ErrorRule {
    ErrorRule::new(Mark::Code(code), meaning)
}

/// The rules, the first that fits counts. The codes are those of OpenAI's guide to errors
/// (platform.openai.com/docs/guides/error-codes) and of the errors of a response in its published API description; inside
/// a stream there is no status, so that the code alone tells.
pub(crate) const RULES: [ErrorRule; 26] = [
    // The type of an error about money may stand beside a code about rates: the code is right.
    code("rate_limit_exceeded", Meaning::RateLimited),
    code("slow_down", Meaning::RateLimited),
    code("billing_hard_limit_reached", Meaning::QuotaExhausted),
    code("server_is_overloaded", Meaning::Server),
    code("server_error", Meaning::Server),
    code("vector_store_timeout", Meaning::Server),
    code("failed_to_download_image", Meaning::Server),
    code("invalid_prompt", Meaning::ContentFiltered),
    code("bio_policy", Meaning::ContentFiltered),
    code("image_content_policy_violation", Meaning::ContentFiltered),
    code("data_residency_mismatch", Meaning::BadRequest),
    code("invalid_image", Meaning::BadRequest),
    code("invalid_image_format", Meaning::BadRequest),
    code("invalid_base64_image", Meaning::BadRequest),
    code("invalid_image_url", Meaning::BadRequest),
    code("image_too_large", Meaning::BadRequest),
    code("image_too_small", Meaning::BadRequest),
    code("image_parse_error", Meaning::BadRequest),
    code("invalid_image_mode", Meaning::BadRequest),
    code("image_file_too_large", Meaning::BadRequest),
    code("unsupported_image_media_type", Meaning::BadRequest),
    code("empty_image_file", Meaning::BadRequest),
    code("image_file_not_found", Meaning::BadRequest),
    // Groq's: the model wrote a call that the server cannot parse. The request is as it should be.
    code("tool_use_failed", Meaning::InvalidResponse),
    // An item of the conversation that the server does not know, not a model.
    ErrorRule::new(
        Mark::Message("items are not persisted"),
        Meaning::BadRequest,
    ),
    ErrorRule::new(
        Mark::Message("exceeds the context window"),
        Meaning::ContextOverflow,
    ),
];
