//! What the outside may know of a run: where it stands, what it waits for, what it used. And how a step ends, which
//! brings that up to date.

use std::sync::Arc;

use serde::Serialize;

use super::agent::{Agent, Phase};
use super::batch::{Batch, Before, Call, CallState};
use super::turn::StepBuilder;
use super::{RunTree, Step};
use crate::decision::Taint;
use crate::finish::RunStatus;
use crate::ids::{AgentId, EffectId, RunId, Seq, ToolCallId, Turn};
use crate::json::JsonText;
use crate::message::Message;
use crate::record::{Pending, PendingKind, RecordBody, Waiting};
use crate::spec::{AgentSpec, ClientTools};
use crate::tool::{ToolKind, ToolSpec};
use crate::transcript::Transcript;
use crate::usage::RunUsage;

/// The records from which on a log is long: where Temporal warns of a workflow's history.
const LONG_RECORDS: u64 = 10_240;

/// The bytes from which on a log is long, by the weight of its records: where Temporal warns of a workflow's history.
const LONG_BYTES: u64 = 10 * 1024 * 1024;

/// A tool call that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OpenCall {
    /// The agent that calls.
    pub agent: AgentId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The final arguments, as far as it has come. A model may have written something that is no JSON: they are written as a
    /// text.
    pub arguments: JsonText,
    /// How far it has come since it was last checked.
    pub stage: CallStage,
    /// Whether an attempt of it is on record whose result is not: after a crash, a call may have begun and be checked, or
    /// asked about, anew.
    pub has_begun: bool,
}

/// How far a call has come that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// It is still to be checked.
    Unchecked,
    /// It waits for a person.
    Asking,
    /// It was found fit to run and waits for its turn.
    Ready,
    /// Its attempt is on record, and under way as far as the run knows.
    Begun,
}

impl RunTree {
    /// Returns how often in a row the run was taken up without anything coming of it: no answer of a model, a tool or a
    /// person was recorded since, and the run did not come to wait.
    #[must_use]
    pub const fn taken_up_in_vain(&self) -> u32 {
        self.state.taken_up
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        self.spec.run_id
    }

    /// Returns where the run stands.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        self.state.status
    }

    /// Tells whether the answer to an effect is still waited for.
    #[must_use]
    pub fn waits_for(&self, effect: EffectId) -> bool {
        self.agents.iter().any(|agent| agent.waits_for(effect))
    }

    /// Returns the last record's number.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.state.counters.seq
    }

    /// Returns the conversation of the root agent: system prompt, history and what this run added.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        self.agents
            .first()
            .map_or(&[], |root| root.conversation.messages())
    }

    /// Returns what the run used so far.
    #[must_use]
    pub fn usage(&self) -> RunUsage {
        let root = self.agents.first();
        root.map(|root| root.usage_in_all(&self.spec.root))
            .unwrap_or_default()
    }

    /// Returns how many turns of the root agent counted so far, one whose calls are under way included.
    #[must_use]
    pub fn turns(&self) -> u32 {
        let root = self.agents.first();
        root.map_or(0, |root| {
            let under_way = u32::from(root.batch().is_some());
            root.turns_used.saturating_add(under_way)
        })
    }

    /// Returns the tools that an agent of this run may call, those that its requests do not hold included.
    #[must_use]
    pub fn tools(&self, agent: AgentId) -> &[ToolSpec] {
        &self.agent_spec(agent).tools
    }

    /// Returns the tools that the requests of an agent hold by now, in their order. There are more the agent may
    /// [call](Self::tools) where it [searches](AgentSpec::search) them.
    #[must_use]
    pub fn offered_tools(&self, agent: AgentId) -> &[ToolSpec] {
        let offered = self.agent(agent).and_then(|agent| agent.offered.as_deref());
        offered.unwrap_or_else(|| self.tools(agent))
    }

    /// Tells whether the run ends with the calls of tools that the caller runs, instead of waiting for their results.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.spec.client_tools == ClientTools::HandOver
    }

    /// Tells whether an agent is another one, or works for it at whatever depth.
    #[must_use]
    pub fn works_for(&self, agent: AgentId, other: AgentId) -> bool {
        let above = |agent: &&Agent| self.agent(agent.parent_id()?);
        std::iter::successors(self.agent(agent), above).any(|agent| agent.id == other)
    }

    /// Returns what an agent of this run was started with.
    #[must_use]
    pub fn agent_spec(&self, agent: AgentId) -> &AgentSpec {
        let agent = self.agent(agent);
        agent.map_or(&self.spec.root, |agent| agent.spec(&self.spec))
    }

    /// Returns an agent's conversation as its model is sent it next.
    #[must_use]
    pub fn transcript_of(&self, agent: AgentId) -> Transcript {
        let agent = self.agent(agent);
        agent
            .map(|agent| agent.conversation.transcript().clone())
            .unwrap_or_default()
    }

    /// Returns the turn that an agent is in.
    #[must_use]
    pub fn turn_of(&self, agent: AgentId) -> Turn {
        self.agent(agent)
            .map(|agent| agent.turn)
            .unwrap_or_default()
    }

    /// Returns the untrusted content that an agent's conversation holds, that of its parent when it was started included.
    #[must_use]
    pub fn taint(&self, agent: AgentId) -> Option<&Taint> {
        self.agent(agent).map(|agent| &agent.taint)
    }

    /// Returns what the run waits for now: decisions of people and results of a client's tools, of all agents.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        let calls = self.agents.iter().flat_map(Agent::calls);
        calls.filter_map(Call::pending).collect()
    }

    /// Returns the calls of all agents that have no result yet.
    #[must_use]
    pub fn open_calls(&self) -> Vec<OpenCall> {
        let calls = self.agents.iter().flat_map(|agent| {
            let calls = agent.calls().iter();
            calls.map(|call| (agent.id, call))
        });
        let open = calls.filter_map(|(agent, call)| {
            Some(OpenCall {
                agent,
                stage: call.stage()?,
                has_begun: call.has_begun(),
                tool_call_id: call.id.clone(),
                name: Arc::clone(&call.name),
                arguments: call.arguments.clone(),
            })
        });
        open.collect()
    }

    /// Ends a step: brings the status up to date and looks at how long the log has become.
    pub(super) fn conclude(&mut self, mut step: StepBuilder) -> Step {
        if !step.records.is_empty() {
            self.state.active = step.stamp.active_elapsed;
            self.settle_status(&mut step);
            self.mind_the_log(&mut step);
            self.state.counters = step.counters;
        }
        Step {
            status: self.state.status,
            effects: step.effects,
            records: step.records,
            wake_at: self.wake_at(),
        }
    }

    /// Brings the status up to date after a step; a run that comes to a standstill says what it waits for.
    fn settle_status(&mut self, step: &mut StepBuilder) {
        if self.state.status.is_ended() {
            return;
        }
        let before = self.state.status;
        self.state.status = RunStatus::Running;
        if self.agents.iter().any(Agent::is_busy) {
            return;
        }
        let pending = self.pending();
        if pending.is_empty() {
            return;
        }
        self.state.status = RunStatus::Waiting;
        if before != RunStatus::Waiting
            && let Some(root) = self.agents.first()
        {
            let waiting = RecordBody::Waiting(Box::new(Waiting { pending }));
            step.record(root, None, waiting);
        }
    }

    /// Weighs what a step recorded, and adds a warning, once, if the log has become long with it.
    fn mind_the_log(&mut self, step: &mut StepBuilder) {
        let state = &mut self.state;
        let weight = step.records.iter().map(|record| record.weight());
        state.log_bytes = weight.fold(state.log_bytes, u64::saturating_add);
        let (records, bytes) = (step.counters.seq.0, state.log_bytes);
        let is_long = records >= LONG_RECORDS || bytes >= LONG_BYTES;
        // Nothing follows the end of a run.
        if !is_long || state.warned_of_log || state.status.is_ended() {
            return;
        }
        if let Some(root) = self.agents.first() {
            state.warned_of_log = true;
            let message =
                format!("the log of this run grows long: {records} records of about {bytes} bytes");
            step.warn(root, "long_log", message);
        }
    }
}

impl Agent {
    /// Tells whether something is under way that comes to an end without a person or a client.
    fn is_busy(&self) -> bool {
        match &self.phase {
            Phase::Model(_) | Phase::Consulting(_) | Phase::Between => true,
            Phase::Tools(batch) => batch.is_busy(),
            // Where agents of it wait or work, they say so themselves.
            Phase::Queued | Phase::Ended => false,
        }
    }
}

impl Batch {
    fn is_busy(&self) -> bool {
        self.calls.iter().any(|call| {
            matches!(
                call.state,
                CallState::Vetting { .. }
                    | CallState::Running {
                        kind: ToolKind::Server,
                        ..
                    }
            )
        })
    }
}

impl Call {
    fn pending(&self) -> Option<Pending> {
        let (effect_id, kind, expires_at) = match &self.state {
            CallState::Asking { asked, .. } => {
                (asked.effect_id, PendingKind::Approval, asked.expires_at)
            }
            CallState::Running {
                begun,
                kind: ToolKind::Client,
            } => (begun.effect_id, PendingKind::ClientTool, None),
            _ => return None,
        };
        Some(Pending {
            effect_id,
            tool_call_id: self.id.clone(),
            kind,
            expires_at,
        })
    }

    const fn stage(&self) -> Option<CallStage> {
        match &self.state {
            CallState::Settled { .. } | CallState::HandedOver => None,
            CallState::New | CallState::Vetting { .. } => Some(CallStage::Unchecked),
            CallState::Asking { .. } => Some(CallStage::Asking),
            CallState::Ready { .. } => Some(CallStage::Ready),
            CallState::Running { .. } | CallState::Delegated { .. } => Some(CallStage::Begun),
        }
    }

    const fn has_begun(&self) -> bool {
        matches!(self.before, Some(Before::Begun(_)))
            || matches!(
                self.state,
                CallState::Running { .. } | CallState::Delegated { .. }
            )
    }
}
