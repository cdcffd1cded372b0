//! Records of a run that were not created by the loop, and a sink that keeps the records it receives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    AgentId, AgentSpec, Attempt, ContentIndex, EffectId, FinishReason, LOOP_VERSION, LlmCall,
    Message, PrefixDigest, Profile, Purpose, Record, RecordBody, Reply, Role, RunId, RunOutcome,
    RunSpec, RunStarted, RunUsage, Seq, SessionId, Turn, Warning,
};
use neuraxis_ports::TraceSink;

use crate::clock::START;
use crate::scripted::lock;

/// Creates records with rising numbers, one second apart, for tests of storing and showing them.
///
/// Not for tests of the loop: nothing checks that the records follow from each other.
///
/// ```
/// use neuraxis_testkit::{CountingIds, RunLog, reply};
///
/// let mut log = RunLog::new(CountingIds::nth_run(1), "main".parse()?);
/// let records = [log.started("Hello?"), log.replied(reply::text("Hi.")), log.finished("Hi.")];
/// assert_eq!(records[2].seq.0, 3);
/// # Ok::<(), neuraxis_core::InvalidId>(())
/// ```
#[derive(Debug, Clone)]
pub struct RunLog {
    run: RunId,
    session: SessionId,
    next: Seq,
    at: Timestamp,
    /// The messages of the next model call.
    messages: Vec<Arc<Message>>,
}

impl RunLog {
    /// Starts the log of a run.
    #[must_use]
    pub const fn new(run: RunId, session: SessionId) -> Self {
        Self {
            run,
            session,
            next: Seq(1),
            at: START,
            messages: Vec::new(),
        }
    }

    /// Sets the time at which the log begins; [`START`] by default.
    #[must_use]
    pub const fn at(mut self, at: Timestamp) -> Self {
        self.at = at;
        self
    }

    /// Returns the run's id.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// Returns the record that the run began with a user message.
    pub fn started(&mut self, message: &str) -> Arc<Record> {
        let agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        let mut spec = RunSpec::new(self.run, [Message::user(message)], agent);
        spec.session_id = Some(self.session.clone());
        self.messages.clone_from(&spec.messages);
        self.record(RecordBody::RunStarted(Box::new(RunStarted {
            loop_version: LOOP_VERSION,
            session_id: Some(self.session.clone()),
            policy_hash: None,
            history: PrefixDigest::default(),
            spec: Arc::new(spec),
        })))
    }

    /// Returns the record that the model replied.
    pub fn replied(&mut self, reply: Reply) -> Arc<Record> {
        let messages = std::mem::take(&mut self.messages);
        self.record(RecordBody::LlmCall(Box::new(LlmCall {
            effect_id: EffectId {
                run: self.run,
                number: 1,
            },
            attempt: Attempt(1),
            purpose: Purpose::Turn,
            role: Role::REASONING,
            served_by: Role::REASONING,
            downgraded: None,
            prefix: PrefixDigest::default(),
            results: Vec::new(),
            messages,
            reply: Arc::new(reply),
            cost: None,
            cost_label: Default::default(),
            duration: Duration::from_millis(5),
            first_delta: None,
        })))
    }

    /// Returns the record of a problem that does not end the run.
    pub fn warned(&mut self, message: &str) -> Arc<Record> {
        self.record(RecordBody::Warning(Box::new(Warning {
            code: "test".to_owned(),
            message: message.to_owned(),
        })))
    }

    /// Returns the record that the run ended with an answer.
    pub fn finished(&mut self, content: &str) -> Arc<Record> {
        self.record(RecordBody::Final(Box::new(outcome(
            content,
            FinishReason::Stop,
        ))))
    }

    /// Returns the record that the run ended without an answer.
    pub fn failed(&mut self, why: &str) -> Arc<Record> {
        self.record(RecordBody::RunFailed(Box::new(outcome(
            "",
            FinishReason::Failed(why.to_owned()),
        ))))
    }

    /// Returns a record of any other event of the root agent.
    pub fn record(&mut self, body: RecordBody) -> Arc<Record> {
        self.record_of(AgentId::ROOT, body)
    }

    /// Returns a record that begins a step, after the run was active for the given time. Other records do not contain
    /// this time.
    pub fn step(&mut self, active: Duration, body: RecordBody) -> Arc<Record> {
        let mut record = Arc::unwrap_or_clone(self.record(body));
        record.active_ms = u64::try_from(active.as_millis()).ok();
        Arc::new(record)
    }

    /// Returns a record of an event of the given agent.
    pub fn record_of(&mut self, agent: AgentId, body: RecordBody) -> Arc<Record> {
        let (seq, at) = (self.next, self.at);
        self.next = seq.next();
        self.at = at.checked_add(Duration::from_secs(1)).unwrap_or(at);
        let content_index = Some(ContentIndex(0));
        Arc::new(Record {
            seq,
            content_index,
            run_id: self.run,
            agent,
            turn: Turn(1),
            at,
            active_ms: None,
            body,
        })
    }
}

fn outcome(content: &str, finish_reason: FinishReason) -> RunOutcome {
    RunOutcome {
        content: content.to_owned(),
        finish_reason,
        turns: 1,
        usage: RunUsage::default(),
        sources: Vec::new(),
        unheard: 0,
        failed_call: None,
        interruption: None,
    }
}

/// Keeps every record, in the order received.
#[derive(Debug, Default)]
pub struct RecordingSink(Mutex<Vec<Arc<Record>>>);

impl RecordingSink {
    /// Returns the records so far.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Record>> {
        lock(&self.0).clone()
    }

    /// Returns the types of the records so far.
    #[must_use]
    pub fn kinds(&self) -> Vec<&'static str> {
        let records = lock(&self.0);
        records.iter().map(|record| record.body.kind()).collect()
    }
}

impl TraceSink for RecordingSink {
    fn record(&self, record: &Arc<Record>) {
        lock(&self.0).push(Arc::clone(record));
    }
}
