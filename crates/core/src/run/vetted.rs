//! Handles what was found about calls: run, refuse or ask (loop rules 4 and 5).

use jiff::Timestamp;

use crate::effect::{AskApproval, CallToVet, Effect, Vet};
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, EffectId, ToolCallId};
use crate::input::{Vetted, Vetting};
use crate::outcome::ToolFailure;
use crate::profile::UnknownTool;
use crate::record::{ApprovalRequested, RecordBody};
use crate::run::RunTree;
use crate::run::batch::{Before, CallState, Question};
use crate::run::draft::Draft;
use crate::tool::ToolClass;

impl RunTree {
    /// Asks for all calls of a new batch to be checked.
    pub(super) fn vet_batch(&mut self, draft: &mut Draft, agent: AgentId) {
        let effect_id = self.new_effect();
        let Some(batch) = self.agent_mut(agent).and_then(|agent| agent.batch_mut()) else {
            return;
        };
        for call in batch.calls.iter_mut().filter(|call| !call.is_settled()) {
            call.state = CallState::Vetting { effect_id };
        }
        draft.effects.extend(self.vet_effect(agent, effect_id));
    }

    /// Builds the effect that checks the calls waiting for it.
    pub(super) fn vet_effect(&self, id: AgentId, effect_id: EffectId) -> Option<Effect> {
        let agent = self.agent(id)?;
        let waiting = agent
            .batch()?
            .calls
            .iter()
            .filter(|call| call.effect() == Some(effect_id));
        let calls = waiting.map(|call| CallToVet {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            approved: call.approved.clone(),
        });
        Some(Effect::Vet(Vet {
            effect_id,
            agent: id,
            turn: agent.turn,
            calls: calls.collect(),
        }))
    }

    pub(super) fn vetted(&mut self, draft: &mut Draft, vetted: Vetted) -> Result<(), InputError> {
        let effect = vetted.effect_id;
        let Some((agent, calls)) = self.calls_being_vetted(effect) else {
            return self.nothing_waits_for(effect, "verdict");
        };
        if calls.len() != vetted.calls.len() {
            return Err(InputError::VerdictCount {
                effect,
                asked: calls.len(),
                answered: vetted.calls.len(),
            });
        }
        let verdicts = vetted.calls.clone();
        self.record_in_batch(draft, agent, RecordBody::Verdict(Box::new(vetted)));
        if let Some(name) = self.unknown_tool_that_stops(agent, &calls, &verdicts) {
            self.stop_for_unknown_tool(draft, agent, name);
            return Ok(());
        }
        for (call, verdict) in calls.iter().zip(verdicts) {
            self.apply_verdict(draft, agent, call, verdict);
        }
        self.schedule(draft, agent);
        Ok(())
    }

    fn calls_being_vetted(&self, effect: EffectId) -> Option<(AgentId, Vec<ToolCallId>)> {
        self.agents.iter().find_map(|agent| {
            let vetting = CallState::Vetting { effect_id: effect };
            let calls = agent
                .batch()?
                .calls
                .iter()
                .filter(|call| call.state == vetting);
            let calls: Vec<_> = calls.map(|call| call.id.clone()).collect();
            (!calls.is_empty()).then_some((agent.id, calls))
        })
    }

    fn apply_verdict(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        call: &ToolCallId,
        verdict: Vetting,
    ) {
        match verdict {
            Vetting::Run {
                class, untrusted, ..
            } => self.admit(draft, agent, call, class, untrusted),
            Vetting::Ask {
                class,
                untrusted,
                again: false,
                ..
            } if self.is_approved(agent, call) => self.admit(draft, agent, call, class, untrusted),
            Vetting::Ask {
                class,
                reason,
                causes,
                rule,
                choices,
                ..
            } => {
                let expires_at = self.expiry(draft);
                let question = Question {
                    reason,
                    causes,
                    rule,
                    choices,
                    expires_at,
                };
                self.ask(draft, agent, call, class, question);
            }
            Vetting::Invalid { message } => {
                let message = format!("the arguments are not valid: {message}");
                self.refuse(draft, agent, call, ToolFailure::InvalidArguments, &message);
            }
            Vetting::Unknown => {
                let message = self.unknown_tool_message(agent, call);
                self.refuse(draft, agent, call, ToolFailure::UnknownTool, &message);
            }
            Vetting::Disabled => {
                let message = "TOOL_NOT_ENABLED: this tool is not available in this turn";
                self.refuse(draft, agent, call, ToolFailure::NotEnabled, message);
            }
            Vetting::Deny { reason, .. } => {
                self.refuse(
                    draft,
                    agent,
                    call,
                    ToolFailure::Denied,
                    &format!("denied: {reason}"),
                );
            }
        }
    }

    /// Lets a call run when its turn comes, unless a limit on tool calls is reached. One that was admitted before the run
    /// was taken up counts no second time, and of what is on record and what was found now the stricter class holds.
    fn admit(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ToolCallId,
        class: ToolClass,
        untrusted: bool,
    ) {
        let before = self.before(id, call);
        let class = before.map_or(class, |before| class.max(before.class()));
        if let Some(Before::Begun {
            effect_id, attempt, ..
        }) = before
        {
            let ran = (effect_id, attempt);
            return self.run_again_or_give_up(draft, id, call, ran, (class, untrusted));
        }
        if before.is_some() || self.admit_tool_call(id) {
            if let Some(call) = self
                .agent_mut(id)
                .and_then(|agent| agent.batch_mut()?.call_mut(call))
            {
                call.state = CallState::Ready { class };
                call.untrusted |= untrusted;
                call.before = None;
            }
        } else {
            let message = "not run: the limit on tool calls is reached";
            self.refuse(draft, id, call, ToolFailure::LimitReached, message);
        }
    }

    fn before(&self, agent: AgentId, call: &ToolCallId) -> Option<Before> {
        let batch = self.agent(agent).and_then(|agent| agent.batch());
        batch?.calls.iter().find(|it| it.id == *call)?.before
    }

    fn is_approved(&mut self, agent: AgentId, call: &ToolCallId) -> bool {
        let batch = self.agent_mut(agent).and_then(|agent| agent.batch_mut());
        batch
            .and_then(|batch| batch.call_mut(call))
            .is_some_and(|call| call.approved.is_some())
    }

    /// Returns when a question that is asked now is no longer open.
    fn expiry(&self, draft: &Draft) -> Option<Timestamp> {
        draft.stamp.at.checked_add(self.approval_expires?).ok()
    }

    fn ask(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        id: &ToolCallId,
        class: ToolClass,
        question: Question,
    ) {
        let effect_id = self.new_effect();
        let Some(call) = self
            .agent_mut(agent)
            .and_then(|agent| agent.batch_mut()?.call_mut(id))
        else {
            return;
        };
        // Whatever was said before, this is another question.
        call.approved = None;
        let requested = call.requested(effect_id, &question);
        call.state = CallState::Asking {
            effect_id,
            class,
            question: Box::new(question),
        };
        draft
            .effects
            .push(Effect::AskApproval(requested.effect(agent)));
        self.record_in_batch(
            draft,
            agent,
            RecordBody::ApprovalRequested(Box::new(requested)),
        );
    }

    fn unknown_tool_message(&self, agent: AgentId, call: &ToolCallId) -> String {
        let batch = self.agent(agent).and_then(|agent| agent.batch());
        let call = batch.and_then(|batch| batch.calls.iter().find(|other| other.id == *call));
        let name: String = call
            .map(|call| call.name.chars().take(64).collect())
            .unwrap_or_default();
        let known: Vec<_> = self
            .agent_spec(agent)
            .tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        format!("unknown tool {name:?}; the tools are: {known}")
    }

    fn unknown_tool_that_stops(
        &self,
        agent: AgentId,
        calls: &[ToolCallId],
        verdicts: &[Vetting],
    ) -> Option<String> {
        if self.agent_spec(agent).profile.unknown_tool != UnknownTool::Stop {
            return None;
        }
        let (unknown, _) = calls
            .iter()
            .zip(verdicts)
            .find(|(_, verdict)| matches!(verdict, Vetting::Unknown))?;
        let batch = self.agent(agent)?.batch()?;
        batch
            .calls
            .iter()
            .find(|call| call.id == *unknown)
            .map(|call| call.name.to_string())
    }

    fn stop_for_unknown_tool(&mut self, draft: &mut Draft, id: AgentId, name: String) {
        let shown: String = name.chars().take(64).collect();
        let why = format!("the reply called the unknown tool {shown:?}, which ends the run");
        // Calls approved before may be running by now.
        self.abandon_batch(draft, id, ToolFailure::UnknownTool, &why);
        self.append_results(id);
        let text = self
            .agent(id)
            .map(|agent| agent.text.clone())
            .unwrap_or_default();
        self.finish(draft, id, FinishReason::UnknownTool(name), text);
    }
}

impl ApprovalRequested {
    /// Returns the question to put to a person.
    pub(super) fn effect(&self, agent: AgentId) -> AskApproval {
        AskApproval {
            effect_id: self.effect_id,
            agent,
            tool_call_id: self.tool_call_id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            arguments_hash: self.arguments_hash,
            reason: self.reason.clone(),
            rule: self.rule.clone(),
            choices: self.choices.clone(),
            expires_at: self.expires_at,
        }
    }
}
