//! Runs that another process holds, or held when it died: a dead process keeps its runs until their leases have run out.
//!
//! Nobody can tell a process that died just now from one that is busy, except by waiting: one that lives renews its lease.

use std::time::Duration;

use anyhow::anyhow;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::{Cancelled, InboxInput, InputId, PendingKind, RunId};
use neuraxis::engine::{ResumeError, UuidV7};
use neuraxis::ports::{Ids, RunSummary, SessionStore, StoreError};
use neuraxis::{RunHandle, RunStatus};
use neuraxis_app::App;

use super::ask;
use crate::error::CommandError;
use crate::interrupt::Signals;
use crate::progress::Progress;
use crate::wording::counted;

/// How often it is looked whether a run is free.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Takes a run up. Where a process holds it that may have died, its lease is waited for.
pub(in crate::command) async fn take_up(app: &App, run: RunId) -> Result<RunHandle, CommandError> {
    let resume = async || app.orchestrator.resume(run, Vec::new()).await;
    take_up_with(app, run, resume).await
}

/// As [`take_up`], for a person who was shown what the run has open.
pub(in crate::command) async fn take_up_by_person(
    app: &App,
    run: RunId,
) -> Result<RunHandle, CommandError> {
    let resume = async || app.orchestrator.resume_by_person(run).await;
    take_up_with(app, run, resume).await
}

async fn take_up_with(
    app: &App,
    run: RunId,
    resume: impl AsyncFn() -> Result<RunHandle, ResumeError>,
) -> Result<RunHandle, CommandError> {
    let mut patience = Patience::default();
    loop {
        match resume().await {
            Err(ResumeError::Store(StoreError::SessionBusy { .. })) => {
                patience.wait(app.store.as_ref(), run).await?;
            }
            resumed => return patience.hand_over(resumed?).await,
        }
    }
}

/// Frees the session of a run that never began. Where a process holds it that may have died, its lease is waited for.
pub(in crate::command) async fn release(app: &App, run: &RunSummary) -> Result<(), CommandError> {
    let mut patience = Patience::default();
    loop {
        let released = app.orchestrator.release(&run.session, run.run_id);
        match released.await {
            Err(ResumeError::Store(StoreError::SessionBusy { .. })) => {
                patience.wait(app.store.as_ref(), run.run_id).await?;
            }
            released => return Ok(released?),
        }
    }
}

/// Ends a run, whoever holds it: a process that lives ends it itself, and one that died is waited for.
pub(in crate::command) async fn end(app: &App, run: RunId) -> Result<(), CommandError> {
    let id = InputId::new(UuidV7.new_id().to_string());
    let wish = Cancelled::new(id, "cancelled by the user");
    app.orchestrator
        .post(run, InboxInput::Cancelled(wish))
        .await?;
    let mut patience = Patience::default();
    loop {
        let summary = app.store.run(run).await?;
        if summary.ended_at.is_some() {
            return Ok(());
        }
        if summary.leased_until.is_none() {
            match app.orchestrator.resume_by_person(run).await {
                // It hears of the wish when it is taken up, here or by whoever was quicker.
                Ok(_) | Err(ResumeError::AtWork(_) | ResumeError::Ended(_)) => {}
                Err(ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_))) => {}
                // One that nobody could go on with was ended as it was taken up.
                Err(ResumeError::Closed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        patience.look_later(&summary, Holder::ToldToEnd).await?;
    }
}

/// Says that a session has a run which has not ended, and what can be done about that.
pub(in crate::command) async fn busy(store: &dyn SessionStore, run: RunId) -> CommandError {
    let summary = match store.run(run).await {
        Ok(summary) => summary,
        Err(error) => return error.into(),
    };
    let error = CommandError::failed(anyhow!(what_it_does(&summary)));
    if summary.leased_until.is_none() && waits_for_a_person(&summary) {
        return error
            .hint(format!(
                "`neuraxis approvals show {run}` shows what would run"
            ))
            .hint(format!("`neuraxis runs resume {run} --cancel` ends it"));
    }
    error.hint(format!(
        "`neuraxis runs resume {run}` goes on with it{}; with --cancel it ends it",
        match summary.leased_until {
            Some(_) => " unless that process is alive",
            None => "",
        }
    ))
}

/// Says how it is with a run that has not ended.
pub(in crate::command) fn what_it_does(summary: &RunSummary) -> String {
    let (session, run) = (&summary.session, summary.run_id);
    if let Some(until) = summary.leased_until {
        let left = in_seconds(left(until));
        return format!(
            "session {session} is busy with run {run}: another process has it, or had it when it died and keeps it for {left}"
        );
    }
    if summary.imported {
        return format!(
            "session {session} has run {run}, which was imported and goes on only if you say so"
        );
    }
    match summary.pending.len() {
        0 => {
            format!("session {session} has run {run}, which was left behind when its process died")
        }
        _ if !waits_for_a_person(summary) => {
            format!(
                "session {session} has run {run}, which waits for the results of its client's tools"
            )
        }
        1 => format!("session {session} has run {run}, which waits for your approval of a call"),
        calls => {
            format!(
                "session {session} has run {run}, which waits for your approval of {calls} calls"
            )
        }
    }
}

fn waits_for_a_person(summary: &RunSummary) -> bool {
    let mut pending = summary.pending.iter();
    summary.status == RunStatus::Waiting && pending.any(|it| it.kind == PendingKind::Approval)
}

/// Waits for a lease, and says so.
#[derive(Debug, Default)]
pub(in crate::command) struct Patience {
    /// Until when the lease lasted when it was seen first.
    until: Option<Timestamp>,
    progress: Option<Progress>,
    /// From the first look on: what comes while the store is asked counts, too.
    signals: Option<Signals>,
}

/// What becomes of the holder of a run, if it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// It goes on, and nobody else can.
    GoesOn,
    /// It was told to end the run.
    ToldToEnd,
}

impl Patience {
    /// Waits until a lease has run out or was given back. Fails if its holder turns out to live.
    pub(in crate::command) async fn wait(
        &mut self,
        store: &dyn SessionStore,
        run: RunId,
    ) -> Result<(), CommandError> {
        loop {
            let summary = store.run(run).await?;
            if summary.ended_at.is_some() {
                return Err(ResumeError::Ended(run).into());
            }
            self.look_later(&summary, Holder::GoesOn).await?;
            if store.run(run).await?.leased_until.is_none() {
                return Ok(());
            }
        }
    }

    /// Says what is waited for, and waits a little.
    async fn look_later(
        &mut self,
        summary: &RunSummary,
        holder: Holder,
    ) -> Result<(), CommandError> {
        let run = summary.run_id;
        if let Some(until) = summary.leased_until {
            let first = *self.until.get_or_insert(until);
            if until > first && holder == Holder::GoesOn {
                return Err(at_work(run));
            }
            let left = in_seconds(left(until));
            let progress = self.progress.get_or_insert_with(|| {
                let progress = Progress::new();
                let what = match holder {
                    Holder::GoesOn => "it is taken up",
                    Holder::ToldToEnd => "it ends",
                };
                progress.notice(&format!(
                    "another process has run {run}, or had it when it died: {what} in {left} at the latest, unless that \
                     process is alive"
                ));
                progress
            });
            progress.activity(&format!("waiting for run {run}: {left}"));
        }
        let signals = match &mut self.signals {
            Some(signals) => signals,
            None => {
                let signals = Signals::listen().map_err(anyhow::Error::from)?;
                self.signals.insert(signals)
            }
        };
        tokio::select! {
            biased;
            signal = signals.next() => Err(CommandError::interrupted(signal)),
            () = tokio::time::sleep(LOOK_EVERY) => Ok(()),
        }
    }

    /// Hands over a run that was waited for, unless a signal came as it was taken up: then it ends.
    async fn hand_over(mut self, run: RunHandle) -> Result<RunHandle, CommandError> {
        let Some(signal) = self.signals.as_mut().and_then(Signals::heard) else {
            return Ok(run);
        };
        ask::cancel(&run, signal.reason());
        // However it ended, it is over here.
        let _ = run.result().await;
        Err(CommandError::interrupted(signal))
    }
}

/// Says that a run is in good hands.
fn at_work(run: RunId) -> CommandError {
    CommandError::failed(anyhow!("run {run} is at work in another process, which is alive")).hint(
        format!("`neuraxis runs show {run}` shows how far it is; `neuraxis runs resume {run} --cancel` ends it"),
    )
}

fn left(until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default()
}

fn in_seconds(left: Duration) -> String {
    counted(left.as_secs() + 1, "second")
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::{getpid, kill_process};

    use super::*;
    use crate::interrupt::Signal;

    #[tokio::test]
    async fn a_signal_that_comes_between_two_looks_is_heard() {
        let run = RunId(UuidV7.new_id());
        let summary = RunSummary::new(run, "s".parse().unwrap());
        let mut patience = Patience::default();
        let looked = patience.look_later(&summary, Holder::GoesOn).await;
        looked.unwrap();
        kill_process(getpid(), rustix::process::Signal::TERM).unwrap();
        // It is told to those who listen by now.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let looked = patience.look_later(&summary, Holder::GoesOn).await;
        assert_eq!(looked.unwrap_err().interruption(), Some(Signal::Terminate));
    }
}
