//! Tests of the real binary, as a user or a script calls it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

mod agents;
mod approvals;
mod ask;
mod attach;
mod canaries;
#[cfg(unix)]
mod changed_meanwhile;
mod channels;
mod chat;
mod config;
mod diagnosis;
#[cfg(unix)]
mod documents;
mod eval;
mod eval_results;
mod everyday;
mod first_contact;
mod formats;
mod help;
mod here;
#[cfg(unix)]
mod interrupt;
#[cfg(unix)]
mod killed;
mod layers;
#[cfg(unix)]
mod layouts;
mod long_results;
mod machine;
mod mcp;
mod mcp_injection;
mod mcp_own_client;
mod mcp_pins;
mod mcp_serve;
mod model_faults;
mod no_answer;
#[cfg(target_os = "linux")]
mod no_sandbox;
#[cfg(unix)]
mod odd_machines;
mod owners;
#[cfg(unix)]
mod person;
mod piped;
mod plan;
mod policy;
mod project;
mod promises;
mod prompts;
mod provider;
mod providers;
mod real_model;
mod recordings;
mod research;
mod runs;
#[cfg(target_os = "linux")]
mod sandbox;
mod schema;
#[cfg(unix)]
mod screen;
mod scripted;
mod sessions;
mod stats;
#[cfg(unix)]
mod terminal;
mod titles;
mod told;
mod tools;
mod traced;
mod trust;
mod warrants;
mod web;
mod writing;
mod wrong;
