//! Keeps what was recorded, or ends the run where there is no room for it.

use std::sync::Arc;

use neuraxis_core::{BudgetKind, Cancelled, Input, InputId, Step};
use neuraxis_ports::StoreError;

use crate::driver::{Driver, unrecorded};

impl Driver {
    /// Writes what happened since the last time. False if it cannot be kept: then the run ends here.
    pub(super) async fn keep(&mut self, step: &mut Step) -> bool {
        let Err(error) = self.write(step).await else {
            return true;
        };
        tracing::error!(run = %self.scope.run_id, %error, "the run's records cannot be kept; it ends here");
        self.outcome = Some(unrecorded(&error));
        false
    }

    /// Writes what is unwritten. If the log has no room for it, the run ends with the last step: nothing is lost.
    pub(super) async fn write(&mut self, step: &mut Step) -> Result<(), StoreError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let log = Arc::clone(&self.log);
        let error = match log.append(&mut self.unwritten).await {
            Err(error @ StoreError::RunTooLarge { .. }) if !step.status.is_ended() => error,
            other => return other,
        };
        tracing::warn!(run = %self.scope.run_id, %error, "the run ends here");
        let id = InputId::new(format!("log-full-{}", self.scope.run_id));
        let full = Input::Cancelled(Cancelled::at_limit(id, BudgetKind::Log));
        let Ok(end) = self.tree.advance(self.stamp(), full) else {
            return Err(error);
        };
        // What the step asks for has not begun and is not begun any more.
        (step.status, step.effects, step.wake_at) = (end.status, end.effects, end.wake_at);
        self.unwritten.extend(end.records);
        log.append(&mut self.unwritten).await
    }
}
