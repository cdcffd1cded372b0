//! Neuraxis over HTTP: the library behind the program `neuraxis-server`.
//!
//! **For** calling an engine over a socket. A turn is a request; its answer is the run's result as JSON or the run's
//! events as server-sent events, the same ones that `neuraxis ask --format events` prints. MCP clients find the agents
//! at `/mcp`, AG-UI front ends at `/agui`, clients of OpenAI's API at `/v1`, and users a page at `/`. Errors are
//! problem documents (RFC 9457) whose `type` never changes.
//!
//! **Not for** deciding or composing anything: `neuraxis-app` supplies a wired engine, and this crate only translates
//! between HTTP and it. Without keys, a server listens on loopback addresses only. Its metrics are in [`Metrics`], its
//! certificate in [`Tls`].
//! ```
//! use neuraxis_app::{App, Config, Environment, Sources};
//! use neuraxis_server::{ListenAddress, Server, Stop};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::new(std::env::temp_dir())
//!     .with_variable("NEURAXIS_MODELS__REASONING__PROVIDER", "offline");
//! let config = Config::load(&environment, &Sources::default())?;
//! let app = App::builder(&config, &environment).build().await?;
//! let listen: ListenAddress = "127.0.0.1:0".parse()?;
//! let server = Server::bind(listen, app.orchestrator).await?;
//! println!("listening on {}", server.url());
//! server.serve(async { /* wait for the time to stop */ Stop::Cancel }).await?;
//!
//! assert!("0.0.0.0:80".parse::<ListenAddress>().is_err(), "anyone could connect");
//! # Ok(())
//! # }
//! ```

mod access;
mod address;
mod agui;
mod api;
mod attached;
mod body;
mod caller;
mod client_tool;
mod connection;
mod cors;
mod engines;
mod events;
mod file_stamp;
mod guard;
mod hint;
mod key_command;
mod keys;
mod limits;
mod linger;
mod log_queue;
mod logs;
mod mcp;
mod metrics;
mod openai;
mod openapi;
mod page;
mod permits;
mod probes;
mod problem;
mod program;
mod query;
mod rate;
mod recipients;
mod refusal;
mod reload;
mod request_body;
mod request_id;
mod retention;
mod routes;
mod server;
mod shutdown;
mod stop;
mod sweep;
mod tls;
mod token;
mod trace_parent;
mod turn;
mod turns;
mod worker;

pub use address::{ListenAddress, ListenAddressError, Protection};
pub use engines::EngineReplacer;
pub use key_command::{CreateKey, KeyCommand, KeyCommandError};
pub use keys::Keys;
pub use limits::ClientLimits;
pub use log_queue::write_in_time;
pub use metrics::Metrics;
pub use program::{Arguments, Command, Failure, run};
pub use server::{BindError, Server, Unfinished};
pub use stop::Stop;
pub use tls::{Tls, TlsError};
pub use token::DecisionToken;
pub use worker::WorkFailure;
