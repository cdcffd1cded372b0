//! The pure core of Neuraxis: messages, the turn loop as a state machine, and the records that the loop produces.
//!
//! **For** callers that want the loop without a choice of how to do I/O: [`RunTree`] holds a whole run as plain data.
//! It takes an [`Input`], returns a [`Step`] with the [`Effect`]s to perform and the [`Record`]s to store, and can be
//! rebuilt from those records at any time, byte for byte.
//!
//! **Not for** performing anything: this crate has no tokio, no sockets, no files, no clock and no randomness. The
//! driver in `neuraxis-engine` performs effects through the ports of `neuraxis-ports`; the rules about what may run are
//! in `neuraxis-brainstem`.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use neuraxis_core::{
//!     AgentSpec, Attempt, CountLabel, Effect, Input, Message, ModelRef, ModelReplied, Profile, Reply, ReplyFinish, ReplyPart, Role,
//!     RunId, RunSpec, RunStatus, RunTree, Stamp, TextPart, Transcript, Usage, jiff::Timestamp, uuid::Uuid,
//! };
//!
//! // A run starts with a user message and asks for a model call …
//! let agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
//! let spec = RunSpec::new(RunId(Uuid::nil()), [Message::user("What is 6 × 7?")], agent);
//! let stamp = Stamp::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
//! let (mut run, step) = RunTree::start(spec, Transcript::default(), stamp);
//! let [Effect::CallModel(call)] = step.effects.as_slice() else { panic!("a model call comes first") };
//!
//! // … whose reply the driver brings back.
//! let text = TextPart { text: "42".into(), state: None };
//! let step = run.advance(stamp, Input::ModelReplied(ModelReplied {
//!     effect_id: call.effect_id,
//!     attempt: Attempt(1),
//!     reply: Arc::new(Reply {
//!         parts: vec![ReplyPart::Text(text)],
//!         finish: ReplyFinish::Stop,
//!         usage: Usage::default(),
//!         model: ModelRef::new("example", "m"),
//!         advice: None,
//!     }),
//!     served_by: Role::REASONING,
//!     downgraded: None,
//!     cost: None,
//!     cost_label: CountLabel::Measured,
//!     duration: Duration::from_millis(5),
//!     first_delta: None,
//! }))?;
//! assert_eq!(step.status, RunStatus::Done);
//! assert!(matches!(&step.effects[..], [Effect::Finish(outcome)] if outcome.content == "42"));
//! # Ok::<(), neuraxis_core::InputError>(())
//! ```

mod advised_call;
mod assemble;
mod bounded_schema;
mod citations;
mod clip;
mod decision;
mod duration;
mod effect;
mod error;
mod finish;
mod ids;
mod inbox;
mod input;
mod interruption;
mod json;
mod letters;
mod limits;
mod live;
pub mod log;
mod message;
mod metrics;
mod outcome;
mod profile;
mod question;
mod record;
mod repair;
mod reply;
mod run;
#[cfg(feature = "schema")]
mod schema;
mod secret_files;
mod spec;
mod texts;
mod tool;
mod tool_search;
mod trace;
mod transcript;
mod usage;
mod utf8;

pub use jiff;
pub use uuid;

pub use advised_call::{AdvisedCall, CallAdvice};
pub use assemble::{MAX_REPLY_BYTES, ReplyAssembler};
pub use bounded_schema::{UnboundedSchema, bounded_schema};
pub use citations::{Citations, Cited, Source, cite};
pub use clip::clip;
pub use decision::{
    Access, ApprovalPolicy, AskCause, BudgetScope, Checked, Clarification, Complexity,
    ComplexityFeature, Decision, Escalation, Grant, GrantScope, Grants, Remember, Routing, RuleRef,
    SelfCheck, SpentBudget, Taint, TaintSource, TakesOver, Verdict,
};
pub use duration::{text as duration_text, whole_millis};
pub use effect::{
    Approved, AskApproval, Audience, CallModel, CallToVet, CancelModel, CancelTool, Consult,
    Effect, ModelRequest, Purpose, ReplyFormat, RunTool, ToolChoice, Vet,
};
pub use error::{InputError, LlmError, LlmErrorKind, RestoreError, with_causes};
pub use finish::{AgentAtLimit, BudgetKind, FinishReason, RunOutcome, RunStatus};
pub use ids::{
    AgentId, AgentName, Attempt, BlockIndex, CallIndex, Channel, ContentIndex, EffectId,
    IdempotencyKey, InputId, InvalidId, Mode, PlanName, Role, RunId, Seq, SessionId, ToolCallId,
    ToolName, Turn,
};
pub use inbox::{ClientResult, InboxEntry, InboxInput};
pub use input::{
    Advice, Advised, ApprovalDecided, ApprovalDecision, Cancelled, CutOutput, CutReply, Input,
    ModelFailed, ModelReplied, NextAttempt, Recheck, Resumed, Stamp, Steered, ToolFinished, Vetted,
    Vetting,
};
pub use interruption::Interruption;
pub use json::{ContentHash, JsonText, laid_out_json, without_fence};
pub use letters::{escaped, is_invisible, is_mark, is_overlay};
pub use limits::{AgentLimits, BudgetMeasure, Limits, MicroUsd, Spent};
pub use live::{LiveBody, LiveEvent, ProgressSteps};
pub use log::{
    LogEnd, closing_records, continued_history, forked_history, last_turn, root_records,
    run_messages,
};
pub use message::{
    AssistantMessage, MediaPart, MediaSource, MediaTypes, Message, ModelRef, Part, ProviderState,
    ReasoningPart, TextPart, ToolCall, ToolMessage,
};
pub use metrics::{Cost, RunMeter, SessionMetrics};
pub use outcome::{Keep, MAX_ERROR_CHARS, ToolFailure, ToolOutcome, ToolOutput, ToolSignal};
pub use profile::{
    Arguments, Compaction, DataPolicy, Hook, LimitReached, NoCalls, Offer, Opening, Parallel,
    Profile, Repeats, ResultRule, ToolErrors, TurnRoles, UnknownTool, UsageScope,
};
pub use question::{
    Field, FieldChoice, FieldKind, InvalidAnswer, OpenQuestion, Question, QuestionId,
    QuestionOutcome, Required,
};
pub use record::{
    ApprovalRequested, ContextTrimmed, Escalated, HistoryRepaired, LOOP_VERSION, LOOP_VERSIONS,
    LimitKind, LimitReachedRecord, LlmCall, LlmFailed, MaxTurnsPromptInjected, MaxTurnsReached,
    Origin, Pending, PendingKind, PlanChanged, PromptInjected, PromptReason, Record, RecordBody,
    RoleDowngraded, RunStarted, Span, Summarized, ToolCallFailed, ToolCallStarted, ToolResult,
    ToolStatus, Waiting, Warning, is_withheld,
};
pub use reply::{Reply, ReplyAdvice, ReplyDelta, ReplyEnd, ReplyFinish, ReplyPart, RequestedCall};
pub use run::{
    CallStage, FittedRequest, OpenCall, RequestSize, RunTree, Step, has_answered, is_last_answer,
    last_reply,
};
pub use secret_files::{SECRET_FILES, is_secret_name};
pub use spec::{AgentSpec, AnswerRule, ClientTools, ForkPoint, RunSpec};
pub use texts::MAX_TURNS_PROMPT;
pub use tool::{
    FINAL_ANSWER, FIND_TOOLS, READ_OUTPUT, SERVER_SEPARATOR, ToolAnnotations, ToolClass, ToolKind,
    ToolSpec,
};
pub use tool_search::{ToolSearch, offered_tools};
pub use trace::{InvalidTraceParent, TraceContext};
pub use transcript::{PrefixDigest, Transcript, last_of_user};
pub use usage::{CountLabel, RoleUsage, RunUsage, TokenCount, Usage};
pub use utf8::{NotUtf8, utf8_text};
