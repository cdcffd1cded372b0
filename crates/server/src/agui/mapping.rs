//! Converts the events of a run to those of AG-UI, in the order that its clients require.
//!
//! A tool call is sent whole, once its model call is on record: calls in a reply that is discarded were never made.
//! Text that was sent and is then discarded is retracted by a `MESSAGES_SNAPSHOT` without it. Content of a model call's
//! record that was not received live, for example after a restart, is sent from the record.
//!
//! For a run that resumes, earlier events are processed first but not sent again.

mod call_output;
mod calls;
mod client_messages;
mod ending;
mod events;
mod subagents;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{
    AgentId, ApprovalRequested, EffectId, ModelRef, Purpose, Record, RunId, RunOutcome, RunSpec,
    SelfCheck, ToolCallId, Usage,
};
use serde_json::{Map, Value, json};

use self::call_output::CallOutput;
use self::client_messages::ClientMessages;
use self::subagents::Subagents;
use super::event::{Body, Outgoing, PROTOCOL_VERSION};
use super::input::ClientIds;

/// Converts the events of one run for one client.
#[derive(Debug)]
pub(super) struct Mapping {
    ids: ClientIds,
    run: RunId,
    /// The client's state, to which the plan is added. `None` if it is not an object.
    state: Option<Map<String, Value>>,
    plan_is_shown: bool,
    /// The specification with which the run started, and the check of its draft, if there is one.
    spec: Option<Arc<RunSpec>>,
    self_check: Option<SelfCheck>,
    client_messages: ClientMessages,
    /// How many turns the root agent has started, and the model call of the last one while it is a step.
    turns: u32,
    step: Option<EffectId>,
    outputs: BTreeMap<EffectId, CallOutput>,
    /// The model calls that are on record. Their further live events are ignored.
    settled: BTreeSet<EffectId>,
    /// The calls that were sent, and those of them that have their results.
    called: BTreeSet<ToolCallId>,
    answered: BTreeSet<ToolCallId>,
    subagents: Subagents,
    /// The questions that a user must decide.
    questions: Vec<(AgentId, ApprovalRequested)>,
    /// The questions to the user by tools that the last reply called.
    tool_questions: Vec<String>,
    usage: Vec<(ModelRef, Usage)>,
    waits: bool,
    /// Whether the client cancelled its open questions.
    is_given_up: bool,
    outcome: Option<RunOutcome>,
    /// Events that are ready to be sent.
    out: Vec<Outgoing>,
    /// When the event being processed happened.
    at: Option<i64>,
}

impl Mapping {
    /// Creates the mapping for a run.
    pub(super) fn new(
        ids: ClientIds,
        run: RunId,
        state: Option<Value>,
        messages: Vec<Value>,
    ) -> Self {
        let state = match state {
            None => Some(Map::new()),
            Some(Value::Object(state)) => Some(state),
            Some(_) => None,
        };
        Self {
            ids,
            run,
            state,
            plan_is_shown: false,
            spec: None,
            self_check: None,
            client_messages: ClientMessages::starting_with(messages),
            turns: 0,
            step: None,
            outputs: BTreeMap::new(),
            settled: BTreeSet::new(),
            called: BTreeSet::new(),
            answered: BTreeSet::new(),
            subagents: Subagents::default(),
            questions: Vec::new(),
            tool_questions: Vec::new(),
            usage: Vec::new(),
            waits: false,
            is_given_up: false,
            outcome: None,
            out: Vec::new(),
            at: None,
        }
    }

    /// Processes earlier records so that they are not sent again. Call this before [`begin`](Self::begin).
    pub(super) fn recall<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) {
        for record in records {
            self.apply_record(record);
        }
        self.out.clear();
        self.client_messages.forget();
        self.outputs.clear();
        self.subagents.suspend();
        self.usage.clear();
        self.plan_is_shown = false;
        self.waits = false;
    }

    /// Reports no failure of the run. To a client, its questions stay open until a run finishes, so one that cancelled
    /// them could otherwise never get rid of them.
    pub(super) const fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Emits that the run started or resumed.
    pub(super) fn begin(&mut self) {
        let ClientIds {
            thread_id,
            run_id,
            parent_run_id,
        } = self.ids.clone();
        let metadata = json!({"neuraxisRunId": self.run.to_string()});
        self.out.push(
            Body::RunStarted {
                thread_id,
                run_id,
                protocol_version: PROTOCOL_VERSION,
                parent_run_id,
                metadata: Some(metadata),
            }
            .into(),
        );
        self.subagents.emit_resumed(self.run, &mut self.out);
        if self.step.is_some() {
            let step_name = step_name(self.turns);
            self.emit(AgentId::ROOT, Body::StepStarted { step_name });
        }
    }

    /// Processes an event of the run.
    pub(super) fn apply(&mut self, event: &Event) {
        if self.outcome.is_some() {
            return;
        }
        match event {
            Event::Record(record) => {
                self.at = Some(record.at.as_millisecond());
                self.apply_record(record);
                self.at = None;
            }
            Event::Live(live) => self.apply_live(live),
        }
    }

    /// Takes the events that are ready to be sent.
    pub(super) fn take(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.out)
    }

    /// Returns whether the run waits and has not resumed since.
    pub(super) const fn is_waiting(&self) -> bool {
        self.waits
    }

    /// Returns whether the run has ended.
    pub(super) const fn has_ended(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns whether such replies of an agent are shown as they arrive. A draft is sent only at the end, in its final
    /// form.
    fn is_read_along(&self, agent: AgentId, purpose: Purpose) -> bool {
        let spec = self.spec.as_ref().filter(|_| agent == AgentId::ROOT);
        spec.is_none_or(|spec| spec.root.is_read_along(purpose, self.self_check.as_ref()))
    }

    /// Emits an event of an agent. If the client does not know the agent, nothing is emitted.
    fn emit(&mut self, agent: AgentId, body: Body) {
        let subagent = self.subagents.id(agent);
        if agent == AgentId::ROOT || subagent.is_some() {
            self.out.push(Outgoing {
                body,
                timestamp: self.at,
                subagent,
            });
        }
    }

    /// Emits the start of another turn of the root agent, if there is one.
    fn begin_turn(&mut self, agent: AgentId, call: EffectId) {
        if agent != AgentId::ROOT || self.step == Some(call) {
            return;
        }
        self.end_step();
        self.turns = self.turns.saturating_add(1);
        self.step = Some(call);
        let step_name = step_name(self.turns);
        self.emit(AgentId::ROOT, Body::StepStarted { step_name });
    }

    fn end_step(&mut self) {
        if self.step.take().is_some() {
            let step_name = step_name(self.turns);
            self.emit(AgentId::ROOT, Body::StepFinished { step_name });
        }
    }
}

fn step_name(turn: u32) -> String {
    format!("turn {turn}")
}

#[cfg(test)]
mod tests;
