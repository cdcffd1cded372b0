//! A script that is being played to one call.

use std::collections::VecDeque;

use neuraxis_core::{LlmError, LlmErrorKind, ReplyDelta};
use neuraxis_ports::CancellationToken;

use super::script::{Script, ScriptStep};
use crate::call::Open;

/// The rest of a script. Dropping it abandons the call.
pub(super) struct Playing {
    steps: VecDeque<ScriptStep>,
    cancellation: CancellationToken,
    _open: Open,
}

impl Playing {
    pub(super) fn new(script: Script, cancellation: CancellationToken, open: Open) -> Self {
        Self {
            steps: script.steps,
            cancellation,
            _open: open,
        }
    }

    /// Returns the next item: a delta, or an error as the last item; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<ReplyDelta, LlmError>> {
        if let Err(error) = self.reach_a_delta().await {
            self.steps.clear();
            return Some(Err(error));
        }
        match self.steps.pop_front() {
            Some(ScriptStep::Delta(delta)) => Some(Ok(delta)),
            _ => None,
        }
    }

    /// Plays the steps before the next delta, or before the end.
    pub(super) async fn reach_a_delta(&mut self) -> Result<(), LlmError> {
        while let Some(step) = self.steps.front() {
            if self.cancellation.is_cancelled() {
                return Err(LlmError::new(
                    LlmErrorKind::Cancelled,
                    "given up by its caller",
                ));
            }
            match step {
                ScriptStep::Delta(_) => return Ok(()),
                ScriptStep::Fail(error) => return Err(error.clone()),
                ScriptStep::Hang => self.cancellation.cancelled().await,
                ScriptStep::Wait(wait) => {
                    if self
                        .cancellation
                        .run_until_cancelled(tokio::time::sleep(*wait))
                        .await
                        .is_some()
                    {
                        self.steps.pop_front();
                    }
                }
            }
        }
        Ok(())
    }
}
