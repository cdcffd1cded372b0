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

    /// The question, as `approvals show` and `approvals list` name it
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    question: Option<String>,
}

impl Which {
    /// Tells whether the question is named.
    pub(super) const fn names_question(&self) -> bool {
        self.question.is_some()
    }
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
    /// Why what stands in the store is not what was asked, if it is not.
    pub(super) altered: Option<String>,
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
    if let Some(question) = &which.question {
        waiting.retain(|waiting| waiting.question_name() == *question);
    }
    if !waiting.is_empty() {
        return Ok(waiting);
    }
    let Some(question) = &which.question else {
        let error = anyhow!("run {run} does not wait for an approval");
        return Err(CommandError::usage(error).hint(LIST));
    };
    let question = one_line(question);
    let error = anyhow!("run {run} does not wait for an answer to question {question}");
    let hint = format!("`neuraxis approvals show {run}` shows what it asks now");
    Err(CommandError::failed(error).hint(hint))
}

/// Returns the question that is meant: the one that is named, or else the only one.
pub(super) async fn one(store: &dyn SessionStore, which: &Which) -> Result<Waiting, CommandError> {
    let mut waiting = several(store, which).await?;
    match (waiting.pop(), waiting.len()) {
        (Some(only), 0) => Ok(only),
        (Some(last), others) => {
            let run = last.run;
            waiting.push(last);
            let names = waiting.iter().take(MAX_NAMED).map(Waiting::question_name);
            let names: Vec<String> = names.collect();
            let names = names.join(", ");
            let error = anyhow!(
                "run {run} waits for {} such calls: say which: {names}",
                others + 1
            );
            let hint = format!("`neuraxis approvals show {run}` shows them all");
            Err(CommandError::usage(error).hint(hint))
        }
        (None, _) => Err(CommandError::usage(anyhow!("nothing waits")).hint(LIST)),
    }
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
        let verified = match open.is_empty() {
            true => None,
            false => store.verify(&run.session, None).await.err(),
        };
        let altered = |asked: &ApprovalRequested| match &verified {
            _ if !asked.fits_its_hash() => Some("the arguments do not fit their hash".to_owned()),
            Some(StoreError::Damaged(why)) => Some(why.clone()),
            _ => None,
        };
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
            altered: altered(asked),
        }));
    }
    Ok(waiting)
}

fn cannot_read(error: StoreError) -> CommandError {
    error.into()
}

impl Waiting {
    /// Returns the name of the question, by which it is answered.
    pub(super) fn question_name(&self) -> String {
        self.asked.question(self.run)
    }

    /// Says so if it is not what was asked, on a line of its own.
    pub(super) fn alteration(&self, columns: usize) -> String {
        let altered = self.altered.iter();
        let warned = altered.map(|why| {
            let why = said(why);
            let line =
                format!("ALTERED: this is not what was asked, and cannot be approved: {why}");
            broken(&line, columns, "    ") + "\n"
        });
        warned.collect()
    }

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
        let indented = |line: String| match line.is_empty() {
            true => line,
            false => format!("  {line}"),
        };
        format!(
            "run {}\n  question {}\n{}\n{}\n{}\n{}\n{}{}",
            self.run,
            self.question_name(),
            line(format!("  session {}, since {}", self.session, self.since)),
            line(format!("  call {}", said(asked.tool_call_id.as_str()))),
            line(format!(
                "  {} {}",
                said(&asked.name),
                said(asked.arguments.as_str())
            )),
            line(format!("  why: {}", said(&asked.reason))),
            indented(self.alteration(columns)),
            indented(expiry),
        )
    }
}
