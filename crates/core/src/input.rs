//! What the outside tells the machine.
//!
//! Every input has an id: the effect it answers and the attempt, or one that its sender chose. A duplicate, or an answer
//! to an effect that is settled, changes nothing; an impossible one is an [`InputError`](crate::InputError).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advised_call::AdvisedCall;
use crate::decision::{AskCause, Grant, GrantScope, Remember, RuleRef, Verdict};
use crate::duration;
use crate::error::LlmError;
use crate::finish::BudgetKind;
use crate::ids::{AgentId, Attempt, EffectId, InputId, Role, ToolCallId, ToolName};
use crate::json::{ContentHash, JsonText};
use crate::limits::{Limits, MicroUsd};
use crate::message::{Message, ModelRef};
use crate::outcome::ToolOutcome;
use crate::record::RoleDowngraded;
use crate::reply::Reply;
use crate::tool::ToolClass;
use crate::usage::CountLabel;

/// When an input came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The time on the wall, in whole milliseconds.
    pub at: Timestamp,
    /// How long the run has been active, in whole milliseconds: waiting for a person does not count.
    pub active_elapsed: Duration,
}

impl Stamp {
    /// Makes a stamp; both times are cut to whole milliseconds, which is what a record keeps.
    #[must_use]
    pub fn new(at: Timestamp, active_elapsed: Duration) -> Self {
        let at = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
        let millis = u64::try_from(active_elapsed.as_millis()).unwrap_or(u64::MAX);
        Self {
            at,
            active_elapsed: Duration::from_millis(millis),
        }
    }
}

/// Something that happened outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A model call gave a reply.
    ModelReplied(ModelReplied),
    /// An attempt of a model call failed.
    ModelFailed(ModelFailed),
    /// A batch of calls was checked.
    Vetted(Vetted),
    /// A tool call ended.
    ToolFinished(ToolFinished),
    /// A person decided about a call, or the time to decide ran out.
    ApprovalDecided(ApprovalDecided),
    /// The embedder's hook answered.
    Advised(Advised),
    /// A message for a run at work: it joins after the current tool batch.
    Steered(Steered),
    /// Somebody wants the run to end.
    Cancelled(Cancelled),
    /// A process took the run up again after a crash or a wait. What was under way is asked for anew or, where it must
    /// not run twice, settled as unknown.
    Resumed(Resumed),
    /// Time passed. Before the step's `wake_at` it changes nothing.
    TimePassed,
}

impl Input {
    /// Returns the effect that it answers by its id, if it does.
    pub(crate) const fn effect(&self) -> Option<EffectId> {
        match self {
            Self::ModelReplied(replied) => Some(replied.effect_id),
            Self::ModelFailed(failed) => Some(failed.effect_id),
            Self::Vetted(vetted) => Some(vetted.effect_id),
            Self::ToolFinished(finished) => Some(finished.effect_id),
            Self::Advised(advised) => Some(advised.effect_id),
            Self::ApprovalDecided(_)
            | Self::Steered(_)
            | Self::Cancelled(_)
            | Self::Resumed(_)
            | Self::TimePassed => None,
        }
    }

    /// Returns the id that its sender chose, if it has one.
    pub(crate) const fn sender(&self) -> Option<&InputId> {
        match self {
            Self::ApprovalDecided(decided) => Some(&decided.id),
            Self::Steered(steered) => Some(&steered.id),
            Self::Cancelled(cancelled) => Some(&cancelled.id),
            Self::Resumed(resumed) => Some(&resumed.id),
            Self::ModelReplied(_)
            | Self::ModelFailed(_)
            | Self::Vetted(_)
            | Self::ToolFinished(_)
            | Self::Advised(_)
            | Self::TimePassed => None,
        }
    }

    /// Returns the kind of input, by its record's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ModelReplied(_) => "llm_call",
            Self::ModelFailed(_) => "llm_failed",
            Self::Vetted(_) => "verdict",
            Self::ToolFinished(_) => "tool_result",
            Self::ApprovalDecided(_) => "approval_decided",
            Self::Advised(_) => "advised",
            Self::Steered(_) => "steered",
            Self::Cancelled(_) => "cancelled",
            Self::Resumed(_) => "resumed",
            Self::TimePassed => "limit_reached",
        }
    }
}

/// A model call gave a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReplied {
    /// The call.
    pub effect_id: EffectId,
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// The reply; shared with its record.
    pub reply: Arc<Reply>,
    /// The role that served it, which may be another than the one asked for.
    pub served_by: Role,
    /// Why it is another, where that is no matter of configuration.
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// What it cost, where prices are known.
    pub cost: Option<MicroUsd>,
    /// How that amount came about.
    pub cost_label: CountLabel,
    /// How long it took.
    pub duration: Duration,
    /// How long its first delta took, where it was streamed.
    pub first_delta: Option<Duration>,
}

/// An attempt of a model call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// The call.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// What the provider or the connection failed with.
    pub error: LlmError,
    /// Whether the driver tries again.
    pub next: NextAttempt,
    /// The role that failed.
    pub served_by: Role,
    /// Why it is another than the one asked for, where that is no matter of configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// That the role is degraded from now on, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// What it cost, where prices are known and the provider said what it used.
    #[serde(
        default,
        rename = "cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<MicroUsd>,
    /// How that amount came about.
    #[serde(default, skip_serializing_if = "CountLabel::is_measured")]
    pub cost_label: CountLabel,
    /// The model that was asked, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelRef>>,
    /// How long it took.
    #[serde(rename = "duration_ms", with = "duration::millis")]
    pub duration: Duration,
}

/// Whether another attempt follows a failed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NextAttempt {
    /// One does.
    Follows,
    /// None does: the call has failed.
    None,
}

/// A batch of calls was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vetted {
    /// The effect that asked.
    pub effect_id: EffectId,
    /// What was found, in the order of the calls.
    pub calls: Vec<Vetting>,
    /// What people allowed for the session with their answers to these calls: from this record on it counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Grant>,
    /// What the program's hooks said of these calls before they were checked; nothing of calls about which none was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advised: Vec<AdvisedCall>,
}

impl Vetted {
    /// Says what was found about calls, with nothing allowed for the session.
    #[must_use]
    pub const fn new(effect_id: EffectId, calls: Vec<Vetting>) -> Self {
        Self {
            effect_id,
            calls,
            granted: Vec::new(),
            advised: Vec::new(),
        }
    }
}

/// What was found about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Vetting {
    /// The call may run now.
    Run {
        /// What it may change, as far as its tool is trusted.
        class: ToolClass,
        /// Its result will be untrusted content.
        #[serde(default, skip_serializing_if = "is_false")]
        untrusted: bool,
        /// Why; none where nothing governs the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
        /// The rule that says so; none where a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// The remembered answer of a person that lets it run, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<u32>,
    },
    /// The arguments are not JSON or do not fit the schema.
    Invalid {
        /// The place in the arguments and what is wrong there, for the model.
        message: String,
    },
    /// There is no such tool.
    Unknown,
    /// The tool is not available in this turn.
    Disabled,
    /// A person has to approve it.
    Ask {
        /// What it may change, once approved.
        class: ToolClass,
        /// Its result will be untrusted content.
        #[serde(default, skip_serializing_if = "is_false")]
        untrusted: bool,
        /// Why, for people.
        reason: String,
        /// Why, for programs: what asks, each kind once; none where nobody says.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<AskCause>,
        /// The rule that says so; none where a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// How much of the answer may be remembered for the session.
        #[serde(default, skip_serializing_if = "Remember::is_never")]
        remember: Remember,
        /// What the person may be offered to remember, the narrowest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<GrantScope>,
        /// The approval that is on record does not count: whoever checked cannot tell that it was given here.
        #[serde(default, skip_serializing_if = "is_false")]
        again: bool,
    },
    /// Policy forbids it.
    Deny {
        /// The sentence that the model reads in place of a result.
        reason: String,
        /// The rule that says so; none where a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
    },
}

impl Vetting {
    /// It may run, and nobody says why.
    #[must_use]
    pub const fn run(class: ToolClass) -> Self {
        Self::Run {
            class,
            untrusted: false,
            reason: None,
            rule: None,
            grant: None,
        }
    }

    /// A person has to approve it, every time.
    pub fn ask(class: ToolClass, reason: impl Into<String>) -> Self {
        Self::Ask {
            class,
            untrusted: false,
            reason: reason.into(),
            causes: Vec::new(),
            rule: None,
            remember: Remember::Never,
            choices: Vec::new(),
            again: false,
        }
    }

    /// Policy forbids it.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny {
            reason: reason.into(),
            rule: None,
        }
    }

    /// Turns a verdict about a call that is otherwise fine into what was found.
    #[must_use]
    pub fn from_verdict(verdict: Verdict, class: ToolClass) -> Self {
        match verdict {
            Verdict::Allow => Self::run(class),
            Verdict::Ask {
                reason,
                causes,
                rule,
                remember,
            } => Self::Ask {
                class,
                untrusted: false,
                reason,
                causes,
                rule,
                remember,
                choices: Vec::new(),
                again: false,
            },
            Verdict::Deny { reason, rule } => Self::Deny { reason, rule },
        }
    }

    /// Says that the call's result will be untrusted content.
    #[must_use]
    pub fn bringing_untrusted(mut self) -> Self {
        if let Self::Run { untrusted, .. } | Self::Ask { untrusted, .. } = &mut self {
            *untrusted = true;
        }
        self
    }

    /// Says that an approval which is on record does not count, where a person has to approve the call.
    #[must_use]
    pub fn asking_again(mut self) -> Self {
        if let Self::Ask { again, .. } = &mut self {
            *again = true;
        }
        self
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over by reference"
)]
pub(crate) const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A tool call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFinished {
    /// The effect that ran it; for a client's tool the one named where the run waits.
    pub effect_id: EffectId,
    /// The attempt that ended.
    pub attempt: Attempt,
    /// What came of it.
    pub outcome: ToolOutcome,
    /// How long it took.
    pub duration: Duration,
}

/// A person decided about a call, or the time to decide ran out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalDecided {
    /// The sender's id.
    pub id: InputId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The hash of the arguments that were shown.
    pub arguments_hash: ContentHash,
    /// Whether the call may run, and with which arguments.
    #[serde(flatten)]
    pub decision: ApprovalDecision,
    /// Who decided, where known: a note, not proof of an identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The keyed hash by which an engine knows an approval that it took itself from one that was written into its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
}

impl ApprovalDecided {
    /// Returns the hash of the arguments that would run: those that were shown, or those that were put in their place.
    #[must_use]
    pub fn final_arguments(&self) -> ContentHash {
        match &self.decision {
            ApprovalDecision::Approve {
                arguments: Some(edited),
                ..
            } => edited.hash(),
            _ => self.arguments_hash,
        }
    }
}

/// What a person decided about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call runs once its arguments were checked again.
    Approve {
        /// With these arguments instead of those shown; they are checked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<JsonText>,
        /// And so may these calls of the tool, for the rest of the session, as far as policy lets that be remembered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<GrantScope>,
    },
    /// The call does not run; the model is told so.
    Deny {
        /// Why, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody decided in time: not a person's denial.
    Expired,
}

impl ApprovalDecision {
    /// It may run as it was shown, this once.
    pub const APPROVE: Self = Self::Approve {
        arguments: None,
        remember: None,
    };

    /// It may run with other arguments, this once.
    #[must_use]
    pub const fn approve_with(arguments: JsonText) -> Self {
        Self::Approve {
            arguments: Some(arguments),
            remember: None,
        }
    }

    /// It may run as it was shown, and so may these calls for the rest of the session.
    #[must_use]
    pub const fn approve_for_session(calls: GrantScope) -> Self {
        Self::Approve {
            arguments: None,
            remember: Some(calls),
        }
    }
}

/// The embedder's hook answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advised {
    /// The effect that asked.
    pub effect_id: EffectId,
    /// How the agent goes on.
    #[serde(flatten)]
    pub advice: Advice,
}

/// What a hook says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "advice", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advice {
    /// Go on as planned.
    Continue,
    /// Offer only these of the agent's tools in this turn. An answer to [`Hook::ToolsSelected`](crate::Hook) alone.
    Offer {
        /// The tools; names the agent does not have are left out.
        tools: Vec<ToolName>,
    },
    /// The text is not the answer: the model is told why and answers again, as often as [`AnswerRule`](crate::AnswerRule)
    /// says; after that the agent ends with [`FinishReason::InvalidAnswer`](crate::FinishReason::InvalidAnswer). An answer
    /// to [`Hook::Answer`](crate::Hook) alone.
    TurnDown {
        /// What is wrong with it and what to do, for the model.
        message: String,
    },
    /// Send the request with changes, which stay in the conversation. An answer to [`Hook::Request`](crate::Hook) alone.
    Amend {
        /// What takes the place of the text of the last user message; its images and files stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// System messages that are added at the end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// Do not ask the model: the agent ends with this reply and [`FinishReason::Refused`](crate::FinishReason::Refused). An
    /// answer to [`Hook::Request`](crate::Hook) alone.
    Refuse {
        /// What the user is told.
        reply: String,
        /// Why, kept in the record.
        reason: String,
    },
    /// End the loop; the text so far is kept.
    Stop {
        /// The embedder's words, kept in the record.
        reason: String,
    },
}

/// A message for a run at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steered {
    /// The sender's id.
    pub id: InputId,
    /// The message; a user message.
    pub message: Arc<Message>,
    /// The agent it is for.
    #[serde(default, skip_serializing_if = "AgentId::is_root")]
    pub agent: AgentId,
}

impl Steered {
    /// A message for the agent that answers the user.
    #[must_use]
    pub const fn new(id: InputId, message: Arc<Message>) -> Self {
        Self {
            id,
            message,
            agent: AgentId::ROOT,
        }
    }
}

/// Somebody wants the run to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cancelled {
    /// The sender's id.
    pub id: InputId,
    /// Why, for the log.
    pub reason: String,
    /// The agent that is to end, with all below it; the root agent for the whole run.
    #[serde(default, skip_serializing_if = "AgentId::is_root")]
    pub agent: AgentId,
    /// The limit outside of the machine that makes the whole run end, if it is one: the run then ends as at any limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<BudgetKind>,
    /// The reply that it cuts off, as far as somebody has read it: it stays in the conversation, marked as interrupted. The
    /// driver fills this in; what a sender says here does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReply>,
    /// What the tool calls that it cuts off have printed, as far as somebody has read it: the model reads it with the error
    /// that stands in place of their results. The driver fills this in; what a sender says here does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<CutOutput>,
}

/// What a tool call had printed when it was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutOutput {
    /// The attempt of the call.
    pub effect_id: EffectId,
    /// The end of what it had printed.
    pub text: String,
}

/// What a model had said of a reply when it was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutReply {
    /// The model call.
    pub effect_id: EffectId,
    /// The text, as far as it had come.
    pub text: String,
}

impl Cancelled {
    /// A wish that the whole run end.
    #[must_use]
    pub fn new(id: InputId, reason: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.into(),
            agent: AgentId::ROOT,
            limit: None,
            cut: None,
            printed: Vec::new(),
        }
    }

    /// As [`new`](Self::new), because a limit outside of the machine is reached.
    #[must_use]
    pub fn at_limit(id: InputId, limit: BudgetKind) -> Self {
        let limit = Some(limit);
        Self {
            limit,
            ..Self::new(id, "a limit is reached")
        }
    }
}

/// A process took the run up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resumed {
    /// The sender's id.
    pub id: InputId,
    /// Why it had stopped, for the log.
    pub reason: String,
    /// What is checked anew.
    #[serde(default, skip_serializing_if = "Recheck::is_nothing")]
    pub recheck: Recheck,
    /// What the run may use from here on, where that is less than is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<Limits>>,
}

/// What is checked anew when a run is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Recheck {
    /// Nothing: what is on record decides. So it is in logs of versions that did not look.
    #[default]
    Nothing,
    /// Every call before it starts or is made again: one that was found fit to run and waits for its turn, and one that
    /// had begun.
    Calls,
}

impl Recheck {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands the field over by reference"
    )]
    const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl Resumed {
    /// Takes the run up as it is on record.
    #[must_use]
    pub fn new(id: InputId, reason: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.into(),
            recheck: Recheck::Nothing,
            limits: None,
        }
    }

    /// Has every call checked anew before it starts or is made again.
    #[must_use]
    pub const fn checking_calls(mut self) -> Self {
        self.recheck = Recheck::Calls;
        self
    }
}
