//! A run as a store tells of it, without its records.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    AgentId, FinishReason, Message, Pending, PendingKind, Record, RecordBody, RunId, RunStatus,
    SessionId, ToolCallId, ToolKind,
};

/// The most characters of a user's message that a summary shows.
const MAX_TEXT_CHARS: usize = 120;

/// The right to write the records of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunLease {
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// Grows with every lease of the session, so that a stalled holder that comes back cannot write.
    pub token: u64,
}

impl RunLease {
    /// Makes a lease; for implementations of [`SessionStore`](super::SessionStore).
    #[must_use]
    pub const fn new(session: SessionId, run: RunId, token: u64) -> Self {
        Self {
            session,
            run,
            token,
        }
    }
}

/// A run in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session: SessionId,
    /// Where it stands, as far as its records tell.
    pub status: RunStatus,
    /// When its first record was made; `None` before.
    pub started_at: Option<Timestamp>,
    /// When it ended, if it did.
    pub ended_at: Option<Timestamp>,
    /// The turns of the agent that answers: those it began, and once it has ended those that counted.
    pub turns: u32,
    /// Why it ended, if it did.
    pub finish_reason: Option<FinishReason>,
    /// The beginning of the user's message.
    pub text: Option<String>,
    /// What it waits for, while it waits.
    pub pending: Vec<Pending>,
    /// How many records it has.
    pub records: u64,
    /// Whether something waits in its inbox.
    pub has_mail: bool,
}

impl RunSummary {
    /// A run of which nothing was recorded yet.
    #[must_use]
    pub const fn new(run_id: RunId, session: SessionId) -> Self {
        Self {
            run_id,
            session,
            status: RunStatus::Running,
            started_at: None,
            ended_at: None,
            turns: 0,
            finish_reason: None,
            text: None,
            pending: Vec::new(),
            records: 0,
            has_mail: false,
        }
    }

    /// Takes in the next record of the run.
    pub fn read(&mut self, record: &Record) {
        self.records = record.seq.0;
        self.started_at.get_or_insert(record.at);
        if record.agent == AgentId::ROOT {
            self.turns = self.turns.max(record.turn.0);
        }
        match &record.body {
            RecordBody::RunStarted(started) => {
                let asked = started.spec.messages.iter().map(AsRef::as_ref);
                self.text = asked.rev().find_map(user_text);
            }
            RecordBody::Waiting(waiting) => {
                self.status = RunStatus::Waiting;
                self.pending.clone_from(&waiting.pending);
            }
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)
                if record.ends_the_run() =>
            {
                self.go_on();
                self.status = outcome.status();
                self.ended_at = Some(record.at);
                self.turns = outcome.turns;
                self.finish_reason = Some(outcome.finish_reason.clone());
            }
            body if self.status == RunStatus::Waiting => self.read_waiting(body),
            _ => {}
        }
    }

    /// Takes in a record of a run that waits. It is at work again once nothing is open, or when it does something else.
    fn read_waiting(&mut self, body: &RecordBody) {
        match body {
            RecordBody::ApprovalDecided(decided) => self.answered(&decided.tool_call_id),
            RecordBody::ToolResult(result) => self.answered(&result.tool_call_id),
            // A run says that it waits once, not again for what it asks on top.
            RecordBody::ApprovalRequested(asked) => self.pending.push(Pending {
                effect_id: asked.effect_id,
                tool_call_id: asked.tool_call_id.clone(),
                kind: PendingKind::Approval,
            }),
            RecordBody::ToolCall(call) if call.kind == ToolKind::Client => {
                self.pending.push(Pending {
                    effect_id: call.effect_id,
                    tool_call_id: call.tool_call_id.clone(),
                    kind: PendingKind::ClientTool,
                });
            }
            RecordBody::LlmCall(_)
            | RecordBody::LlmFailed(_)
            | RecordBody::Verdict(_)
            | RecordBody::ToolCall(_)
            | RecordBody::Advised(_)
            | RecordBody::Resumed(_) => self.go_on(),
            _ => {}
        }
    }

    fn answered(&mut self, call: &ToolCallId) {
        self.pending.retain(|pending| pending.tool_call_id != *call);
        if self.pending.is_empty() {
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        self.status = RunStatus::Running;
        self.pending.clear();
    }
}

fn user_text(message: &Message) -> Option<String> {
    let Message::User { .. } = message else {
        return None;
    };
    let text = message.text();
    let cut = text.char_indices().nth(MAX_TEXT_CHARS);
    let shown = cut.and_then(|(end, _)| text.get(..end)).unwrap_or(&text);
    // What a text column of every database can hold.
    let shown = shown.replace('\0', "\u{FFFD}");
    Some(if cut.is_some() { shown + "…" } else { shown })
}
