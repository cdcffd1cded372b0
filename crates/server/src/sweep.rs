//! Expires questions that were not answered in time, while the server runs.

use std::time::Duration;

use neuraxis::Orchestrator;
use neuraxis::core::with_causes;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics::Metrics;

/// How often to check for such questions, which stay open for hours or days.
const EVERY: Duration = Duration::from_secs(30);

/// The background task. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ExpirySweep(JoinHandle<()>);

impl ExpirySweep {
    /// Starts the task. Needs a tokio runtime.
    pub(crate) fn start(orchestrator: Orchestrator, metrics: Metrics) -> Self {
        Self(tokio::spawn(async move {
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                sweep(&orchestrator, &metrics).await;
            }
        }))
    }
}

impl Drop for ExpirySweep {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn sweep(orchestrator: &Orchestrator, metrics: &Metrics) {
    match orchestrator.approvals().sweep().await {
        Ok(swept) => {
            metrics.note_waiting(swept.waiting);
            for waiting in &swept.expired {
                let call = &waiting.request.tool_call_id;
                tracing::info!(run = %waiting.run_id, %call, "a call was not approved in time");
            }
            for (run, error) in &swept.left {
                tracing::warn!(%run, error = %with_causes(error), "cannot close an expired question yet");
            }
        }
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "cannot determine which questions have expired");
        }
    }
}
