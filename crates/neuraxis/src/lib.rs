//! Governed, tool-using LLM conversations: the crate that an embedding team adds first.
//!
//! **For** getting to a first answer with one dependency. It re-exports the workspace's crates under short names, and
//! the most used items at the top level. A feature adds an adapter and never changes what the others do. The folder
//! `docs/embedding` of the repository has a page for each common task, including a first answer, tools, typed answers,
//! sessions, approvals, and tests. Each page has a program that is compiled and run with the tests of this crate.
//!
//! **Not for** code of its own: everything here lives in a crate that can be used alone.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuraxis::{Channel, Mode, Orchestrator, Role, memory::MemoryStore, offline::OfflineModel, tool};
//!
//! /// Counts the letters of a word.
//! #[tool(class = "read_only")]
//! async fn count_letters(word: String) -> usize {
//!     word.chars().count()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let orchestrator = Orchestrator::builder()
//!     .model(Role::REASONING, Arc::new(OfflineModel))
//!     .tool(count_letters::tool()?)
//!     .store(Arc::new(MemoryStore::default()))
//!     .build()?;
//! let session = "my-first-session".parse()?;
//! let message = "Use count_letters: orchestrator";
//! let result = orchestrator.handle_user_request(&session, message, Mode::MODERATE, Channel::CHAT).await?;
//! println!("{}", result.reply);
//! # assert_eq!(result.steps.len(), 3, "a model call, a tool call, a model call");
//! # Ok(())
//! # }
//! ```
//!
//! Import individual names or the [`prelude`], never `neuraxis::*`: this crate's [`core`] module would then shadow the
//! standard library's `core` in code that macros generate.

pub mod prelude;

#[cfg(feature = "anthropic")]
pub use neuraxis_anthropic as anthropic;
pub use neuraxis_brainstem as brainstem;
#[cfg(feature = "cassette")]
pub use neuraxis_cassette as cassette;
pub use neuraxis_core as core;
#[cfg(feature = "deepseek")]
pub use neuraxis_deepseek as deepseek;
pub use neuraxis_engine as engine;
#[cfg(feature = "evals")]
pub use neuraxis_evals as evals;
#[cfg(feature = "llama")]
pub use neuraxis_llama as llama;
#[cfg(feature = "mcp")]
pub use neuraxis_mcp as mcp;
#[cfg(feature = "mcp-server")]
pub use neuraxis_mcp_server as mcp_server;
#[cfg(feature = "memory")]
pub use neuraxis_memory as memory;
#[cfg(feature = "offline")]
pub use neuraxis_offline as offline;
#[cfg(feature = "openai")]
pub use neuraxis_openai as openai;
#[cfg(feature = "otel")]
pub use neuraxis_otel as otel;
pub use neuraxis_ports as ports;
#[cfg(feature = "restate")]
pub use neuraxis_restate as restate;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use neuraxis_sql as sql;
#[cfg(feature = "testkit")]
pub use neuraxis_testkit as testkit;
#[cfg(feature = "tools")]
pub use neuraxis_tools as tools;
#[cfg(feature = "tools")]
pub use neuraxis_tools::tool;
#[cfg(feature = "web")]
pub use neuraxis_web as web;
#[cfg(feature = "wire")]
pub use neuraxis_wire as wire;
/// The library that derives schemas of types. Derives must use this version's `JsonSchema`. If the program does not
/// depend on `schemars` itself, add `#[schemars(crate = "neuraxis::schemars")]` to tell the derive where to find it.
#[cfg(any(feature = "schema", feature = "tools", feature = "typed"))]
pub use schemars;

pub use neuraxis_brainstem::{Policy, PolicyConfig};
pub use neuraxis_core::{
    Channel, FinishReason, IdempotencyKey, Message, Mode, Role, RunStatus, SessionId,
};
pub use neuraxis_engine::{
    Agent, AgentBuilder, AnswerFault, AnswerSchema, Approvals, ClientInput, DecideLater, Event,
    Events, Execution, NoAnswer, Orchestrator, OrchestratorBuilder, OrchestratorResult,
    OrchestratorStep, PendingCall, RunHandle, Runs, Sessions, Steps, TextStream, UserRequest,
};
#[cfg(feature = "typed")]
pub use neuraxis_engine::{Typed, TypedError};

/// The embedding pages, included here so their code is compiled and run with the tests of this crate.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/agents.md")]
    struct Agents;
    #[doc = include_str!("../../../docs/embedding/approvals.md")]
    struct Approvals;
    #[doc = include_str!("../../../docs/evals.md")]
    struct Evals;
    #[doc = include_str!("../../../docs/embedding/guardrails.md")]
    struct Guardrails;
    #[doc = include_str!("../../../docs/embedding/hello-world.md")]
    struct HelloWorld;
    #[doc = include_str!("../../../docs/mcp.md")]
    struct Mcp;
    #[doc = include_str!("../../../docs/observability.md")]
    struct Observability;
    #[doc = include_str!("../../../docs/embedding/policy.md")]
    struct Policies;
    #[doc = include_str!("../../../docs/embedding/provider.md")]
    struct Provider;
    #[doc = include_str!("../../../docs/embedding/sessions.md")]
    struct Sessions;
    #[doc = include_str!("../../../docs/embedding/streaming.md")]
    struct Streaming;
    #[doc = include_str!("../../../docs/embedding/sub-agents.md")]
    struct SubAgents;
    #[doc = include_str!("../../../docs/embedding/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/embedding/tools.md")]
    struct Tools;
    #[doc = include_str!("../../../docs/embedding/typed-answers.md")]
    struct TypedAnswers;
    #[doc = include_str!("../../../docs/web.md")]
    struct Web;
}
