//! Consults the embedder's hook at the points of the loop that the profile names, and handles its advice.

use std::mem;

use serde::Serialize;

use super::Next;
use super::agent::{Agent, Consulting, OfferedTools, Phase, PlannedCall};
use super::agent_step::AgentStep;
use super::batch::Batch;
use crate::effect::{Consult, Effect, Purpose};
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::input::{Advice, Advised};
use crate::json::JsonText;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::Hook;
use crate::record::RecordBody;
use crate::spec::AgentSpec;

/// What a hook is shown.
#[derive(Serialize)]
#[serde(untagged)]
enum Subject<'a> {
    ToolsSelected {
        tools: Vec<&'a str>,
    },
    Progress {
        turns_used: u32,
        tool_calls: u32,
        text: &'a str,
    },
    ProcessCalls {
        calls: Vec<CallSubject<'a>>,
    },
    Answer {
        text: &'a str,
        finish_reason: &'a FinishReason,
    },
    Request {
        purpose: Purpose,
        is_first: bool,
        text: String,
    },
}

#[derive(Serialize)]
struct CallSubject<'a> {
    tool_call_id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl AgentStep<'_> {
    /// Consults the hook if the profile names it; returns `true` if so, and its advice then decides how to proceed. If
    /// the answer has a form, the check of the form is requested in the same way.
    pub(super) fn consult(&mut self, hook: Hook) -> Result<bool, InputError> {
        let has_form = hook == Hook::Answer && self.spec.answer.is_some();
        if !has_form && !self.spec.profile.hooks.contains(&hook) {
            return Ok(false);
        }
        let batch = match mem::replace(&mut self.agent.phase, Phase::Between) {
            Phase::Tools(batch) => Some(batch),
            _ => None,
        };
        self.ask_hook(hook, batch, None)?;
        Ok(true)
    }

    /// Consults the hook about a model call before it is made, if the profile names the hook and it was not yet
    /// consulted. Returns the call if it may be made.
    pub(super) fn consult_about_call(
        &mut self,
        mut planned: PlannedCall,
    ) -> Result<Option<PlannedCall>, InputError> {
        let is_hookable = matches!(
            planned.purpose,
            Purpose::Turn | Purpose::LastAnswer | Purpose::Gather | Purpose::Routing
        );
        if !is_hookable || planned.is_first.is_some() {
            return Ok(Some(planned));
        }
        planned.is_first = Some(!self.agent.has_asked);
        if !self.spec.profile.hooks.contains(&Hook::Request) {
            return Ok(Some(planned));
        }
        self.ask_hook(Hook::Request, None, Some(planned))?;
        Ok(None)
    }

    /// Asks the hook, and lets the agent wait for its advice; what the question is about is held until then.
    fn ask_hook(
        &mut self,
        hook: Hook,
        batch: Option<Batch>,
        planned: Option<PlannedCall>,
    ) -> Result<(), InputError> {
        let consulting = Consulting {
            effect_id: self.step.new_effect(),
            hook,
            batch,
            planned,
        };
        let effect = self.agent.consult_effect(self.spec, &consulting)?;
        self.step.effects.push(effect);
        self.agent.phase = Phase::Consulting(consulting);
        Ok(())
    }

    pub(super) fn advised(&mut self, advised: Advised) -> Result<Next, InputError> {
        let effect = advised.effect_id;
        let (hook, planned) = match &mut self.agent.phase {
            Phase::Consulting(consulting) => (consulting.hook, &mut consulting.planned),
            _ => {
                return Err(InputError::WrongAnswer {
                    effect,
                    input: "advised",
                });
            }
        };
        let only_for = match &advised.advice {
            Advice::Offer { .. } => Some(Hook::ToolsSelected),
            Advice::TurnDown { .. } => Some(Hook::Answer),
            Advice::Amend { .. } | Advice::Refuse { .. } => Some(Hook::Request),
            Advice::Continue | Advice::Stop { .. } => None,
        };
        if only_for.is_some_and(|only| only != hook) {
            return Err(InputError::WrongAdvice(effect));
        }
        let planned = planned.take();
        let advice = advised.advice.clone();
        self.record(RecordBody::Advised(Box::new(advised)));
        self.agent.restore_batch();
        Ok(match (hook, advice) {
            (_, Advice::Stop { reason }) => self.stop_as_advised(&reason)?,
            (Hook::ToolsSelected, Advice::Offer { mut tools }) => {
                // A restriction of its tools does not keep the agent from answering.
                let delivers = self.spec.delivering_tool();
                tools.extend(delivers.map(|tool| tool.name.clone()));
                Next::AskForTurn(OfferedTools::Only(tools))
            }
            (Hook::ToolsSelected, _) => Next::AskForTurn(OfferedTools::Callable),
            (Hook::Progress, _) => Next::BeginTurn,
            (Hook::ProcessCalls, _) => Next::Vet,
            (Hook::Answer, Advice::TurnDown { message }) => self.turn_down(message)?,
            (Hook::Answer, _) => self.accept_answer()?,
            (Hook::Request, Advice::Refuse { reply, .. }) => {
                self.agent.conversation.add_answer(&reply);
                Next::Finish(FinishReason::Refused, reply)
            }
            (Hook::Request, advice) => {
                if let Advice::Amend { text, notes } = advice {
                    self.agent.conversation.amend(text.as_deref(), &notes);
                }
                let missing = InputError::Inconsistent("advice about a request, and there is none");
                let planned = planned.ok_or(missing)?;
                match planned.purpose {
                    Purpose::Routing => Next::CallAsIs(planned),
                    _ => Next::CallModel(planned),
                }
            }
        })
    }

    /// Ends the loop; calls that were not processed get a result that says so.
    fn stop_as_advised(&mut self, reason: &str) -> Result<Next, InputError> {
        if self.agent.batch().is_some() {
            let why = (self.texts.stops.loop_ended)(reason);
            let outcome = ToolOutcome::failed(ToolFailure::Cancelled, &why);
            self.settle_all(&outcome)?;
            self.join_results();
        }
        Ok(Next::Finish(FinishReason::Stop, self.agent.text()))
    }
}

impl Agent {
    /// Builds the question, for the first time or after a crash.
    pub(super) fn consult_effect(
        &self,
        spec: &AgentSpec,
        consulting: &Consulting,
    ) -> Result<Effect, InputError> {
        let subject = match consulting.hook {
            Hook::ToolsSelected => Subject::ToolsSelected {
                tools: {
                    let tools = self.tools(spec).iter();
                    tools.map(|tool| tool.name.as_str()).collect()
                },
            },
            Hook::Progress => Subject::Progress {
                turns_used: self.turns_used,
                tool_calls: self.spent.tool_calls,
                text: self.conversation.text(),
            },
            Hook::ProcessCalls => {
                let batch = consulting.batch.as_ref();
                let missing = InputError::Inconsistent("a hook is asked about no calls");
                Subject::ProcessCalls {
                    calls: subjects(batch.ok_or(missing)?),
                }
            }
            Hook::Answer => {
                let missing = InputError::Inconsistent("a hook is asked about no answer");
                let (finish_reason, text) = self.ending.as_ref().ok_or(missing)?;
                Subject::Answer {
                    text,
                    finish_reason,
                }
            }
            Hook::Request => {
                let missing = InputError::Inconsistent("a hook is asked about no request");
                let planned = consulting.planned.as_ref().ok_or(missing)?;
                Subject::Request {
                    purpose: planned.purpose,
                    is_first: planned.is_first == Some(true),
                    text: self.conversation.transcript().last_user_text(),
                }
            }
        };
        Ok(Effect::Consult(Consult {
            effect_id: consulting.effect_id,
            agent: self.id,
            hook: consulting.hook,
            // Encoding names, numbers and strings cannot fail.
            subject: JsonText::encode(&subject).unwrap_or_else(|_| JsonText::from_text("{}")),
        }))
    }

    /// Restores the calls of an agent that is waiting for a hook, if it has any.
    pub(super) fn restore_batch(&mut self) {
        if let Phase::Consulting(Consulting { batch, .. }) = &mut self.phase {
            self.phase = batch.take().map_or(Phase::Between, Phase::Tools);
        }
    }
}

fn subjects(batch: &Batch) -> Vec<CallSubject<'_>> {
    let calls = batch.calls.iter().map(|call| CallSubject {
        tool_call_id: call.id.as_str(),
        name: &call.name,
        arguments: call.arguments.as_str(),
    });
    calls.collect()
}
