//! Handles a wish that the run, or one of its agents, end, at whatever point it is.

use crate::error::InputError;
use crate::finish::FinishReason;
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
        let id = cancelled.agent;
        if self.agent(id).is_none_or(Agent::has_ended) {
            return Err(InputError::NoSuchAgent(id));
        }
        self.first_time(&cancelled.id);
        self.record(draft, id, None, RecordBody::Cancelled(cancelled));
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
}
