//! What governance guarantees for tool calls, tested through the engine's public interface: hostile models, tools and
//! servers, and users who approve, edit, deny, or do not answer.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod approvals;
mod budgets;
mod expiry;
mod foreign;
mod grants;
mod injections;
mod promises;
mod retries;
mod support;
mod taint;
mod threats;
mod tool_source;
mod verdicts;
