//! What follows once all calls of a batch have their results: the next turn, or the end.

use std::sync::Arc;

use crate::decision::TakesOver;
use crate::finish::{BudgetKind, FinishReason};
use crate::ids::AgentId;
use crate::limits::Limits;
use crate::message::{Message, ToolMessage};
use crate::outcome::ToolFailure;
use crate::profile::{Hook, ToolErrors};
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::run::batch::{Batch, Call, CallState};
use crate::run::draft::Draft;

/// Turns in a row with an unknown tool before the run is brought to its last answer (loop rule 4).
const MAX_UNKNOWN_TURNS: u32 = 3;

impl RunTree {
    /// All calls are over: their results join the history in call order, and the loop goes on or ends.
    pub(super) fn batch_over(&mut self, draft: &mut Draft, id: AgentId) {
        let Some(batch) = self.agent(id).and_then(Agent::batch) else {
            return;
        };
        let handed_over = batch
            .calls
            .iter()
            .any(|call| matches!(call.state, CallState::HandedOver));
        let any_failed = batch.has_failed();
        let all_failed = self.ways(id).is_some() && batch.is_all_failed();
        let unknown = batch
            .calls
            .iter()
            .any(|call| call.failure() == Some(ToolFailure::UnknownTool));
        let counts = self.counts_as_turn(id, batch);
        let stops = self.agent_spec(id).profile.tool_errors == ToolErrors::Stop;
        let results = self.append_results(id);
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
        } else if let Some((reason, content)) = agent.ending.take().filter(|_| !at_limit) {
            self.finish(draft, id, reason, content);
        } else if !at_limit && self.count_turn(draft, id, all_failed) == TakesOver::Person {
            self.ask_person(draft, id);
        } else {
            self.tell_notes(draft, id, results);
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
        let reason = if reached(limits.max_turns, agent.turns_used) && !self.is_out_of_time(id) {
            FinishReason::MaxTurns
        } else if let Some(reason) = agent.closing.clone() {
            reason
        } else if self.is_out_of_tool_calls(id) {
            FinishReason::Budget(BudgetKind::ToolCalls)
        } else if reached(model_calls, agent.model_calls) {
            FinishReason::Budget(BudgetKind::ModelCalls)
        } else if agent.unknown_turns >= MAX_UNKNOWN_TURNS {
            FinishReason::Budget(BudgetKind::UnknownTools)
        } else {
            if !self.consult(draft, id, Hook::Progress) {
                self.next_turn(draft, id);
            }
            return;
        };
        self.close(draft, id, &reason);
    }

    fn is_out_of_time(&self, id: AgentId) -> bool {
        let closing = self.agent(id).and_then(|agent| agent.closing.as_ref());
        closing == Some(&FinishReason::Deadline)
    }

    /// A turn of non-iterative tools alone does not use up the turn limit (loop rule 7).
    fn counts_as_turn(&self, agent: AgentId, batch: &Batch) -> bool {
        let spec = self.agent_spec(agent);
        let non_iterative =
            |call: &Call| spec.tool(&call.name).is_some_and(|tool| tool.non_iterative);
        !batch.calls.iter().all(non_iterative)
    }

    /// Appends the results of the batch to the history, in call order, as the profile lets the model read them. After
    /// that the agent has no batch. Returns how many there were.
    pub(super) fn append_results(&mut self, id: AgentId) -> u32 {
        let spec = Arc::clone(&self.spec);
        let Some(agent) = self.agent_mut(id) else {
            return 0;
        };
        let profile = &agent.spec(&spec).profile;
        let Phase::Tools(batch) = std::mem::replace(&mut agent.phase, Phase::Ended) else {
            return 0;
        };
        let mut results = 0;
        agent.failed_tools.clear();
        for call in batch.calls {
            if let CallState::Settled { value, failure } = call.state {
                if failure.is_some_and(ToolFailure::is_of_the_tool) {
                    agent.failed_tools.push(call.name.clone());
                }
                let rule = profile
                    .result_rule(&call.name)
                    .filter(|_| failure.is_none());
                let message = ToolMessage {
                    tool_call_id: call.id,
                    name: call.name,
                    content: rule.map_or_else(|| value.clone(), |rule| rule.edited(&value)),
                };
                agent.transcript.push(Message::Tool(message));
                results += 1;
            }
        }
        results
    }
}
