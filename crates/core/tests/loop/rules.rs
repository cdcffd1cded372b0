//! The loop rules of the design, a module for each group, a test for each clause.

mod approvals;
mod budgets;
mod cancelling;
mod choices;
mod client_tools;
mod counting;
mod deadlines;
mod failures_told;
mod gathering;
mod histories;
mod hooks;
mod inputs;
mod last_answers;
mod logs;
mod profiles;
mod repeats;
mod replies;
mod resuming;
mod scheduling;
mod steering;
mod sub_agents;
mod sub_agents_reached;
mod tool_errors;
mod trimming;
mod unknown_tools;
