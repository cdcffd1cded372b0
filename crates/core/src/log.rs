//! Reads the log of a run: the one place that says what records mean.
//!
//! [`Conversation`] is what one agent has said and heard. The machine's agents own one, and [`RunView`] rebuilds the same
//! from records, by the same methods. [`RunView`] is a fold over the records of one run and tells all that follows from
//! them; [`LogSummary`] is its small part that a store keeps beside the records, and [`Carried`] what all runs of a
//! session leave to the next. [`Tally`] is what one run did by model, role, tool and agent, and [`Stats`] what many runs add
//! up to. [`describe`] names in English what records hold.
//!
//! Reading needs no replay, so it works for logs of any loop version. Property tests hold it equal to the machine.
//! **Not for** deciding what happens next: that is the machine's (`run`).

mod carried;
mod closing;
mod conversation;
pub mod describe;
mod fold;
mod history;
mod latencies;
mod plan;
mod stats;
mod summary;
mod tally;
mod view;

pub use carried::Carried;
pub use closing::{LogEnd, closing_records};
pub use conversation::Conversation;
pub(crate) use conversation::{ReplySource, Unrecorded};
pub use history::{continued_history, forked_history, last_turn, run_messages};
pub use latencies::Latencies;
pub use plan::{checklist, standing_plan};
pub use stats::{Latency, Stats, StatsRow};
pub use summary::LogSummary;
pub use tally::{Tallied, Tally};
pub use view::{Asked, OpenAttempt, RunView};
