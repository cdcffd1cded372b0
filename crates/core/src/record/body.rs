//! The kinds of records and what each holds.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de};

use crate::citations::Source;
use crate::decision::{AskCause, Decision, GrantScope, RuleRef};
use crate::duration;
use crate::effect::{AskApproval, Purpose};
use crate::error::LlmError;
use crate::finish::RunOutcome;
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

/// Defines the enum of bodies and how each is found by its type's name.
macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($content:ty) = $kind:literal;)*) => {
        /// What a record says happened, by its `type`.
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
    /// What governance decided about the request. Right after `run_started`, where there is a decision.
    Decision(Arc<Decision>) = "decision";
    /// A model call gave a reply.
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
    /// A part of the work was summed up.
    Summary(Box<Summarized>) = "summary";
    /// Something went wrong that the run survives.
    Warning(Box<Warning>) = "warning";
    /// A person has to decide about a call.
    ApprovalRequested(Box<ApprovalRequested>) = "approval_requested";
    /// A person decided about a call, or the time to decide ran out.
    ApprovalDecided(Box<ApprovalDecided>) = "approval_decided";
    /// The embedder's hook answered.
    Advised(Box<Advised>) = "advised";
    /// A message came for the run at work.
    #[serde(serialize_with = "addressed::steered")]
    Steered(Box<Steered>) = "steered";
    /// The turn limit was reached while the loop would have gone on.
    MaxTurnsReached(Box<MaxTurnsReached>) = "max_turns_reached";
    /// The model was asked for its last answer.
    MaxTurnsPromptInjected(Box<MaxTurnsPromptInjected>) = "max_turns_prompt_injected";
    /// The model was told something by the loop itself.
    PromptInjected(Box<PromptInjected>) = "prompt_injected";
    /// Messages were left out to make the conversation fit.
    ContextTrimmed(Box<ContextTrimmed>) = "context_trimmed";
    /// The history arrived broken and was repaired.
    HistoryRepaired(Box<HistoryRepaired>) = "history_repaired";
    /// Another role than the one asked for serves the run.
    RoleDowngraded(Box<RoleDowngraded>) = "role_downgraded";
    /// A larger role or a person takes over after failures in a row.
    Escalated(Box<Escalated>) = "escalated";
    /// A limit other than the turn limit was reached.
    LimitReached(Box<LimitReachedRecord>) = "limit_reached";
    /// Nothing can go on until somebody outside acts.
    Waiting(Box<Waiting>) = "waiting";
    /// A process took the run up again.
    Resumed(Box<Resumed>) = "resumed";
    /// Somebody wants the run to end.
    #[serde(serialize_with = "addressed::cancelled")]
    Cancelled(Box<Cancelled>) = "cancelled";
    /// An agent ended; for the root agent, the run did.
    Final(Box<RunOutcome>) = "final";
    /// The run ended without an answer.
    RunFailed(Box<RunOutcome>) = "run_failed";
}

/// The run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStarted {
    /// The rules it follows.
    pub loop_version: u32,
    /// The session, again, for readers that look no deeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The hash of the policy that governs it, so that a changed policy shows; none where nothing governs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<ContentHash>,
    /// The history it continues: how many messages, and their chained hash.
    pub history: PrefixDigest,
    /// What it was started with.
    pub spec: Arc<RunSpec>,
}

/// A model call gave a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LlmCall {
    /// The effect that asked for it.
    pub effect_id: EffectId,
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// What it was for.
    pub purpose: Purpose,
    /// The role that was asked for.
    pub role: Role,
    /// The role that served it.
    pub served_by: Role,
    /// Why another role served it than the one it was for, where that is no matter of configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// What was sent before the new messages: how many, and their chained hash.
    pub prefix: PrefixDigest,
    /// The results among the new messages, in order; they stand in their own records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ToolCallId>,
    /// The other new messages, which follow the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Arc<Message>>,
    /// The reply.
    pub reply: Arc<Reply>,
    /// What it cost, where prices are known.
    #[serde(
        default,
        rename = "cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<MicroUsd>,
    /// How that amount came about; measured if left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_label: CountLabel,
    /// How long it took.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub duration: Duration,
    /// How long its first delta took, where it was streamed.
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
    /// The effect that asked for it.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// What it was for.
    pub purpose: Purpose,
    /// The role that was asked for.
    pub role: Role,
    /// The role that failed.
    pub served_by: Role,
    /// Why another role was asked than the one it was for, where that is no matter of configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// That the role is degraded from now on, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// What the provider or the connection failed with.
    pub error: LlmError,
    /// Whether another attempt follows.
    pub next: NextAttempt,
    /// What it cost, where prices are known and the provider said what it used.
    #[serde(
        default,
        rename = "cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<MicroUsd>,
    /// How that amount came about; measured if left out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_label: CountLabel,
    /// The model that was asked, where there was one.
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
    /// The call's place in its reply.
    pub index: CallIndex,
    /// The effect that runs it: its idempotency key.
    pub effect_id: EffectId,
    /// How often it was tried, this time included.
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
    /// Who asked for it.
    #[serde(default)]
    pub origin: Origin,
    /// The agents it starts, if it starts any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentId>,
}

/// Who asked for a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The model.
    #[default]
    Model,
    /// Policy, where the model should have and did not.
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
    /// The call's place in its reply.
    pub index: CallIndex,
    /// The effect that runs it, in this attempt and in the next.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// Whether the tool failed, took too long, panicked or was stopped.
    pub failure: ToolFailure,
    /// What the tool said, in the form of a result.
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
    /// The call's place in its reply.
    pub index: CallIndex,
    /// The effect that ran it; none for a call that did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<EffectId>,
    /// The attempt that ended, for a call that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// Whether it gave a value.
    pub status: ToolStatus,
    /// The value; `{"error": "…"}` if it gave none.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub value: JsonText,
    /// Why it gave none.
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
    /// What people and programs may want to know beside the value.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "optional_embedded"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub metadata: Option<JsonText>,
    /// What it means to the loop beyond its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<ToolSignal>,
    /// The pages that were read for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// It is untrusted content: from now on the conversation may hold what strangers wrote.
    #[serde(default, skip_serializing_if = "is_default")]
    pub untrusted: bool,
    /// A hook of the program put it in place of what the tool returned, which is on record nowhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rewritten: bool,
    /// How long it ran.
    #[serde(
        default,
        rename = "duration_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub duration: Option<Duration>,
}

/// Whether a call gave a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The result is the tool's value.
    Done,
    /// The result says what went wrong.
    Error,
}

/// The session's plan has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanChanged {
    /// The call that changed it.
    pub tool_call_id: ToolCallId,
    /// The plan.
    #[serde(with = "embedded")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub plan: JsonText,
}

/// A part of the work was summed up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summarized {
    /// The summary.
    pub text: String,
}

/// Something went wrong that the run survives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warning {
    /// What, in a form that code can act on.
    pub code: String,
    /// What, for people.
    pub message: String,
}

impl Warning {
    /// The code of: a tool failed, and the model went on without it. It tells who looks into a run something, and somebody who
    /// reads its answer nothing.
    pub const TOOL_NOT_RETRIED: &'static str = "tool_not_retried";
}

/// A person has to decide about a call.
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
    /// The hash the approval is bound to.
    pub arguments_hash: ContentHash,
    /// Why a person has to decide, for people.
    pub reason: String,
    /// Why, for programs: what asks, each kind once; none where nobody says, as in logs of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<AskCause>,
    /// The rule that says so; none where a mode does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// What may be remembered of an approval for the session, the narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<GrantScope>,
    /// When the question is no longer open; none if it stays open for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl ApprovalRequested {
    /// Returns a name of the question in 16 hexadecimal digits, made of the run, the call and the arguments that would run:
    /// whoever answers by it answers this question and no other.
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

    /// Returns what a person is asked on behalf of an agent.
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

    /// Tells whether the arguments are those that were asked about, as far as their hash tells.
    #[must_use]
    pub fn fits_its_hash(&self) -> bool {
        self.arguments.hash() == self.arguments_hash
    }
}

/// The turn limit was reached while the loop would have gone on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaxTurnsReached {
    /// Turns that counted.
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

/// The model was told something by the loop itself: a system message after the results of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptInjected {
    /// What made the loop say it.
    pub reason: PromptReason,
    /// The system message.
    pub message: String,
}

/// Why the loop told the model something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptReason {
    /// Many results came at once (loop rule 13).
    DigestResults,
    /// The same call comes again and again (loop rule 14).
    RepeatedCalls,
    /// The profile has something to say to a tool's result.
    ResultRule,
    /// The reply made no call, and the profile wants one.
    NoCalls,
    /// A check turned a draft down, and a larger role is to answer.
    DraftCorrected,
    /// The answer was turned down, or a message came before it was given: the model is to give another.
    AnswerAgain,
}

/// Messages were left out to make the conversation fit (loop rule 13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextTrimmed {
    /// How many messages went.
    pub messages: u64,
    /// By how many tokens the conversation is estimated to have shrunk.
    pub tokens: u64,
    /// Where they stood, in the conversation before: system prompt not counted, oldest first.
    pub removed: Vec<Span>,
    /// Results that made room for their summaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<ToolCallId>,
    /// What stands in the place of the first message that went: a user message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Places in a list: from the first on, up to but without the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// The first place.
    pub start: u64,
    /// The place after the last.
    pub end: u64,
}

impl Span {
    pub(crate) fn contains(&self, place: usize) -> bool {
        u64::try_from(place).is_ok_and(|place| (self.start..self.end).contains(&place))
    }
}

/// The history arrived broken and was repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryRepaired {
    /// What was done, a sentence each.
    pub repairs: Vec<String>,
}

/// Another role than the one asked for serves a call, because that one is degraded or just failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleDowngraded {
    /// The role asked for.
    pub from: Role,
    /// The role that serves.
    pub to: Role,
    /// What the role asked for failed with, or since when it is degraded.
    pub reason: String,
    /// How many messages of the conversation it is not sent in this call, because its context is smaller: nothing of that
    /// lasts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub left_out: u64,
}

/// A larger role or a person takes over after failures in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Escalated {
    /// How many failures in a row there were.
    pub failures: u32,
    /// The larger role; `None` for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What the person is asked: it ends the answer, and stands in the history as a message of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// A limit other than the turn limit was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitReachedRecord {
    /// What was used up, such as the time, the tool calls or the tokens.
    pub limit: LimitKind,
    /// The text so far.
    pub content: String,
    /// The system message that asks for a last answer, where this record's step asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A limit other than the turn limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// The time is up but for what is kept back for one last answer.
    DeadlineReserve,
    /// The time is up.
    Deadline,
    /// Tool calls.
    ToolCalls,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// The time that a session or a day has.
    Time,
    /// Model calls.
    ModelCalls,
    /// The same unknown tools again and again.
    UnknownTools,
    /// The same call again and again.
    RepeatedCalls,
    /// The room that the log of a run may take.
    Log,
}

/// Nothing can go on until somebody outside acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiting {
    /// What it waits for.
    pub pending: Vec<Pending>,
}

/// Something a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pending {
    /// The effect to answer.
    pub effect_id: EffectId,
    /// The call it is about.
    pub tool_call_id: ToolCallId,
    /// What has to come.
    pub kind: PendingKind,
    /// When it is no longer waited for; none if it is for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// A person's decision.
    Approval,
    /// The result of a tool that the caller runs.
    ClientTool,
}
