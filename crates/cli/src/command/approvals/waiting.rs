//! The calls that wait for a person.

use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::{
    AgentId, ApprovalDecision, ApprovalRequested, AskApproval, PendingKind, Record, RecordBody,
    RunId, Seq, ToolCallId,
};
use neuraxis::engine::SystemClock;
use neuraxis::ports::{Clock, RunSummary, SessionStore, StoreError};
use neuraxis::{RunStatus, SessionId};

use crate::approve::said;
use crate::command::lookup;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::wrap::broken;

/// Which call is meant.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The run, or the beginning of its id
    run: String,

    /// The call, or the beginning or end of its id; may be left out where the run waits for one alone
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    call: Option<String>,
}

/// A call that waits for a person.
#[derive(Debug, Clone)]
pub(in crate::command) struct Waiting {
    pub(super) run: RunId,
    pub(super) session: SessionId,
    pub(super) agent: AgentId,
    pub(super) since: Timestamp,
    pub(super) asked: ApprovalRequested,
    /// All that was recorded of the run.
    pub(super) records: Vec<Arc<Record>>,
}

/// Returns the calls of all runs that wait and that nobody drives.
pub(super) async fn everywhere(store: &dyn SessionStore) -> Result<Vec<Waiting>, CommandError> {
    let runs = store.unfinished().await.map_err(cannot_read)?;
    calls_of(store, runs).await
}

/// Returns the calls that wait in a session; none where there is no such session yet.
pub(in crate::command) async fn in_session(
    store: &dyn SessionStore,
    session: &SessionId,
) -> Result<Vec<Waiting>, CommandError> {
    let runs = match store.runs(session).await {
        Ok(runs) => runs,
        Err(StoreError::NoSuchSession(_)) => Vec::new(),
        Err(error) => return Err(cannot_read(error)),
    };
    calls_of(store, runs).await
}

/// Returns the calls that are meant: all that the run waits for, if none is named.
pub(super) async fn several(
    store: &dyn SessionStore,
    which: &Which,
) -> Result<Vec<Waiting>, CommandError> {
    let summary = lookup::run(store, &which.run).await?;
    let run = summary.run_id;
    let mut waiting = calls_of(store, vec![summary]).await?;
    if let Some(call) = &which.call {
        let is_whole = |waiting: &Waiting| {
            let id = &waiting.asked.tool_call_id;
            id.as_str() == call || brief_call(id) == call
        };
        // A whole id may begin that of another call.
        if waiting.iter().any(is_whole) {
            waiting.retain(is_whole);
        }
        waiting.retain(|waiting| {
            let id = waiting.asked.tool_call_id.as_str();
            id.starts_with(call.as_str()) || id.ends_with(call.as_str())
        });
    }
    if !waiting.is_empty() {
        return Ok(waiting);
    }
    let error = match &which.call {
        Some(call) => anyhow!(
            "no call {:?} of run {run} waits for an approval",
            one_line(call)
        ),
        None => anyhow!("run {run} does not wait for an approval"),
    };
    Err(CommandError::usage(error).hint(LIST))
}

/// Returns the call that is meant.
pub(super) async fn one(store: &dyn SessionStore, which: &Which) -> Result<Waiting, CommandError> {
    let mut waiting = several(store, which).await?;
    match (waiting.pop(), waiting.len()) {
        (Some(only), 0) => Ok(only),
        (Some(last), others) => {
            let run = last.run;
            waiting.push(last);
            let calls = waiting.iter().take(MAX_NAMED);
            let calls = calls.map(|waiting| brief_call(&waiting.asked.tool_call_id).to_owned());
            let calls: Vec<String> = calls.collect();
            let calls = calls.join(", ");
            let error = anyhow!(
                "run {run} waits for {} such calls: say which: {calls}",
                others + 1
            );
            let hint = format!("`neuraxis approvals show {run}` shows them all");
            Err(CommandError::usage(error).hint(hint))
        }
        (None, _) => Err(CommandError::usage(anyhow!("nothing waits")).hint(LIST)),
    }
}

/// Returns the end of a call's id, which tells it from the others of its run.
pub(in crate::command) fn brief_call(call: &ToolCallId) -> &str {
    let id = call.as_str();
    let end = id
        .strip_prefix("call_")
        .and_then(|rest| rest.split_once('_'));
    end.map_or(id, |(_, end)| end)
}

/// How many calls a complaint names.
const MAX_NAMED: usize = 8;

const LIST: &str = "`neuraxis approvals list` shows what waits";

async fn calls_of(
    store: &dyn SessionStore,
    runs: Vec<RunSummary>,
) -> Result<Vec<Waiting>, CommandError> {
    let mut waiting = Vec::new();
    for run in runs {
        if run.status != RunStatus::Waiting {
            continue;
        }
        let open: Vec<ToolCallId> = run
            .pending
            .iter()
            .filter(|pending| pending.kind == PendingKind::Approval)
            .map(|pending| pending.tool_call_id.clone())
            .collect();
        let records = store.records(run.run_id, Seq(0)).await;
        let records = records.map_err(cannot_read)?;
        let asked = records.iter().filter_map(|record| match &record.body {
            RecordBody::ApprovalRequested(asked) if open.contains(&asked.tool_call_id) => {
                Some((record, asked))
            }
            _ => None,
        });
        waiting.extend(asked.map(|(record, asked)| Waiting {
            run: run.run_id,
            session: run.session.clone(),
            agent: record.agent,
            since: record.at,
            asked: ApprovalRequested::clone(asked),
            records: records.clone(),
        }));
    }
    Ok(waiting)
}

fn cannot_read(error: StoreError) -> CommandError {
    error.into()
}

impl Waiting {
    /// Returns the question as it was asked.
    pub(super) fn question(&self) -> AskApproval {
        AskApproval {
            effect_id: self.asked.effect_id,
            agent: self.agent,
            tool_call_id: self.asked.tool_call_id.clone(),
            name: self.asked.name.clone(),
            arguments: self.asked.arguments.clone(),
            arguments_hash: self.asked.arguments_hash,
            reason: self.asked.reason.clone(),
            rule: self.asked.rule.clone(),
            choices: self.asked.choices.clone(),
            expires_at: self.asked.expires_at,
        }
    }

    /// Returns when it expired, if it had by a time.
    pub(super) fn expired_by(&self, now: Timestamp) -> Option<Timestamp> {
        self.asked.expires_at.filter(|at| *at <= now)
    }

    /// Tells whether it expired, as far as some records of its run say.
    pub(super) fn has_expired(&self, records: &[Arc<Record>]) -> bool {
        records.iter().any(|record| match &record.body {
            RecordBody::ApprovalDecided(decided) => {
                decided.tool_call_id == self.asked.tool_call_id
                    && decided.decision == ApprovalDecision::Expired
            }
            _ => false,
        })
    }

    /// Says until when it can be decided, on a line of its own; nothing where there is no end.
    pub(super) fn expiry(&self) -> String {
        let now = SystemClock.now();
        match (self.asked.expires_at, self.expired_by(now)) {
            (_, Some(at)) => format!("expired: at {at}, it will not be run\n"),
            (Some(at), None) => format!("expires: {at}\n"),
            (None, None) => String::new(),
        }
    }

    /// Tells of it in a few lines of so many columns.
    pub(in crate::command) fn in_text(&self, columns: usize) -> String {
        let line = |line: String| broken(&line, columns, "    ");
        let asked = &self.asked;
        let expiry = self.expiry();
        let indent = if expiry.is_empty() { "" } else { "  " };
        format!(
            "run {}\n{}\n{}\n{}\n{}\n{indent}{expiry}",
            self.run,
            line(format!("  session {}, since {}", self.session, self.since)),
            line(format!("  call {}", said(asked.tool_call_id.as_str()))),
            line(format!(
                "  {} {}",
                said(&asked.name),
                said(asked.arguments.as_str())
            )),
            line(format!("  why: {}", said(&asked.reason))),
        )
    }
}
