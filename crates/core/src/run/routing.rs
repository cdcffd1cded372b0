//! Asks a model which role serves the request, before the first turn. The role of the decision stands in where it gives
//! no answer.

use std::sync::Arc;

use crate::decision::Routing;
use crate::effect::{ModelRequest, Purpose, ReplyFormat, ToolChoice};
use crate::ids::AgentId;
use crate::message::Message;
use crate::record::{RecordBody, Warning};
use crate::reply::Reply;
use crate::run::RunTree;
use crate::run::agent::{Agent, OfferedTools, PlannedCall};
use crate::run::draft::Draft;

impl RunTree {
    /// Begins the work of the agent that answers the user: with the question which role serves, where it is asked.
    pub(super) fn begin(&mut self, draft: &mut Draft) {
        let id = AgentId::ROOT;
        let asks = self.routing().map(|routing| routing.asks.clone());
        match asks.filter(|_| self.short_of(id).is_none()) {
            Some(asks) => {
                let planned = PlannedCall::new(Purpose::Routing, asks, OfferedTools::None);
                self.begin_call(draft, id, planned, None);
            }
            None => self.open(draft, id),
        }
    }

    fn routing(&self) -> Option<&Routing> {
        self.ways(AgentId::ROOT)?.routing.as_ref()
    }

    /// Builds the request: what is asked, and the user's message as a message of its own.
    pub(super) fn routing_request(&self, agent: &Agent) -> Option<ModelRequest> {
        let routing = self.routing()?;
        let mut latest_first = agent.transcript.messages().iter().rev();
        let user = latest_first.find(|message| matches!(message.as_ref(), Message::User { .. }));
        let prompt = Arc::new(Message::system(routing.prompt.as_str()));
        Some(ModelRequest {
            messages: std::iter::once(prompt).chain(user.cloned()).collect(),
            tools: Arc::default(),
            tool_choice: ToolChoice::None,
            max_output_tokens: Some(routing.max_output_tokens),
            temperature: None,
            reply_format: ReplyFormat::Text,
        })
    }

    /// The choice came, or did not: begin with the role that was named, or with the decision's own.
    pub(super) fn role_chosen(&mut self, draft: &mut Draft, reply: Option<&Reply>) {
        let id = AgentId::ROOT;
        let Some(routing) = self.ways_mut(id).and_then(|ways| ways.routing.take()) else {
            return;
        };
        let own = self.agent_spec(id).role.clone();
        match reply.map(|reply| routing.chosen(&reply.text())) {
            Some(Some(role)) => {
                if let Some(ways) = self.ways_mut(id).filter(|_| *role != own) {
                    ways.chosen = Some(role.clone());
                    if let Some(escalation) = &mut ways.escalation {
                        escalation.role.take_if(|larger| larger == role);
                    }
                }
            }
            Some(None) => {
                let warning = Warning {
                    code: "no_role_chosen".to_owned(),
                    message: format!(
                        "role {} was asked and named no role; the rules' choice, {own}, serves",
                        routing.asks
                    ),
                };
                self.record(draft, id, None, RecordBody::Warning(Box::new(warning)));
            }
            // The failed attempt has its own record.
            None => {}
        }
        if self.agent(id).is_some_and(|agent| agent.closing.is_some()) {
            self.go_on(draft, id);
        } else {
            self.open(draft, id);
        }
    }
}
