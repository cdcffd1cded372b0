//! Which calls of a batch may run now (loop rule 1).

use std::time::Duration;

use crate::effect::{Effect, RunTool};
use crate::ids::{AgentId, Attempt, ToolCallId, ToolName};
use crate::outcome::ToolFailure;
use crate::profile::{Parallel, ToolErrors};
use crate::record::{RecordBody, ToolCallStarted};
use crate::run::RunTree;
use crate::run::agent::Agent;
use crate::run::batch::{Batch, Call, CallState};
use crate::run::draft::Draft;
use crate::spec::ClientTools;
use crate::tool::{ToolClass, ToolKind};

impl RunTree {
    /// Starts every call that may run now; once all have their results, goes on with the next turn.
    pub(super) fn schedule(&mut self, draft: &mut Draft, agent: AgentId) {
        let stops = self.agent_spec(agent).profile.tool_errors == ToolErrors::Stop;
        let parallel = self.agent_spec(agent).profile.parallel;
        // Again and again, because a call may be over the moment it would start and make way for the next.
        loop {
            let batch = self.agent(agent).and_then(Agent::batch);
            if stops && batch.is_some_and(Batch::has_failed) {
                self.refuse_unstarted(draft, agent);
            }
            let batch = self.agent(agent).and_then(Agent::batch);
            let startable = batch.map(|batch| batch.startable(parallel));
            let startable = startable.unwrap_or_default();
            if startable.is_empty() {
                break;
            }
            for call in startable {
                self.start_call(draft, agent, &call);
            }
        }
        if self
            .agent(agent)
            .and_then(Agent::batch)
            .is_some_and(Batch::is_over)
        {
            self.batch_over(draft, agent);
        }
    }

    fn refuse_unstarted(&mut self, draft: &mut Draft, agent: AgentId) {
        let batch = self.agent(agent).and_then(Agent::batch);
        let calls = batch.into_iter().flat_map(|batch| &batch.calls);
        let ready = calls.filter(|call| {
            matches!(
                call.state,
                CallState::Ready { .. } | CallState::Asking { .. }
            )
        });
        let ready: Vec<_> = ready.map(|call| call.id.clone()).collect();
        for call in ready {
            let message = "not run: another call of the same reply failed";
            self.refuse(draft, agent, &call, ToolFailure::Cancelled, message);
        }
    }

    fn start_call(&mut self, draft: &mut Draft, id: AgentId, call: &ToolCallId) {
        let spec = self.agent_spec(id);
        let limits = spec.limits;
        let Some(call) = self
            .agent(id)
            .and_then(|agent| agent.batch()?.calls.iter().find(|other| other.id == *call))
        else {
            return;
        };
        let tool = spec
            .tool(&call.name)
            .map(|tool| (tool.name.clone(), tool.kind, tool.timeout));
        let CallState::Ready { class } = call.state else {
            return;
        };
        let call = call.id.clone();
        match tool {
            // Only the root agent's calls can be handed over: the run ends with them.
            Some((_, ToolKind::Client, _))
                if self.spec.client_tools == ClientTools::HandOver && id == AgentId::ROOT =>
            {
                self.set_state(id, &call, CallState::HandedOver);
            }
            Some((name, ToolKind::Agent, _)) => {
                self.start_agents(draft, id, &call, &name, class);
            }
            Some((name, kind @ ToolKind::Server, timeout))
            | Some((name, kind @ ToolKind::Client, timeout))
                if self.can_run(kind) =>
            {
                let effect_id = self.new_effect();
                let running = CallState::Running {
                    effect_id,
                    attempt: Attempt(1),
                    class,
                    kind,
                };
                self.set_state(id, &call, running);
                self.run_call(draft, id, &call, name, limits.time_of_call(timeout));
            }
            _ => {
                let message = "TOOL_NOT_ENABLED: this tool is not available in this run";
                self.refuse(draft, id, &call, ToolFailure::NotEnabled, message);
            }
        }
    }

    /// A call of a caller that waits for none can be run by nobody.
    fn can_run(&self, kind: ToolKind) -> bool {
        kind == ToolKind::Server || self.spec.client_tools == ClientTools::Wait
    }

    pub(super) fn set_state(&mut self, agent: AgentId, call: &ToolCallId, state: CallState) {
        if let Some(call) = self
            .agent_mut(agent)
            .and_then(|agent| agent.batch_mut()?.call_mut(call))
        {
            call.state = state;
        }
    }

    /// Journals a call that is marked as running, and asks for it unless the caller runs it.
    pub(super) fn run_call(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ToolCallId,
        name: ToolName,
        timeout: Duration,
    ) {
        if let Some(agent) = self.agent(id)
            && let Some(batch) = agent.batch()
            && let Some(call) = batch.calls.iter().find(|other| other.id == *call)
            && let CallState::Running {
                effect_id,
                attempt,
                class,
                kind: ToolKind::Server,
            } = call.state
        {
            draft.effects.push(Effect::RunTool(RunTool {
                effect_id,
                attempt,
                agent: id,
                turn: agent.turn,
                content_index: batch.content_index,
                tool_call_id: call.id.clone(),
                name,
                index: call.index,
                arguments: call.arguments.clone(),
                class,
                timeout,
            }));
        }
        self.journal(draft, id, call);
    }

    /// Records that a call is about to run, before it does.
    pub(super) fn journal(&mut self, draft: &mut Draft, id: AgentId, call: &ToolCallId) {
        let batch = self.agent(id).and_then(Agent::batch);
        let call = batch.and_then(|batch| batch.calls.iter().find(|other| other.id == *call));
        let Some(started) = call.and_then(Call::started) else {
            return;
        };
        self.record_in_batch(draft, id, RecordBody::ToolCall(Box::new(started)));
    }
}

impl Call {
    /// Returns the journal entry of a call that runs.
    fn started(&self) -> Option<ToolCallStarted> {
        let (effect_id, attempt, class, kind, agents) = match &self.state {
            CallState::Running {
                effect_id,
                attempt,
                class,
                kind,
            } => (*effect_id, *attempt, *class, *kind, Vec::new()),
            CallState::Delegated {
                effect_id,
                attempt,
                class,
                agents,
                ..
            } => (
                *effect_id,
                *attempt,
                *class,
                ToolKind::Agent,
                agents.clone(),
            ),
            _ => return None,
        };
        Some(ToolCallStarted {
            tool_call_id: self.id.clone(),
            name: self.name.clone(),
            index: self.index,
            effect_id,
            attempt,
            arguments: self.arguments.clone(),
            arguments_hash: self.arguments.hash(),
            class,
            kind,
            origin: self.origin,
            agents,
        })
    }
}

impl Batch {
    /// Returns the calls that may start now, in call order.
    fn startable(&self, parallel: Parallel) -> Vec<ToolCallId> {
        let mut startable = Vec::new();
        let mut all_over = true;
        let mut only_reading = true;
        for call in &self.calls {
            let class = match call.state {
                CallState::Ready { class } => Some(class),
                _ => None,
            };
            let reads = class == Some(ToolClass::ReadOnly);
            let may_start = match parallel {
                Parallel::All => true,
                Parallel::Auto => all_over || (reads && only_reading),
                Parallel::None => all_over,
            };
            if class.is_some() && may_start {
                startable.push(call.id.clone());
            }
            let read_only = CallState::is_read_only;
            all_over &= call.is_over();
            only_reading &= call.is_over() || read_only(&call.state);
        }
        startable
    }
}

impl CallState {
    const fn is_read_only(&self) -> bool {
        matches!(
            self,
            Self::Ready {
                class: ToolClass::ReadOnly
            } | Self::Running {
                class: ToolClass::ReadOnly,
                ..
            } | Self::Delegated {
                class: ToolClass::ReadOnly,
                ..
            }
        )
    }
}
