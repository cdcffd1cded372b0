//! Runs cases: several at a time, each as often as it asks for. Can be stopped before all of them have begun.

mod attempt;
mod check;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use neuraxis_engine::{Orchestrator, Sessions, SystemClock};
use neuraxis_ports::{CancellationToken, Clock};
use tokio::time::MissedTickBehavior;

use crate::case::Case;
use crate::judge::Judge;
use crate::observed::Redact;
use crate::report::Report;

pub use check::CaseFault;

/// The default number of attempts at a time: low enough for the rate limits of most providers.
const JOBS: usize = 4;

/// How often a report is shown again, if attempts have ended since.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Runs cases on an orchestrator.
///
/// Every run belongs to the orchestrator: it is under the orchestrator's policy, in its store, and in a session of its
/// own whose id begins with `eval-`.
#[derive(Debug, Clone)]
pub struct Evals {
    orchestrator: Option<Orchestrator>,
    sessions: Sessions,
    cassettes: BTreeMap<PathBuf, Orchestrator>,
    judge: Judge,
    jobs: usize,
    repeat: Option<u32>,
    earlier: Option<Report>,
    stop: CancellationToken,
    redact: Redact,
}

impl Evals {
    /// Creates a runner for this orchestrator. To judge, the orchestrator needs the [judging agent](crate::judge).
    #[must_use]
    pub fn new(orchestrator: &Orchestrator) -> Self {
        let sessions = orchestrator.sessions();
        Self {
            orchestrator: Some(orchestrator.clone()),
            ..Self::of_stored_runs(sessions)
        }
    }

    /// Creates a runner that checks runs that already exist, without any model. A case that starts a run or needs a
    /// judge is then an error.
    #[must_use]
    pub fn of_stored_runs(sessions: Sessions) -> Self {
        Self {
            orchestrator: None,
            sessions,
            cassettes: BTreeMap::new(),
            judge: Judge::default(),
            jobs: JOBS,
            repeat: None,
            earlier: None,
            stop: CancellationToken::new(),
            redact: Redact::default(),
        }
    }

    /// Runs the cases about this recording on this orchestrator, which uses the recording instead of models.
    #[must_use]
    pub fn cassette(mut self, file: PathBuf, orchestrator: Orchestrator) -> Self {
        self.cassettes.insert(file, orchestrator);
        self
    }

    /// Sets the judge.
    #[must_use]
    pub fn judge(mut self, judge: Judge) -> Self {
        self.judge = judge;
        self
    }

    /// Sets the number of attempts at a time; 4 by default, and at least 1.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// Sets the number of attempts of each case, whatever the case says.
    #[must_use]
    pub const fn repeat(mut self, times: u32) -> Self {
        self.repeat = Some(times);
        self
    }

    /// Continues an eval that did not come to its end: takes over the results of the cases that passed or failed in this
    /// earlier report of the same cases, and runs only the others. Cases are matched by name, so one that was changed
    /// since keeps its old result.
    #[must_use]
    pub fn resume(mut self, earlier: Report) -> Self {
        self.earlier = Some(earlier);
        self
    }

    /// Stops when this is cancelled: no further attempt begins, and attempts in progress are cancelled and count as
    /// errors.
    #[must_use]
    pub fn stop_on(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Applies this function to the text that reports quote, to remove secrets for example. It is applied before long
    /// texts are cut. Checks and judges see the original text.
    #[must_use]
    pub fn redact(mut self, clean: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Redact::new(clean);
        self
    }

    /// Runs cases. An error in one case is part of its report and does not stop the others.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the runs in progress; [`stop_on`](Self::stop_on) keeps the results so far.
    pub async fn run(&self, cases: &[Case]) -> Report {
        self.run_watched(cases, |_, _| {}).await
    }

    /// Like [`run`](Self::run), but shows the report after each attempt, with the index of the attempt's case, from 0.
    /// The report is also shown each second without an index, if attempts have ended since, so a caller that saves only
    /// some of the reports still gets the latest.
    ///
    /// # Cancel safety
    ///
    /// Same as [`run`](Self::run).
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
        if let Some(earlier) = &self.earlier {
            report.keep(earlier);
        }
        let is_open: Vec<bool> = report.cases.iter().map(|it| !it.has_verdict()).collect();
        let open = cases.iter().enumerate().zip(is_open);
        let open = open.filter_map(|(case, is_open)| is_open.then_some(case));
        let planned = open.flat_map(|(index, case)| {
            let numbers = 1..=case.attempts(self.repeat);
            numbers.map(move |number| (index, case, number))
        });
        // Once stopped, attempts that have not begun are skipped; those in progress end on their own.
        let waiting = stream::iter(planned).take_until(self.stop.cancelled());
        let attempts = waiting
            .map(|(index, case, number)| async move { (index, self.attempt(case, number).await) });
        let mut attempts = std::pin::pin!(attempts.buffer_unordered(self.jobs));
        let mut interval_timer = tokio::time::interval(REPORT_INTERVAL);
        interval_timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_report_current = true;
        loop {
            tokio::select! {
                biased;
                ended = attempts.next() => {
                    let Some((index, attempt)) = ended else {
                        return report;
                    };
                    report.add(index, attempt, took());
                    watch(&report, Some(index));
                    is_report_current = false;
                }
                _ = interval_timer.tick(), if !is_report_current => {
                    watch(&report, None);
                    is_report_current = true;
                }
            }
        }
    }
}
