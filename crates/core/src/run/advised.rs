//! Handles a hook's answer.

use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, EffectId};
use crate::input::{Advice, Advised};
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::Hook;
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::agent::{Consulting, OfferedTools, Phase};
use crate::run::draft::Draft;

impl RunTree {
    pub(super) fn advised(
        &mut self,
        draft: &mut Draft,
        advised: Advised,
    ) -> Result<(), InputError> {
        let effect = advised.effect_id;
        let Some((agent, hook)) = self.consulting(effect) else {
            return self.nothing_waits_for(effect, "advised");
        };
        let offers = matches!(advised.advice, Advice::Offer { .. });
        if offers && hook != Hook::ToolsSelected {
            return Err(InputError::WrongAdvice(effect));
        }
        let advice = advised.advice.clone();
        self.record(draft, agent, None, RecordBody::Advised(Box::new(advised)));
        self.take_back_batch(agent);
        match (hook, advice) {
            (_, Advice::Stop { reason }) => self.stop_as_advised(draft, agent, &reason),
            (Hook::ToolsSelected, Advice::Offer { tools }) => {
                self.call_for_turn(draft, agent, OfferedTools::Only(tools));
            }
            (Hook::ToolsSelected, Advice::Continue) => {
                self.call_for_turn(draft, agent, OfferedTools::Callable);
            }
            (Hook::Progress, _) => self.next_turn(draft, agent),
            (Hook::ProcessCalls, _) => self.process_calls(draft, agent),
        }
        Ok(())
    }

    fn consulting(&self, effect: EffectId) -> Option<(AgentId, Hook)> {
        self.agents.iter().find_map(|agent| match &agent.phase {
            Phase::Consulting(consulting) if consulting.effect_id == effect => {
                Some((agent.id, consulting.hook))
            }
            _ => None,
        })
    }

    /// Gives an agent whose calls wait for a hook its calls back.
    pub(super) fn take_back_batch(&mut self, id: AgentId) {
        if let Some(agent) = self.agent_mut(id)
            && let Phase::Consulting(Consulting { batch, .. }) = &mut agent.phase
        {
            agent.phase = batch.take().map_or(Phase::Ended, Phase::Tools);
        }
    }

    /// The loop ends here; calls that were not processed get a result that says so.
    fn stop_as_advised(&mut self, draft: &mut Draft, id: AgentId, reason: &str) {
        let why = format!("not run: the loop was ended: {reason}");
        let outcome = ToolOutcome::failed(ToolFailure::Cancelled, &why);
        self.settle_all(draft, id, &outcome);
        self.append_results(id);
        let text = self
            .agent(id)
            .map(|agent| agent.text.clone())
            .unwrap_or_default();
        self.finish(draft, id, FinishReason::Stop, text);
    }
}
