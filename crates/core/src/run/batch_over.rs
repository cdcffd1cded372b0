//! What happens once all calls of a batch have results: the next turn, or the end.

use std::mem;

use super::Next;
use super::agent::Phase;
use super::agent_step::AgentStep;
use super::answer::is_delivered;
use super::batch::{Batch, Call};
use crate::decision::TakesOver;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::outcome::ToolFailure;
use crate::profile::{LimitReached, ToolErrors};
use crate::record::PromptReason;
use crate::spec::AgentSpec;

impl AgentStep<'_> {
    /// Handles the end of all calls of a batch: their results join the history in call order, and the loop continues or
    /// ends.
    pub(super) fn batch_over(&mut self) -> Result<Next, InputError> {
        let spec = self.spec;
        let governed = self.agent.governed.is_some();
        let batch = self.batch()?;
        let hands_over = batch.is_handed_over();
        let failed = match spec.profile.tool_errors {
            ToolErrors::Stop => batch.failed().map(|call| call.id.clone()),
            ToolErrors::Continue => None,
        };
        let all_failed = governed && batch.is_all_failed();
        let had_unknown = batch.had_unknown();
        let counts = batch.counts_as_turn(spec);
        let results = self.join_results();
        let texts = &self.texts.agents;
        let agent = &mut *self.agent;
        agent.unknown_turns = if had_unknown {
            agent.unknown_turns.saturating_add(1)
        } else {
            0
        };
        agent.turns_used = agent.turns_used.saturating_add(u32::from(counts));
        // A limit makes calls fail too, but determines itself how the run ends.
        let at_limit = agent.closing.is_some();
        if hands_over {
            return Ok(Next::Finish(FinishReason::ClientTools, agent.text()));
        }
        if let Some(failed) = failed.filter(|_| !at_limit) {
            agent.stopped_by = agent.error_of(&failed, texts);
            return Ok(Next::Finish(FinishReason::ToolError, agent.text()));
        }
        let ending = agent.ending.take();
        // A delivered answer makes a last answer unnecessary.
        let ending = ending.filter(|ending| !at_limit || is_delivered(spec, ending));
        let ending = ending.filter(|(reason, _)| !agent.may_deliver_again(spec, reason));
        if let Some(ending) = ending
            && !self.answers_message_first(&ending)
        {
            let (reason, content) = ending;
            return Ok(Next::Finish(reason, content));
        }
        if !at_limit && self.count_turn(all_failed) == TakesOver::Person {
            return Ok(Next::FinishWithQuestion);
        }
        self.inject_notes(results);
        self.agent.conversation.join_steered();
        Ok(Next::Continue)
    }

    /// Returns whether the agent continues although its batch would end it, because a message that arrived in the
    /// meantime must be answered first. A model that delivered its answer is told so. A failure remains a failure, and
    /// at a limit there is no time for another turn.
    fn answers_message_first(&mut self, ending: &(FinishReason, String)) -> bool {
        let delivered = is_delivered(self.spec, ending);
        let is_failure = matches!(ending.0, FinishReason::InvalidAnswer(_));
        if is_failure || !self.answers_steered(delivered) {
            return false;
        }
        if delivered {
            let again = self.texts.notes.message_came.to_owned();
            self.agent.notes.push((PromptReason::AnswerAgain, again));
        }
        true
    }

    /// Returns whether a message arrived in the meantime and can still be answered.
    pub(super) fn answers_steered(&self, delivered: bool) -> bool {
        let budgets = self.budgets();
        let has_turn = budgets.limit_reached().is_none() && budgets.exceeded_by(1).is_none();
        // A last answer takes the message into account as well as another turn would. But it is no reason to discard an
        // answer that was delivered and checked, because its replacement would not be checked.
        let asks = self.spec.profile.limit_reached == LimitReached::LastAnswer && !delivered;
        let may_continue = self.agent.closing.is_none() && (has_turn || asks);
        may_continue && self.agent.conversation.is_steered()
    }

    /// Counts a turn as a success or a failure, according to its calls.
    fn count_turn(&mut self, all_failed: bool) -> TakesOver {
        if all_failed {
            self.agent.count_failure();
            self.take_over()
        } else {
            self.agent.succeeded();
            TakesOver::Nobody
        }
    }

    /// Sends the model the notes collected during the batch, and asks it to digest the results if there were many.
    fn inject_notes(&mut self, results: u32) {
        let mut notes = mem::take(&mut self.agent.notes);
        let digest_after = self.spec.profile.digest_after;
        // A last answer is already told to use the existing information.
        if digest_after.is_some_and(|most| results > most) && self.agent.closing.is_none() {
            let digest = self.texts.notes.digest.to_owned();
            notes.push((PromptReason::DigestResults, digest));
        }
        for (reason, message) in notes {
            self.inject_prompt(reason, message);
        }
    }

    /// Appends the results of the batch to the history in call order, in the form that the profile lets the model read.
    /// The agent is then between two phases. Returns the number of results; 0 if it has no batch.
    pub(super) fn join_results(&mut self) -> u32 {
        let batch = match mem::replace(&mut self.agent.phase, Phase::Between) {
            Phase::Tools(batch) => batch,
            other => {
                self.agent.phase = other;
                return 0;
            }
        };
        let failed = batch.calls.into_iter().filter(|call| {
            let failure = call.failure();
            failure.is_some_and(ToolFailure::is_of_the_tool)
        });
        self.agent.failed_tools.clear();
        self.agent.failed_tools.extend(failed.map(|call| call.name));
        self.agent.conversation.join_results()
    }
}

impl Batch {
    /// A turn with only non-iterative tools does not count toward the turn limit (loop rule 7).
    fn counts_as_turn(&self, spec: &AgentSpec) -> bool {
        let non_iterative =
            |call: &Call| spec.tool(&call.name).is_some_and(|tool| tool.non_iterative);
        !self.calls.iter().all(non_iterative)
    }
}
