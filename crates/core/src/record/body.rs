//! The kinds of records and their contents.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de};

use crate::citations::Source;
use crate::decision::{AskCause, Decision, GrantScope, RuleRef};
use crate::duration;
use crate::effect::{AskApproval, Purpose};
use crate::error::LlmError;
use crate::finish::{AgentAtLimit, RunOutcome};
use crate::ids::{AgentId, Attempt, CallIndex, EffectId, Role, RunId, SessionId, ToolCallId};
use crate::input::{Advised, ApprovalDecided, Cancelled, NextAttempt, Resumed, Steered, Vetted};
use crate::json::{ContentHash, JsonText, embedded, is_default, optional_embedded};
use crate::limits::MicroUsd;
use crate::message::{MediaPart, Message, ModelRef};
use crate::outcome::{Keep, ToolFailure, ToolSignal};
use crate::reply::Reply;
use crate::spec::RunSpec;
use crate::tool::{ToolClass, ToolKind};
use crate::transcript::PrefixDigest;
use crate::usage::CountLabel;

use super::addressed;

/// Defines the enum of bodies and the lookup by type name.
macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($content:ty) = $kind:literal;)*) => {
        /// The content of a record, by its `type`.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "type")]
        #[non_exhaustive]
        pub enum RecordBody {
            $($(#[$doc])* #[serde(rename = $kind)] $variant($content),)*
        }

        impl RecordBody {
            /// Returns the name of the record's type.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            pub(super) fn from_json(kind: &str, text: &str) -> Result<Self, serde_json::Error> {
                match kind {
                    $($kind => serde_json::from_str(text).map(Self::$variant),)*
                    other => Err(de::Error::custom(format_args!("unknown record type {other:?}"))),
                }
            }
        }
    };
}

bodies! {
    /// The run began. Always the first record.
    RunStarted(Box<RunStarted>) = "run_started";
    /// What governance decided about the request. Directly after `run_started`, if there is a decision.
    Decision(Arc<Decision>) = "decision";
    /// A model call returned a reply.
    LlmCall(Box<LlmCall>) = "llm_call";
    /// An attempt of a model call failed.
    LlmFailed(Box<LlmFailed>) = "llm_failed";
    /// A batch of calls was checked.
    Verdict(Box<Vetted>) = "verdict";
    /// A tool call is about to run.
    ToolCall(Box<ToolCallStarted>) = "tool_call";
    /// An attempt of a tool call failed, and another follows.
    ToolFailed(Box<ToolCallFailed>) = "tool_failed";
    /// A tool call has its result.
    ToolResult(Box<ToolResult>) = "tool_result";
    /// The session's plan has changed.
    Plan(Box<PlanChanged>) = "plan";
    /// Part of the work was summarized.
    Summary(Box<Summarized>) = "summary";
    /// Something went wrong, but the run continues.
    Warning(Box<Warning>) = "warning";
    /// A user must decide about a call.
    ApprovalRequested(Box<ApprovalRequested>) = "approval_requested";
    /// A user decided about a call, or the time to decide ran out.
    ApprovalDecided(Box<ApprovalDecided>) = "approval_decided";
    /// The embedder's hook answered.
    Advised(Box<Advised>) = "advised";
    /// A message arrived for the run in progress.
    #[serde(serialize_with = "addressed::steered")]
    Steered(Box<Steered>) = "steered";
    /// The turn limit was reached while the loop would have continued.
    MaxTurnsReached(Box<MaxTurnsReached>) = "max_turns_reached";
    /// The model was asked for its last answer.
    MaxTurnsPromptInjected(Box<MaxTurnsPromptInjected>) = "max_turns_prompt_injected";
    /// The loop itself sent the model a message.
    PromptInjected(Box<PromptInjected>) = "prompt_injected";
    /// Messages were left out to make the conversation fit.
    ContextTrimmed(Box<ContextTrimmed>) = "context_trimmed";
    /// The history was invalid on arrival and was repaired.
    HistoryRepaired(Box<HistoryRepaired>) = "history_repaired";
    /// A role other than the requested one serves the run.
    RoleDowngraded(Box<RoleDowngraded>) = "role_downgraded";
    /// A larger role or a user takes over after consecutive failures.
    Escalated(Box<Escalated>) = "escalated";
    /// A limit other than the turn limit was reached.
    LimitReached(Box<LimitReachedRecord>) = "limit_reached";
    /// The run cannot continue without input from outside.
    Waiting(Box<Waiting>) = "waiting";
    /// A process resumed the run.
    Resumed(Box<Resumed>) = "resumed";
    /// A request to end the run.
    #[serde(serialize_with = "addressed::cancelled")]
    Cancelled(Box<Cancelled>) = "cancelled";
    /// An agent ended; if it is the root agent, the run ended.
    Final(Box<RunOutcome>) = "final";
    /// The run ended without an answer.
    RunFailed(Box<RunOutcome>) = "run_failed";
}

/// The run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStarted {
    /// The version of the rules it follows.
    pub loop_version: u32,
    /// The session, repeated for readers that do not parse the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The hash of the policy that governs it, so that a policy change is visible; `None` if no governance applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<ContentHash>,
    /// The history it continues: the number of messages and their chained hash.
    pub history: PrefixDigest,
    /// The spec it was started with.
    pub spec: Arc<RunSpec>,
}

/// A model call returned a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LlmCall {
    /// The effect that requested it.
    pub effect_id: EffectId,
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// Its purpose.
    pub purpose: Purpose,
    /// The requested role.
    pub role: Role,
    /// The role that served it.
    pub served_by: Role,
    /// Why a role other than the requested one served it, unless this follows from configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// What was sent before the new messages: the number of messages and their chained hash.
    pub prefix: PrefixDigest,
    /// The results among the new messages, in order; their own records contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ToolCallId>,
    /// The other new messages, which follow the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Arc<Message>>,
    /// The reply.
    pub reply: Arc<Reply>,
    /// Its cost, if prices are known.
    #[serde(
        default,
        rename = "cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<MicroUsd>,
    /// How the cost was determined; measured if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_label: CountLabel,
    /// How long it took.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub duration: Duration,
    /// How long its first delta took, if it was streamed.
    #[serde(
        default,
        rename = "first_delta_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub first_delta: Option<Duration>,
}

/// An attempt of a model call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LlmFailed {
    /// The effect that requested it.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// Its purpose.
    pub purpose: Purpose,
    /// The requested role.
    pub role: Role,
    /// The role that failed.
    pub served_by: Role,
    /// Why a role other than the requested one was called, unless this follows from configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// Set if the role is degraded from now on: the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// The provider's or the connection's error.
    pub error: LlmError,
    /// Whether another attempt follows.
    pub next: NextAttempt,
    /// Its cost, if prices are known and the provider reported the usage.
    #[serde(
        default,
        rename = "cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<MicroUsd>,
    /// How the cost was determined; measured if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_label: CountLabel,
    /// The model that was called, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelRef>>,
    /// How long it took.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub duration: Duration,
}

/// A tool call is about to run: its entry in the effect journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallStarted {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// The call's position in its reply.
    pub index: CallIndex,
    /// The effect that runs it: its idempotency key.
    pub effect_id: EffectId,
    /// The number of this attempt, from 1.
    pub attempt: Attempt,
    /// The final arguments.
    pub arguments: JsonText,
    /// The hash of their exact bytes.
    pub arguments_hash: ContentHash,
    /// What it may change.
    pub class: ToolClass,
    /// Who runs it.
    #[serde(default)]
    pub kind: ToolKind,
    /// Who requested it.
    #[serde(default)]
    pub origin: Origin,
    /// The agents it starts, if it starts any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentId>,
}

/// Who requested a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The model.
    #[default]
    Model,
    /// The policy, because the model should have called the tool and did not.
    Policy,
}

/// An attempt of a tool call failed, and another follows: the call has no result yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallFailed {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// The call's position in its reply.
    pub index: CallIndex,
    /// The effect that runs it, in this attempt and the next.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// Whether the tool failed, took too long, panicked or was stopped.
    pub failure: ToolFailure,
    /// What the tool reported, in the form of a result.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub value: JsonText,
    /// How long it ran.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub duration: Duration,
}

/// A tool call has its result, whether it ran or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolResult {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The call's position in its reply.
    pub index: CallIndex,
    /// The effect that ran it; `None` for a call that did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<EffectId>,
    /// The attempt that ended, for a call that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// Whether it returned a value.
    pub status: ToolStatus,
    /// The value; `{"error": "…"}` if there is none.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub value: JsonText,
    /// Why it returned none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ToolFailure>,
    /// What later history keeps of it, if not the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Whether later history keeps the value.
    #[serde(default)]
    pub keep: Keep,
    /// Images and files that the tool returned beside the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaPart>,
    /// Additional information for users and programs.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "optional_embedded"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub metadata: Option<JsonText>,
    /// What the result means to the loop beyond its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<ToolSignal>,
    /// The pages that were read for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// It is untrusted content: from now on the conversation may contain third-party text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub untrusted: bool,
    /// One of the program's hooks replaced what the tool returned, which is not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rewritten: bool,
    /// The sub-agents of the call that a limit ended. Logs of loop versions before 4 do not say this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents_at_limit: Vec<AgentAtLimit>,
    /// How long it ran.
    #[serde(
        default,
        rename = "duration_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub duration: Option<Duration>,
    /// Who sent it, if a client ran the tool and that is known: a note, not proof of identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Whether a call returned a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The result is the tool's value.
    Done,
    /// The result describes what went wrong.
    Error,
}

/// The session's plan has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanChanged {
    /// The call that changed it.
    pub tool_call_id: ToolCallId,
    /// The plan: a `Plan`, unless another tool than `update_plan` left it or a data policy keeps it out of the log.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::log::RecordedPlan"))]
    pub plan: JsonText,
}

/// Part of the work was summarized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summarized {
    /// The summary.
    pub text: String,
}

/// Something went wrong, but the run continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warning {
    /// What went wrong, in a form that code can act on.
    pub code: String,
    /// What went wrong, for users.
    pub message: String,
}

impl Warning {
    /// The code for a failed tool that the model continued without. It matters for diagnosing a run, but not to the
    /// reader of its answer.
    pub const TOOL_NOT_RETRIED: &'static str = "tool_not_retried";
}

/// A user must decide about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalRequested {
    /// The effect that asks.
    pub effect_id: EffectId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// Exactly what would run.
    pub arguments: JsonText,
    /// The hash that the approval is bound to.
    pub arguments_hash: ContentHash,
    /// Why a user must decide, for users.
    pub reason: String,
    /// The reasons, for programs: what requires the approval, each kind once; empty if unknown, as in logs of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<AskCause>,
    /// The rule that requires it; `None` if a mode does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// What may be remembered of an approval for the session, narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<GrantScope>,
    /// When the question closes; `None` if it stays open indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl ApprovalRequested {
    /// Returns an id for the question in 16 hexadecimal digits, derived from the run, the call and the arguments that
    /// would run: an answer that uses it answers this question and no other.
    #[must_use]
    pub fn question(&self, run: RunId) -> String {
        let of_call = ContentHash::of(self.tool_call_id.as_str().as_bytes());
        let hash = ContentHash::of(run.0.as_bytes());
        let of_tool = ContentHash::of(self.name.as_bytes());
        let hash = hash.chain(of_call).chain(of_tool);
        let hash = hash.chain(self.arguments.hash());
        let mut name = hash.to_string();
        name.truncate(16);
        name
    }

    /// Returns the approval request on behalf of an agent.
    #[must_use]
    pub fn ask(&self, agent: AgentId) -> AskApproval {
        AskApproval {
            effect_id: self.effect_id,
            agent,
            tool_call_id: self.tool_call_id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            arguments_hash: self.arguments_hash,
            reason: self.reason.clone(),
            rule: self.rule.clone(),
            choices: self.choices.clone(),
            expires_at: self.expires_at,
        }
    }

    /// Returns whether the arguments match the recorded hash.
    #[must_use]
    pub fn fits_its_hash(&self) -> bool {
        self.arguments.hash() == self.arguments_hash
    }
}

/// The turn limit was reached while the loop would have continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaxTurnsReached {
    /// The number of turns that counted.
    pub turns: u32,
    /// The text so far.
    pub content: String,
}

/// The model was asked for its last answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaxTurnsPromptInjected {
    /// The system message that asks for it.
    pub message: String,
}

/// The loop itself sent the model a message: a system message after the results of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptInjected {
    /// Why the loop sent it.
    pub reason: PromptReason,
    /// The system message.
    pub message: String,
}

/// Why the loop sent the model a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptReason {
    /// Many results arrived together (loop rule 13).
    DigestResults,
    /// The same call is repeated (loop rule 14).
    RepeatedCalls,
    /// The profile has a note on a tool's result.
    ResultRule,
    /// The reply made no call, and the profile requires one.
    NoCalls,
    /// A check rejected a draft, and a larger role should answer.
    DraftCorrected,
    /// The answer was rejected, or a message arrived before it was given: the model should answer again.
    AnswerAgain,
}

/// Messages were left out to make the conversation fit (loop rule 13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextTrimmed {
    /// The number of messages that were removed.
    pub messages: u64,
    /// The estimated number of tokens by which the conversation shrank.
    pub tokens: u64,
    /// The positions they had in the conversation, not counting the system prompt, oldest first.
    pub removed: Vec<Span>,
    /// Results that were replaced by their summaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<ToolCallId>,
    /// The positions of the model's messages that stay but lost their reasoning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_reasoning: Vec<Span>,
    /// A user message that replaces the first of the removed messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A range of positions in a list, excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// The first position.
    pub start: u64,
    /// The position after the last.
    pub end: u64,
}

impl Span {
    pub(crate) fn contains(&self, place: usize) -> bool {
        u64::try_from(place).is_ok_and(|place| (self.start..self.end).contains(&place))
    }
}

/// The history was invalid on arrival and was repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryRepaired {
    /// The repairs, one sentence each.
    pub repairs: Vec<String>,
}

/// A role other than the requested one serves a call, because the requested one is degraded or just failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleDowngraded {
    /// The requested role.
    pub from: Role,
    /// The role that serves.
    pub to: Role,
    /// The error of the requested role, or since when it is degraded.
    pub reason: String,
    /// How many messages of the conversation are not sent to it in this call, because its context is smaller. They are
    /// left out of this call only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub left_out: u64,
}

/// A larger role or a user takes over after consecutive failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Escalated {
    /// The number of consecutive failures.
    pub failures: u32,
    /// The larger role; `None` for a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The question to the user: it ends the answer, and is a separate message in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// A limit other than the turn limit was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitReachedRecord {
    /// The resource that was used up, such as time, tool calls or tokens.
    pub limit: LimitKind,
    /// The text so far.
    pub content: String,
    /// The system message that asks for a last answer, if this record's step asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A limit other than the turn limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// The time is up, except for the reserve for one last answer.
    DeadlineReserve,
    /// The time is up.
    Deadline,
    /// Tool calls.
    ToolCalls,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// The time limit of a session or a day.
    Time,
    /// Model calls.
    ModelCalls,
    /// Repeated calls of unknown tools.
    UnknownTools,
    /// Repeating the same call.
    RepeatedCalls,
    /// The maximum size of a run's log.
    Log,
}

/// The run cannot continue without input from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiting {
    /// What it waits for.
    pub pending: Vec<Pending>,
}

/// Something that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pending {
    /// The effect to answer.
    pub effect_id: EffectId,
    /// The call it is about.
    pub tool_call_id: ToolCallId,
    /// The kind of input that must arrive.
    pub kind: PendingKind,
    /// When the run stops waiting for it; `None` if it waits indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What a run is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// A user's decision.
    Approval,
    /// The result of a tool that the caller runs.
    ClientTool,
}
