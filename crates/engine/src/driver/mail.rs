//! What somebody posted to a run: it is kept in the run's inbox until the run takes it.

use futures_util::future::BoxFuture;
use neuraxis_core::{ClientResult, Input, InputId, RunId};

use crate::driver::Driver;
use crate::runs::Runs;

impl Driver {
    /// Takes over what was posted to the run, by whichever process; true if there was anything.
    pub(super) async fn takes_mail(&mut self) -> bool {
        let posted = self.log.mail().await;
        let is_any = !posted.is_empty();
        for entry in posted {
            if !self.mail.contains(&entry.id) {
                self.ready.push_back(entry.input.input());
                self.mail.push(entry.id);
            }
        }
        is_any
    }

    /// Returns the id of an input that was found in the inbox, and no longer counts it as something to be taken.
    pub(super) fn posted_id(&mut self, input: &Input) -> Option<InputId> {
        if self.mail.is_empty() {
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
        let place = self.mail.iter().position(|known| *known == id)?;
        Some(self.mail.swap_remove(place))
    }
}

/// Lets a run go on that was put aside while somebody posted to it. As a task of its own: this one is over.
pub(super) fn take_up_again(runs: Runs, run_id: RunId) {
    let tasks = runs.parts.engine.tasks.clone();
    let resumed: BoxFuture<'static, ()> = Box::pin(async move {
        if let Err(error) = runs.resume(run_id, Vec::new()).await {
            tracing::debug!(run = %run_id, %error, "what was posted last is taken elsewhere, or later");
        }
    });
    tasks.spawn(resumed);
}
