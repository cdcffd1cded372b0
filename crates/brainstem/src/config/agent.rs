//! `[agents.NAME]`: an agent that answers requests or works for another agent: its instructions, tools and behavior.

use std::collections::BTreeMap;

use neuraxis_core::{
    AgentLimits, AgentName, Citations, JsonText, Keep, LimitReached, Offer, Parallel, Role,
    ToolChoice, ToolName, UnknownTool, UsageScope,
};
use serde::{Deserialize, Deserializer, Serialize};

use super::channel::{DataConfig, OpeningConfig};
use super::section::{section, section_with_limits, word_or_table};

section_with_limits! {
    /// `[agents.NAME]`: an agent. May also set limits.
    ///
    /// No setting lets an agent do more than the mode and the channel of a request allow: the tightest limits apply,
    /// and only tools that are on offer anyway.
    pub struct AgentConfig {
        /// Its first instructions; none if empty, and those of its channel if omitted.
        pub instructions: Option<String>,
        /// What it is for; shown to the agents that may call it.
        pub description: Option<String>,
        /// The role that serves it, if mode and models allow it. Defaults to that of the channel.
        pub role: Option<Role>,
        /// The sampling temperature, from 0 to 2. Defaults to that of the mode.
        pub temperature: Option<f32>,
        /// The maximum number of tokens of one reply. Defaults to that of the mode, which also caps it.
        pub max_output_tokens: Option<u32>,
        /// Name patterns of the tools that it uses, among those on offer. Defaults to all of them.
        pub tools: Option<Vec<String>>,
        /// The agents that it may call, each through a tool.
        pub agents: Option<Vec<AgentName>>,
        /// The name of the tool that other agents call it with. Defaults to its own name.
        pub tool_name: Option<ToolName>,
        /// The name of the list that its tool takes, such as `topics`: one agent works on each item. If omitted, its
        /// tool takes one task.
        pub fan_out: Option<String>,
        /// How its run starts if its channel does not say. If omitted, or if the tool that gathers is not on offer, it
        /// starts directly.
        pub opening: Option<OpeningConfig>,
        /// Which calls of one reply run at the same time. Defaults to `auto`.
        pub parallel: Option<Parallel>,
        /// What happens if the model calls an unknown tool. Defaults to `retry`.
        pub unknown_tool: Option<UnknownTool>,
        /// Whether a failed call ends the run. By default, the model is told about the failure and continues.
        pub stop_on_error: Option<bool>,
        /// What happens at a limit. Defaults to `last_answer`.
        pub limit_reached: Option<LimitReached>,
        /// What happens after a reply without calls. By default, the reply is the answer.
        pub no_calls: Option<NoCallsConfig>,
        /// In which turns it may call tools. Defaults to `always`.
        pub offer: Option<Offer>,
        /// Whether its first turn must call a tool, or no turn may. By default, the model decides.
        pub tool_choice: Option<ToolChoice>,
        /// The role that serves its first turn, if it differs.
        pub first_role: Option<Role>,
        /// The role that serves the turns that read tool results, if it differs.
        pub after_calls_role: Option<Role>,
        /// The tools whose result is the answer.
        pub stop_after: Option<Vec<ToolName>>,
        /// What the results of single tools change, by tool name.
        pub results: BTreeMap<ToolName, ResultConfig>,
        /// Whether to fix mistakes in arguments that small models often make, before checking them.
        pub lenient_arguments: Option<bool>,
        /// A turn with more results than this adds a short prompt to digest them. Off if omitted.
        pub digest_after: Option<u32>,
        /// How to treat the links in its answer. Defaults to `free`.
        pub citations: Option<Citations>,
        /// What replaces messages that no longer fit. Defaults to a summary by the router.
        pub compaction: Option<CompactionConfig>,
        /// When repeating the same call is too much.
        pub repeats: RepeatsConfig,
        /// The form of its answer. By default, any text.
        pub answer: AnswerConfig,
        /// Whose usage its outcome reports: only its own, or also that of the agents that it called. Defaults to
        /// `with_agents`.
        pub usage: Option<UsageScope>,
        /// Which of its content may be stored, if the channel allows storing it.
        pub data: DataConfig,
        /// How many of the agents that it called may work at the same time. Defaults to 5.
        pub parallel_agents: Option<u32>,
        /// How often a failed call is retried; at most as often as the mode says.
        pub tool_retries: Option<u32>,
        /// The maximum number of context tokens that it uses of its model's context.
        pub context_tokens: Option<u64>,
    }
}

impl AgentConfig {
    /// Returns how many agents it may start, and how deep, if nothing governs it: its own settings, or the loop's
    /// defaults.
    #[must_use]
    pub fn agent_limits(&self) -> AgentLimits {
        let default = AgentLimits::default();
        AgentLimits {
            depth: self.max_agent_depth.unwrap_or(default.depth),
            total: self.max_agents.unwrap_or(default.total),
        }
    }

    /// Returns the roles that the agent names for its turns, for gathering and for summaries.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        let summarizes = match &self.compaction {
            Some(CompactionConfig::Summarize(by)) => Some(&by.role),
            _ => None,
        };
        let gathers = self.opening.as_ref().and_then(OpeningConfig::role);
        let named = [&self.role, &self.first_role, &self.after_calls_role];
        let named = named.into_iter().flatten();
        named.chain(summarizes).chain(gathers)
    }
}

section! {
    /// `[agents.NAME.results.TOOL]`: what the results of a tool change.
    pub struct ResultConfig {
        /// The maximum number of characters of a result that the model reads; the record holds the whole result.
        pub max_chars: Option<u32>,
        /// Whether later history keeps the result or its summary, regardless of what the tool says.
        pub keep: Option<Keep>,
        /// Whether the next turn may or must call a tool.
        pub then: Option<ToolChoice>,
        /// What the model is told after the batch.
        pub note: Option<String>,
    }
}

section! {
    /// `[agents.NAME.answer]`: the form of its answer, JSON that fits a schema.
    pub struct AnswerConfig {
        /// The JSON Schema, of an object: as a table, or as a string that contains it.
        #[serde(deserialize_with = "schema_text")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub schema: Option<JsonText>,
        /// The file that contains the schema, instead of `schema`. A relative path counts from the file that names it.
        /// The code that merges the configuration reads the file.
        pub file: Option<String>,
        /// The name that models and providers see. Defaults to the schema's `title`.
        pub name: Option<String>,
        /// How often the model is asked again if its answer does not fit. Defaults to 2.
        pub retries: Option<u32>,
    }
}

/// Reads a schema from a string as it is, or converts a table to JSON.
fn schema_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonText>, D::Error> {
    let text = match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => Ok(JsonText::from_text(text)),
        table => JsonText::encode(&table),
    };
    text.map(Some).map_err(serde::de::Error::custom)
}

section! {
    /// `[agents.NAME.repeats]`: when repeating the same call with the same arguments in consecutive turns is too much.
    pub struct RepeatsConfig {
        /// The number of turns in a row from which the model is warned; 0 for never. Defaults to 2.
        pub warn: Option<u32>,
        /// The turn in which the call is no longer run; 0 for never. Defaults to 3.
        pub stop: Option<u32>,
    }
}

/// What happens after a reply without calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoCallsConfig {
    /// The run ends; the text of the reply is the answer.
    Finish,
    /// Another turn, for agents that must deliver through a tool.
    Remind(RemindConfig),
}

word_or_table!(NoCallsConfig: "finish" => Finish, remind: RemindConfig => Remind);

/// A reminder to an agent that should have called a tool and did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RemindConfig {
    /// The text of the reminder.
    pub prompt: String,
    /// The maximum number of reminders. After that, the text of the reply is the answer.
    pub at_most: u32,
}

/// What replaces messages that no longer fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionConfig {
    /// Nothing.
    Drop,
    /// A summary that a model writes.
    Summarize(SummarizeConfig),
}

word_or_table!(CompactionConfig: "drop" => Drop, summarize: SummarizeConfig => Summarize);

/// Which role summarizes what no longer fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SummarizeConfig {
    /// The role that writes the summary.
    pub role: Role,
}
