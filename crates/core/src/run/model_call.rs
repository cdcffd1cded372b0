//! How a turn asks a model.

use std::sync::Arc;

use crate::effect::{Audience, CallModel, Effect, ModelRequest, Purpose, ToolChoice};
use crate::ids::{AgentId, Attempt, Role};
use crate::run::RunTree;
use crate::run::agent::{ModelCall, OfferedTools, Phase};
use crate::run::draft::Draft;

impl RunTree {
    /// Begins the agent's next turn with a model call.
    pub(super) fn next_turn(&mut self, draft: &mut Draft, agent: AgentId) {
        self.begin_turn(agent);
        let spec = self.agent_spec(agent);
        let role = spec.role.clone();
        // What was gathered is answered from, not added to.
        let tools = if spec.gather_tool().is_some() {
            OfferedTools::None
        } else {
            OfferedTools::Callable
        };
        self.call_model(draft, agent, Purpose::Turn, role, tools);
    }

    pub(super) fn begin_turn(&mut self, agent: AgentId) {
        if let Some(agent) = self.agent_mut(agent) {
            agent.turn = agent.turn.next();
        }
    }

    /// Asks a model with the agent's conversation as it stands.
    pub(super) fn call_model(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        purpose: Purpose,
        role: Role,
        tools: OfferedTools,
    ) {
        let effect_id = self.new_effect();
        let content_index = self.new_content_index();
        let call = ModelCall {
            effect_id,
            attempt: Attempt(1),
            content_index,
            purpose,
            role,
            tools,
        };
        if let Some(agent) = self.agent_mut(agent) {
            agent.model_calls = agent.model_calls.saturating_add(1);
            agent.phase = Phase::Model(call.clone());
        }
        draft.effects.extend(self.model_effect(agent, &call));
    }

    /// Builds the effect of a model call under way, for its first attempt or after a crash.
    pub(super) fn model_effect(&self, id: AgentId, call: &ModelCall) -> Option<Effect> {
        let agent = self.agent(id)?;
        let spec = self.agent_spec(id);
        let gather = spec.gather_tool();
        let (tools, tool_choice) = match call.tools {
            OfferedTools::Callable => (Arc::clone(&spec.tools), ToolChoice::Auto),
            OfferedTools::Shown => (Arc::clone(&spec.tools), ToolChoice::None),
            OfferedTools::Gather => {
                let tools = spec
                    .tools
                    .iter()
                    .filter(|tool| Some(&tool.name) == gather)
                    .cloned();
                (tools.collect(), ToolChoice::Auto)
            }
            OfferedTools::None => (Arc::default(), ToolChoice::None),
        };
        let reads_along =
            id == AgentId::ROOT && matches!(call.purpose, Purpose::Turn | Purpose::LastAnswer);
        Some(Effect::CallModel(CallModel {
            effect_id: call.effect_id,
            attempt: call.attempt,
            agent: id,
            turn: agent.turn,
            content_index: call.content_index,
            purpose: call.purpose,
            role: call.role.clone(),
            audience: if reads_along {
                Audience::Person
            } else {
                Audience::Component
            },
            request: ModelRequest {
                messages: agent.transcript.clone(),
                tools,
                tool_choice,
                max_output_tokens: spec.max_output_tokens,
                temperature: spec.temperature,
                reply_format: spec.reply_format.clone(),
            },
        }))
    }
}
