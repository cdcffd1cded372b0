//! A user's message that no context has room for: it gives way itself, and displaces no other.

use super::TrimPlan;
use super::units::{add_to, question_of};
use crate::run::agent::Agent;
use crate::run::agent_step::AgentStep;
use crate::spec::AgentSpec;
use crate::transcript::last_user_message;

/// A user's message that does not fit even if nothing stays beside the instructions and the run's question.
struct Unfit {
    place: usize,
    /// Whether it is the question of the run, without which there is nothing to answer.
    is_question: bool,
    tokens: u64,
    room: u64,
}

/// What happens to such a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GivesWay {
    /// There is none.
    Nothing,
    /// It was left out.
    LeftOut,
    /// It is the question of the run. Everything stays, and the provider has the last word.
    Question,
}

impl AgentStep<'_> {
    /// Leaves a message that arrived during the run out if it fits no context of the agent's models, and says so. The
    /// question of the run stays; the first time, a warning says that it is too long.
    pub(super) fn give_way(&mut self) -> GivesWay {
        if self.state.loop_version < 4 {
            return GivesWay::Nothing;
        }
        let Some(unfit) = self.agent.unfit_message(self.spec) else {
            return GivesWay::Nothing;
        };
        let Unfit { tokens, room, .. } = unfit;
        let size = format!(
            "about {tokens} tokens, and the model's context has room for {room} beside its instructions"
        );
        if unfit.is_question {
            if !self.agent.warned_of_question {
                self.agent.warned_of_question = true;
                let message = format!(
                    "the message is too long for the model: {size}; nothing else is left out for it"
                );
                self.warn("message_too_long", message);
            }
            return GivesWay::Question;
        }
        let mut plan = TrimPlan::default();
        add_to(&mut plan.removed, unfit.place..unfit.place + 1);
        let message =
            format!("a message is too long for the model: {size}; the run continues without it");
        self.warn("message_too_long", message);
        self.trim(plan, None);
        GivesWay::LeftOut
    }
}

impl Agent {
    fn unfit_message(&self, spec: &AgentSpec) -> Option<Unfit> {
        let room = self.room_in(spec.context_tokens?, spec);
        let messages = self.conversation.without_prompt();
        let last = last_user_message(messages)?;
        let question = question_of(messages, self.conversation.earlier()).unwrap_or(last);
        let tokens_of = |place: usize| self.gauge.tokens_of_part(messages, place..place + 1);
        let prompt = self.conversation.messages();
        let prompt = prompt
            .get(..prompt.len() - messages.len())
            .unwrap_or_default();
        let mut left = room.saturating_sub(self.gauge.tokens_of(prompt));
        for place in [question, last] {
            let tokens = tokens_of(place);
            if tokens > left {
                return Some(Unfit {
                    place,
                    is_question: place == question,
                    tokens,
                    room: left,
                });
            }
            if question == last {
                return None;
            }
            left = left.saturating_sub(tokens);
        }
        None
    }
}
