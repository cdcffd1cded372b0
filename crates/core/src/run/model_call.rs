//! How a turn asks a model.

use std::sync::Arc;

use crate::effect::{Audience, CallModel, Effect, ModelRequest, Purpose, ToolChoice};
use crate::finish::FinishReason;
use crate::ids::{AgentId, Attempt, Role, ToolName};
use crate::profile::{Hook, Offer};
use crate::run::RunTree;
use crate::run::agent::{Agent, ModelCall, OfferedTools, Phase, PlannedCall};
use crate::run::context::TrimPlan;
use crate::run::draft::Draft;
use crate::spec::AgentSpec;
use crate::tool::ToolSpec;

impl RunTree {
    /// Begins the agent's next turn: with the embedder's hook, if it is to be asked, or with the model call.
    pub(super) fn next_turn(&mut self, draft: &mut Draft, agent: AgentId) {
        self.begin_turn(agent);
        let tools = self.offered_tools(agent);
        let callable = matches!(tools, OfferedTools::Callable);
        if callable && self.consult(draft, agent, Hook::ToolsSelected) {
            return;
        }
        self.call_for_turn(draft, agent, tools);
    }

    pub(super) fn begin_turn(&mut self, agent: AgentId) {
        if let Some(agent) = self.agent_mut(agent) {
            agent.turn = agent.turn.next();
        }
    }

    /// Makes the model call of the turn, unless a budget would not last.
    pub(super) fn call_for_turn(&mut self, draft: &mut Draft, id: AgentId, tools: OfferedTools) {
        if let Some(kind) = self.short_of(id) {
            self.close(draft, id, &FinishReason::Budget(kind));
            return;
        }
        let mut planned = PlannedCall::new(Purpose::Turn, self.role_of_turn(id), tools);
        if matches!(
            planned.tools,
            OfferedTools::Callable | OfferedTools::Only(_)
        ) {
            planned.choice = self.agent_mut(id).and_then(|agent| agent.forced.take());
        }
        self.call_model(draft, id, planned);
    }

    fn offered_tools(&self, id: AgentId) -> OfferedTools {
        let spec = self.agent_spec(id);
        let turn = self.agent(id).map_or(0, |agent| agent.turn.0);
        match spec.profile.offer {
            // What was gathered is answered from, not added to.
            _ if spec.gather_tool().is_some() => OfferedTools::None,
            Offer::Never => OfferedTools::None,
            Offer::FirstTurns(turns) if turn > turns => OfferedTools::Shown,
            Offer::Always | Offer::FirstTurns(_) => OfferedTools::Callable,
        }
    }

    fn role_of_turn(&self, id: AgentId) -> Role {
        if let Some(larger) = self.larger_role(id) {
            return larger.clone();
        }
        let roles = &self.agent_spec(id).profile.roles;
        let is_first = self.agent(id).is_none_or(|agent| agent.turn.0 <= 1);
        let other = if is_first {
            &roles.first
        } else {
            &roles.after_calls
        };
        other.clone().unwrap_or_else(|| self.own_role(id))
    }

    /// Asks a model with the agent's conversation, after making room in it where it is too large.
    pub(super) fn call_model(&mut self, draft: &mut Draft, agent: AgentId, planned: PlannedCall) {
        if let Some(planned) = self.make_room(draft, agent, planned) {
            self.begin_call(draft, agent, planned, None);
        }
    }

    /// Asks a model with the agent's conversation as it stands, or for a summary of what is to go from it.
    pub(super) fn begin_call(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        planned: PlannedCall,
        making_room: Option<Box<(TrimPlan, PlannedCall)>>,
    ) {
        let call = ModelCall {
            effect_id: self.new_effect(),
            attempt: Attempt(1),
            content_index: self.new_content_index(),
            planned,
            making_room,
        };
        draft.effects.extend(self.model_effect(agent, &call));
        if let Some(agent) = self.agent_mut(agent) {
            // A summary, a choice of role and a check are no answers: they do not use up what the turns of a run may ask.
            let answers = matches!(
                call.planned.purpose,
                Purpose::Turn | Purpose::LastAnswer | Purpose::Gather
            );
            let counts = u32::from(answers);
            agent.model_calls = agent.model_calls.saturating_add(counts);
            agent.phase = Phase::Model(call);
        }
    }

    /// Builds the effect of a model call, for its first attempt or after a crash.
    pub(super) fn model_effect(&self, id: AgentId, call: &ModelCall) -> Option<Effect> {
        let agent = self.agent(id)?;
        let planned = &call.planned;
        let reads_along = id == AgentId::ROOT
            && match planned.purpose {
                // What is only a draft is shown once it stands.
                Purpose::Turn => !self.checks_drafts(id),
                Purpose::LastAnswer => true,
                _ => false,
            };
        Some(Effect::CallModel(CallModel {
            effect_id: call.effect_id,
            attempt: call.attempt,
            agent: id,
            turn: agent.turn,
            content_index: call.content_index,
            purpose: planned.purpose,
            role: planned.role.clone(),
            audience: if reads_along {
                Audience::Person
            } else {
                Audience::Component
            },
            request: self.request_of(agent, call)?,
        }))
    }

    fn request_of(&self, agent: &Agent, call: &ModelCall) -> Option<ModelRequest> {
        if let Some(making_room) = &call.making_room {
            return Some(Self::summary_request(agent, &making_room.0));
        }
        if call.planned.purpose == Purpose::Routing {
            return self.routing_request(agent);
        }
        let request = request(agent, self.agent_spec(agent.id), &call.planned);
        Some(if call.planned.purpose == Purpose::SelfCheck {
            self.check_request(agent, request)
        } else {
            request
        })
    }
}

fn request(agent: &Agent, spec: &AgentSpec, planned: &PlannedCall) -> ModelRequest {
    let (tools, tool_choice) = match &planned.tools {
        OfferedTools::Callable => chosen(planned, Arc::clone(&spec.tools)),
        OfferedTools::Only(names) => chosen(planned, only(spec, |name| names.contains(name))),
        OfferedTools::Shown => (Arc::clone(&spec.tools), ToolChoice::None),
        OfferedTools::Gather => {
            let gather = spec.gather_tool();
            (only(spec, |name| Some(name) == gather), ToolChoice::Auto)
        }
        OfferedTools::None => (Arc::default(), ToolChoice::None),
    };
    ModelRequest {
        messages: agent.transcript.clone(),
        tools,
        tool_choice,
        max_output_tokens: spec.max_output_tokens,
        temperature: spec.temperature,
        reply_format: spec.reply_format.clone(),
    }
}

/// Returns the tools with the choice that is forced among them. Where the forced one is not on offer, and providers would
/// refuse the request, the model is free.
fn chosen(planned: &PlannedCall, tools: Arc<[ToolSpec]>) -> (Arc<[ToolSpec]>, ToolChoice) {
    let is_there = match &planned.choice {
        Some(ToolChoice::Named(name)) => tools.iter().any(|tool| tool.name == *name),
        Some(ToolChoice::Required) => !tools.is_empty(),
        Some(ToolChoice::Auto | ToolChoice::None) | None => true,
    };
    let choice = planned.choice.clone().filter(|_| is_there);
    (tools, choice.unwrap_or(ToolChoice::Auto))
}

fn only(spec: &AgentSpec, is_offered: impl Fn(&ToolName) -> bool) -> Arc<[ToolSpec]> {
    let tools = spec.tools.iter().filter(|tool| is_offered(&tool.name));
    tools.cloned().collect()
}
