//! What somebody posted to a run: it is kept in the run's inbox until the run takes it.

use neuraxis_core::{ClientResult, Input, InputId};

use crate::driver::Driver;

impl Driver {
    /// Takes over what was posted to the run, by whichever process; true if there was anything.
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

    /// Returns the id of an input that was found in the inbox, and no longer counts it as something to be taken.
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
