//! The names that most embedding programs need, in one `use` line.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuraxis::offline::OfflineModel;
//! use neuraxis::prelude::*;
//!
//! /// Counts the letters of a word.
//! #[tool(class = "read_only")]
//! async fn count_letters(
//!     /// The word.
//!     word: String,
//! ) -> usize {
//!     word.chars().count()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Orchestrator::builder()
//!     .model(Role::REASONING, Arc::new(OfflineModel))
//!     .tool(count_letters::tool()?)
//!     .build_agent()?;
//! let done = agent.execute("You are brief.", "What can you do?").await?.into_result()?;
//! println!("{}", done.content);
//! # assert!(!done.content.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! Besides types it exports `schemars`, so `#[derive(JsonSchema)]` finds it without a separate dependency.
//!
//! **Not for** adapters: a program names the models and stores it uses explicitly.

pub use neuraxis_brainstem::{Policy, PolicyConfig};
pub use neuraxis_core::{
    AgentName, AgentSpec, ApprovalDecision, Channel, FinishReason, JsonText, LiveBody, LlmError,
    Message, MicroUsd, Mode, Profile, Record, RecordBody, Role, RunId, RunStatus, Seq, SessionId,
    ToolAnnotations, ToolCallId, ToolClass, ToolOutput, ToolSpec,
};
pub use neuraxis_engine::{
    Agent, AgentBuilder, DecideLater, Event, Events, Execution, NoAnswer, Orchestrator,
    OrchestratorBuilder, OrchestratorResult, RequestError, RunHandle, TextStream, UserRequest,
    WaitingApproval,
};
pub use neuraxis_ports::{
    Approver, ApproverReply, LlmClient, SessionStore, Tool, ToolContext, ToolError, TurnContext,
    async_trait,
};
#[cfg(feature = "tools")]
pub use neuraxis_tools::{FunctionTool, NoArguments, tool};
#[cfg(any(feature = "schema", feature = "tools", feature = "typed"))]
pub use schemars::{self, JsonSchema};
