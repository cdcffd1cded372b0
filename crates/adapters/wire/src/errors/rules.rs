//! The meanings of the errors of servers, as data.

use neuraxis_core::LlmErrorKind;

use super::Failure;

/// A mark of a server's error and its meaning. The first matching rule applies. Phrases about a conversation that does
/// not fit the model come first, except with status 429; then an adapter's own rules; then the common ones; finally the
/// status alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRule {
    /// The HTTP status; any if `None`.
    status: Option<u16>,
    mark: Mark,
    /// The kind of error for a failure with this status and mark.
    meaning: Meaning,
}

/// How an error is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// The field `type` has this value.
    Type(&'static str),
    /// The field `code` has this value.
    Code(&'static str),
    /// The message contains these words, in any case.
    Message(&'static str),
}

/// What an error means: a kind of [`LlmError`](neuraxis_core::LlmError), whose details come from the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// Nothing arrived in time.
    Timeout,
    /// The model wrote something that the server cannot parse.
    InvalidResponse,
    /// The server failed.
    Server,
    /// The server is still loading its model.
    Loading,
    /// Too many requests or tokens.
    RateLimited,
    /// The key is missing, wrong or lacks permission.
    Unauthorized,
    /// No credit or quota is left.
    QuotaExhausted,
    /// The model does not exist.
    ModelNotFound,
    /// The conversation does not fit the model.
    ContextOverflow,
    /// The provider refuses the content.
    ContentFiltered,
    /// The server does not accept the request.
    BadRequest,
}

impl ErrorRule {
    /// Creates a rule for errors with this `type`, with any status.
    #[must_use]
    pub const fn kind(kind: &'static str, meaning: Meaning) -> Self {
        Self::new(Mark::Type(kind), meaning)
    }

    /// Creates a rule for errors with this `code`, with any status.
    #[must_use]
    pub const fn code(code: &'static str, meaning: Meaning) -> Self {
        Self::new(Mark::Code(code), meaning)
    }

    /// Creates a rule for errors whose message contains these words, in any case, with any status.
    #[must_use]
    pub const fn message(words: &'static str, meaning: Meaning) -> Self {
        Self::new(Mark::Message(words), meaning)
    }

    const fn new(mark: Mark, meaning: Meaning) -> Self {
        Self {
            status: None,
            mark,
            meaning,
        }
    }

    /// Restricts the rule to one status.
    #[must_use]
    pub const fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    fn fits(&self, failure: &Failure) -> bool {
        let status_fits = self.status.is_none() || self.status == failure.status;
        status_fits
            && match self.mark {
                Mark::Type(kind) => failure.kind == kind,
                Mark::Code(code) => failure.code == code,
                Mark::Message(words) => contains(&failure.message, words),
            }
    }
}

impl Meaning {
    pub(super) const fn kind(self, failure: &Failure) -> LlmErrorKind {
        match self {
            Self::Timeout => LlmErrorKind::Timeout,
            Self::InvalidResponse => LlmErrorKind::InvalidResponse,
            Self::Server => LlmErrorKind::Server {
                status: failure.status,
                retry_after: failure.retry_after,
            },
            Self::Loading => LlmErrorKind::Loading,
            Self::RateLimited => LlmErrorKind::RateLimited {
                retry_after: failure.retry_after,
            },
            Self::Unauthorized => LlmErrorKind::Unauthorized,
            Self::QuotaExhausted => LlmErrorKind::QuotaExhausted,
            Self::ModelNotFound => LlmErrorKind::ModelNotFound,
            Self::ContextOverflow => LlmErrorKind::ContextOverflow {
                limit: failure.limit,
                needed: failure.needed,
            },
            Self::ContentFiltered => LlmErrorKind::ContentFiltered,
            Self::BadRequest => LlmErrorKind::BadRequest,
        }
    }
}

/// Phrases about a conversation that is too long: those of vLLM, LM Studio, xAI, Moonshot, Gemini, Anthropic, Ollama's
/// cloud, GitHub Copilot, SGLang, MiniMax, Bedrock, DashScope, Poolside, GitHub Models and TGI (and so of Together),
/// any of which may be behind a gateway.
const OVERFLOWS: [ErrorRule; 18] = [
    overflow("maximum context length"),
    overflow("context length is only"),
    overflow("greater than the context length"),
    overflow("cannot truncate prompt"),
    overflow("maximum prompt length is"),
    overflow("exceeded model token limit"),
    overflow("exceeds the maximum number of tokens"),
    overflow("prompt is too long"),
    overflow("exceeded max context length"),
    overflow("prompt token count of"),
    overflow("longer than the model's context length"),
    overflow("context window exceeds limit"),
    overflow("input is too long"),
    overflow("range of input length should be"),
    overflow("maximum allowed input length"),
    overflow("request body too large for"),
    overflow("`inputs` tokens + `max_new_tokens` must be <="),
    overflow("`inputs` must have less than"),
];

/// The message for a page that was sent instead of an answer.
pub(super) const PAGE: &str = "the answer is text/html";

/// The common rules. Quota comes before rate: both have status 429, and waiting does not add credit.
const COMMON: [ErrorRule; 27] = [
    ErrorRule::code("insufficient_quota", Meaning::QuotaExhausted),
    ErrorRule::kind("insufficient_quota", Meaning::QuotaExhausted),
    ErrorRule::code("credit_balance_exhausted", Meaning::QuotaExhausted),
    // LiteLLM's.
    ErrorRule::kind("budget_exceeded", Meaning::QuotaExhausted),
    ErrorRule::kind("exceed_context_size_error", Meaning::ContextOverflow),
    ErrorRule::code("context_length_exceeded", Meaning::ContextOverflow),
    ErrorRule::code("model_not_found", Meaning::ModelNotFound),
    // Groq's, Azure's, Mistral's, OpenRouter's and LiteLLM's.
    ErrorRule::code("model_decommissioned", Meaning::ModelNotFound),
    ErrorRule::code("DeploymentNotFound", Meaning::ModelNotFound),
    ErrorRule::kind("invalid_model", Meaning::ModelNotFound),
    ErrorRule::message("is not a valid model id", Meaning::ModelNotFound),
    ErrorRule::message("invalid model name passed", Meaning::ModelNotFound),
    ErrorRule::code("content_filter", Meaning::ContentFiltered),
    ErrorRule::code("content_policy_violation", Meaning::ContentFiltered),
    // OpenRouter's, with the status of a key without permission.
    ErrorRule::message("input was flagged", Meaning::ContentFiltered),
    // OpenAI's, with that status: no other key helps.
    ErrorRule::code("unsupported_country_region_territory", Meaning::BadRequest),
    ErrorRule::code("invalid_api_key", Meaning::Unauthorized),
    // Gemini's and xAI's, with the status of a bad request.
    ErrorRule::message("api key not valid", Meaning::Unauthorized),
    ErrorRule::message("api key expired", Meaning::Unauthorized),
    ErrorRule::message("incorrect api key provided", Meaning::Unauthorized),
    ErrorRule::kind("authentication_error", Meaning::Unauthorized),
    ErrorRule::kind("permission_error", Meaning::Unauthorized),
    ErrorRule::code("rate_limit_exceeded", Meaning::RateLimited),
    ErrorRule::kind("rate_limit_error", Meaning::RateLimited),
    ErrorRule::message("model", Meaning::ModelNotFound).with_status(404),
    // A page comes from a proxy or a firewall and says nothing about a key.
    ErrorRule::message(PAGE, Meaning::BadRequest).with_status(403),
    ErrorRule::kind("not_supported_error", Meaning::BadRequest),
];

const fn overflow(words: &'static str) -> ErrorRule {
    ErrorRule::message(words, Meaning::ContextOverflow)
}

pub(super) fn meaning(failure: &Failure, rules: &[ErrorRule]) -> Meaning {
    // These phrases say more than a type that any bad request may have. With status 429 the rules come first.
    let first: &[ErrorRule] = match failure.status {
        Some(429) => &[],
        _ => &OVERFLOWS,
    };
    let rules = first.iter().chain(rules).chain(&OVERFLOWS).chain(&COMMON);
    let rule = rules.into_iter().find(|rule| rule.fits(failure));
    rule.map_or_else(|| by_status(failure), |rule| rule.meaning)
}

fn by_status(failure: &Failure) -> Meaning {
    match failure.status {
        Some(401 | 403) => Meaning::Unauthorized,
        Some(402) => Meaning::QuotaExhausted,
        Some(408) => Meaning::Timeout,
        // A conflict is temporary; OpenAI's official client retries, too.
        Some(409) => Meaning::Server,
        Some(429) => Meaning::RateLimited,
        // What is not implemented will not be a second later.
        Some(501) => Meaning::BadRequest,
        Some(status) if status < 500 => Meaning::BadRequest,
        // Inside a stream there is no status, only the type.
        None if failure.kind == "invalid_request_error" => Meaning::BadRequest,
        _ => Meaning::Server,
    }
}

fn contains(text: &str, words: &str) -> bool {
    text.to_ascii_lowercase()
        .contains(&words.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;

    #[test]
    fn service_specific_errors_are_recognized_despite_their_status() {
        for (status, body, meaning) in [
            (
                400,
                r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
                Meaning::Unauthorized,
            ),
            (
                400,
                r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: sk***23."}"#,
                Meaning::Unauthorized,
            ),
            (
                403,
                r#"{"error":{"message":"m requires moderation on OpenAI. Your input was flagged for \"violence\".","code":403}}"#,
                Meaning::ContentFiltered,
            ),
            (
                403,
                r#"{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","type":"request_forbidden"}}"#,
                Meaning::BadRequest,
            ),
            (
                400,
                r#"{"object":"error","message":"Invalid model: m","type":"invalid_model","param":null,"code":"1500"}"#,
                Meaning::ModelNotFound,
            ),
            (
                400,
                r#"{"error":{"message":"The model `m` has been decommissioned.","type":"invalid_request_error","code":"model_decommissioned"}}"#,
                Meaning::ModelNotFound,
            ),
            (
                400,
                r#"{"error":{"message":"foo/bar is not a valid model ID","code":400}}"#,
                Meaning::ModelNotFound,
            ),
            (
                400,
                r#"{"error":{"message":"/chat/completions: Invalid model name passed in model=m.","type":"None","param":"None","code":"400"}}"#,
                Meaning::ModelNotFound,
            ),
            (
                404,
                r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
                Meaning::ModelNotFound,
            ),
            (
                400,
                r#"{"error":{"message":"Budget has been exceeded! Current cost: 10.1, Max budget: 10.0","type":"budget_exceeded","param":null,"code":"400"}}"#,
                Meaning::QuotaExhausted,
            ),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = Failure::of_response(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!(super::meaning(&failure, &[]), meaning, "{body}");
        }
    }
}
