//! Keeps what a step recorded, or ends the run where there is no room for it.

use std::sync::Arc;

use neuraxis_core::{BudgetKind, Cancelled, Input, InputId, Step};
use neuraxis_ports::StoreError;

use crate::driver::Driver;

impl Driver {
    /// Keeps the records of a step. If the log has no room for them, the run ends with this step: nothing of it is lost.
    pub(super) async fn keep(&mut self, step: &mut Step) -> Result<(), StoreError> {
        let log = Arc::clone(&self.log);
        let error = match log.append(&mut step.records).await {
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
        step.records.extend(end.records);
        log.append(&mut step.records).await
    }
}
