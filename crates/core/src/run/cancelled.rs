//! Handles a wish that the run, or one of its agents, end, at whatever point it is.

use crate::error::InputError;
use crate::finish::{BudgetKind, FinishReason};
use crate::ids::AgentId;
use crate::input::Cancelled;
use crate::outcome::ToolFailure;
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::agent::Agent;
use crate::run::draft::Draft;

impl RunTree {
    pub(super) fn cancelled(
        &mut self,
        draft: &mut Draft,
        cancelled: Cancelled,
    ) -> Result<(), InputError> {
        if self.status.is_ended() || self.inputs_seen.contains(&cancelled.id) {
            return Ok(());
        }
        let (id, limit) = (cancelled.agent, cancelled.limit);
        if self.agent(id).is_none_or(Agent::has_ended) {
            return Err(InputError::NoSuchAgent(id));
        }
        self.first_time(&cancelled.id);
        self.record(draft, id, None, RecordBody::Cancelled(Box::new(cancelled)));
        if let (Some(limit), AgentId::ROOT) = (limit, id) {
            self.end_at(draft, limit);
            return Ok(());
        }
        let why = if id == AgentId::ROOT {
            "the run was cancelled"
        } else {
            "the agent was cancelled"
        };
        let reason = FinishReason::Cancelled;
        self.abandon_agent(draft, id, &reason, ToolFailure::Cancelled, why);
        self.agent_ended(draft, id);
        Ok(())
    }

    /// Ends the run where it is, as at a limit that leaves no room for a last answer: with the text so far.
    fn end_at(&mut self, draft: &mut Draft, limit: BudgetKind) {
        let root = AgentId::ROOT;
        let why = "a limit of the run is reached";
        self.cancel_model_call(draft, root);
        self.take_back_batch(root);
        self.abandon_batch(draft, root, ToolFailure::Cancelled, why);
        self.append_results(root);
        if let Some(agent) = self.agent_mut(root) {
            agent.closing = Some(FinishReason::Budget(limit));
        }
        self.finish_with_what_there_is(draft, root);
    }
}
