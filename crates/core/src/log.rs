//! Reads the log of a run: the one place that defines what records mean.
//!
//! [`Conversation`] holds one agent's messages. Each of the machine's agents owns one, and [`RunView`] rebuilds the
//! same conversations from records with the same methods. [`RunView`] is a fold over the records of one run and answers
//! every question about it. [`LogSummary`] is the small part of it that a store keeps beside the records, and
//! [`Carried`] is what all runs of a session pass on to the next run. [`Tally`] breaks down one run by model, role,
//! tool and agent, and [`Stats`] aggregates many runs. [`describe`] describes the contents of records in English.
//!
//! Reading needs no replay, so it works for logs of any loop version. Property tests check that it agrees with the
//! machine. **Not for** deciding what happens next: the machine (`run`) does that.

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
pub(crate) use conversation::{Cut, ReplySource, Unrecorded};
pub use history::{continued_history, forked_history, last_turn, root_records, run_messages};
pub use latencies::Latencies;
#[cfg(feature = "schema")]
pub(crate) use plan::RecordedPlan;
pub use plan::{checklist, standing_plan};
pub use stats::{Latency, Stats, StatsRow};
pub use summary::LogSummary;
pub use tally::{Tallied, Tally};
pub use view::{OpenApproval, OpenAttempt, RunView};
