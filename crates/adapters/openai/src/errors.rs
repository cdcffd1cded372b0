//! What OpenAI's errors mean, besides what holds everywhere.

use neuraxis_wire::{ErrorRule, Meaning};

/// The rules, the first that fits counts. The codes are those of OpenAI's guide to errors
/// (platform.openai.com/docs/guides/error-codes) and of the errors of a response in its published API description; inside
/// a stream there is no status, so that the code alone tells.
pub(crate) const RULES: [ErrorRule; 26] = [
    // The type of an error about money may stand beside a code about rates: the code is right.
    ErrorRule::code("rate_limit_exceeded", Meaning::RateLimited),
    ErrorRule::code("slow_down", Meaning::RateLimited),
    ErrorRule::code("billing_hard_limit_reached", Meaning::QuotaExhausted),
    ErrorRule::code("server_is_overloaded", Meaning::Server),
    ErrorRule::code("server_error", Meaning::Server),
    ErrorRule::code("vector_store_timeout", Meaning::Server),
    ErrorRule::code("failed_to_download_image", Meaning::Server),
    ErrorRule::code("invalid_prompt", Meaning::ContentFiltered),
    ErrorRule::code("bio_policy", Meaning::ContentFiltered),
    ErrorRule::code("image_content_policy_violation", Meaning::ContentFiltered),
    ErrorRule::code("data_residency_mismatch", Meaning::BadRequest),
    ErrorRule::code("invalid_image", Meaning::BadRequest),
    ErrorRule::code("invalid_image_format", Meaning::BadRequest),
    ErrorRule::code("invalid_base64_image", Meaning::BadRequest),
    ErrorRule::code("invalid_image_url", Meaning::BadRequest),
    ErrorRule::code("image_too_large", Meaning::BadRequest),
    ErrorRule::code("image_too_small", Meaning::BadRequest),
    ErrorRule::code("image_parse_error", Meaning::BadRequest),
    ErrorRule::code("invalid_image_mode", Meaning::BadRequest),
    ErrorRule::code("image_file_too_large", Meaning::BadRequest),
    ErrorRule::code("unsupported_image_media_type", Meaning::BadRequest),
    ErrorRule::code("empty_image_file", Meaning::BadRequest),
    ErrorRule::code("image_file_not_found", Meaning::BadRequest),
    // Groq's: the model wrote a call that the server cannot parse. The request is as it should be.
    ErrorRule::code("tool_use_failed", Meaning::InvalidResponse),
    // An item of the conversation that the server does not know, not a model.
    ErrorRule::message("items are not persisted", Meaning::BadRequest),
    ErrorRule::message("exceeds the context window", Meaning::ContextOverflow),
];
