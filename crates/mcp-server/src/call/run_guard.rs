//! Ends the run of a call whose client no longer wants a result. A run that a stopping server leaves behind continues.

use neuraxis_core::{RunId, with_causes};
use neuraxis_engine::{ResumeError, Runs};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::server::McpServer;
use crate::shutdown::SHUTDOWN;

/// Why a run is cancelled.
pub(super) const GIVEN_UP: &str =
    "the MCP client cancelled the call or disconnected, or its server was told to stop";

/// Ends a run on drop, unless it is settled: its client no longer wants the result.
pub(super) struct RunGuard<'a> {
    server: &'a McpServer,
    runs: Runs,
    run: RunId,
    pub(super) is_settled: bool,
}

impl<'a> RunGuard<'a> {
    pub(super) const fn new(server: &'a McpServer, runs: Runs, run: RunId) -> Self {
        Self {
            server,
            runs,
            run,
            is_settled: false,
        }
    }
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        if self.server.stopping.is_cancelled() {
            return;
        }
        // If the runtime has shut down, the run has ended too.
        let (false, Ok(runtime)) = (self.is_settled, Handle::try_current()) else {
            return;
        };
        self.server
            .tasks
            .spawn_on(end(self.runs.clone(), self.run), &runtime);
    }
}

async fn end(runs: Runs, run: RunId) {
    let ended = async {
        runs.cancel(run, GIVEN_UP).await?;
        runs.result(run).await
    };
    match timeout(SHUTDOWN.recording, ended).await {
        Ok(Ok(_) | Err(ResumeError::Ended(_))) => {}
        Ok(Err(error)) => {
            tracing::warn!(%run, error = with_causes(&error), "a call was abandoned, but its run did not end");
        }
        Err(_) => {
            tracing::warn!(%run, "a call was abandoned, and its run is slow to end");
        }
    }
}
