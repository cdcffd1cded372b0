//! Handles a person's decision about a call.

use crate::effect::{Approved, Effect};
use crate::error::InputError;
use crate::ids::{AgentId, ToolCallId};
use crate::input::{ApprovalDecided, ApprovalDecision};
use crate::json::JsonText;
use crate::outcome::ToolFailure;
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::batch::CallState;
use crate::run::draft::Draft;

impl RunTree {
    pub(super) fn approval_decided(
        &mut self,
        draft: &mut Draft,
        mut decided: ApprovalDecided,
    ) -> Result<(), InputError> {
        if self.inputs_seen.contains(&decided.id) {
            return Ok(());
        }
        let call = decided.tool_call_id.clone();
        let asking = self.agents.iter().find_map(|agent| {
            let asked = agent.batch()?.calls.iter().find(|other| other.id == call)?;
            let CallState::Asking { question, .. } = &asked.state else {
                return None;
            };
            Some((agent.id, asked.arguments.hash(), question.expires_at))
        });
        let Some((agent, hash, expires_at)) = asking else {
            return Err(InputError::NotWaiting(call));
        };
        if hash != decided.arguments_hash {
            return Err(InputError::ApprovalMismatch(call));
        }
        // Whoever decides too late decides nothing, and it is not recorded as theirs.
        if expires_at.is_some_and(|end| end <= draft.stamp.at) {
            (decided.decision, decided.by) = (ApprovalDecision::Expired, None);
            decided.code = None;
        }
        self.first_time(&decided.id);
        let (decision, by) = (decided.decision.clone(), decided.by.clone());
        let code = decided.code;
        self.record_in_batch(draft, agent, RecordBody::ApprovalDecided(Box::new(decided)));
        match decision {
            ApprovalDecision::Approve {
                arguments,
                remember,
            } => {
                let approved = Approved { remember, by, code };
                self.approve(draft, agent, &call, arguments, approved);
            }
            ApprovalDecision::Deny { reason } => {
                let reason = reason
                    .map(|reason| format!(": {reason}"))
                    .unwrap_or_default();
                let message = format!("denied{reason}");
                self.refuse(draft, agent, &call, ToolFailure::Denied, &message);
            }
            ApprovalDecision::Expired => {
                let message = "not run: nobody approved it in time";
                self.refuse(draft, agent, &call, ToolFailure::ApprovalExpired, message);
            }
        }
        self.schedule(draft, agent);
        Ok(())
    }

    /// Marks a call as approved. The final arguments are checked in any case: an approval answers an ask, not a deny.
    fn approve(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        call: &ToolCallId,
        arguments: Option<JsonText>,
        approved: Approved,
    ) {
        let effect_id = self.new_effect();
        let Some(call) = self
            .agent_mut(agent)
            .and_then(|agent| agent.batch_mut()?.call_mut(call))
        else {
            return;
        };
        call.approved = Some(approved);
        call.arguments = arguments.unwrap_or_else(|| call.arguments.clone());
        call.state = CallState::Vetting { effect_id };
        let vet: Option<Effect> = self.vet_effect(agent, effect_id);
        draft.effects.extend(vet);
    }
}
