//! `[agents.NAME]`: what answers a request, or works for another agent: what it is told, what it may use, how it behaves.

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
    /// Nothing in it lets an agent do more than the mode and the channel of a request let it: of limits the tightest counts,
    /// of tools those that are on offer anyway.
    pub struct AgentConfig {
        /// What it is told first; nothing if empty, and what its channel says if left out.
        pub instructions: Option<String>,
        /// What it is for, told to the agents that may call it.
        pub description: Option<String>,
        /// The role that serves it, where mode and models allow; that of the channel if left out.
        pub role: Option<Role>,
        /// The sampling temperature, from 0 to 2; that of the mode if left out.
        pub temperature: Option<f32>,
        /// The most tokens of one reply; that of the mode if it is smaller or this is left out.
        pub max_output_tokens: Option<u32>,
        /// Patterns of the names of the tools that it uses of those on offer; all of them if left out.
        pub tools: Option<Vec<String>>,
        /// The agents that it may call, each by a tool.
        pub agents: Option<Vec<AgentName>>,
        /// The name of the tool by which others call it; its own name if left out.
        pub tool_name: Option<ToolName>,
        /// The name of the list that its tool takes, such as `topics`: one agent works on each item. Left out, its tool takes
        /// one task.
        pub fan_out: Option<String>,
        /// How its run begins, where its channel does not say; directly if left out, and where it
        /// is not offered the tool that gathers.
        pub opening: Option<OpeningConfig>,
        /// Which calls of one reply run at the same time; `auto` if left out.
        pub parallel: Option<Parallel>,
        /// What an unknown tool leads to; `retry` if left out.
        pub unknown_tool: Option<UnknownTool>,
        /// Whether a failed call ends the run; the model is told of it and goes on if left out.
        pub stop_on_error: Option<bool>,
        /// What a reached limit leads to; `last_answer` if left out.
        pub limit_reached: Option<LimitReached>,
        /// What a reply without calls leads to; it is the answer if left out.
        pub no_calls: Option<NoCallsConfig>,
        /// In which turns its tools may be called; `always` if left out.
        pub offer: Option<Offer>,
        /// Whether its first turn must call a tool, or none may; as the model sees fit if left out.
        pub tool_choice: Option<ToolChoice>,
        /// The role that serves its first turn, where it is another.
        pub first_role: Option<Role>,
        /// The role that serves the turns that read results of calls, where it is another.
        pub after_calls_role: Option<Role>,
        /// The tools whose result is the answer.
        pub stop_after: Option<Vec<ToolName>>,
        /// What the results of single tools change, by the name of the tool.
        pub results: BTreeMap<ToolName, ResultConfig>,
        /// Whether arguments that small models often get wrong are put right before they are checked.
        pub lenient_arguments: Option<bool>,
        /// A turn that brought more results than this adds a short prompt to digest them; none does if left out.
        pub digest_after: Option<u32>,
        /// What becomes of the links in its answer; `free` if left out.
        pub citations: Option<Citations>,
        /// What takes the place of messages that no longer fit; a summary that the router makes if left out.
        pub compaction: Option<CompactionConfig>,
        /// When the same call again and again is too much.
        pub repeats: RepeatsConfig,
        /// The form of its answer; any text is one if left out.
        pub answer: AnswerConfig,
        /// Whose usage its outcome tells, its own or that of the agents that it called, too; `with_agents` if left out.
        pub usage: Option<UsageScope>,
        /// What of its content may be stored, where the channel lets it be.
        pub data: DataConfig,
        /// How many of the agents that it called work at the same time; 5 if left out.
        pub parallel_agents: Option<u32>,
        /// How often a failed call is made again; no more often than the mode says.
        pub tool_retries: Option<u32>,
        /// The most tokens of context that it uses of what its model has.
        pub context_tokens: Option<u64>,
    }
}

impl AgentConfig {
    /// Returns how many agents it may start, and how deep, where nothing governs it: what it sets itself, or the loop's own
    /// defaults.
    #[must_use]
    pub fn agent_limits(&self) -> AgentLimits {
        let default = AgentLimits::default();
        AgentLimits {
            depth: self.max_agent_depth.unwrap_or(default.depth),
            total: self.max_agents.unwrap_or(default.total),
        }
    }

    /// Returns the roles that the agent names: for its turns, for what is gathered and for what is summed up.
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
        /// The most characters of a result that the model reads; the record holds it whole.
        pub max_chars: Option<u32>,
        /// Whether later history keeps the result or its summary, whatever the tool says.
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
        /// The JSON Schema, of an object: as a table, or as a text that holds it.
        #[serde(deserialize_with = "schema_text")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub schema: Option<JsonText>,
        /// The file that holds the schema, in its place. A relative one counts from the file that names it. Whoever merges the
        /// configuration reads it.
        pub file: Option<String>,
        /// What models and providers see as its name; the schema's `title` if left out.
        pub name: Option<String>,
        /// How often the model is asked again whose answer does not fit; 2 if left out.
        pub retries: Option<u32>,
    }
}

/// Reads a schema as the text that it is, or writes the table that it is as JSON.
fn schema_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonText>, D::Error> {
    let text = match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => Ok(JsonText::from_text(text)),
        table => JsonText::encode(&table),
    };
    text.map(Some).map_err(serde::de::Error::custom)
}

section! {
    /// `[agents.NAME.repeats]`: when the same call, with the same arguments, in one turn after the other is too much.
    pub struct RepeatsConfig {
        /// From so many turns in a row the model is warned; 0 for never; 2 if left out.
        pub warn: Option<u32>,
        /// In this turn the call is not run any more; 0 for never; 3 if left out.
        pub stop: Option<u32>,
    }
}

/// What a reply without calls leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoCallsConfig {
    /// The end: its text is the answer.
    Finish,
    /// Another turn: for agents that are to deliver through a tool.
    Remind(RemindConfig),
}

word_or_table!(NoCallsConfig: "finish" => Finish, remind: RemindConfig => Remind);

/// What an agent is told that was to call a tool and did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RemindConfig {
    /// What it is told.
    pub prompt: String,
    /// How often; after that, the text is the answer.
    pub at_most: u32,
}

/// What takes the place of messages that no longer fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionConfig {
    /// Nothing.
    Drop,
    /// A summary that a model makes of them.
    Summarize(SummarizeConfig),
}

word_or_table!(CompactionConfig: "drop" => Drop, summarize: SummarizeConfig => Summarize);

/// Who sums up what no longer fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SummarizeConfig {
    /// The role that makes the summary.
    pub role: Role,
}
