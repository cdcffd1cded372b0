//! Tools of MCP servers: a source of tools that may appear, change and disappear while it runs.
//!
//! **For** any server of the Model Context Protocol, revisions 2024-11-05 to 2026-07-28: a program that is started here
//! and communicates over its standard input and output, or a service behind streamable HTTP. [`McpServer::start`] keeps
//! the server connected in the background and restarts it when it dies. A tool that the server calls `TOOL` is offered
//! as `SERVER__TOOL`.
//!
//! A server is untrusted. It gets only the environment variables that are configured for it. Everything it sends is
//! bounded in size and number. Its claims about its tools apply only if local configuration trusts it. A definition
//! that changes after it was accepted is not offered ([`Pins`]). Whatever the server does, only its own tools are
//! affected.
//!
//! **Not for** being a server, nor for deciding what may run: the engine and its policy do that.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use neuraxis_mcp::{McpServer, McpServerConfig, MemoryPins, StdioConfig, Transport};
//! use neuraxis_ports::{Secret, ToolSource};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut program = StdioConfig::new("mcp-server-time", ["--local-timezone", "UTC"]);
//! program.env.insert("PATH".to_owned(), Secret::new("/usr/local/bin:/usr/bin:/bin"));
//! let config = McpServerConfig::new("time", Transport::Stdio(program));
//! let server = McpServer::start(config, Arc::new(MemoryPins::default()))?;
//! server.ready().await?;
//! for tool in server.tools() {
//!     println!("{}", tool.spec().name); // time__get_current_time, …
//! }
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod calls;
mod config;
mod connection;
mod definition;
mod elicit;
mod error;
mod handler;
mod http;
mod notices;
mod pauses;
mod pins;
mod result;
mod schema;
mod server;
mod stdio;
mod text;
mod tool;

pub use config::{ConfigFault, HttpConfig, McpServerConfig, StdioConfig, Transport};
pub use definition::UnusedTool;
pub use error::ConnectError;
pub use notices::ServerNotice;
pub use pins::{Accepted, MemoryPins, Pins};
pub use server::{McpServer, OfferStatus, ReportedTool, ServerReport};
