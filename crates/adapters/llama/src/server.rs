//! The programs that may answer, and their differences.

use neuraxis_wire::{
    Arguments, Dialect, ErrorRule, LateSystem, Meaning, ParallelCalls, ReasoningEcho, ToolChoices,
    TrailingAssistant,
};
use serde::{Deserialize, Serialize};

/// The provider's name in records and messages, for all of these programs.
pub(crate) const PROVIDER: &str = "llama";

/// A program that serves models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Server {
    /// The server of llama.cpp.
    LlamaServer,
    /// Ollama. It silently drops the oldest messages of a prompt that is too long, so its context size should be
    /// configured.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// vLLM.
    Vllm,
}

impl Server {
    /// Returns the dialect that the program speaks.
    pub(crate) const fn dialect(
        self,
        reasoning_echo: ReasoningEcho,
        late_system: LateSystem,
    ) -> Dialect {
        let mut dialect = Dialect::standard(PROVIDER);
        // The only name that all of them accept.
        dialect.max_tokens_field = "max_tokens";
        dialect.reasoning_echo = reasoning_echo;
        dialect.late_system = late_system;
        // All of them parse the arguments of earlier calls, and fail if they cannot.
        dialect.arguments = Arguments::Wrapped;
        dialect.trailing_assistant = TrailingAssistant::Prompted;
        match self {
            Self::LlamaServer => {
                dialect.tool_choices = ToolChoices::Keywords;
                dialect.parallel_calls = ParallelCalls::Allowed;
            }
            Self::Ollama => {
                dialect.tool_choices = ToolChoices::Ignored;
                dialect.reasoning_field = "reasoning";
            }
            Self::LmStudio => {
                dialect.tool_choices = ToolChoices::Keywords;
                dialect.reasoning_field = "reasoning";
            }
            Self::Vllm => {
                dialect.reasoning_field = "reasoning";
                dialect.parallel_calls = ParallelCalls::Allowed;
                dialect.trailing_assistant = TrailingAssistant::Alone;
            }
        }
        dialect
    }
}

/// Maps these programs' errors to their meanings, in addition to the rules that apply to every provider; the first
/// matching rule applies.
///
/// llama-server answers status 500 both to a history that it cannot read and to model output that it cannot parse. The
/// first fails every time, the second may pass on a retry: only the message tells them apart.
pub(crate) const RULES: [ErrorRule; 10] = [
    ErrorRule::message("loading model", Meaning::Loading).with_status(503),
    ErrorRule::message("does not match the expected", Meaning::InvalidResponse),
    ErrorRule::message("unexpected empty grammar stack", Meaning::InvalidResponse),
    ErrorRule::message("failed to parse", Meaning::BadRequest),
    ErrorRule::message(
        "exceeds the available context size",
        Meaning::ContextOverflow,
    ),
    ErrorRule::message("context size has been exceeded", Meaning::ContextOverflow),
    // LM Studio.
    ErrorRule::message(
        "loaded with context length of only",
        Meaning::ContextOverflow,
    ),
    // A llama-server that routes among several models.
    ErrorRule::message("' not found", Meaning::ModelNotFound).with_status(400),
    ErrorRule::message("model is not loaded", Meaning::ModelNotFound).with_status(400),
    ErrorRule::message("model name is missing", Meaning::ModelNotFound).with_status(400),
];
