//! Keeps a run that waits for somebody who is not here, where its log does not hold all that it goes on with.
//!
//! Such a run cannot be given back: nobody could read it from the store again. It holds its lease and takes what is posted to
//! it, as one at work does; whoever waits for it or listens to it is told that it waits, as of one that was put aside.

use std::sync::Arc;

use neuraxis_core::{DataPolicy, Input};
use neuraxis_ports::RequestContext;

use super::Driver;
use crate::run_end::EndSender;

impl Driver {
    /// Tells whether the run can wait in this process alone: the data policy keeps something out of its log.
    pub(super) fn is_bound_here(&self) -> bool {
        self.journal.slot.is_some() && self.journal.policy != DataPolicy::ALL
    }

    /// Tells whether the run waits here and all who wait for it were told so.
    pub(super) fn rests(&self) -> bool {
        self.end.is_sent()
    }

    /// Tells all who wait for the run that it waits, and lets go of what its request brought, such as its place among the runs
    /// at work.
    pub(super) fn rest(&mut self) {
        self.scope.request = kept(&self.scope.request);
        self.journal.feed.end();
        let waits = Arc::new(self.end());
        self.end.send(Ok(waits));
    }

    /// Has whoever reaches the run from now on wait for what it comes to, if it rested and now something happens to it.
    pub(super) fn wake(&mut self, input: &Input) {
        if !self.rests() || matches!(input, Input::TimePassed) {
            return;
        }
        self.end = EndSender::default();
        self.journal.feed.go_on();
        if let Some(slot) = &self.journal.slot {
            slot.show_end(self.end.receiver());
        }
    }
}

/// Returns what a run that waits keeps of its request: whose it is, who is asked, and what is on record, but none of the
/// program's other values.
fn kept(request: &RequestContext) -> RequestContext {
    let owner = request.owner().map(str::to_owned);
    let mut kept = RequestContext::default().owned_by(owner);
    kept = kept.restored(&request.stored_values());
    if let Some(approver) = request.approver() {
        kept = kept.approved_by(Arc::clone(approver));
    }
    if let Some(time) = request.questions_open_for() {
        kept = kept.with_questions_open_for(time);
    }
    kept
}
