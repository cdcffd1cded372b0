//! Runs cases: several at a time, each as often as it says, and lets those that wait be left out.

mod attempt;
mod check;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use neuraxis_core::Reply;
use neuraxis_engine::{Orchestrator, Sessions, SystemClock};
use neuraxis_ports::{CancellationToken, Clock};
use tokio::time::MissedTickBehavior;

use crate::case::Case;
use crate::judge::Judge;
use crate::report::Report;
use crate::seen::Redact;

pub use check::CaseFault;

/// How many attempts run at a time, unless somebody says otherwise: few enough for the limits of most providers.
const JOBS: usize = 4;

/// How often a report is shown again, if attempts ended since.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs cases on an orchestrator.
///
/// Every run is one of the orchestrator: under its policy, in its store, in a session of its own whose id begins with `eval-`.
#[derive(Debug, Clone)]
pub struct Evals {
    orchestrator: Option<Orchestrator>,
    sessions: Sessions,
    cassettes: BTreeMap<PathBuf, Orchestrator>,
    judge: Judge,
    jobs: usize,
    repeat: Option<u32>,
    stop: CancellationToken,
    redact: Redact,
    is_no_answer: fn(&Reply) -> bool,
}

impl Evals {
    /// Runs cases on this orchestrator. One that is to judge needs the [agent](crate::judge) that does.
    #[must_use]
    pub fn new(orchestrator: &Orchestrator) -> Self {
        let sessions = orchestrator.sessions();
        Self {
            orchestrator: Some(orchestrator.clone()),
            ..Self::of_stored_runs(sessions)
        }
    }

    /// Looks at runs that are there already, without any model. A case that begins a run, or needs a judge, is an error then.
    #[must_use]
    pub fn of_stored_runs(sessions: Sessions) -> Self {
        Self {
            orchestrator: None,
            sessions,
            cassettes: BTreeMap::new(),
            judge: Judge::default(),
            jobs: JOBS,
            repeat: None,
            stop: CancellationToken::new(),
            redact: Redact::default(),
            is_no_answer: |_| false,
        }
    }

    /// Runs the cases about this recording on this orchestrator, which has it in place of models.
    #[must_use]
    pub fn cassette(mut self, file: PathBuf, orchestrator: Orchestrator) -> Self {
        self.cassettes.insert(file, orchestrator);
        self
    }

    /// Sets who judges.
    #[must_use]
    pub fn judge(mut self, judge: Judge) -> Self {
        self.judge = judge;
        self
    }

    /// Sets how many attempts run at a time; 4 unless somebody says otherwise, and at least 1.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// Runs each case so often, whatever it says.
    #[must_use]
    pub const fn repeat(mut self, times: u32) -> Self {
        self.repeat = Some(times);
        self
    }

    /// Stops when this is cancelled: no attempt begins any more, and those at work are cancelled and count as errors.
    #[must_use]
    pub fn stop_on(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Takes a run for one that no model was there to answer, and so for an error whatever its checks want, if this finds what
    /// was said last in it to be no answer, as `OfflineModel::is_no_answer` does.
    #[must_use]
    pub const fn no_answer_is(mut self, is_no_answer: fn(&Reply) -> bool) -> Self {
        self.is_no_answer = is_no_answer;
        self
    }

    /// Takes out of what reports quote whatever this takes out of a text, before long texts are cut. Checks and judges see
    /// what was said as it was said.
    #[must_use]
    pub fn redact(mut self, clean: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Redact::new(clean);
        self
    }

    /// Runs cases. What goes wrong with one is told in its report and stops no other.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the runs at work; [`stop_on`](Self::stop_on) keeps what there is.
    pub async fn run(&self, cases: &[Case]) -> Report {
        self.run_watched(cases, |_, _| {}).await
    }

    /// As [`run`](Self::run), and shows the report after each attempt, with the number of the case that it was of, from 0.
    /// Each second it is shown once more, without a number, if attempts ended since: whoever keeps it and leaves some out
    /// gets them so.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub async fn run_watched(
        &self,
        cases: &[Case],
        mut watch: impl FnMut(&Report, Option<usize>),
    ) -> Report {
        let clock = SystemClock;
        let begun = clock.now();
        let took = || {
            let took = clock.now().duration_since(begun);
            took.try_into().unwrap_or_default()
        };
        let mut report = Report::begin(begun, cases, self.repeat);
        let planned = cases.iter().enumerate().flat_map(|(index, case)| {
            let numbers = 1..=case.attempts(self.repeat);
            numbers.map(move |number| (index, case, number))
        });
        // Those that wait for their turn are left out once it is stopped; those at work end by themselves.
        let waiting = stream::iter(planned).take_until(self.stop.cancelled());
        let attempts = waiting
            .map(|(index, case, number)| async move { (index, self.attempt(case, number).await) });
        let mut attempts = std::pin::pin!(attempts.buffer_unordered(self.jobs));
        let mut again = tokio::time::interval(AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_shown_again = true;
        loop {
            tokio::select! {
                biased;
                ended = attempts.next() => {
                    let Some((index, attempt)) = ended else {
                        return report;
                    };
                    report.add(index, attempt, took());
                    watch(&report, Some(index));
                    is_shown_again = false;
                }
                _ = again.tick(), if !is_shown_again => {
                    watch(&report, None);
                    is_shown_again = true;
                }
            }
        }
    }
}
