//! Notices the same call again and again (loop rule 14). Approvals do not reset the count.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::finish::{BudgetKind, FinishReason};
use crate::ids::AgentId;
use crate::json::JsonText;
use crate::message::Message;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::record::{PromptReason, RecordBody, Warning};
use crate::run::RunTree;
use crate::run::draft::Draft;
use crate::spec::AgentSpec;

/// A call and how many turns in a row made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Streak {
    name: Arc<str>,
    arguments: JsonText,
    turns: u32,
}

impl RunTree {
    /// Counts the calls of a new reply. A call that comes too often is warned of; at the profile's limit the whole
    /// batch is refused, and the run goes to its last answer. True if it was.
    pub(super) fn stops_for_repeats(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        reply: &Message,
    ) -> bool {
        let spec = self.agent_spec(id);
        let repeats = spec.profile.repeats;
        let before = self.agent(id).map(|agent| agent.streaks.as_slice());
        let streaks = counted(before.unwrap_or_default(), reply, spec);
        let Some(agent) = self.agent_mut(id) else {
            return false;
        };
        agent.streaks = streaks;
        let Some(longest) = agent.streaks.iter().max_by_key(|streak| streak.turns) else {
            return false;
        };
        let turns = longest.turns;
        let reached = |limit: u32| limit > 0 && turns >= limit;
        if !reached(repeats.warn) && !reached(repeats.stop) {
            return false;
        }
        let name: String = longest.name.chars().take(64).collect();
        let said = format!("{name} was called with the same arguments in {turns} turns in a row");
        self.record_in_batch(
            draft,
            id,
            RecordBody::Warning(Box::new(Warning {
                code: "repeated_call".to_owned(),
                message: said.clone(),
            })),
        );
        if reached(repeats.stop) {
            let why = format!("not run: {said}");
            let Some(agent) = self.agent_mut(id) else {
                return false;
            };
            let repeated = FinishReason::Budget(BudgetKind::RepeatedCalls);
            agent.closing.get_or_insert(repeated);
            let outcome = ToolOutcome::failed(ToolFailure::LimitReached, &why);
            self.settle_all(draft, id, &outcome);
            self.schedule(draft, id);
            return true;
        }
        if let Some(agent) = self.agent_mut(id) {
            let note = format!(
                "You have called {name} with the same arguments in {turns} turns in a row. Use the results you have, \
                 try something else, or answer."
            );
            agent.notes.push((PromptReason::RepeatedCalls, note));
        }
        false
    }
}

/// Counts the calls of tools there are: unknown ones have a limit of their own (loop rule 4).
fn counted(before: &[Streak], reply: &Message, spec: &AgentSpec) -> Vec<Streak> {
    let mut streaks: Vec<Streak> = Vec::new();
    let known = reply
        .tool_calls()
        .filter(|call| spec.tool(&call.name).is_some());
    for call in known {
        let is_it =
            |streak: &&Streak| streak.name == call.name && streak.arguments == call.arguments;
        // Twice in one reply is once too often, but no turn of its own.
        if streaks.iter().any(|streak| is_it(&streak)) {
            continue;
        }
        let turns = before.iter().find(is_it).map_or(0, |streak| streak.turns);
        streaks.push(Streak {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            turns: turns.saturating_add(1),
        });
    }
    streaks
}
