//! One attempt of a case: finds the run or begins it, and looks at what it did.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use neuraxis_core::log::describe;
use neuraxis_core::{
    AgentId, FinishReason, LlmErrorKind, NextAttempt, Record, RecordBody, RunId, SERVER_SEPARATOR,
    SessionId, last_reply, with_causes,
};
use neuraxis_engine::{
    Orchestrator, OrchestratorResult, RunHandle, UserRequest, UuidV7, read_log_file,
};
use neuraxis_ports::Ids;

use super::Evals;
use crate::case::{Case, Source};
use crate::check::Check;
use crate::judge::{Judge, Judgment};
use crate::report::{Attempt, CheckReport, JudgeUsage, Verdict};
use crate::seen::Seen;

/// Why a run was cancelled, as it stands on record.
const STOPPED: &str = "the eval was stopped";

/// How the ids of sessions begin that runs of evals are in.
const SESSION: &str = "eval-";

/// A run that is cancelled when nobody waits for its end any more.
#[derive(Debug)]
struct Held(RunHandle);

impl Drop for Held {
    fn drop(&mut self) {
        // One that has ended already needs no cancelling.
        let _ = self.0.cancel(STOPPED);
    }
}

impl Evals {
    /// Makes one attempt. Whatever goes wrong, there is one.
    pub(super) async fn attempt(&self, case: &Case, number: u32) -> Attempt {
        let records = match self.records(case).await {
            Ok(records) => records,
            Err(error) => return Attempt::error(number, self.redact.reason(&error)),
        };
        let seen = Seen::of(&records).redacted_by(&self.redact);
        let mut attempt = Attempt::of(number, &seen);
        let mut checks = case.checks.iter();
        let is_wanted = |end| checks.any(|check| check.wants_the_end(end));
        let is_wanted = seen.view.finish().is_some_and(is_wanted);
        let trouble = self.unserved(&records, &seen);
        let trouble = trouble.or_else(|| seen.trouble().filter(|_| !is_wanted));
        if let Some(trouble) = trouble.or_else(|| served_otherwise(case, &records, &seen)) {
            attempt.verdict = Verdict::Error;
            attempt.error = Some(trouble);
            return attempt;
        }
        if !case.checks.iter().any(Check::is_about_the_end)
            && let Some(failure) = no_answer(&seen)
        {
            attempt.add(failure);
        }
        for check in &case.checks {
            let found = match check.rubric() {
                Some(rubric) => self.judged(check, rubric, &seen).await,
                None => looked_at(check, &seen),
            };
            attempt.add(found);
        }
        attempt
    }

    /// Says why the run tells nothing, whatever end it is to come to: no model was there to answer, or a recording that
    /// stands for one does not hold what was asked.
    fn unserved(&self, records: &[Arc<Record>], seen: &Seen) -> Option<String> {
        if last_reply(records).is_some_and(self.is_no_answer) {
            // What it says besides, such as what could be asked instead, would stand under each case.
            let told = seen.answer().trim().lines().next().unwrap_or_default();
            return Some(seen.reason(&format!("no model was there to answer: {told}")));
        }
        let mut failed = records.iter().filter_map(|record| match &record.body {
            RecordBody::LlmFailed(failed) if failed.next == NextAttempt::None => {
                Some(&failed.error)
            }
            _ => None,
        });
        let missing = failed.find(|error| error.kind == LlmErrorKind::NotRecorded)?;
        let why = || seen.reason(&format!("a model call failed: {}", missing.message));
        Some(seen.trouble().unwrap_or_else(why))
    }

    /// Finds the records of the run that a case is about.
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

    /// Returns what runs are begun on: with the models, or with a recording in their place.
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

    /// Begins a run and waits for its end, which comes early if everything is stopped.
    async fn run_to_its_end(
        &self,
        orchestrator: &Orchestrator,
        request: UserRequest,
    ) -> Result<(RunHandle, OrchestratorResult), String> {
        let started = orchestrator.runs().start(request).await;
        let held = Held(started.map_err(|error| with_causes(&error))?);
        let result = tokio::select! {
            result = held.0.result() => result,
            () = self.stop.cancelled() => {
                // As when it is dropped; but here its end is waited for.
                let _ = held.0.cancel(STOPPED);
                held.0.result().await
            }
        };
        let result = result.map_err(|error| with_causes(&error))?;
        Ok((held.0.clone(), result))
    }

    async fn judged(&self, check: &Check, rubric: &str, seen: &Seen) -> CheckReport {
        let (asked, found) = self.ask_judge(rubric, seen).await;
        let (judge_run, judge_usage) = asked.unzip();
        let (verdict, message) = match found {
            Ok(judgment) if judgment.passed => (Verdict::Passed, judgment.reason),
            Ok(judgment) => (Verdict::Failed, judgment.reason),
            Err(why) => (Verdict::Error, why),
        };
        CheckReport {
            check: check.to_string(),
            verdict,
            message: Some(seen.reason(&message)),
            judge_run,
            judge_usage,
        }
    }

    /// Asks the judge. Returns its run with what that used, if there was one, and what it found.
    async fn ask_judge(
        &self,
        rubric: &str,
        seen: &Seen,
    ) -> (Option<(RunId, JudgeUsage)>, Result<Judgment, String>) {
        let Some(orchestrator) = &self.orchestrator else {
            return (None, Err("there is no model to judge".to_owned()));
        };
        let request = match new_session() {
            Ok(session) => self.judge.request(session, rubric, seen),
            Err(error) => Err(error),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => return (None, Err(error)),
        };
        match self.run_to_its_end(orchestrator, request).await {
            Ok((handle, result)) => {
                let asked = (handle.run_id(), JudgeUsage::of(&result));
                let found = match other_role(&handle.records()) {
                    Some(other) => Err(format!("the judge gave no judgment: {other}")),
                    None => Judge::read(&result),
                };
                (Some(asked), found)
            }
            Err(error) => (None, Err(format!("the judge could not be asked: {error}"))),
        }
    }
}

/// Says which tool server a case is about that has no tools now: whatever its checks find of calls would be nobody's doing.
fn absent_server(case: &Case, orchestrator: &Orchestrator) -> Option<String> {
    let tools = orchestrator.tools();
    let is_there = |own: &str| {
        let mut specs = tools.specs();
        specs.any(|spec| spec.name.as_str().starts_with(own))
    };
    let checked = case.checks.iter().filter_map(Check::tool);
    let approved = case.approve.iter().map(|calls| calls.tool.as_str());
    checked.chain(approved).find_map(|tool| {
        let (server, _) = tool.split_once(SERVER_SEPARATOR)?;
        let is_absent = !is_there(&format!("{server}{SERVER_SEPARATOR}"));
        is_absent.then(|| {
            format!(
                "{tool}: tool server {server} has no tools here now, as where it is not connected"
            )
        })
    })
}

/// Says why a run that was begun for a case tells nothing of whom the case asks: a budget that was used up before left it no
/// model, another role answered in it, or one of its agents was left without an answer of its model.
fn served_otherwise(case: &Case, records: &[Arc<Record>], seen: &Seen) -> Option<String> {
    if !case.begins_a_run() {
        return None;
    }
    let spent = seen.view.decision().and_then(|it| it.spent.as_ref());
    let spent = spent.map(|spent| format!("no model was asked: {}", spent.reply));
    // Who answers out of a case's own recording is the same each time.
    let is_live = case.source == Source::Models;
    let why = spent.or_else(|| other_role(records).filter(|_| is_live));
    let why = why.or_else(|| failed_agent(case, records));
    why.map(|why| seen.reason(&why))
}

/// Says which role answered instead of which, if one did since that one failed.
fn other_role(records: &[Arc<Record>]) -> Option<String> {
    records.iter().find_map(|record| match &record.body {
        RecordBody::LlmCall(call) => call.downgraded.as_ref().map(|downgraded| {
            let what = describe::downgraded(downgraded);
            format!("{what}: {}", downgraded.reason)
        }),
        _ => None,
    })
}

/// Says why an agent that was called in a run failed, if one did as no check wants it.
fn failed_agent(case: &Case, records: &[Arc<Record>]) -> Option<String> {
    let called = records.iter().filter(|it| it.agent != AgentId::ROOT);
    let mut ends = called.filter_map(|record| match &record.body {
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => Some(&outcome.finish_reason),
        _ => None,
    });
    let is_wanted = |end| {
        let mut checks = case.checks.iter();
        checks.any(|check| check.wants_the_end(end) || check.wants_failed_calls())
    };
    ends.find_map(|end| match end {
        FinishReason::Failed(why) if !is_wanted(end) => {
            Some(format!("an agent that was called failed: {why}"))
        }
        _ => None,
    })
}

/// Says that the model did not come to an answer, if so.
fn no_answer(seen: &Seen) -> Option<CheckReport> {
    Some(CheckReport {
        check: "the run comes to an answer".to_owned(),
        verdict: Verdict::Failed,
        message: Some(seen.no_answer()?),
        judge_run: None,
        judge_usage: None,
    })
}

fn looked_at(check: &Check, seen: &Seen) -> CheckReport {
    let found = check.look_at(seen);
    CheckReport {
        check: check.to_string(),
        verdict: match found {
            Ok(()) => Verdict::Passed,
            Err(_) => Verdict::Failed,
        },
        message: found.err(),
        judge_run: None,
        judge_usage: None,
    }
}

/// Reads the only run of a file.
fn log(file: &Path) -> Result<Vec<Arc<Record>>, String> {
    let name = file.display();
    let open = File::open(file).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let runs = read_log_file(BufReader::new(open));
    let mut runs = runs.map_err(|error| format!("{name}: {}", with_causes(&error)))?;
    match runs.pop() {
        Some(run) if runs.is_empty() => Ok(run.records),
        _ => Err(format!(
            "{name} holds {} runs: write the records of one, with `neuraxis runs show ID --format events`",
            runs.len() + 1
        )),
    }
}

/// Makes the id of a session for one run.
pub(super) fn new_session() -> Result<SessionId, String> {
    let id = format!("{SESSION}{}", UuidV7.new_id()).parse();
    id.map_err(|error: neuraxis_core::InvalidId| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_as_one_of_an_eval() {
        let session = new_session().unwrap();
        assert!(neuraxis_engine::is_session_of_eval(&session), "{session}");
    }
}
