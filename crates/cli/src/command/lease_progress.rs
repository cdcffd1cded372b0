//! What is shown about runs that another process holds, or held when it died, and how a signal ends waiting for one.

use std::time::Duration;

use anyhow::anyhow;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::log::describe::counted;
use neuraxis::core::{ApprovalDecision, PendingKind, RunId};
use neuraxis::engine::{
    DecideError, Decided, HeldRun, ResumeError, ResumedBy, Sessions, WaitedFor,
};
use neuraxis::ports::RunSummary;
use neuraxis::{RunHandle, RunStatus};
use neuraxis_app::App;

use super::ask;
use crate::approve::user_name;
use crate::error::CommandError;
use crate::interrupt::Signals;
use crate::progress::{self, Progress};

/// Resumes a run. If a process holds it that may have died, waits for its lease to expire. A run with expired questions
/// continues without their calls, before the user is asked anything.
pub(in crate::command) async fn resume(
    app: &App,
    run: RunId,
    by: ResumedBy,
) -> Result<RunHandle, CommandError> {
    let mut progress = LeaseProgress::default();
    let pause = async |held: &HeldRun| progress.pause(held).await;
    let runs = app.orchestrator.runs();
    let records = app.orchestrator.sessions().records(run).await?;
    runs.check_policy(run, &records)?;
    if by == ResumedBy::Engine
        && let Some(resumed) = without_expired(app, run).await?
    {
        return Ok(resumed);
    }
    let resumed = runs.resume_when_free(run, by, pause).await?;
    progress.hand_over(resumed).await
}

/// Resumes a run that no process holds by settling its expired questions, if it has any.
async fn without_expired(app: &App, run: RunId) -> Result<Option<RunHandle>, CommandError> {
    let approvals = app.orchestrator.approvals();
    let run = app.orchestrator.sessions().run(run).await?;
    if run.leased_until.is_some() {
        return Ok(None);
    }
    let mut open = approvals.of_run(&run).await?;
    open.retain(|waiting| approvals.expired(waiting).is_some());
    if open.is_empty() {
        return Ok(None);
    }
    // A decision that comes too late is recorded as an expiry.
    let denied = || ApprovalDecision::Deny { reason: None };
    let late = open.iter().map(|waiting| (waiting, denied())).collect();
    match approvals.decide_all_and_resume(late, None).await {
        Ok(Decided::Continues(run)) => Ok(Some(run)),
        // Another process was faster.
        Ok(Decided::LeftToHolder) | Err(DecideError::Resume(ResumeError::NotAsked(_))) => Ok(None),
        Err(DecideError::Resume(error)) => Err(error.into()),
        Err(error) => Err(CommandError::failed(error)),
    }
}

/// Frees the session of a run that never began. If a process holds it that may have died, waits for its lease to
/// expire.
pub(in crate::command) async fn abandon_unbegun(
    app: &App,
    run: &RunSummary,
) -> Result<(), CommandError> {
    let mut progress = LeaseProgress::default();
    let pause = async |held: &HeldRun| progress.pause(held).await;
    app.orchestrator
        .runs()
        .abandon_unbegun_when_free(run, pause)
        .await
}

/// Ends a run, whichever process holds it. A live process ends it itself; if the process died, waits for its lease to
/// expire.
pub(in crate::command) async fn end(app: &App, run: &RunSummary) -> Result<(), CommandError> {
    let mut progress = LeaseProgress::default();
    let pause = async |held: &HeldRun| progress.pause(held).await;
    let runs = app.orchestrator.runs().sent_by(Some(user_name()));
    let reason = reason_of(run);
    runs.cancel_and_wait(run.run_id, &reason, pause).await
}

/// Returns the recorded reason for ending a run here.
fn reason_of(run: &RunSummary) -> String {
    match run.owner {
        // The run's owner is the user of a server's key, who may not be the user who ends it.
        Some(_) => format!("cancelled by {}", user_name()),
        None => "cancelled by the user".to_owned(),
    }
}

/// Returns the error for a session with an unfinished run, with what can be done about it.
pub(in crate::command) async fn busy(sessions: &Sessions, run: RunId) -> CommandError {
    let summary = match sessions.run(run).await {
        Ok(summary) => summary,
        Err(error) => return error.into(),
    };
    let error = CommandError::failed(anyhow!(describe_state(&summary)));
    if summary.status.is_ended() {
        return error.hint("nothing was started: try again");
    }
    if summary.leased_until.is_none() && approvals(&summary) > 0 {
        let has_expired = summary.pending.iter().any(|it| {
            let is_over = it.expires_at.is_some_and(|end| end <= Timestamp::now());
            it.kind == PendingKind::Approval && is_over
        });
        if has_expired {
            return error.hint(format!(
                "`neuraxis runs resume {run}` continues without the calls that were not decided in time; with --cancel it ends it"
            ));
        }
        return error
            .hint(format!(
                "`neuraxis approvals show {run}` shows what would run"
            ))
            .hint(format!("`neuraxis runs resume {run} --cancel` ends it"));
    }
    error.hint(format!(
        "`neuraxis runs resume {run}` resumes it{}; with --cancel it ends it",
        match summary.leased_until {
            Some(_) => " unless that process is alive",
            None => "",
        }
    ))
}

/// Describes the state of an unfinished run.
pub(in crate::command) fn describe_state(summary: &RunSummary) -> String {
    let (session, run) = (&summary.session, summary.run_id);
    if summary.status.is_ended() {
        return format!("session {session} was busy with run {run}, which has ended since");
    }
    if let Some(until) = summary.leased_until {
        let left = in_seconds(time_until(until));
        return format!(
            "session {session} is busy with run {run}: another process is driving it, or died and still holds its lease for {left}"
        );
    }
    if summary.imported {
        return format!(
            "session {session} has run {run}, which was imported and resumes only if you confirm it"
        );
    }
    match approvals(summary) {
        0 if summary.pending.is_empty() => {
            format!(
                "session {session} has run {run}, which was left behind: its process died, or could not store its records"
            )
        }
        0 => {
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

/// Returns how many approvals a run waits for.
fn approvals(summary: &RunSummary) -> usize {
    if summary.status != RunStatus::Waiting {
        return 0;
    }
    let pending = summary.pending.iter();
    let approvals = pending.filter(|pending| pending.kind == PendingKind::Approval);
    approvals.count()
}

/// Shows the wait for a run, and ends it on a signal.
#[derive(Debug, Default)]
pub(in crate::command) struct LeaseProgress {
    progress: Option<Progress>,
    /// Listens from the first check on, so that a signal during a call of the store is not lost.
    signals: Option<Signals>,
}

impl LeaseProgress {
    /// Shows what is waited for, and waits a little.
    pub(in crate::command) async fn pause(&mut self, held: &HeldRun) -> Result<(), CommandError> {
        let run = held.run_id;
        if let Some(until) = held.leased_until {
            let left = in_seconds(time_until(until));
            let progress = self.progress.get_or_insert_with(|| {
                let what = match held.waited_for {
                    WaitedFor::Lease => "it will be resumed",
                    WaitedFor::End => "it will end",
                };
                progress::notice(&format!(
                    "another process is driving run {run}, or died and still holds its lease: {what} within {left}, unless \
                     that process is alive"
                ));
                Progress::new()
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
            () = held.pause() => Ok(()),
        }
    }

    /// Returns a run that was waited for, unless a signal arrived while it was resumed: then the run is cancelled.
    async fn hand_over(mut self, run: RunHandle) -> Result<RunHandle, CommandError> {
        let Some(signal) = self.signals.as_mut().and_then(Signals::try_next) else {
            return Ok(run);
        };
        ask::cancel(&run, signal);
        // The run has ended, whatever its outcome.
        let _ = run.result().await;
        Err(CommandError::interrupted(signal))
    }
}

fn time_until(until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default()
}

/// Formats the time until a lease expires. A lease longer than any real one was set by a clock that is ahead; it is
/// respected only briefly.
fn in_seconds(left: Duration) -> String {
    match left.as_secs() {
        ..3_600 => counted(left.as_secs() + 1, "second"),
        _ => "a minute or so".to_owned(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use neuraxis::core::{AgentId, CallIndex, ContentIndex, EffectId, Pending, ToolCallId};
    use neuraxis::engine::UuidV7;
    use neuraxis::ports::Ids;
    use rustix::process::{getpid, kill_process};

    use super::*;
    use crate::interrupt::Signal;

    #[test]
    fn a_blocking_run_that_has_ended_is_not_reported_as_left_behind() {
        let mut run = RunSummary::new(RunId(UuidV7.new_id()), "s".parse().unwrap());
        let left = describe_state(&run);
        assert!(left.contains("left behind"), "{left}");
        assert!(left.ends_with("or could not store its records"), "{left}");
        run.log.status = RunStatus::Done;
        assert!(describe_state(&run).ends_with("has ended since"));
    }

    #[test]
    fn an_implausibly_long_lease_is_not_shown_in_seconds() {
        let left = |seconds| in_seconds(Duration::from_secs(seconds));
        assert_eq!(left(29), "30 seconds");
        assert_eq!(left(365 * 86_400), "a minute or so");
    }

    #[test]
    fn cancelling_a_run_with_an_owner_names_the_cancelling_user() {
        let mut run = RunSummary::new(RunId(UuidV7.new_id()), "s".parse().unwrap());
        assert_eq!(reason_of(&run), "cancelled by the user");
        run.owner = Some("ada".to_owned());
        assert_eq!(reason_of(&run), format!("cancelled by {}", user_name()));
    }

    #[test]
    fn a_run_that_also_waits_for_its_client_names_the_calls_awaiting_approval() {
        let id = RunId(UuidV7.new_id());
        let mut run = RunSummary::new(id, "s".parse().unwrap());
        run.log.status = RunStatus::Waiting;
        for (number, kind) in (0..).zip([PendingKind::Approval, PendingKind::ClientTool]) {
            let (content, index) = (ContentIndex(0), CallIndex(number));
            run.log.pending.push(Pending {
                effect_id: EffectId {
                    run: id,
                    number: number + 1,
                },
                tool_call_id: ToolCallId::new(id, AgentId::ROOT, content, index),
                kind,
                expires_at: None,
            });
        }
        assert!(describe_state(&run).ends_with("waits for your approval of a call"));
        run.log.pending.remove(0);
        assert!(describe_state(&run).ends_with("waits for the results of its client's tools"));
    }

    #[tokio::test]
    async fn a_signal_between_two_pauses_is_received() {
        let held = HeldRun::new(RunId(UuidV7.new_id()), WaitedFor::Lease);
        let mut progress = LeaseProgress::default();
        progress.pause(&held).await.unwrap();
        kill_process(getpid(), rustix::process::Signal::TERM).unwrap();
        // By now the listener has been created, so it receives the signal.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let paused = progress.pause(&held).await;
        assert_eq!(paused.unwrap_err().interruption(), Some(Signal::Terminate));
    }
}
