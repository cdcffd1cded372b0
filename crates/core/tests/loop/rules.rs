//! The loop rules of the design, a module for each group, a test for each clause.

mod approvals;
mod budgets;
mod cancelling;
mod client_tools;
mod counting;
mod deadlines;
mod gathering;
mod hooks;
mod inputs;
mod last_answers;
mod logs;
mod replies;
mod resuming;
mod scheduling;
mod steering;
mod sub_agents;
mod sub_agents_reached;
mod tool_errors;
mod unknown_tools;
