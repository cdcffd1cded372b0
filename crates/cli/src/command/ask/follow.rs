//! Follows a run to its end: shows it, lets Ctrl-C end it, and says how it went.

use neuraxis::{Events, FinishReason, OrchestratorResult, RunHandle, RunStatus};
use neuraxis_app::App;

use super::Format;
use super::view::View;
use crate::error::CommandError;
use crate::interrupt::Interrupt;

/// Shows a run to its end.
pub(crate) async fn watch(
    app: &App,
    format: Format,
    handle: RunHandle,
    events: Events,
) -> Result<(), CommandError> {
    let mut view = View::new(format);
    for notice in &app.notices {
        view.notice(notice);
    }
    let interrupt = Interrupt::watch({
        let handle = handle.clone();
        move || cancel(&handle, "interrupted by the user")
    })
    .await;
    if let Err(error) = view.follow(events).await {
        // Nobody reads the answer anymore. The run ends as it does on Ctrl-C: with a valid history.
        cancel(&handle, "nobody reads the output");
        handle.result().await;
        return Err(error.into());
    }
    let Some(result) = handle.result().await else {
        let error = anyhow::anyhow!("the run crashed: this is a defect of neuraxis");
        return Err(CommandError::failed(error));
    };
    view.finish(&result)?;
    verdict(&result, &interrupt)
}

/// Ends a run.
fn cancel(handle: &RunHandle, reason: &str) {
    // A run that has ended already needs no cancelling.
    let _ = handle.cancel(reason);
}

/// Says how it went.
pub(super) fn verdict(
    result: &OrchestratorResult,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    if result.status == RunStatus::Done {
        return Ok(());
    }
    if result.status == RunStatus::Interrupted && interrupt.happened() {
        return Err(CommandError::interrupted());
    }
    let reason = result.finish_reason.as_ref();
    let reason = reason.map_or_else(|| "it waits".to_owned(), FinishReason::to_string);
    let error = anyhow::anyhow!(reason).context("the run did not come to an answer");
    Err(CommandError::failed(error).hint("add --format events to see every step"))
}
