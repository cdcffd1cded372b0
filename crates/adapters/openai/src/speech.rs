//! What is asked of a model, from its configuration and its name.

use neuraxis_wire::{
    Dialect, EncryptedReasoning, ParallelCalls, ReasoningEffort, ResponsesDialect, Store,
    StrictTools, SystemRole, Temperature, ToolsAndReasoning,
};

use crate::config::{Api, OpenAiConfig};
use crate::model::Traits;

/// The provider's name in records and messages, whichever server it is.
const PROVIDER: &str = "openai";

/// The most bytes of the id of a call that Chat Completions takes.
const LONGEST_CHAT_CALL_ID: usize = 40;

/// A protocol and how it is spoken.
pub(crate) enum Speech {
    Responses(ResponsesDialect),
    Chat(Dialect),
}

impl Speech {
    /// Returns what a configuration asks for; what it leaves open goes by the model's name.
    pub(crate) fn of(config: &OpenAiConfig) -> Self {
        let wishes = Wishes::of(config);
        match config.api {
            Api::Responses => Self::Responses(wishes.responses()),
            Api::Chat => Self::Chat(wishes.chat()),
        }
    }
}

/// What is asked of the model, where nothing was configured by its name.
struct Wishes<'a> {
    config: &'a OpenAiConfig,
    traits: Traits,
    temperature: Temperature,
    strict_tools: StrictTools,
    parallel_calls: ParallelCalls,
}

impl<'a> Wishes<'a> {
    fn of(config: &'a OpenAiConfig) -> Wishes<'a> {
        let traits = Traits::of(&config.model);
        let by_name = if traits.reasons {
            Temperature::LeftOut
        } else {
            Temperature::Sent
        };
        let strict = config.strict_tools.unwrap_or(config.is_first_hand());
        Wishes {
            config,
            traits,
            temperature: config.temperature.unwrap_or(by_name),
            strict_tools: if strict {
                StrictTools::WherePossible
            } else {
                StrictTools::Unsaid
            },
            parallel_calls: match config.parallel_tool_calls {
                Some(true) => ParallelCalls::Asked,
                Some(false) => ParallelCalls::Declined,
                None => ParallelCalls::Unsaid,
            },
        }
    }

    fn system_role(&self, takes_developer: bool) -> SystemRole {
        let by_name = if takes_developer {
            SystemRole::Developer
        } else {
            SystemRole::System
        };
        self.config.system_role.unwrap_or(by_name)
    }

    fn responses(&self) -> ResponsesDialect {
        let config = self.config;
        let mut dialect = ResponsesDialect::standard(PROVIDER);
        let reasons = self.traits.reasons
            || config.reasoning_summary.is_some()
            || config
                .reasoning_effort
                .is_some_and(|effort| effort != ReasoningEffort::None);
        if reasons && !config.store {
            dialect.encrypted_reasoning = EncryptedReasoning::Asked;
        }
        if config.store {
            dialect.store = Store::Kept;
        }
        dialect.late_system = self.system_role(self.traits.reasons || config.is_first_hand());
        dialect.reasoning_effort = config.reasoning_effort;
        dialect.reasoning_summary = config.reasoning_summary;
        dialect.strict_tools = self.strict_tools;
        dialect.parallel_calls = self.parallel_calls;
        dialect.temperature = self.temperature;
        dialect.service_tier = config.service_tier;
        dialect
    }

    fn chat(&self) -> Dialect {
        let config = self.config;
        let mut dialect = Dialect::standard(PROVIDER);
        dialect.system_role = self.system_role(self.traits.reasons);
        dialect.reasoning_effort = config.reasoning_effort;
        dialect.strict_tools = self.strict_tools;
        dialect.parallel_calls = self.parallel_calls;
        dialect.temperature = self.temperature;
        dialect.service_tier = config.service_tier;
        dialect.longest_call_id = LONGEST_CHAT_CALL_ID;
        if !self.traits.reasons && !config.is_first_hand() {
            // The older name, which all servers know; only models of OpenAI that reason refuse it.
            dialect.max_tokens_field = "max_tokens";
        }
        if self.traits.refuses_tools_on_chat {
            dialect.tools_and_reasoning = ToolsAndReasoning::OneOrTheOther;
            tracing::warn!(
                model = %config.model,
                "on Chat Completions this model does not reason where tools are on offer: set api = \"responses\""
            );
        }
        dialect
    }
}
