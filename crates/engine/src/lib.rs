//! Drives runs: performs the effects that the turn loop asks for, stores its records, and streams what happens.
//!
//! **For** embedding Neuraxis in a program: build an [`Orchestrator`] from models, tools, a policy and a store, and
//! hand it user messages. The engine owns the runs as tasks; each run is streamed, traced and stored as it proceeds.
//!
//! **Not for** decisions: the loop's rules are in `neuraxis-core`, and `neuraxis-brainstem` decides what may run. The
//! engine names no adapter; the program that builds an engine chooses them.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuraxis_core::{Channel, Mode, Role};
//! use neuraxis_engine::Orchestrator;
//! use neuraxis_memory::MemoryStore;
//! use neuraxis_testkit::{ScriptedModel, reply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let orchestrator = Orchestrator::builder()
//!     .model(Role::REASONING, Arc::new(ScriptedModel::always(reply::text("42"))))
//!     .store(Arc::new(MemoryStore::default()))
//!     .build()?;
//! let result = orchestrator
//!     .handle_user_request(&"s1".parse()?, "What is 6 × 7?", Mode::MODERATE, Channel::CHAT)
//!     .await?;
//! assert_eq!(result.reply, "42");
//! # Ok(())
//! # }
//! ```

mod agent;
mod answer;
mod approval_key;
mod approvals;
mod builder;
mod catalog;
mod catalogs;
mod client_input;
mod driver;
mod engine;
mod error_kind;
mod event;
mod feed;
mod foreign_tool;
mod health;
mod idempotency;
mod lazy_list;
mod live;
mod log;
mod long_result;
mod media;
mod orchestrator;
mod question_time;
mod questions;
mod request;
mod resilience;
mod result;
mod run_end;
mod run_handle;
mod runs;
#[cfg(feature = "schema")]
mod schema;
mod sessions;
mod steps;
mod store_follower;
mod store_retry;
mod text_stream;
mod tool_search;
mod traces;
#[cfg(feature = "typed")]
mod typed;
mod warnings;

pub use agent::{
    Agent, AgentBuilder, AgentRun, Execution, InstructionContext, ToolCallRecord, tool_calls,
};
pub use answer::{AnswerFault, AnswerSchema, AnswerSchemaError, of_run as run_answer};
pub use approval_key::ApprovalKey;
pub use approvals::{
    Approvals, DecideError, DecideLater, Decided, FoundApprovals, SweepReport, WaitingApproval,
};
pub use builder::{BuildError, OrchestratorBuilder};
pub use catalog::{
    CatalogError, INVALID_ARGUMENTS, RESERVED_TOOL_NAMES, ToolCallError, ToolCatalog,
};
pub use client_input::{ClientInput, ClientInputError};
pub use engine::{SystemClock, UuidV7};
pub use event::{Event, Events};
pub use idempotency::{Differences, RequestPart};
pub use log::{LogError, ReplayError, ReplayReport, read_log, replay, write_log};
pub use long_result::ResultBounds;
pub use long_result::read_output::read_output_spec;
pub use media::{
    AttachmentError, MAX_MEDIA_BYTES, MAX_MEDIA_BYTES_IN_ALL, MAX_MEDIA_PARTS, MAX_TEXT_BYTES,
    attachment,
};
pub use orchestrator::Orchestrator;
pub use questions::AnswerQuestionError;
pub use request::{Delivery, Earlier, RequestError, UserRequest};
pub use resilience::RetryPolicy;
pub use result::{
    NoAnswer, OrchestratorResult, OrchestratorStep, PendingCall, StepType, asked_beside,
    cost as run_cost,
};
pub use run_handle::{AnswerError, NoResult, NotAccepted, RunHandle};
pub use runs::{
    Answer, ForkError, ForkOptions, HeldRun, RecheckedCall, RecoveryReport, ResumeError, ResumedBy,
    RunProgress, Runs, SteppedRun, WaitedFor, is_session_of_eval,
};
pub use sessions::{
    ARCHIVE_FORMAT, ArchiveEntry, ArchiveError, ArchiveFault, ArchiveReader, ArchivedSession,
    EachRun, EachSession, ExportError, Exported, FindError, FollowedRun, ImportError,
    ImportedSession, LogFileError, RecordedRun, ReplayFailure, SessionOverview, Sessions,
    UnfinishedRuns, check_archive, read_log_file,
};
pub use steps::{StepMetadata, Steps, steps as run_steps};
pub use text_stream::{TextExtractor, TextStream};
pub use tool_search::{ToolOffer, rank_tools};
pub use traces::{TraceEmitter, TraceRecord, TraceType, Traces, trace_records};
#[cfg(feature = "typed")]
pub use typed::{Typed, TypedError};
pub use warnings::{Approving, Hindrance, ToolWarning, tool_warnings};
