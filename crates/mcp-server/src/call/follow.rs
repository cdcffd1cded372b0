//! Follows a run to where it ends or waits, and tells the client how it gets on.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use neuraxis_core::{RecordBody, RunId, Seq};
use neuraxis_engine::{Event, Events, OrchestratorResult, RunHandle};
use tokio::time::timeout;

use super::{Asking, Call};
use crate::outcome::with_causes;

/// How long a client may take what was not told it yet of a run that has ended.
const LAST_PROGRESS: Duration = Duration::from_secs(1);

/// A run that is followed to where it ends or asks.
pub(super) struct Followed {
    events: Option<Events>,
    result: BoxFuture<'static, Result<OrchestratorResult, String>>,
}

/// Why a call has no result of its run.
pub(super) enum Stopped {
    /// The client wants none.
    GivenUp,
    /// There is none, and why.
    Failed(String),
}

impl Call<'_> {
    /// Waits for a run to end or to ask, and tells the client how it gets on.
    pub(super) async fn follow(
        &mut self,
        followed: Followed,
    ) -> Result<OrchestratorResult, Stopped> {
        let Followed { events, mut result } = followed;
        let Some(mut events) = events else {
            return tokio::select! {
                () = self.given_up.cancelled() => Err(Stopped::GivenUp),
                result = result => result.map_err(Stopped::Failed),
            };
        };
        // A run that was put aside is silent until somebody decides.
        let ends_here = |event: &Event| {
            let waits =
                matches!(event, Event::Record(it) if matches!(it.body, RecordBody::Waiting(_)));
            waits && self.asking != Asking::Nobody
        };
        let (progress, messages) = (&mut self.progress, &mut self.messages);
        let mut told = pin!(async {
            while let Some(event) = events.next().await {
                progress.hear(&event).await;
                messages.hear(&event).await;
                if ends_here(&event) {
                    break;
                }
            }
        });
        let mut is_told = false;
        loop {
            tokio::select! {
                biased;
                () = self.given_up.cancelled() => return Err(Stopped::GivenUp),
                () = &mut told, if !is_told => is_told = true,
                result = &mut result => {
                    if !is_told {
                        // Whoever does not take it in time has the result all the same.
                        let _ = timeout(LAST_PROGRESS, told).await;
                    }
                    return result.map_err(Stopped::Failed);
                }
            }
        }
    }

    /// Follows a run on from one of its records, whoever lets it go on.
    pub(super) async fn follow_on(
        &self,
        run: RunId,
        last: Option<Seq>,
    ) -> Result<Followed, String> {
        let runs = self.runs();
        let events = match last {
            Some(last) => Some(
                runs.attach(run, last)
                    .await
                    .map_err(|error| lost(run, &error))?,
            ),
            None => None,
        };
        let result = async move {
            let result = runs.result(run).await;
            result.map_err(|error| lost(run, &error))
        };
        Ok(Followed {
            events,
            result: result.boxed(),
        })
    }
}

impl Followed {
    /// Follows a run that was begun here.
    pub(super) fn here(run: RunHandle) -> Self {
        let events = run.events();
        let result = async move {
            let result = run.result().await;
            result.map_err(|error| {
                let (run, session) = (run.run_id(), run.session_id());
                format!(
                    "run {run} of session {session} has no result: {}",
                    with_causes(&error)
                )
            })
        };
        Self {
            events: Some(events),
            result: result.boxed(),
        }
    }
}

/// Says that a run cannot be followed.
pub(super) fn lost(run: RunId, error: &dyn std::error::Error) -> String {
    format!("run {run} cannot be followed: {}", with_causes(error))
}
