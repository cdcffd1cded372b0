//! The calls that are under way on a connection: whom their progress is reported to, and who is asked what the server asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::{ProgressSteps, SessionId};
use neuraxis_ports::{Person, Progress, ToolContext};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::time::Instant;

use crate::text::one_line;

/// How often progress of a call is passed on at the most; what is reported in between is dropped.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The most characters of a report.
const MAX_MESSAGE: usize = 200;

/// The calls that are under way.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Vec<Call>>);

#[derive(Debug)]
struct Call {
    token: ProgressToken,
    progress: Progress,
    person: Person,
    /// Whose call it is.
    session: Option<SessionId>,
    owner: Option<String>,
    reported: Option<Instant>,
}

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    calls: Arc<Calls>,
    token: ProgressToken,
}

impl Calls {
    /// Notes that a call is under way.
    pub(crate) fn open(self: &Arc<Self>, token: ProgressToken, ctx: &ToolContext) -> Open {
        self.lock().push(Call {
            token: token.clone(),
            progress: ctx.progress.clone(),
            person: ctx.person.clone(),
            session: ctx.turn.session_id.clone(),
            owner: ctx.owner().map(str::to_owned),
            reported: None,
        });
        Open {
            calls: Arc::clone(self),
            token,
        }
    }

    /// Passes progress on to the call that it is of; nowhere, if there is none.
    pub(crate) fn report(&self, report: &ProgressNotificationParam) {
        let progress = {
            let mut calls = self.lock();
            let call = calls
                .iter_mut()
                .find(|call| call.token == report.progress_token);
            let Some(call) = call else { return };
            let now = Instant::now();
            let is_soon = |before: Instant| now.saturating_duration_since(before) < MIN_INTERVAL;
            if call.reported.is_some_and(is_soon) {
                return;
            }
            call.reported = Some(now);
            call.progress.clone()
        };
        let message = report.message.as_deref().unwrap_or_default();
        progress.report(
            &one_line(message, MAX_MESSAGE),
            None,
            steps(report.progress, report.total),
        );
    }

    /// Returns who is behind the calls that are under way: nobody where they are of different people, since a question
    /// of a server does not say whose it is, and where there are none.
    pub(crate) fn person(&self) -> Option<Person> {
        let calls = self.lock();
        let latest = calls.last()?;
        let is_same = |call: &Call| call.session == latest.session && call.owner == latest.owner;
        calls.iter().all(is_same).then(|| latest.person.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.calls.lock().retain(|call| call.token != self.token);
    }
}

/// Counts progress in whole steps; shares of a whole in percent.
fn steps(done: f64, total: Option<f64>) -> Option<ProgressSteps> {
    let whole = |number: f64| -> Option<u64> {
        let is_countable = number.is_finite() && (0.0..=1e15).contains(&number);
        is_countable.then(|| number.round() as u64)
    };
    match total {
        Some(total) if total > 0.0 && total <= 1.0 => Some(ProgressSteps {
            done: whole(done / total * 100.0)?,
            total: Some(100),
        }),
        total => Some(ProgressSteps {
            done: whole(done)?,
            total: total.and_then(whole),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_counted_in_whole_steps_whatever_a_server_counts() {
        let count = |done, total| steps(done, total).map(|steps| (steps.done, steps.total));
        assert_eq!(count(3.0, Some(5.0)), Some((3, Some(5))));
        assert_eq!(count(0.25, Some(1.0)), Some((25, Some(100))));
        assert_eq!(count(7.6, None), Some((8, None)));
        assert_eq!(count(1.0, Some(f64::INFINITY)), Some((1, None)));
        for hostile in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(count(hostile, Some(5.0)), None);
        }
    }
}
