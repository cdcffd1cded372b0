//! The server as its clients see it. Most tests drive the program itself.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set up its world has to fail"
)]

mod agui;
mod altered;
mod api;
mod attachments;
mod bad_input;
#[cfg(target_os = "linux")]
mod busy;
mod client_tools;
mod cors;
mod deploy_files;
#[cfg(unix)]
mod documents;
mod endings;
mod fork;
mod framing;
mod idempotency;
#[cfg(target_os = "linux")]
mod idle_streams;
mod key_ceilings;
mod key_commands;
mod keyed_mcp;
mod keys;
mod limits;
#[cfg(unix)]
mod log_copy;
mod mcp;
mod mcp_own_client;
mod model_faults;
mod openai;
mod openai_clients;
mod openapi;
mod operations;
#[cfg(unix)]
mod otlp;
mod owners;
mod page;
mod patience;
mod promises;
mod questions;
mod real_model;
#[cfg(unix)]
mod reload;
mod session_pages;
mod start;
#[cfg(unix)]
mod stop;
mod streams;
mod support;
mod titles;
#[cfg(unix)]
mod tls;
mod traced;
mod turns;
