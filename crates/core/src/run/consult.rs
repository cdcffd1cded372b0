//! Consults the embedder's hook at the points of the loop that the profile names, and handles its advice.

use std::mem;

use serde::Serialize;

use super::Next;
use super::agent::{Agent, ConsultedAbout, Consulting, OfferedTools, Phase, PlannedCall};
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
    /// Returns whether a hook must be consulted: the profile names it, or the answer has a form, whose check is requested
    /// in the same way.
    pub(super) fn consults(&self, hook: Hook) -> bool {
        let has_form = hook == Hook::Answer && self.spec.answer.is_some();
        has_form || self.spec.profile.hooks.contains(&hook)
    }

    /// Consults the hook about a model call before it is made, if the profile names the hook and it was not yet
    /// consulted. Returns the call if it may be made.
    pub(super) fn consult_about_call(&mut self, mut planned: PlannedCall) -> Option<PlannedCall> {
        let is_hookable = matches!(
            planned.purpose,
            Purpose::Turn | Purpose::LastAnswer | Purpose::Gather | Purpose::Routing
        );
        if !is_hookable || planned.is_first.is_some() {
            return Some(planned);
        }
        planned.is_first = Some(!self.agent.has_asked);
        if !self.consults(Hook::Request) {
            return Some(planned);
        }
        self.ask_hook(ConsultedAbout::Request(planned));
        None
    }

    /// Asks the hook, and lets the agent wait for its advice, which then decides how to proceed.
    pub(super) fn ask_hook(&mut self, about: ConsultedAbout) -> Next {
        let effect_id = self.step.new_effect();
        let consulting = Consulting { effect_id, about };
        let effect = self.agent.consult_effect(self.spec, &consulting);
        self.step.effects.push(effect);
        self.agent.phase = Phase::Consulting(consulting);
        Next::Wait
    }

    pub(super) fn advised(&mut self, advised: Advised) -> Result<Next, InputError> {
        let effect = advised.effect_id;
        let Phase::Consulting(consulting) = &self.agent.phase else {
            let input = "advised";
            return Err(InputError::WrongAnswer { effect, input });
        };
        let only_for = match &advised.advice {
            Advice::Offer { .. } => Some(Hook::ToolsSelected),
            Advice::TurnDown { .. } => Some(Hook::Answer),
            Advice::Amend { .. } | Advice::Refuse { .. } => Some(Hook::Request),
            Advice::Continue | Advice::Stop { .. } => None,
        };
        if only_for.is_some_and(|only| only != consulting.about.hook()) {
            return Err(InputError::WrongAdvice(effect));
        }
        let (about, advice) = (consulting.about.clone(), advised.advice.clone());
        self.record(RecordBody::Advised(Box::new(advised)));
        self.agent.restore_batch();
        Ok(match (about, advice) {
            (_, Advice::Stop { reason }) => self.stop_as_advised(&reason)?,
            (ConsultedAbout::ToolsSelected, Advice::Offer { mut tools }) => {
                // A restriction of its tools does not keep the agent from answering.
                let delivers = self.spec.delivering_tool();
                tools.extend(delivers.map(|tool| tool.name.clone()));
                Next::AskForTurn(OfferedTools::Only(tools))
            }
            (ConsultedAbout::ToolsSelected, _) => Next::AskForTurn(OfferedTools::Callable),
            (ConsultedAbout::Progress, _) => Next::BeginTurn,
            (ConsultedAbout::ProcessCalls(_), _) => Next::Vet,
            (ConsultedAbout::Answer(reason, text), Advice::TurnDown { message }) => {
                self.turn_down(reason, text, message)
            }
            (ConsultedAbout::Answer(reason, text), _) => self.accept_answer(reason, text),
            (ConsultedAbout::Request(_), Advice::Refuse { reply, .. }) => {
                self.agent.conversation.add_answer(&reply);
                Next::Finish(FinishReason::Refused, reply)
            }
            (ConsultedAbout::Request(planned), advice) => {
                if let Advice::Amend { text, notes } = advice {
                    self.agent.conversation.amend(text.as_deref(), &notes);
                }
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
    pub(super) fn consult_effect(&self, spec: &AgentSpec, consulting: &Consulting) -> Effect {
        let subject = match &consulting.about {
            ConsultedAbout::ToolsSelected => Subject::ToolsSelected {
                tools: {
                    let tools = self.tools(spec).iter();
                    tools.map(|tool| tool.name.as_str()).collect()
                },
            },
            ConsultedAbout::Progress => Subject::Progress {
                turns_used: self.turns_used,
                tool_calls: self.spent.tool_calls,
                text: self.conversation.text(),
            },
            ConsultedAbout::ProcessCalls(batch) => Subject::ProcessCalls {
                calls: subjects(batch),
            },
            ConsultedAbout::Answer(finish_reason, text) => Subject::Answer {
                text,
                finish_reason,
            },
            ConsultedAbout::Request(planned) => Subject::Request {
                purpose: planned.purpose,
                is_first: planned.is_first == Some(true),
                text: self.conversation.transcript().last_user_text(),
            },
        };
        Effect::Consult(Consult {
            effect_id: consulting.effect_id,
            agent: self.id,
            hook: consulting.about.hook(),
            // Encoding names, numbers and strings cannot fail.
            subject: JsonText::encode(&subject).unwrap_or_else(|_| JsonText::from_text("{}")),
        })
    }

    /// Lets an agent no longer wait for a hook; it has the calls again that the question was about, if any.
    pub(super) fn restore_batch(&mut self) {
        self.phase = match mem::replace(&mut self.phase, Phase::Between) {
            Phase::Consulting(consulting) => match consulting.about {
                ConsultedAbout::ProcessCalls(batch) => Phase::Tools(batch),
                _ => Phase::Between,
            },
            other => other,
        };
    }
}

impl ConsultedAbout {
    const fn hook(&self) -> Hook {
        match self {
            Self::ToolsSelected => Hook::ToolsSelected,
            Self::Progress => Hook::Progress,
            Self::ProcessCalls(_) => Hook::ProcessCalls,
            Self::Answer(..) => Hook::Answer,
            Self::Request(_) => Hook::Request,
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
