//! Test support for everything that is built on the ports of Neuraxis.
//!
//! **For** tests, as a dev-dependency:
//!
//! - fakes of most ports that behave as scripted and record what they were given: [`ScriptedModel`], [`ScriptedTool`],
//!   [`AskingTool`], [`FailingStore`] (faults in front of a real store), [`RecordingSink`], [`ScriptedApprover`],
//!   [`ScriptedAdvisor`], [`ScriptedRunner`], [`ScriptedToolHook`], [`ScriptedModelHook`], [`ScriptedSearch`],
//!   [`VirtualClock`], [`CountingIds`];
//! - mocks of the same ports, created with `mockall`, in [`mock`], for tests that check which calls are made;
//! - builders for what tests need most often: [`reply`], [`messages`], [`request`], [`spec`], [`call_context`],
//!   [`tool_context`], [`RunLog`];
//! - a scripted web site on loopback, [`WebSite`];
//! - a scripted MCP server, [`mcp_script`];
//! - a scripted server on loopback for tests of adapters, which answers byte by byte, [`loopback`]; functions that call
//!   the adapters' clients, [`asking`]; and checks on a corpus of streams, [`streams`];
//! - a model server on loopback that is faulty until it is repaired, [`FaultyModelServer`];
//! - a real model server, [`LlamaServer`], a real database server, [`Postgres`], and a real durable-execution engine,
//!   [`Restate`], for tests with real components;
//! - a port that stays reserved for a server that is killed and restarted, [`FreePort`];
//! - checks of the state that a fault leaves behind, [`Aftermath`];
//! - the code blocks of the documents, to be run as they are, [`documents`];
//! - the suites that implementations of ports must pass, in [`conformance`].
//!
//! **Not for** production: errors in a test are reported by panics. The crate also turns on tokio's `test-util`, so
//! tests can pause time instead of sleeping.
//!
//! ```
//! use neuraxis_ports::LlmClient;
//! use neuraxis_testkit::{ScriptedModel, call_context, reply, request};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), neuraxis_core::LlmError> {
//! let model = ScriptedModel::new().then(reply::calls([("add", r#"{"a":1,"b":2}"#)])).then(reply::text("3"));
//!
//! let first = model.respond(&request("What is 1 + 2?"), &call_context()).await?;
//! assert_eq!(first.calls().count(), 1);
//! let second = model.respond(&request("go on"), &call_context()).await?;
//! assert_eq!(second.text(), "3");
//! assert_eq!(model.requests().len(), 2);
//! # Ok(())
//! # }
//! ```

mod advisor;
mod aftermath;
mod approver;
pub mod asking;
mod asking_tool;
mod call;
mod clock;
pub mod conformance;
pub mod documents;
mod faulty_model_server;
mod free_port;
mod llama_server;
pub mod loopback;
mod mcp_script;
pub mod messages;
pub mod mock;
mod model;
mod model_hook;
mod postgres;
pub mod reply;
mod restate;
mod run_log;
mod scripted;
mod search;
mod silent_proxy;
mod spec;
mod store;
pub mod streams;
mod tool;
mod tool_hook;
mod tool_runner;
mod web_site;

pub use advisor::ScriptedAdvisor;
pub use aftermath::{Aftermath, assert_nowhere, assert_paired};
pub use approver::ScriptedApprover;
pub use asking_tool::AskingTool;
pub use call::{call_context, tool_context, turn_context};
pub use clock::{CountingIds, START, VirtualClock};
pub use faulty_model_server::{FaultyModelServer, ModelFault};
pub use free_port::FreePort;
pub use llama_server::LlamaServer;
pub use mcp_script::mcp_script;
pub use messages::{request, request_of};
pub use model::{CallMode, Script, ScriptedModel, SeenModelCall};
pub use model_hook::ScriptedModelHook;
pub use postgres::Postgres;
pub use restate::Restate;
pub use run_log::{RecordingSink, RunLog};
pub use search::ScriptedSearch;
pub use silent_proxy::SilentProxy;
pub use spec::{SpecBuilder, spec};
pub use store::{FailingStore, Fault, StoreOperation};
pub use tool::{Act, ScriptedTool, SeenToolCall};
pub use tool_hook::ScriptedToolHook;
pub use tool_runner::ScriptedRunner;
pub use web_site::{WebAnswer, WebRequest, WebSite};
