//! Neuraxis as a Model Context Protocol (MCP) server: other agents, editors and desktop clients call its agents.
//!
//! **For** offering an [`Orchestrator`](neuraxis_engine::Orchestrator) to MCP clients, over standard input and output
//! or over streamable HTTP. Each agent is a tool, and so is a plain question. A client's request runs under the
//! orchestrator's governance like any other request. While a run is in progress, the client receives progress
//! notifications. A call that needs approval is put to the user at the client (elicitation). Sessions are resources.
//! The server supports both eras of the protocol: the one with `initialize` (up to 2025-11-25), and the one without
//! sessions (2026-07-28).
//!
//! **Not for** deciding what may run: policy decides. Not for calling the tools of other servers. Not for keys: any
//! client that reaches [`HttpService`] may use it, so the program that mounts it must restrict access.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuraxis_core::Role;
//! use neuraxis_engine::Orchestrator;
//! use neuraxis_mcp_server::McpServer;
//! use neuraxis_memory::MemoryStore;
//! use neuraxis_offline::OfflineModel;
//! use rmcp::ServiceExt;
//! use rmcp::model::CallToolRequestParams;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let orchestrator = Orchestrator::builder()
//!     .model(Role::REASONING, Arc::new(OfflineModel))
//!     .store(Arc::new(MemoryStore::default()))
//!     .build()?;
//! // A program that is started by its client serves its standard input and output instead.
//! let (ours, theirs) = tokio::io::duplex(64 * 1024);
//! let (input, output) = tokio::io::split(ours);
//! let server = McpServer::new(orchestrator);
//! let served = tokio::spawn(server.serve(input, output, std::future::pending()));
//!
//! let client = ().serve(theirs).await?;
//! let message = serde_json::from_str(r#"{"message": "What can you do?"}"#)?;
//! let asked = CallToolRequestParams::new("ask").with_arguments(message);
//! let answer = client.call_tool(asked).await?;
//! assert_eq!(answer.is_error, Some(false));
//! assert_eq!(answer.structured_content.unwrap()["finish_reason"], "stop");
//!
//! client.cancel().await?;
//! served.await??;
//! # Ok(())
//! # }
//! ```

mod arguments;
mod call;
mod http;
mod log_messages;
mod offers;
mod outcome;
mod progress;
mod question;
mod request_state;
mod run_permit;
mod server;
mod sessions;
mod shown;
mod shutdown;
mod stdio;

pub use http::HttpService;
pub use request_state::RequestStates;
pub use run_permit::RunPermit;
pub use server::McpServer;
pub use stdio::ServeError;
