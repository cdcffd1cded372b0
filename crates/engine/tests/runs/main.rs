//! The engine's behavior, driven through its public interface with scripted models and tools and paused time.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod approvals;
mod endings;
mod events;
mod faults;
mod isolation;
mod sessions;
mod support;
mod tools;
