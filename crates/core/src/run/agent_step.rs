//! One agent's part of a step: the agent, its spec, and the step that its handlers add to.
//!
//! `RunTree::agent_step` looks up an agent once; its handlers are methods of [`AgentStep`], in the file of what they
//! handle.

use std::sync::Arc;

use super::agent::Agent;
use super::batch::Batch;
use super::{Next, RunState};
use crate::duration::whole_millis;
use crate::effect::Effect;
use crate::error::InputError;
use crate::ids::{AgentId, ContentIndex, EffectId, RunId, Seq};
use crate::input::Stamp;
use crate::record::{PromptInjected, PromptReason, Record, RecordBody, Warning};
use crate::spec::{AgentSpec, RunSpec};
use crate::texts::Texts;

/// An agent with everything that its handlers may read and change.
pub(super) struct AgentStep<'a> {
    pub(super) agent: &'a mut Agent,
    /// The agent's spec: its behavior and what it may use.
    pub(super) spec: &'a AgentSpec,
    /// What the run says itself, by its version.
    pub(super) texts: &'static Texts,
    pub(super) state: &'a mut RunState,
    pub(super) step: &'a mut StepBuilder,
    pub(super) run: &'a RunSpec,
    /// The agents that were started before this one, including those it works for.
    pub(super) above: &'a mut [Agent],
    /// The agents that were started after this one, including its sub-agents.
    pub(super) below: &'a mut [Agent],
}

/// The counters of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    /// The last record's number.
    pub(super) seq: Seq,
    /// The number of the next model call or batch.
    pub(super) content: ContentIndex,
    /// How many effects were requested.
    pub(super) effects: u32,
}

/// Collects the records and effects of one step, and the actions that remain to be done in it.
pub(super) struct StepBuilder {
    run_id: RunId,
    pub(super) stamp: Stamp,
    pub(super) counters: Counters,
    pub(super) effects: Vec<Effect>,
    pub(super) records: Vec<Arc<Record>>,
    /// The remaining actions, by agent, for when the current agent waits; the last one is performed first.
    pub(super) todo: Vec<(AgentId, Next)>,
}

impl StepBuilder {
    pub(super) const fn new(run_id: RunId, stamp: Stamp, counters: Counters) -> Self {
        Self {
            run_id,
            stamp,
            counters,
            effects: Vec::new(),
            records: Vec::new(),
            todo: Vec::new(),
        }
    }

    pub(super) fn new_effect(&mut self) -> EffectId {
        self.counters.effects = self.counters.effects.saturating_add(1);
        EffectId {
            run: self.run_id,
            number: self.counters.effects,
        }
    }

    pub(super) const fn new_content_index(&mut self) -> ContentIndex {
        let index = self.counters.content;
        self.counters.content = index.next();
        index
    }

    /// Adds a record of an agent; the first of a step is marked as its cause.
    pub(super) fn record(
        &mut self,
        agent: &Agent,
        content_index: Option<ContentIndex>,
        body: RecordBody,
    ) {
        self.counters.seq = self.counters.seq.next();
        let is_cause = self.records.is_empty();
        let active = whole_millis(self.stamp.active_elapsed);
        self.records.push(Arc::new(Record {
            seq: self.counters.seq,
            content_index,
            run_id: self.run_id,
            agent: agent.id,
            turn: agent.turn,
            at: self.stamp.at,
            active_ms: is_cause.then_some(active),
            body,
        }));
    }

    /// Records a problem that does not end the run, with a code for programs.
    pub(super) fn warn(&mut self, agent: &Agent, code: &str, message: String) {
        let code = code.to_owned();
        let warning = RecordBody::Warning(Box::new(Warning { code, message }));
        self.record(agent, None, warning);
    }

    /// Withdraws an effect that this same step requested: it no longer needs an answer.
    pub(super) fn withdraw(&mut self, effect: EffectId) {
        self.effects
            .retain(|requested| requested.id() != Some(effect));
    }
}

impl AgentStep<'_> {
    /// Records something of this agent.
    pub(super) fn record(&mut self, body: RecordBody) {
        self.step.record(self.agent, None, body);
    }

    /// Records something that belongs to a model call or batch.
    pub(super) fn record_at(&mut self, content_index: ContentIndex, body: RecordBody) {
        self.step.record(self.agent, Some(content_index), body);
    }

    /// Records something that belongs to the agent's current batch.
    pub(super) fn record_in_batch(&mut self, body: RecordBody) {
        let content_index = self.agent.batch().map(|batch| batch.content_index);
        self.step.record(self.agent, content_index, body);
    }

    pub(super) fn warn(&mut self, code: &str, message: String) {
        self.step.warn(self.agent, code, message);
    }

    /// Appends a system message from the loop and records it.
    pub(super) fn inject_prompt(&mut self, reason: PromptReason, message: String) {
        self.agent.conversation.add_system_note(&message);
        let injected = PromptInjected { reason, message };
        self.record(RecordBody::PromptInjected(Box::new(injected)));
    }

    /// Returns the batch that the agent works on.
    pub(super) fn batch(&mut self) -> Result<&mut Batch, InputError> {
        let batch = self.agent.batch_mut();
        batch.ok_or(InputError::Inconsistent("an agent has no calls to work on"))
    }

    /// Returns an agent that was started after this one.
    pub(super) fn started_since(&self, id: AgentId) -> Option<&Agent> {
        let first = self.above.len() + 1;
        self.below.get(place(id).checked_sub(first)?)
    }
}

/// Returns the index of an agent among those of its run.
pub(super) fn place(id: AgentId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}
