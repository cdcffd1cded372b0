//! The specification of a run and of its agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::citations::{Citations, Source};
use crate::decision::{Decision, SelfCheck};
use crate::effect::{Purpose, ReplyFormat, ToolChoice};
use crate::finish::FinishReason;
use crate::ids::{PlanName, Role, RunId, SessionId, ToolName, Turn};
use crate::json::{ContentHash, JsonText, is_default};
use crate::limits::{AgentLimits, Limits};
use crate::message::Message;
use crate::profile::{DataPolicy, Opening, Profile, TurnRoles};
use crate::tool::ToolSpec;
use crate::tool_search::ToolSearch;
use crate::trace::TraceContext;

/// Everything a run is started with, except the history it continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunSpec {
    /// The run's id.
    pub run_id: RunId,
    /// The session it belongs to; a run without one is stateless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The messages that this run adds to the history, normally one user message; empty for a fork. If there are
    /// messages of other kinds, a client supplies its own copy of the conversation, or the results of calls that
    /// were handed over to it.
    pub messages: Vec<Arc<Message>>,
    /// The agent that answers the user.
    pub root: AgentSpec,
    /// The agent that each tool of kind `Agent` starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<ToolName, AgentSpec>,
    /// How many sub-agents the run may have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent_limits: AgentLimits,
    /// What happens to calls that the caller must run.
    #[serde(default)]
    pub client_tools: ClientTools,
    /// The run that this one branched off from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkPoint>,
    /// The folder that its tools work in, if they work on files. A process that resumes the run uses the same folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<Arc<str>>,
    /// The pages that were read earlier in the session. An answer may cite them if its citations are checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// Values that the program gave with the request to be stored, by name: for the program's own code, and never read
    /// by a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<Arc<str>, JsonText>,
    /// The plan whose budgets apply. A process that resumes the run enforces what is left of the plan's daily budget at
    /// that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanName>,
    /// The trace that it is part of and the span that requested it, if the request came with one or traces are
    /// recorded. If the request came with none, the span is the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// What governance decided. It has a separate record, directly after the first one.
    #[serde(skip)]
    pub decision: Option<Arc<Decision>>,
    /// The end of the root agent's system prompt, if a client supplied it: what a data policy withholds of the prompt.
    /// The rest is the deployment's own. Not stored.
    #[serde(skip)]
    pub client_instructions: Option<Arc<str>>,
    /// The hash of the policy that decided, if it is known without the decision. It is stored beside the spec.
    #[serde(skip)]
    pub(crate) policy_hash: Option<ContentHash>,
}

impl RunSpec {
    /// Creates the spec of a run that adds the given messages.
    pub fn new(
        run_id: RunId,
        messages: impl IntoIterator<Item = Message>,
        root: AgentSpec,
    ) -> Self {
        Self {
            run_id,
            session_id: None,
            messages: messages.into_iter().map(Arc::new).collect(),
            root,
            agents: BTreeMap::new(),
            agent_limits: AgentLimits::default(),
            client_tools: ClientTools::default(),
            forked_from: None,
            folder: None,
            sources: Vec::new(),
            context: BTreeMap::new(),
            plan: None,
            trace: None,
            decision: None,
            client_instructions: None,
            policy_hash: None,
        }
    }

    /// Names what the data policies of the run keep out of its log, if anything: such a log can be read, but neither
    /// replayed nor resumed.
    #[must_use]
    pub fn withheld(&self) -> Option<&'static str> {
        let policy = self.data_policy();
        let kinds = [
            (policy.text, "text"),
            (policy.tool_calls, "the arguments of calls"),
            (policy.tool_results, "the results of calls"),
            (policy.reasoning, "reasoning"),
        ];
        let missing = kinds.into_iter().find(|(is_stored, _)| !is_stored);
        missing.map(|(_, what)| what)
    }

    /// Returns the text of the user's message, the last one if there are several; `None` if there is no such message.
    #[must_use]
    pub fn user_text(&self) -> Option<String> {
        let mut messages = self.messages.iter().rev();
        let message = messages.find(|message| matches!(***message, Message::User { .. }))?;
        Some(message.text())
    }

    /// Returns all agents that the run may have, starting with the one that answers the user.
    pub fn all_agents(&self) -> impl Iterator<Item = &AgentSpec> {
        std::iter::once(&self.root).chain(self.agents.values())
    }

    /// Returns the agent that calls of a tool start; without a tool, the agent that answers the user.
    pub(crate) fn agent(&self, tool: Option<&ToolName>) -> &AgentSpec {
        tool.and_then(|tool| self.agents.get(tool))
            .unwrap_or(&self.root)
    }

    /// Returns what may be stored of the run: only what all of its agents allow.
    #[must_use]
    pub fn data_policy(&self) -> DataPolicy {
        let policies = self.all_agents().map(|agent| agent.profile.data);
        policies.fold(DataPolicy::ALL, DataPolicy::and)
    }
}

/// An agent: its behavior, its instructions, and what it may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AgentSpec {
    /// How it behaves in the loop.
    pub profile: Profile,
    /// The role that serves it.
    pub role: Role,
    /// Its system prompt, sent first unless its history begins with a system message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<Arc<str>>,
    /// The tools it may call, in the order in which every request lists them, unless it [searches](Self::search) them.
    pub tools: Arc<[ToolSpec]>,
    /// Which of its tools its requests contain, and how others join; `None` means all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<ToolSearch>,
    /// The tools that it would also be offered if they fitted its model's context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<ToolName>,
    /// Its limits, already narrowed by governance.
    pub limits: Limits,
    /// Maximum number of tokens in one reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The context size of its model in tokens, if known: the conversation is kept within it (loop rule 13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The context size, in tokens, of the model that summarizes what no longer fits, if it is no larger than its own:
    /// that model is given no more than fits there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_context_tokens: Option<u64>,
    /// Whether its first turn must call a tool (later turns are free to), or no turn may (loop rule 18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The required form of its replies' text.
    #[serde(default, skip_serializing_if = "ReplyFormat::is_text")]
    pub reply_format: ReplyFormat,
    /// The rule for an answer that must have a form; without one, any text is an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerRule>,
    /// The argument of its tool that contains a list, with one agent per item; the results form one array in that
    /// order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<String>,
    /// Whether the earlier conversation is summarized before its first model call even if it would fit (loop rule 13).
    /// Without a usable summary it stays as it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compact_first: bool,
    /// Whether reasoning before the last user message is sent to none of its models again, and so takes none of their
    /// context (loop rule 13).
    #[serde(default, skip_serializing_if = "is_default")]
    pub drops_reasoning: bool,
}

impl AgentSpec {
    /// Creates an agent with default limits and no tools.
    #[must_use]
    pub fn new(profile: Profile, role: Role) -> Self {
        Self {
            profile,
            role,
            system_prompt: None,
            tools: Arc::default(),
            search: None,
            left_out: Vec::new(),
            limits: Limits::default(),
            max_output_tokens: None,
            temperature: None,
            context_tokens: None,
            summary_context_tokens: None,
            tool_choice: None,
            reply_format: ReplyFormat::Text,
            answer: None,
            fan_out: None,
            compact_first: false,
            drops_reasoning: false,
        }
    }

    /// Returns the roles that it names for its turns: its own first, then those of specific turns and the one that
    /// chooses what is gathered. The summarizing role is not included, because it never reads the conversation as a
    /// whole.
    pub fn turn_roles(&self) -> impl Iterator<Item = &Role> {
        let TurnRoles { first, after_calls } = &self.profile.roles;
        let gathers = match &self.profile.opening {
            Opening::Gather { role, .. } => Some(role),
            Opening::Direct => None,
        };
        let others = [first.as_ref(), after_calls.as_ref(), gathers];
        std::iter::once(&self.role).chain(others.into_iter().flatten())
    }

    /// Returns the tool that delivers the answer, if there is one.
    #[must_use]
    pub fn delivering_tool(&self) -> Option<&ToolSpec> {
        let name = self.answer.as_ref()?.tool.as_ref()?;
        self.tool(name.as_str())
    }

    /// Returns whether a tool of this name delivers the answer.
    #[must_use]
    pub fn is_delivered_by(&self, tool: &str) -> bool {
        let delivers = self.answer.as_ref().and_then(|rule| rule.tool.as_ref());
        delivers.is_some_and(|name| name.as_str() == tool)
    }

    /// Returns whether the citations of its answer are checked; an answer with a required form is left as it is.
    #[must_use]
    pub fn cites(&self) -> bool {
        let is_text = self.answer.is_none() && self.reply_format.is_text();
        self.profile.citations == Citations::Checked && is_text
    }

    /// Returns whether citations are checked in an answer with this finish reason.
    pub(crate) fn checks_citations(&self, reason: &FinishReason) -> bool {
        let is_answer = matches!(reason, FinishReason::Stop | FinishReason::Length);
        self.cites() && (is_answer || reason.ends_at_a_limit())
    }

    /// Returns whether a user reads the replies of such model calls as they stream: a mere draft is shown only once it
    /// is final.
    #[must_use]
    pub fn is_read_along(&self, purpose: Purpose, self_check: Option<&SelfCheck>) -> bool {
        match purpose {
            Purpose::Turn => !self.cites() && self.checked_by(self_check).is_none(),
            Purpose::LastAnswer => !self.cites(),
            _ => false,
        }
    }

    /// Returns the check of its draft, if the draft can be checked: a correction would not have the required form.
    pub(crate) fn checked_by<'a>(
        &self,
        self_check: Option<&'a SelfCheck>,
    ) -> Option<&'a SelfCheck> {
        self_check.filter(|_| self.reply_format.is_text() && self.answer.is_none())
    }

    /// Returns the JSON Schema that the answer must conform to, if any: the parameters of the tool that delivers it,
    /// otherwise the schema of the [`reply_format`](Self::reply_format).
    #[must_use]
    pub fn answer_schema(&self) -> Option<&JsonText> {
        match (self.delivering_tool(), &self.reply_format) {
            _ if self.answer.is_none() => None,
            (Some(tool), _) => Some(&tool.parameters),
            (None, ReplyFormat::JsonSchema { schema, .. }) => Some(schema),
            (None, ReplyFormat::Text) => None,
        }
    }
}

/// How an agent gives an answer that has a form, and how often it may try.
///
/// The form itself is defined where the model sees it: in the parameters of the tool, or in the agent's
/// [`reply_format`](AgentSpec::reply_format). A driver checks the answer, since the machine does not evaluate schemas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AnswerRule {
    /// The tool whose arguments are the answer. For agents that also call other tools: many servers do not let a model
    /// call tools while its replies must have a form. The tool changes nothing, and its calls count toward no limit on
    /// tool calls. Without one, the text of a reply is the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// How often the model is asked again after an answer is rejected. After that, the agent ends with
    /// [`FinishReason::InvalidAnswer`](crate::FinishReason::InvalidAnswer).
    pub retries: u32,
}

impl AnswerRule {
    /// The default number of times a model is asked again: an answer that is still invalid then mostly stays so.
    pub const RETRIES: u32 = 2;

    /// Creates the rule for an answer that is the text of a reply.
    #[must_use]
    pub const fn text(retries: u32) -> Self {
        let tool = None;
        Self { tool, retries }
    }

    /// Creates the rule for an answer that a tool delivers.
    #[must_use]
    pub const fn tool(tool: ToolName, retries: u32) -> Self {
        let tool = Some(tool);
        Self { tool, retries }
    }
}

/// What happens to calls of tools that the caller runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientTools {
    /// The run waits for their results.
    #[default]
    Wait,
    /// The run ends and hands them over: the one exception to a history in which every call has its result.
    HandOver,
}

/// Where a run branched off from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForkPoint {
    /// The other run.
    pub run_id: RunId,
    /// The last turn that both runs share.
    pub turn: Turn,
}
