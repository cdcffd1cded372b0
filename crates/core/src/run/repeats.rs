//! Detects repetitions of the same call (loop rule 14). Approvals do not reset the count.

use std::sync::Arc;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Streak {
    name: Arc<str>,
    arguments: JsonText,
    turns: u32,
    /// Whether the reply was cut off in its arguments.
    is_cut: bool,
}

impl Streak {
    /// Returns whether another call is the same, as far as both were written: equal replies are not always cut at the
    /// same place.
    fn is_same(&self, other: &Self) -> bool {
        let (own, its) = (self.arguments.as_str(), other.arguments.as_str());
        let both_cut = self.is_cut && other.is_cut;
        self.name == other.name
            && (own == its || both_cut && (own.starts_with(its) || its.starts_with(own)))
    }
}

impl AgentStep<'_> {
    /// Counts the calls of a new reply. A call that repeats too often causes a warning; at the profile's limit, the
    /// whole batch is refused and the run proceeds to its last answer. Returns `true` in that case. The last call of a
    /// reply that reached its length limit is cut.
    pub(super) fn stops_for_repeats(
        &mut self,
        reply: &Message,
        is_cut: bool,
    ) -> Result<bool, InputError> {
        let repeats = self.spec.profile.repeats;
        self.agent.streaks = counted(&self.agent.streaks, reply, is_cut, self.spec);
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
        let why = reached(repeats.stop).then(|| (self.texts.calls.repeated)(&name, turns));
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
        let note = (self.texts.notes.repeated)(&name, turns);
        self.agent.notes.push((PromptReason::RepeatedCalls, note));
        Ok(false)
    }
}

/// Counts the calls of existing tools; unknown tools have a separate limit (loop rule 4).
fn counted(before: &[Streak], reply: &Message, is_cut: bool, spec: &AgentSpec) -> Vec<Streak> {
    let mut streaks: Vec<Streak> = Vec::new();
    let last = reply.tool_calls().last().map(|call| &call.id);
    for call in reply.tool_calls() {
        if spec.tool(&call.name).is_none() {
            continue;
        }
        let mut streak = Streak {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            turns: 1,
            is_cut: is_cut && last == Some(&call.id),
        };
        // A duplicate within one reply does not count as another turn.
        if streaks.iter().any(|known| known.is_same(&streak)) {
            continue;
        }
        let known = before.iter().find(|known| known.is_same(&streak));
        let turns = known.map_or(0, |known| known.turns);
        streak.turns = turns.saturating_add(1);
        streaks.push(streak);
    }
    streaks
}
