//! Detects repetitions of the same call (loop rule 14). Approvals do not reset the count.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::agent_step::AgentStep;
use super::batch::shown;
use super::last_answer::Limit;
use crate::error::InputError;
use crate::finish::BudgetKind;
use crate::json::JsonText;
use crate::message::Message;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::record::{PromptReason, RecordBody, Warning};
use crate::spec::AgentSpec;

/// A call and the number of consecutive turns that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Streak {
    name: Arc<str>,
    arguments: JsonText,
    turns: u32,
}

impl AgentStep<'_> {
    /// Counts the calls of a new reply. A call that repeats too often causes a warning; at the profile's limit, the
    /// whole batch is refused and the run proceeds to its last answer. Returns `true` in that case.
    pub(super) fn stops_for_repeats(&mut self, reply: &Message) -> Result<bool, InputError> {
        let repeats = self.spec.profile.repeats;
        self.agent.streaks = counted(&self.agent.streaks, reply, self.spec);
        let streaks = self.agent.streaks.iter();
        let Some(longest) = streaks.max_by_key(|streak| streak.turns) else {
            return Ok(false);
        };
        let turns = longest.turns;
        let reached = |limit: u32| limit > 0 && turns >= limit;
        if !reached(repeats.warn) && !reached(repeats.stop) {
            return Ok(false);
        }
        let name = shown(&longest.name);
        let message =
            format!("{name} was called with the same arguments in {turns} turns in a row");
        let why = reached(repeats.stop).then(|| format!("not run: {message}"));
        self.record_in_batch(RecordBody::Warning(Box::new(Warning {
            code: "repeated_call".to_owned(),
            message,
        })));
        if let Some(why) = why {
            let repeated = Limit::Budget(BudgetKind::RepeatedCalls);
            self.agent.closing.get_or_insert(repeated);
            self.settle_all(&ToolOutcome::failed(ToolFailure::LimitReached, &why))?;
            return Ok(true);
        }
        let note = format!(
            "You have called {name} with the same arguments in {turns} turns in a row. Use the results you have, \
             try something else, or answer."
        );
        self.agent.notes.push((PromptReason::RepeatedCalls, note));
        Ok(false)
    }
}

/// Counts the calls of existing tools; unknown tools have a separate limit (loop rule 4).
fn counted(before: &[Streak], reply: &Message, spec: &AgentSpec) -> Vec<Streak> {
    let mut streaks: Vec<Streak> = Vec::new();
    let known = reply
        .tool_calls()
        .filter(|call| spec.tool(&call.name).is_some());
    for call in known {
        let is_it =
            |streak: &&Streak| streak.name == call.name && streak.arguments == call.arguments;
        // A duplicate within one reply does not count as another turn.
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
