//! Which calls of a batch may run now (loop rule 1), and what follows once all have their results.

use std::time::Duration;

use crate::effect::{CancelTool, Effect, RunTool};
use crate::finish::{BudgetKind, FinishReason};
use crate::ids::{AgentId, Attempt, ToolCallId, ToolName};
use crate::limits::Limits;
use crate::message::{Message, ToolMessage};
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::{Parallel, ToolErrors};
use crate::record::{RecordBody, ToolCallStarted};
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::run::batch::{Batch, Call, CallState};
use crate::run::draft::Draft;
use crate::spec::ClientTools;
use crate::tool::{ToolClass, ToolKind};

/// Turns in a row with an unknown tool before the run is brought to its last answer (loop rule 4).
const MAX_UNKNOWN_TURNS: u32 = 3;

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
        let default_timeout = spec.limits.tool_timeout;
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
            Some((_, ToolKind::Client, _)) if self.spec.client_tools == ClientTools::HandOver => {
                self.set_state(id, &call, CallState::HandedOver);
            }
            Some((name, kind @ (ToolKind::Server | ToolKind::Client), timeout)) => {
                let effect_id = self.new_effect();
                let running = CallState::Running {
                    effect_id,
                    attempt: Attempt(1),
                    class,
                    kind,
                };
                self.set_state(id, &call, running);
                self.run_call(draft, id, &call, name, timeout.unwrap_or(default_timeout));
            }
            Some((_, ToolKind::Agent, _)) | None => {
                let message = "TOOL_NOT_ENABLED: this tool is not available in this run";
                self.refuse(draft, id, &call, ToolFailure::NotEnabled, message);
            }
        }
    }

    fn set_state(&mut self, agent: AgentId, call: &ToolCallId, state: CallState) {
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
        let Some(agent) = self.agent(id) else { return };
        let Some(batch) = agent.batch() else { return };
        let Some(call) = batch.calls.iter().find(|other| other.id == *call) else {
            return;
        };
        let CallState::Running {
            effect_id,
            attempt,
            class,
            kind,
        } = call.state
        else {
            return;
        };
        let started = ToolCallStarted {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            index: call.index,
            effect_id,
            attempt,
            arguments: call.arguments.clone(),
            arguments_hash: call.arguments.hash(),
            class,
            kind,
            origin: call.origin,
            agents: Vec::new(),
        };
        if kind == ToolKind::Server {
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
        self.record_in_batch(draft, id, RecordBody::ToolCall(Box::new(started)));
    }

    /// All calls are over: their results join the history in call order, and the loop goes on or ends.
    fn batch_over(&mut self, draft: &mut Draft, id: AgentId) {
        let Some(batch) = self.agent(id).and_then(Agent::batch) else {
            return;
        };
        let handed_over = batch
            .calls
            .iter()
            .any(|call| matches!(call.state, CallState::HandedOver));
        let any_failed = batch.has_failed();
        let unknown = batch
            .calls
            .iter()
            .any(|call| call.failure() == Some(ToolFailure::UnknownTool));
        let counts = self.counts_as_turn(id, batch);
        let stops = self.agent_spec(id).profile.tool_errors == ToolErrors::Stop;
        self.append_results(id);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.unknown_turns = if unknown {
            agent.unknown_turns.saturating_add(1)
        } else {
            0
        };
        agent.turns_used = agent.turns_used.saturating_add(u32::from(counts));
        let text = agent.text.clone();
        // A limit ends the run in its own way, although it makes calls fail.
        let at_limit = agent.closing.is_some();
        if handed_over {
            self.finish(draft, id, FinishReason::ClientTools, text);
        } else if any_failed && stops && !at_limit {
            self.finish(draft, id, FinishReason::ToolError, text);
        } else {
            if let Some(agent) = self.agent_mut(id) {
                agent.join_steered();
            }
            self.go_on(draft, id);
        }
    }

    /// Goes on with the next turn, or with the last answer if a limit was reached (loop rules 6, 7 and 10).
    pub(super) fn go_on(&mut self, draft: &mut Draft, id: AgentId) {
        let limits = self.agent_spec(id).limits;
        let Some(agent) = self.agent(id) else { return };
        let model_calls = limits
            .max_turns
            .map(|turns| turns.saturating_mul(Limits::MODEL_CALLS_PER_TURN));
        let reached = |most: Option<u32>, used: u32| most.is_some_and(|most| used >= most);
        let reason = if let Some(reason) = agent.closing.clone() {
            reason
        } else if reached(limits.max_turns, agent.turns_used) {
            FinishReason::MaxTurns
        } else if reached(limits.max_tool_calls, agent.tool_calls) {
            FinishReason::Budget(BudgetKind::ToolCalls)
        } else if reached(model_calls, agent.model_calls) {
            FinishReason::Budget(BudgetKind::ModelCalls)
        } else if agent.unknown_turns >= MAX_UNKNOWN_TURNS {
            FinishReason::Budget(BudgetKind::UnknownTools)
        } else {
            self.next_turn(draft, id);
            return;
        };
        self.close(draft, id, &reason);
    }

    /// A turn of non-iterative tools alone does not use up the turn limit (loop rule 7).
    fn counts_as_turn(&self, agent: AgentId, batch: &Batch) -> bool {
        let spec = self.agent_spec(agent);
        let non_iterative =
            |call: &Call| spec.tool(&call.name).is_some_and(|tool| tool.non_iterative);
        !batch.calls.iter().all(non_iterative)
    }

    /// Appends the results of the batch to the history, in call order. After that the agent has no batch.
    pub(super) fn append_results(&mut self, id: AgentId) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let Phase::Tools(batch) = std::mem::replace(&mut agent.phase, Phase::Ended) else {
            return;
        };
        for call in batch.calls {
            if let CallState::Settled { value, .. } = call.state {
                let message = ToolMessage {
                    tool_call_id: call.id,
                    name: call.name,
                    content: value,
                };
                agent.transcript.push(Message::Tool(message));
            }
        }
    }

    /// Settles every call of the batch at once, because the run ends or its time is up, and stops those that run.
    pub(super) fn abandon_batch(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        failure: ToolFailure,
        why: &str,
    ) {
        let batch = self.agent(id).and_then(Agent::batch);
        let open: Vec<Call> = batch
            .into_iter()
            .flat_map(|batch| &batch.calls)
            .filter(|call| !call.is_settled())
            .cloned()
            .collect();
        for call in open {
            if let CallState::Running {
                effect_id,
                attempt,
                class,
                kind,
            } = call.state
            {
                if kind == ToolKind::Server {
                    draft
                        .effects
                        .push(Effect::CancelTool(CancelTool { effect_id }));
                }
                let outcome = abandoned(class, failure, why);
                self.settle(
                    draft,
                    id,
                    &call.id,
                    Some((effect_id, attempt, None)),
                    &outcome,
                );
            } else {
                self.refuse(draft, id, &call.id, failure, &format!("not run: {why}"));
            }
        }
    }
}

/// The result of a call that was stopped: unless it may simply run again, nobody knows whether it took effect.
fn abandoned(class: ToolClass, failure: ToolFailure, why: &str) -> ToolOutcome {
    if class == ToolClass::Irreversible {
        let message = format!("stopped: {why}; its outcome is unknown, it may have taken effect");
        ToolOutcome::failed(ToolFailure::OutcomeUnknown, &message)
    } else {
        ToolOutcome::failed(failure, &format!("stopped: {why}"))
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
            }
        )
    }
}
