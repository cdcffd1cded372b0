//! The calls that wait for a person.

use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::uuid::Uuid;
use neuraxis::core::{
    AgentId, ApprovalRequested, AskApproval, PendingKind, Record, RecordBody, RunId, Seq,
    ToolCallId,
};
use neuraxis::ports::{RunSummary, SessionStore, StoreError};
use neuraxis::{RunStatus, SessionId};

use crate::error::CommandError;
use crate::harmless::{one_line, plain_to_see};

/// Which call is meant.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The run
    #[arg(value_parser = run_id)]
    run: RunId,

    /// The call; may be left out where the run waits for one alone
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

fn run_id(text: &str) -> Result<RunId, &'static str> {
    Uuid::parse_str(text)
        .map(RunId)
        .map_err(|_| "it must be the id of a run, as `neuraxis approvals list` shows it")
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

/// Returns the call that is meant.
pub(super) async fn one(store: &dyn SessionStore, which: &Which) -> Result<Waiting, CommandError> {
    let summary = store.run(which.run).await.map_err(|error| match error {
        StoreError::NoSuchRun(_) => CommandError::usage(error).hint(LIST),
        error => cannot_read(error),
    })?;
    let waiting = calls_of(store, vec![summary]).await?;
    let run = which.run;
    let Some(call) = &which.call else {
        let mut calls = waiting.into_iter();
        return match (calls.next(), calls.len()) {
            (Some(only), 0) => Ok(only),
            (Some(_), more) => {
                let error = anyhow!("run {run} waits for {} calls: say which", more + 1);
                Err(CommandError::usage(error).hint(LIST))
            }
            (None, _) => {
                let error = anyhow!("run {run} does not wait for an approval");
                Err(CommandError::usage(error).hint(LIST))
            }
        };
    };
    let mut meant = waiting.into_iter();
    let meant = meant.find(|waiting| waiting.asked.tool_call_id.as_str() == call);
    meant.ok_or_else(|| {
        let error = anyhow!("no call {call:?} of run {run} waits for an approval");
        CommandError::usage(error).hint(LIST)
    })
}

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
    CommandError::failed(error).hint("`neuraxis doctor` checks the store")
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

    /// Tells of it in a few lines.
    pub(in crate::command) fn in_text(&self) -> String {
        let plain = |text: &str| one_line(&plain_to_see(text));
        let asked = &self.asked;
        format!(
            "run {}\n  session {}, since {}\n  call {}\n  {} {}\n  why: {}\n",
            self.run,
            self.session,
            self.since,
            plain(asked.tool_call_id.as_str()),
            plain(&asked.name),
            plain(asked.arguments.as_str()),
            plain(&asked.reason),
        )
    }
}
