//! The engine's behavior, tested through its public interface with scripted models and tools and paused time.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod agents;
mod agents_in_sessions;
mod answers;
#[cfg(feature = "typed")]
mod answers_of_agents;
mod approvals;
mod ask_when;
mod brought;
mod cancelling;
mod channels;
mod client_tools;
mod clocks;
mod closings;
mod conduct;
mod context;
mod crashes;
mod delivery;
mod elsewhere;
mod endings;
mod events;
mod failing_models;
mod faults;
mod folders;
mod following;
mod forks;
mod full_logs;
mod governed;
mod hooks;
mod idempotency;
mod inboxes;
mod isolation;
mod known_sessions;
mod later_runs;
mod leases;
mod live_feed;
mod loading_models;
mod logs;
mod long_results;
mod media;
mod model_hooks;
mod owners;
mod questions;
mod replacing;
mod results;
mod sessions;
mod settings;
mod stand_ins;
mod stateless;
mod support;
mod suspending;
mod tool_hooks;
mod tools;
mod traces;
#[cfg(feature = "typed")]
mod typed;
mod vouching;
mod waiting;
mod warnings;
mod warrants;
mod written_agents;
