//! The programs that may answer, and how they differ.

use neuraxis_wire::{
    Arguments, Dialect, LateSystem, ParallelCalls, ReasoningEcho, ToolChoices, TrailingAssistant,
};
use serde::{Deserialize, Serialize};

/// The provider's name in records and messages, whichever program it is.
pub(crate) const PROVIDER: &str = "llama";

/// A program that serves models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Server {
    /// The server of llama.cpp.
    LlamaServer,
    /// Ollama. A prompt that is too long loses its oldest messages there without a word, so its context size should be
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
        // The one name that all of them know.
        dialect.max_tokens_field = "max_tokens";
        dialect.reasoning_echo = reasoning_echo;
        dialect.late_system = late_system;
        // All of them parse the arguments of earlier calls, and fail where they cannot.
        dialect.arguments = Arguments::MadeWhole;
        dialect.trailing_assistant = TrailingAssistant::Prompted;
        match self {
            Self::LlamaServer => {
                dialect.tool_choices = ToolChoices::Words;
                dialect.parallel_calls = ParallelCalls::Asked;
            }
            Self::Ollama => {
                dialect.tool_choices = ToolChoices::Ignored;
                dialect.reasoning_field = "reasoning";
            }
            Self::LmStudio => {
                dialect.tool_choices = ToolChoices::Words;
                dialect.reasoning_field = "reasoning";
            }
            Self::Vllm => {
                dialect.reasoning_field = "reasoning";
                dialect.parallel_calls = ParallelCalls::Asked;
                dialect.trailing_assistant = TrailingAssistant::Alone;
            }
        }
        dialect
    }
}
