//! Inputs that the machine refuses, and runs whose state contradicts itself, which only a defect can cause.
//!
//! Nothing more is done with such a state. The run is left as it is on record, like one whose process died: it is
//! resumed from its log, with a new state. If the defect occurs again before the run makes progress, the run is
//! ended after a few attempts (see `MAX_FUTILE_RESUMES`), so it does not keep its session busy forever.

use std::time::Duration;

use neuraxis_core::{InputError, Step};

use crate::driver::{Driver, LeftBecause};

impl Driver {
    /// Returns the step that results from an input that the machine refuses. The machine is unchanged and continues,
    /// unless its state contradicts itself: then the run is left.
    pub(super) fn refused(&mut self, error: InputError, wake_at: Option<Duration>) -> Step {
        let run = self.scope.run_id;
        if let InputError::Inconsistent(_) = error {
            tracing::error!(%run, %error, "a defect: the run is left as it is on record, to be resumed from there");
            self.left = Some(LeftBecause::Defect(error));
        } else {
            // An impossible answer comes from outside.
            tracing::warn!(%run, %error, "an input was refused");
        }
        Step {
            status: self.tree.status(),
            effects: Vec::new(),
            records: Vec::new(),
            wake_at,
        }
    }

    /// Lets other processes resume the run from its log. What was sent to it and not taken is kept for the next holder;
    /// what is in progress is stopped, and what is not on record is dropped.
    pub(super) async fn leave_to_recovery(&mut self) {
        // From now on senders on the handle are told that nothing is accepted here.
        self.inbox.close();
        self.post_unread_inputs().await;
        self.stop_work();
        self.unwritten.clear();
        if let Some(slot) = &self.journal.slot {
            slot.note_defect();
        }
        self.journal.expire().await;
    }
}
