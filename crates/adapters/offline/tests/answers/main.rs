//! What the model answers, question by question.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod ask;
mod calculations;
mod calls;
mod help;
mod introduction;
mod reports;
