//! The kinds of records. Most of their contents are next to this file, by what they are about.

use std::sync::Arc;

use serde::{Deserialize, Serialize, de};

use super::addressed;
use super::conversation::{ContextTrimmed, HistoryRepaired, PromptInjected, Summarized};
use super::limit::{LimitReachedRecord, MaxTurnsPromptInjected, MaxTurnsReached};
use super::model_call::{Escalated, LlmCall, LlmFailed, RoleDowngraded};
use super::tool_call::{PlanChanged, ToolCallFailed, ToolCallStarted, ToolResult};
use super::waiting::{ApprovalRequested, Waiting};
use crate::decision::Decision;
use crate::finish::RunOutcome;
use crate::ids::SessionId;
use crate::input::{Advised, ApprovalDecided, Cancelled, Resumed, Steered, Vetted};
use crate::json::ContentHash;
use crate::spec::RunSpec;
use crate::transcript::PrefixDigest;

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
