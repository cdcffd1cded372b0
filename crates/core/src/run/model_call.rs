//! A turn and its model call: limits, role, offered tools, and the messages that are sent.

use std::sync::Arc;

use super::Next;
use super::agent::{Agent, ConsultedAbout, ModelCall, OfferedTools, Phase, PlannedCall};
use super::agent_step::AgentStep;
use super::context::TrimPlan;
use super::last_answer::Limit;
use crate::effect::{Audience, CallModel, Effect, ModelRequest, Purpose, ReplyFormat, ToolChoice};
use crate::error::InputError;
use crate::ids::{Attempt, Role, ToolName};
use crate::profile::{Hook, Offer};
use crate::spec::AgentSpec;
use crate::texts::Texts;
use crate::tool::ToolSpec;

impl AgentStep<'_> {
    /// Continues with the next turn, or with the last answer if a limit was reached (loop rules 6, 7 and 10).
    pub(super) fn continue_after_turn(&mut self) -> Next {
        if let Some(limit) = self.budgets().limit_reached() {
            return Next::AskLastAnswer(limit);
        }
        match self.consults(Hook::Progress) {
            true => self.ask_hook(ConsultedAbout::Progress),
            false => Next::BeginTurn,
        }
    }

    /// Makes a call that was planned earlier. If time is nearly up by now, the remaining time is for the last answer.
    pub(super) fn call_planned(&self, planned: PlannedCall) -> Next {
        if self.agent.closing.is_some() && planned.purpose != Purpose::LastAnswer {
            return Next::Continue;
        }
        Next::CallAsIs(planned)
    }

    /// Begins the agent's next turn: with the embedder's hook, if it must be consulted, or with the model call.
    pub(super) fn begin_turn(&mut self) -> Next {
        self.agent.turn = self.agent.turn.next();
        let tools = self.agent.offered_tools(self.spec);
        let callable = matches!(tools, OfferedTools::Callable);
        match callable && self.consults(Hook::ToolsSelected) {
            true => self.ask_hook(ConsultedAbout::ToolsSelected),
            false => Next::AskForTurn(tools),
        }
    }

    /// Plans the model call of the turn, unless a budget would not be enough.
    pub(super) fn ask_for_turn(&mut self, tools: OfferedTools) -> Next {
        if let Some(kind) = self.budgets().exceeded_by(1) {
            return Next::AskLastAnswer(Limit::Budget(kind));
        }
        let may_call = tools.may_be_called();
        let role = self.agent.role_of_turn(self.spec);
        let mut planned = PlannedCall::new(Purpose::Turn, role, tools);
        if may_call {
            // Loop rule 18: only for this call.
            planned.choice = self.agent.forced.take();
        }
        Next::CallModel(planned)
    }

    /// Calls a model with the agent's conversation, or for a summary of what is to be removed from it.
    pub(super) fn call_model(
        &mut self,
        planned: PlannedCall,
        making_room: Option<Box<(TrimPlan, PlannedCall)>>,
    ) -> Result<Next, InputError> {
        let call = ModelCall {
            effect_id: self.step.new_effect(),
            attempt: Attempt(1),
            content_index: self.step.new_content_index(),
            planned,
            making_room,
        };
        let effect = self.agent.model_effect(self.spec, &call, self.texts)?;
        self.step.effects.push(effect);
        // A summary, a choice of role and a check are not answers: they do not count toward the model calls that the
        // run's turns allow.
        let answers = matches!(
            call.planned.purpose,
            Purpose::Turn | Purpose::LastAnswer | Purpose::Gather
        );
        self.agent.model_calls = self.agent.model_calls.saturating_add(u32::from(answers));
        // Not earlier: a call that is still being examined may give way to a last answer, which is then the first call.
        self.agent.has_asked |= call.planned.is_first.is_some();
        self.agent.phase = Phase::Model(call);
        Ok(Next::Wait)
    }
}

impl Agent {
    fn offered_tools(&self, spec: &AgentSpec) -> OfferedTools {
        match spec.profile.offer {
            // What was gathered is the basis of the answer; nothing is added to it.
            _ if spec.gather_tool().is_some() => OfferedTools::None,
            Offer::Never => OfferedTools::None,
            // Loop rule 18: an answer without calls never needed one.
            _ if spec.tool_choice == Some(ToolChoice::None) => OfferedTools::Shown,
            Offer::FirstTurns(turns) if self.turn.0 > turns => OfferedTools::Shown,
            Offer::Always | Offer::FirstTurns(_) => OfferedTools::Callable,
        }
    }

    fn role_of_turn(&self, spec: &AgentSpec) -> Role {
        let governed = self.governed.as_deref();
        if let Some(larger) = governed.and_then(|governed| governed.larger.as_ref()) {
            return larger.clone();
        }
        let roles = &spec.profile.roles;
        let other = if self.turn.0 <= 1 {
            &roles.first
        } else {
            &roles.after_calls
        };
        let own = || self.own_role(spec).clone();
        other.clone().unwrap_or_else(own)
    }

    /// Builds the effect of a model call, for its first attempt or after a crash.
    pub(super) fn model_effect(
        &self,
        spec: &AgentSpec,
        call: &ModelCall,
        texts: &Texts,
    ) -> Result<Effect, InputError> {
        let planned = &call.planned;
        Ok(Effect::CallModel(Box::new(CallModel {
            effect_id: call.effect_id,
            attempt: call.attempt,
            agent: self.id,
            turn: self.turn,
            content_index: call.content_index,
            purpose: planned.purpose,
            role: planned.role.clone(),
            audience: if spec.is_read_along(planned.purpose, self.self_check(spec)) {
                Audience::Person
            } else {
                Audience::Component
            },
            is_first: planned.is_first == Some(true),
            request: self.request_of(spec, call, texts)?,
        })))
    }

    fn request_of(
        &self,
        spec: &AgentSpec,
        call: &ModelCall,
        texts: &Texts,
    ) -> Result<ModelRequest, InputError> {
        if let Some(making_room) = &call.making_room {
            return Ok(self.summary_request(spec, &making_room.0, &texts.summaries));
        }
        if call.planned.purpose == Purpose::Routing {
            return self.routing_request();
        }
        let (tools, tool_choice) = call.planned.tools_of(spec, self.tools(spec));
        let messages = if call.planned.purpose == Purpose::SelfCheck {
            self.with_check_prompt()
        } else {
            self.conversation.transcript().clone()
        };
        Ok(ModelRequest {
            messages,
            tools,
            tool_choice,
            max_output_tokens: call
                .planned
                .reply_tokens
                .or_else(|| self.most_of_reply(spec, &call.planned)),
            temperature: spec.temperature,
            reply_format: call.planned.format_of(spec),
        })
    }
}

impl OfferedTools {
    pub(super) const fn may_be_called(&self) -> bool {
        matches!(self, Self::Callable | Self::Only(_))
    }

    /// Returns what a request offers when it may call no tool: the definitions stay if earlier requests had them, to
    /// preserve the cached prefix.
    pub(super) fn not_to_be_called(spec: &AgentSpec) -> Self {
        let showed = spec.profile.offer != Offer::Never && spec.gather_tool().is_none();
        if showed { Self::Shown } else { Self::None }
    }

    /// Returns the definitions in a request, out of those that the agent's requests may contain.
    pub(super) fn definitions(
        &self,
        spec: &AgentSpec,
        offered: &Arc<[ToolSpec]>,
    ) -> Arc<[ToolSpec]> {
        match self {
            Self::Callable | Self::Shown => Arc::clone(offered),
            Self::Only(names) => only(offered, |name| names.contains(name)),
            Self::Gather => {
                let gather = spec.gather_tool();
                only(&spec.tools, |name| Some(name) == gather)
            }
            Self::None => Arc::default(),
        }
    }
}

impl PlannedCall {
    /// Returns the required form of the reply's text. An answer that a tool delivers is requested as text when no tool
    /// may be called.
    fn format_of(&self, spec: &AgentSpec) -> ReplyFormat {
        match spec.delivering_tool() {
            // The reply chooses what to gather.
            _ if self.purpose == Purpose::Gather => ReplyFormat::Text,
            None => spec.reply_format.clone(),
            Some(_) if self.tools.may_be_called() => ReplyFormat::Text,
            Some(tool) => ReplyFormat::JsonSchema {
                name: tool.name.shared(),
                schema: tool.parameters.clone(),
            },
        }
    }

    /// Returns the tools of the request and the forced choice among them. If the forced tool is not on offer, providers
    /// would refuse the request, so the choice is left to the model.
    fn tools_of(
        &self,
        spec: &AgentSpec,
        offered: &Arc<[ToolSpec]>,
    ) -> (Arc<[ToolSpec]>, ToolChoice) {
        let tools = self.tools.definitions(spec, offered);
        match self.tools {
            OfferedTools::Shown | OfferedTools::None => return (tools, ToolChoice::None),
            OfferedTools::Gather => return (tools, ToolChoice::Auto),
            OfferedTools::Callable | OfferedTools::Only(_) => {}
        }
        let is_there = match &self.choice {
            Some(ToolChoice::Named(name)) => tools.iter().any(|tool| tool.name == *name),
            Some(ToolChoice::Required) => !tools.is_empty(),
            Some(ToolChoice::Auto | ToolChoice::None) | None => true,
        };
        let choice = self.choice.clone().filter(|_| is_there);
        (tools, choice.unwrap_or(ToolChoice::Auto))
    }
}

fn only(tools: &[ToolSpec], is_offered: impl Fn(&ToolName) -> bool) -> Arc<[ToolSpec]> {
    let tools = tools.iter().filter(|tool| is_offered(&tool.name));
    tools.cloned().collect()
}
