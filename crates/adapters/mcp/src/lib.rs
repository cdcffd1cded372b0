//! Tools of MCP servers: a source of tools that come and go.
//!
//! **For** any server of the Model Context Protocol, of the revisions from 2024-11-05 to 2026-07-28: one that is started here
//! and spoken to over its standard input and output, or one behind streamable HTTP. [`McpServer::start`] keeps it connected
//! in the background and starts it anew when it dies; what it calls `TOOL` is offered as `SERVER__TOOL`.
//!
//! A server is a stranger. It gets the variables that are configured for it and no others, what it says is bounded in size
//! and number, what it claims of its tools counts only where local configuration trusts it, a definition that changes after
//! it was accepted is not offered ([`Pins`]), and whatever it does, only its own tools suffer.
//!
//! **Not for** being a server, nor for deciding what may run: the engine and its policy do.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use neuraxis_mcp::{McpServer, McpServerConfig, MemoryPins, Reach, StdioConfig};
//! use neuraxis_ports::{Secret, ToolSource};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut program = StdioConfig::new("mcp-server-time", ["--local-timezone", "UTC"]);
//! program.env.insert("PATH".to_owned(), Secret::new("/usr/local/bin:/usr/bin:/bin"));
//! let config = McpServerConfig::new("time", Reach::Stdio(program));
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

pub use config::{ConfigFault, HttpConfig, McpServerConfig, Reach, StdioConfig};
pub use definition::LeftOut;
pub use error::ConnectError;
pub use notices::ServerNotice;
pub use pins::{Accepted, MemoryPins, Pins};
pub use server::{McpServer, ReportedTool, ServerReport, Standing};
