//! The loop rules of the design, a module for each group, a test for each clause.

mod approvals;
mod cancelling;
mod client_tools;
mod counting;
mod deadlines;
mod gathering;
mod inputs;
mod last_answers;
mod logs;
mod replies;
mod resuming;
mod scheduling;
mod steering;
mod tool_errors;
mod unknown_tools;
