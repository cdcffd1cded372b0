//! A run's use of the store while it is driven: storing its records, ending the run if they exceed its limits, leaving
//! it if they cannot be stored at all, and keeping posted inputs in its inbox until the run takes them.

use std::sync::Arc;

use neuraxis_core::{
    BudgetKind, Cancelled, ClientResult, InboxEntry, InboxInput, Input, InputId, Step,
};
use neuraxis_ports::StoreError;

use crate::driver::{Driver, LeftBecause};

impl Driver {
    /// Writes what happened since the last write. Returns `false` if it cannot be stored: then nothing more happens
    /// here.
    pub(super) async fn persist(&mut self, step: &mut Step) -> bool {
        let Err(error) = self.write(step).await else {
            return true;
        };
        self.lose(error);
        false
    }

    /// Leaves the run as it is on record: it has not ended, and continues wherever it is resumed. What is in progress
    /// is stopped.
    pub(super) fn lose(&mut self, error: StoreError) {
        let run = self.scope.run_id;
        match &error {
            StoreError::Stale(_) => {
                tracing::warn!(%run, "another process holds the run, or may hold it by now; this process stops driving it");
            }
            error => {
                tracing::error!(%run, %error, "could not store the run's records; the run is left to be resumed later");
            }
        }
        if let Some(slot) = &self.journal.slot {
            slot.note_lost();
        }
        for (_, cancellation) in self.running.drain(..) {
            cancellation.cancel();
        }
        self.left = Some(LeftBecause::Lost(error));
    }

    /// Writes the unwritten records. If the log has no space for them, the run ends with the last step, and nothing is
    /// lost.
    pub(super) async fn write(&mut self, step: &mut Step) -> Result<(), StoreError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let journal = Arc::clone(&self.journal);
        let error = match journal.append(&mut self.unwritten).await {
            Err(error @ StoreError::RunTooLarge { .. }) if !step.status.is_ended() => error,
            other => return other,
        };
        tracing::warn!(run = %self.scope.run_id, %error, "the log has no space for the run's records; the run ends");
        let id = InputId::new(format!("log-full-{}", self.scope.run_id));
        let full = Input::Cancelled(Cancelled::at_limit(id, BudgetKind::Log));
        let Ok(end) = self.tree.advance(self.stamp(), full) else {
            return Err(error);
        };
        // The effects of the step have not begun, and will not begin any more.
        (step.status, step.effects, step.wake_at) = (end.status, end.effects, end.wake_at);
        self.unwritten.extend(end.records);
        journal.append(&mut self.unwritten).await
    }

    /// Reads what was posted to the run, by any process; returns `true` if there was anything.
    pub(super) async fn read_inbox(&mut self) -> bool {
        let posted = self.journal.inbox().await;
        let is_any = !posted.is_empty();
        for entry in posted {
            if !self.posted.contains(&entry.id) {
                self.ready.push_back(entry.input.input());
                self.posted.push(entry.id);
            }
        }
        is_any
    }

    /// Posts to the run's inbox what was sent through its handle and not taken yet; returns `true` if there was
    /// anything.
    pub(super) async fn post_unread_inputs(&mut self) -> bool {
        let mut is_any = false;
        while let Ok(mut input) = self.inbox.try_recv() {
            let key = &self.engine.approval_key;
            key.sign_input(self.scope.run_id, &mut input);
            if let Some(input) = InboxInput::of(*input) {
                self.journal.post(InboxEntry::new(input)).await;
                is_any = true;
            }
        }
        is_any
    }

    /// Returns the id of an input that was found in the inbox, and removes it from the inputs to be taken.
    pub(super) fn posted_id(&mut self, input: &Input) -> Option<InputId> {
        if self.posted.is_empty() {
            return None;
        }
        let id = match input {
            Input::ApprovalDecided(decided) => decided.id.clone(),
            Input::Steered(steered) => steered.id.clone(),
            Input::Cancelled(cancelled) => cancelled.id.clone(),
            Input::ToolFinished(finished) => {
                ClientResult::input_id(finished.effect_id, finished.attempt)
            }
            _ => return None,
        };
        let index = self.posted.iter().position(|posted| *posted == id)?;
        Some(self.posted.swap_remove(index))
    }
}
