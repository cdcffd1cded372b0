//! One attempt of a case: finds or starts the run, and examines what it did.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use neuraxis_core::log::describe;
use neuraxis_core::{
    AgentId, FinishReason, LlmErrorKind, NextAttempt, Record, RecordBody, Reply, RunId,
    SERVER_SEPARATOR, SessionId, last_reply, with_causes,
};
use neuraxis_engine::{
    Orchestrator, OrchestratorResult, RunHandle, UserRequest, UuidV7, read_log_file,
};
use neuraxis_ports::Ids;

use super::Evals;
use crate::case::{Case, Source};
use crate::check::Check;
use crate::judge::{Judge, Judgment};
use crate::observed::ObservedRun;
use crate::report::{Attempt, CheckOutcome, CheckReport, JudgeUsage};

/// The recorded reason for cancelling a run.
const STOPPED: &str = "the eval was stopped";

/// The prefix of the ids of sessions that contain eval runs.
const SESSION: &str = "eval-";

/// A run that is cancelled when nothing waits for its end any more.
#[derive(Debug)]
struct CancelOnDrop(RunHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // A run that has already ended cannot be cancelled, and need not be.
        let _ = self.0.cancel(STOPPED);
    }
}

impl Evals {
    /// Makes one attempt. Every error is reported in the attempt.
    pub(super) async fn attempt(&self, case: &Case, number: u32) -> Attempt {
        let records = match self.records(case).await {
            Ok(records) => records,
            Err(error) => return Attempt::error(number, self.redact.reason(&error)),
        };
        let observed = ObservedRun::of(&records).redacted_by(&self.redact);
        let mut attempt = Attempt::of(number, &observed);
        let mut checks = case.checks.iter();
        let is_expected = |end| checks.any(|check| check.expects_finish(end));
        let is_expected = observed.view.finish().is_some_and(is_expected);
        let fault = unserved(&records, &observed);
        let fault = fault.or_else(|| observed.trouble().filter(|_| !is_expected));
        if let Some(fault) = fault.or_else(|| not_served_as_requested(case, &records, &observed)) {
            attempt.verdict = CheckOutcome::Error;
            attempt.error = Some(fault);
            return attempt;
        }
        if !case.checks.iter().any(Check::is_about_the_end)
            && let Some(failure) = no_answer(&observed)
        {
            attempt.add(failure);
        }
        for check in &case.checks {
            let found = match check.rubric() {
                Some(rubric) => self.judge_check(check, rubric, &observed).await,
                None => report_on(check, &observed),
            };
            attempt.add(found);
        }
        attempt
    }

    /// Returns the records of the run that a case is about.
    async fn records(&self, case: &Case) -> Result<Vec<Arc<Record>>, String> {
        let orchestrator = match &case.source {
            Source::Models => self.orchestrator(None)?,
            Source::Cassette(file) => self.orchestrator(Some(file))?,
            Source::Run(id) => {
                let found = self.sessions.find_run(id).await;
                let run = found.map_err(|error| with_causes(&error))?.run_id;
                let records = self.sessions.records(run).await;
                return records.map_err(|error| with_causes(&error));
            }
            Source::Log(file) => return log(file),
        };
        if let Some(absent) = absent_server(case, orchestrator) {
            return Err(absent);
        }
        let request = case.request(new_session()?);
        let (handle, _) = self.run_to_its_end(orchestrator, request).await?;
        Ok(handle.records())
    }

    /// Returns the orchestrator that starts runs: the one with models, or one with a recording instead.
    pub(super) fn orchestrator(&self, cassette: Option<&Path>) -> Result<&Orchestrator, String> {
        match cassette {
            None => {
                let orchestrator = self.orchestrator.as_ref();
                orchestrator.ok_or_else(|| "there is no model to ask".to_owned())
            }
            Some(file) => {
                let orchestrator = self.cassettes.get(file);
                orchestrator.ok_or_else(|| format!("the recording {} is not open", file.display()))
            }
        }
    }

    /// Starts a run and waits for its end, which comes early if the eval is stopped.
    async fn run_to_its_end(
        &self,
        orchestrator: &Orchestrator,
        request: UserRequest,
    ) -> Result<(RunHandle, OrchestratorResult), String> {
        let started = orchestrator.runs().start(request).await;
        let run = CancelOnDrop(started.map_err(|error| with_causes(&error))?);
        let result = tokio::select! {
            result = run.0.result() => result,
            () = self.stop.cancelled() => {
                // Dropping the run would cancel it as well, but here its end is awaited.
                let _ = run.0.cancel(STOPPED);
                run.0.result().await
            }
        };
        let result = result.map_err(|error| with_causes(&error))?;
        Ok((run.0.clone(), result))
    }

    async fn judge_check(
        &self,
        check: &Check,
        rubric: &str,
        observed: &ObservedRun,
    ) -> CheckReport {
        let (judge_run_and_usage, found) = self.ask_judge(rubric, observed).await;
        let (judge_run, judge_usage) = judge_run_and_usage.unzip();
        let (verdict, message) = match found {
            Ok(judgment) if judgment.passed => (CheckOutcome::Passed, judgment.reason),
            Ok(judgment) => (CheckOutcome::Failed, judgment.reason),
            Err(why) => (CheckOutcome::Error, why),
        };
        CheckReport {
            check: check.to_string(),
            verdict,
            message: Some(observed.reason(&message)),
            judge_run,
            judge_usage,
        }
    }

    /// Asks the judge. Returns the judge's run and usage, if there was a run, and its finding.
    async fn ask_judge(
        &self,
        rubric: &str,
        observed: &ObservedRun,
    ) -> (Option<(RunId, JudgeUsage)>, Result<Judgment, String>) {
        let Some(orchestrator) = &self.orchestrator else {
            return (None, Err("there is no model to judge".to_owned()));
        };
        let request = match new_session() {
            Ok(session) => self.judge.request(session, rubric, observed),
            Err(error) => Err(error),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => return (None, Err(error)),
        };
        match self.run_to_its_end(orchestrator, request).await {
            Ok((handle, result)) => {
                let judge_run = (handle.run_id(), JudgeUsage::of(&result));
                let found = match other_role(&handle.records()) {
                    Some(other) => Err(format!("the judge gave no judgment: {other}")),
                    None => Judge::read(&result),
                };
                (Some(judge_run), found)
            }
            Err(error) => (None, Err(format!("the judge could not be asked: {error}"))),
        }
    }
}

/// Returns why the run says nothing about the case, whatever its end: no model was there to answer, or the
/// recording that replaces one does not contain what was asked.
fn unserved(records: &[Arc<Record>], observed: &ObservedRun) -> Option<String> {
    if last_reply(records).is_some_and(Reply::is_no_answer) {
        // Only the first line: the rest, such as what else could be asked, would be repeated under each case.
        let explanation = observed.answer().trim().lines().next().unwrap_or_default();
        return Some(observed.reason(&format!("no model was available to answer: {explanation}")));
    }
    let mut failed = records.iter().filter_map(|record| match &record.body {
        RecordBody::LlmFailed(failed) if failed.next == NextAttempt::None => Some(&failed.error),
        _ => None,
    });
    let missing = failed.find(|error| error.kind == LlmErrorKind::NotRecorded)?;
    let why = || observed.reason(&format!("a model call failed: {}", missing.message));
    Some(observed.trouble().unwrap_or_else(why))
}

/// Returns the tool server that a case is about if it currently has no tools: checks of its calls would prove nothing.
fn absent_server(case: &Case, orchestrator: &Orchestrator) -> Option<String> {
    let tools = orchestrator.tools();
    let has_tools = |prefix: &str| {
        let mut specs = tools.specs();
        specs.any(|spec| spec.name.as_str().starts_with(prefix))
    };
    let checked = case.checks.iter().filter_map(Check::tool);
    let approved = case.approve.iter().map(|calls| calls.tool.as_str());
    checked.chain(approved).find_map(|tool| {
        let (server, _) = tool.split_once(SERVER_SEPARATOR)?;
        let is_absent = !has_tools(&format!("{server}{SERVER_SEPARATOR}"));
        is_absent.then(|| {
            format!("{tool}: tool server {server} currently has no tools; it may not be connected")
        })
    })
}

/// Returns why a run that was started for a case says nothing about the agent or role that the case asks for: a used-up
/// budget left it no model, another role answered, or one of its agents got no answer from its model.
fn not_served_as_requested(
    case: &Case,
    records: &[Arc<Record>],
    observed: &ObservedRun,
) -> Option<String> {
    if !case.begins_a_run() {
        return None;
    }
    let spent = observed.view.decision().and_then(|it| it.spent.as_ref());
    let spent = spent.map(|spent| format!("no model was asked: {}", spent.reply));
    // Answers from the case's own recording are the same each time.
    let is_live = case.source == Source::Models;
    let why = spent.or_else(|| other_role(records).filter(|_| is_live));
    let why = why.or_else(|| failed_agent(case, records));
    why.map(|why| observed.reason(&why))
}

/// Returns which role answered instead of which, if a role was replaced after it failed.
fn other_role(records: &[Arc<Record>]) -> Option<String> {
    records.iter().find_map(|record| match &record.body {
        RecordBody::LlmCall(call) => call.downgraded.as_ref().map(|downgraded| {
            let what = describe::downgraded(downgraded);
            format!("{what}: {}", downgraded.reason)
        }),
        _ => None,
    })
}

/// Returns why an agent that was called in a run failed, unless a check expects that failure.
fn failed_agent(case: &Case, records: &[Arc<Record>]) -> Option<String> {
    let called = records.iter().filter(|it| it.agent != AgentId::ROOT);
    let mut ends = called.filter_map(|record| match &record.body {
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => Some(&outcome.finish_reason),
        _ => None,
    });
    let is_expected = |end| {
        let mut checks = case.checks.iter();
        checks.any(|check| check.expects_finish(end) || check.wants_failed_calls())
    };
    ends.find_map(|end| match end {
        FinishReason::Failed(why) if !is_expected(end) => {
            Some(format!("an agent that was called failed: {why}"))
        }
        _ => None,
    })
}

/// Returns a failed check if the model did not reach an answer.
fn no_answer(observed: &ObservedRun) -> Option<CheckReport> {
    Some(CheckReport {
        check: "the run produces an answer".to_owned(),
        verdict: CheckOutcome::Failed,
        message: Some(observed.no_answer()?),
        judge_run: None,
        judge_usage: None,
    })
}

fn report_on(check: &Check, observed: &ObservedRun) -> CheckReport {
    let found = check.evaluate(observed);
    CheckReport {
        check: check.to_string(),
        verdict: match found {
            Ok(()) => CheckOutcome::Passed,
            Err(_) => CheckOutcome::Failed,
        },
        message: found.err(),
        judge_run: None,
        judge_usage: None,
    }
}

/// Reads the only run in a file.
fn log(file: &Path) -> Result<Vec<Arc<Record>>, String> {
    let name = file.display();
    let opened = File::open(file).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let runs = read_log_file(BufReader::new(opened));
    let mut runs = runs.map_err(|error| format!("{name}: {}", with_causes(&error)))?;
    match runs.pop() {
        Some(run) if runs.is_empty() => Ok(run.records),
        _ => Err(format!(
            "{name} holds {} runs: write the records of one with `neuraxis runs show ID --format events`",
            runs.len() + 1
        )),
    }
}

/// Creates a session id for one run.
pub(super) fn new_session() -> Result<SessionId, String> {
    let id = format!("{SESSION}{}", UuidV7.new_id()).parse();
    id.map_err(|error: neuraxis_core::InvalidId| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_session_is_recognized_as_an_eval_session() {
        let session = new_session().unwrap();
        assert!(neuraxis_engine::is_session_of_eval(&session), "{session}");
    }
}
