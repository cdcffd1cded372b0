//! What callers can query about a run: its status, what it waits for, its usage. Also the end of a step, which updates
//! these.

use std::sync::Arc;

use serde::Serialize;

use super::agent::{Agent, Phase};
use super::agent_step::StepBuilder;
use super::batch::{Batch, Before, Call, CallState};
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

/// The number of records at which a log is considered long: the number at which Temporal warns about the history of a
/// workflow.
const LONG_RECORDS: u64 = 10_240;

/// The size of a log's records at which it is considered long, in bytes of weight: the size at which Temporal warns
/// about the history of a workflow.
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
    /// The final arguments, as far as the call has come. If the model wrote something other than JSON, it is written as
    /// a string.
    pub arguments: JsonText,
    /// Its stage since it was last checked.
    pub stage: CallStage,
    /// Whether the log has an attempt of it without a result. After a crash, a call may have begun and still be
    /// checked, or asked about, again.
    pub has_begun: bool,
}

/// The stage of a call that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// It has yet to be checked.
    Unchecked,
    /// It waits for a user.
    Asking,
    /// It was cleared to run and waits for its turn.
    Ready,
    /// Its attempt is on record, and in progress as far as the run knows.
    Begun,
}

impl RunTree {
    /// Returns how often in a row the run was resumed without progress: since then, no answer of a model, a tool or a
    /// user was recorded, and the run did not enter a wait.
    #[must_use]
    pub const fn futile_resumes(&self) -> u32 {
        self.state.taken_up
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        self.spec.run_id
    }

    /// Returns the run's status.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        self.state.status
    }

    /// Returns whether the run is still waiting for the answer to an effect.
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

    /// Returns the run's usage so far.
    #[must_use]
    pub fn usage(&self) -> RunUsage {
        let root = self.agents.first();
        root.map(|root| root.usage_in_all(&self.spec.root))
            .unwrap_or_default()
    }

    /// Returns how many turns of the root agent have counted so far, including one whose calls are in progress.
    #[must_use]
    pub fn turns(&self) -> u32 {
        let root = self.agents.first();
        root.map_or(0, |root| {
            let under_way = u32::from(root.batch().is_some());
            root.turns_used.saturating_add(under_way)
        })
    }

    /// Returns the tools that an agent of this run may call, including those that its requests do not contain.
    #[must_use]
    pub fn tools(&self, agent: AgentId) -> &[ToolSpec] {
        &self.agent_spec(agent).tools
    }

    /// Returns the tools that an agent's requests currently contain, in order. If the agent
    /// [searches](AgentSpec::search) its tools, it may [call](Self::tools) others as well.
    #[must_use]
    pub fn offered_tools(&self, agent: AgentId) -> &[ToolSpec] {
        let offered = self.agent(agent).and_then(|agent| agent.offered.as_deref());
        offered.unwrap_or_else(|| self.tools(agent))
    }

    /// Returns whether the run ends with the calls of tools that the caller runs, instead of waiting for their results.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.spec.client_tools == ClientTools::HandOver
    }

    /// Returns whether an agent is `other`, or works for it at any depth.
    #[must_use]
    pub fn works_for(&self, agent: AgentId, other: AgentId) -> bool {
        let above = |agent: &&Agent| self.agent(agent.parent_id()?);
        std::iter::successors(self.agent(agent), above).any(|agent| agent.id == other)
    }

    /// Returns the spec that an agent of this run was started with.
    #[must_use]
    pub fn agent_spec(&self, agent: AgentId) -> &AgentSpec {
        let agent = self.agent(agent);
        agent.map_or(&self.spec.root, |agent| agent.spec(&self.spec))
    }

    /// Returns an agent's conversation as its model receives it next.
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

    /// Returns the untrusted content that an agent's conversation contains, including its parent's when the agent was
    /// started.
    #[must_use]
    pub fn taint(&self, agent: AgentId) -> Option<&Taint> {
        self.agent(agent).map(|agent| &agent.taint)
    }

    /// Returns what the run is waiting for, across all agents: user decisions and results of a client's tools.
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

    /// Ends a step: updates the status and checks the length of the log.
    pub(super) fn conclude(&mut self, mut step: StepBuilder) -> Step {
        if !step.records.is_empty() {
            self.state.active = step.stamp.active_elapsed;
            self.settle_status(&mut step);
            self.check_log_length(&mut step);
            self.state.counters = step.counters;
        }
        Step {
            status: self.state.status,
            effects: step.effects,
            records: step.records,
            wake_at: self.wake_at(),
        }
    }

    /// Updates the status after a step; a run that comes to a standstill records what it waits for.
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

    /// Adds the weight of a step's records, and records one warning when the log becomes long.
    fn check_log_length(&mut self, step: &mut StepBuilder) {
        let state = &mut self.state;
        let weight = step.records.iter().map(|record| record.weight());
        state.log_bytes = weight.fold(state.log_bytes, u64::saturating_add);
        let (records, bytes) = (step.counters.seq.0, state.log_bytes);
        let is_long = records >= LONG_RECORDS || bytes >= LONG_BYTES;
        // Nothing may follow the end of a run.
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
    /// Returns whether anything in progress will finish without a user or a client.
    fn is_busy(&self) -> bool {
        match &self.phase {
            Phase::Model(_) | Phase::Consulting(_) | Phase::Between => true,
            Phase::Tools(batch) => batch.is_busy(),
            // If its agents are waiting or at work, their own phases show it.
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
