//! What is asked of a model, according to its configuration and its name.

use neuraxis_core::MediaTypes;
use neuraxis_wire::{
    Dialect, LateSystem, MissingReasoning, ParallelCalls, ReasoningEffort, StreamUsage,
    StrictTools, SystemRole, Temperature, ToolsAndReasoning,
};
use serde::{Deserialize, Serialize};

use crate::config::{Api, OpenAiConfig};
use crate::model::ModelTraits;
use crate::responses::{EncryptedReasoning, ReplyStorage, ResponsesDialect};

/// The provider's name in records and messages, for every server.
pub(crate) const PROVIDER: &str = "openai";

/// The media that Chat Completions has a format for and that some server may accept.
const SENT_OVER_CHAT: &[&str] = &[
    "image/*",
    "audio/wav",
    "audio/x-wav",
    "audio/wave",
    "audio/mpeg",
    "audio/mp3",
];

/// The media that the Responses API has a format for.
const SENT_OVER_RESPONSES: &[&str] = &["image/*", "application/pdf"];

/// The maximum length of a call id that Chat Completions accepts, in bytes.
const LONGEST_CHAT_CALL_ID: usize = 40;

/// The field of Chat Completions that limits the tokens of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The older field, which all servers support; only OpenAI's reasoning models refuse it.
    MaxTokens,
    /// The newer field.
    MaxCompletionTokens,
}

impl MaxTokensField {
    const fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Returns the dialect of the Responses API; settings that the configuration leaves open depend on the model's name.
pub(crate) fn responses_dialect_for(config: &OpenAiConfig) -> ResponsesDialect {
    let shared = Shared::of(config);
    let reasons = shared.traits.reasons
        || config.reasoning_summary.is_some()
        || config
            .reasoning_effort
            .is_some_and(|effort| effort != ReasoningEffort::None);
    ResponsesDialect {
        late_system: system_role(config, shared.traits.reasons || config.is_first_hand()),
        store: match config.store {
            true => ReplyStorage::Stored,
            false => ReplyStorage::NotStored,
        },
        encrypted_reasoning: match reasons && !config.store {
            true => EncryptedReasoning::Requested,
            false => EncryptedReasoning::NotRequested,
        },
        reasoning_effort: config.reasoning_effort,
        reasoning_summary: config.reasoning_summary,
        strict_tools: shared.strict_tools,
        parallel_calls: shared.parallel_calls,
        temperature: shared.temperature,
        service_tier: config.service_tier,
        media: media_types(config),
    }
}

/// Returns whether a model thinks before it answers, as far as its name tells.
pub(crate) fn thinks(config: &OpenAiConfig) -> bool {
    let is_told_not_to = config.reasoning_effort == Some(ReasoningEffort::None);
    ModelTraits::of(&config.model).reasons && !is_told_not_to
}

/// Returns the media types that a model accepts. A model's name says something about them only on OpenAI's own service.
pub(crate) fn media_types(config: &OpenAiConfig) -> MediaTypes {
    match config.is_first_hand() {
        true => crate::model::media_types(&config.model),
        false => MediaTypes::Unknown,
    }
}

/// Returns the media types that may be sent to a model: if it is unknown what the model accepts, all that its protocol
/// has a format for.
pub(crate) fn sent_media_types(config: &OpenAiConfig) -> MediaTypes {
    match (media_types(config), config.api) {
        (MediaTypes::Unknown, Api::Chat) => MediaTypes::Only(SENT_OVER_CHAT),
        (MediaTypes::Unknown, Api::Responses) => MediaTypes::Only(SENT_OVER_RESPONSES),
        (known, _) => known,
    }
}

/// Returns the dialect of Chat Completions; settings that the configuration leaves open depend on the model's name.
pub(crate) fn chat_dialect_for(config: &OpenAiConfig) -> Dialect {
    let shared = Shared::of(config);
    let mut dialect = Dialect::standard(PROVIDER);
    dialect.system_role = system_role(config, shared.traits.reasons);
    dialect.reasoning_effort = config.reasoning_effort;
    dialect.strict_tools = shared.strict_tools;
    dialect.parallel_calls = shared.parallel_calls;
    dialect.temperature = shared.temperature;
    dialect.service_tier = config.service_tier;
    dialect.longest_call_id = LONGEST_CHAT_CALL_ID;
    dialect.media = media_types(config);
    // Models of any maker are served with this protocol, also at Azure, and many of their templates accept a system
    // message only as the first message. A server that accepts later ones never refuses them, so nothing changes there.
    dialect.late_system = config.late_system.unwrap_or(LateSystem::Auto);
    if config.stream_usage == Some(false) {
        dialect.stream_usage = StreamUsage::NotRequested;
    }
    if let Some(form) = config.reply_form {
        dialect.reply_form = form;
    }
    if let Some(echo) = config.echo_reasoning {
        dialect.reasoning_echo = echo;
        // Servers that require this field refuse any reply without it, no matter which model produced the reply.
        dialect.missing_reasoning = MissingReasoning::Empty;
    }
    let by_name = if shared.traits.reasons || config.is_first_hand() {
        MaxTokensField::MaxCompletionTokens
    } else {
        MaxTokensField::MaxTokens
    };
    dialect.max_tokens_field = config.max_tokens_field.unwrap_or(by_name).as_str();
    if shared.traits.refuses_tools_on_chat {
        dialect.tools_and_reasoning = ToolsAndReasoning::OneOrTheOther;
        tracing::warn!(
            model = %config.model,
            "on Chat Completions, this model does not reason when tools are offered: set api = \"responses\""
        );
    }
    dialect
}

/// Settings that both protocols have.
struct Shared {
    traits: ModelTraits,
    temperature: Temperature,
    strict_tools: StrictTools,
    parallel_calls: ParallelCalls,
}

impl Shared {
    fn of(config: &OpenAiConfig) -> Self {
        let traits = ModelTraits::of(&config.model);
        let by_name = if traits.reasons {
            Temperature::LeftOut
        } else {
            Temperature::Sent
        };
        let strict = config.strict_tools.unwrap_or(config.is_first_hand());
        Self {
            traits,
            temperature: config.temperature.unwrap_or(by_name),
            strict_tools: if strict {
                StrictTools::WherePossible
            } else {
                StrictTools::Unspecified
            },
            parallel_calls: match config.parallel_tool_calls {
                Some(true) => ParallelCalls::Allowed,
                Some(false) => ParallelCalls::Disallowed,
                None => ParallelCalls::Unspecified,
            },
        }
    }
}

fn system_role(config: &OpenAiConfig, takes_developer: bool) -> SystemRole {
    let by_name = if takes_developer {
        SystemRole::Developer
    } else {
        SystemRole::System
    };
    config.system_role.unwrap_or(by_name)
}
