//! The opening that gathers: what a small model chose, or policy adds, is read before the agent answers.

use std::sync::Arc;

use crate::ids::AgentId;
use crate::message::{AssistantMessage, Message};
use crate::profile::Opening;
use crate::project::{assign_ids, chosen_call};
use crate::record::Origin;
use crate::reply::{Reply, ReplyPart, RequestedCall};
use crate::run::RunTree;
use crate::run::agent::ModelCall;
use crate::run::draft::Draft;

impl RunTree {
    /// The opening's choice: keep its first call, or add the one that policy wants; its text is dropped.
    pub(super) fn gather_chosen(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        call: &ModelCall,
        reply: Option<&Reply>,
    ) {
        let Opening::Gather {
            tool,
            default_arguments,
            ..
        } = self.agent_spec(agent).profile.opening.clone()
        else {
            return;
        };
        let chosen = reply.and_then(|reply| Some((reply, chosen_call(reply)?)));
        let (origin, part, model) = match chosen {
            Some((reply, chosen)) => (
                Origin::Model,
                ReplyPart::ToolCall(chosen),
                Some(reply.model.clone()),
            ),
            None => {
                let (name, arguments) = (tool.as_str().into(), default_arguments);
                let added = RequestedCall {
                    provider_id: None,
                    name,
                    arguments,
                    state: None,
                };
                (Origin::Policy, ReplyPart::ToolCall(added), None)
            }
        };
        let parts = assign_ids(self.spec.run_id, agent, call.content_index, [&part]);
        let message = Arc::new(Message::Assistant(AssistantMessage { parts, model }));
        self.append_reply(agent, Arc::clone(&message));
        self.begin_batch(agent, message.tool_calls(), origin);
        self.vet_batch(draft, agent);
    }
}
