//! The tests' driver: performs nothing, and answers as the test says.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, AskApproval, Attempt, CallModel, Cancelled, Effect, Input,
    InputError, InputId, JsonText, LlmError, LlmErrorKind, Message, ModelFailed, ModelReplied,
    NextAttempt, Record, RecordBody, Reply, Resumed, RunOutcome, RunSpec, RunTree, Stamp, Steered,
    Step, ToolCallStarted, ToolFinished, ToolOutcome, ToolResult, Transcript, Vet, Vetted, Vetting,
};

use super::tools;

/// A run under test, with everything it requested and recorded.
pub(crate) struct Script {
    pub(crate) tree: RunTree,
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) effects: Vec<Effect>,
    /// The last step.
    pub(crate) step: Step,
    active: Duration,
    inputs: u32,
}

impl Script {
    pub(crate) fn start(spec: RunSpec) -> Self {
        Self::start_after(spec, Transcript::default())
    }

    pub(crate) fn start_after(spec: RunSpec, history: Transcript) -> Self {
        let (tree, step) = RunTree::start(spec, history, stamp(Duration::ZERO));
        Self {
            tree,
            records: step.records.clone(),
            effects: step.effects.clone(),
            step,
            active: Duration::ZERO,
            inputs: 0,
        }
    }

    /// Advances active time to the given number of milliseconds.
    pub(crate) fn at(&mut self, millis: u64) -> &mut Self {
        self.active = Duration::from_millis(millis);
        self
    }

    /// Sends an input that the run must accept.
    pub(crate) fn send(&mut self, input: Input) -> &mut Self {
        self.step = self.tree.advance(stamp(self.active), input).unwrap();
        self.records.extend(self.step.records.iter().cloned());
        self.effects.extend(self.step.effects.iter().cloned());
        self
    }

    /// Sends an input that the run may accept, ignore or refuse.
    pub(crate) fn try_send(&mut self, input: Input) -> Result<Step, InputError> {
        self.tree.advance(stamp(self.active), input)
    }

    /// Sends an input that must change nothing.
    pub(crate) fn send_in_vain(&mut self, input: Input) {
        let before = self.tree.clone();
        let step = self.tree.advance(stamp(self.active), input).unwrap();
        assert_eq!((step.records, step.effects), (vec![], vec![]));
        assert!(self.tree == before, "an input in vain changed the run");
    }

    /// Sends an input that the run must refuse without being changed.
    pub(crate) fn refused(&mut self, input: Input) -> InputError {
        let before = self.tree.clone();
        let error = self.tree.advance(stamp(self.active), input).unwrap_err();
        assert!(self.tree == before, "a refused input changed the run");
        error
    }

    pub(crate) fn reply(&mut self, reply: Reply) -> &mut Self {
        let input = self.replied(reply);
        self.send(input)
    }

    /// Creates the answer to the last model call.
    pub(crate) fn replied(&self, reply: Reply) -> Input {
        self.replied_to(self.model_call(), reply)
    }

    pub(crate) fn replied_to(&self, call: &CallModel, reply: Reply) -> Input {
        let failures = self.records.iter().filter_map(|record| match &record.body {
            RecordBody::LlmFailed(failed) if failed.effect_id == call.effect_id => {
                Some(failed.attempt.next())
            }
            _ => None,
        });
        Input::ModelReplied(ModelReplied {
            effect_id: call.effect_id,
            attempt: failures.fold(call.attempt, Attempt::max),
            reply: Arc::new(reply),
            served_by: call.role.clone(),
            downgraded: None,
            cost: None,
            cost_label: Default::default(),
            duration: Duration::from_millis(7),
            first_delta: None,
        })
    }

    /// Makes an attempt of the last model call fail.
    pub(crate) fn fail_model(&mut self, attempt: u32, next: NextAttempt) -> &mut Self {
        let error = LlmError::new(LlmErrorKind::Timeout, "nothing came in 60 s");
        self.fail_model_with(error, attempt, next)
    }

    /// Makes the last model call fail permanently, for this reason.
    pub(crate) fn fail_for(&mut self, kind: LlmErrorKind) -> &mut Self {
        let attempt = self.model_call().attempt.0;
        self.fail_model_with(
            LlmError::new(kind, "so it said"),
            attempt,
            NextAttempt::None,
        )
    }

    pub(crate) fn fail_model_with(
        &mut self,
        error: LlmError,
        attempt: u32,
        next: NextAttempt,
    ) -> &mut Self {
        let call = self.model_call();
        let input = ModelFailed {
            cost: None,
            cost_label: Default::default(),
            model: None,
            effect_id: call.effect_id,
            attempt: Attempt(attempt),
            error,
            next,
            served_by: call.role.clone(),
            downgraded: None,
            degraded: None,
            duration: Duration::from_secs(60),
        };
        self.send(Input::ModelFailed(input))
    }

    /// Answers the last vetting.
    pub(crate) fn vet(&mut self, verdicts: impl IntoIterator<Item = Vetting>) -> &mut Self {
        let input = self.vetted(verdicts);
        self.send(input)
    }

    pub(crate) fn vetted(&self, verdicts: impl IntoIterator<Item = Vetting>) -> Input {
        Input::Vetted(Vetted {
            effect_id: self.to_vet().effect_id,
            calls: verdicts.into_iter().collect(),
            granted: Vec::new(),
            advised: Vec::new(),
        })
    }

    /// Answers the last vetting: every known tool may run with its class, others are unknown.
    pub(crate) fn allow(&mut self) -> &mut Self {
        let known = tools();
        let verdicts = self.to_vet().calls.iter().map(|call| {
            let tool = known.iter().find(|tool| tool.name.as_str() == &*call.name);
            tool.map_or(Vetting::Unknown, |tool| Vetting::run(tool.class))
        });
        let verdicts: Vec<_> = verdicts.collect();
        self.vet(verdicts)
    }

    /// Ends the call at this index of the reply.
    pub(crate) fn finish(&mut self, index: u32, outcome: ToolOutcome) -> &mut Self {
        let input = self.finished(index, outcome);
        self.send(input)
    }

    pub(crate) fn finished(&self, index: u32, outcome: ToolOutcome) -> Input {
        let started = self.started(index);
        Input::ToolFinished(ToolFinished {
            effect_id: started.effect_id,
            attempt: started.attempt,
            outcome,
            duration: Duration::from_millis(3),
            by: None,
        })
    }

    /// Decides about the call that was asked about most recently.
    pub(crate) fn decide(&mut self, decision: ApprovalDecision) -> &mut Self {
        let input = self.decided(decision);
        self.send(input)
    }

    pub(crate) fn decided(&mut self, decision: ApprovalDecision) -> Input {
        let id = self.new_id();
        let asked = self.asked();
        Input::ApprovalDecided(ApprovalDecided {
            id,
            tool_call_id: asked.tool_call_id.clone(),
            arguments_hash: asked.arguments_hash,
            decision,
            by: Some("alice".to_owned()),
            code: None,
            given_before: None,
        })
    }

    pub(crate) fn steer(&mut self, text: &str) -> &mut Self {
        let id = self.new_id();
        let message = Arc::new(Message::user(text));
        self.send(Input::Steered(Steered::new(id, message)))
    }

    pub(crate) fn cancel(&mut self) -> &mut Self {
        let id = self.new_id();
        let reason = "the user closed the window".to_owned();
        self.send(Input::Cancelled(Cancelled::new(id, reason)))
    }

    pub(crate) fn resume(&mut self) -> &mut Self {
        let id = self.new_id();
        let reason = "the process died".to_owned();
        self.send(Input::Resumed(Resumed::new(id, reason)))
    }

    /// Like [`resume`](Self::resume), with every call checked again.
    pub(crate) fn resume_checking(&mut self) -> &mut Self {
        let resumed = Resumed::new(self.new_id(), "the process died");
        self.send(Input::Resumed(resumed.checking_calls()))
    }

    pub(crate) fn new_id(&mut self) -> InputId {
        self.inputs += 1;
        InputId::new(format!("input-{}", self.inputs))
    }

    /// Returns the last model call that was requested.
    pub(crate) fn model_call(&self) -> &CallModel {
        last(&self.effects, |effect| match effect {
            Effect::CallModel(call) => Some(call),
            _ => None,
        })
    }

    pub(crate) fn to_vet(&self) -> &Vet {
        last(&self.effects, |effect| match effect {
            Effect::Vet(vet) => Some(vet),
            _ => None,
        })
    }

    pub(crate) fn asked(&self) -> &AskApproval {
        last(&self.effects, |effect| match effect {
            Effect::AskApproval(ask) => Some(ask),
            _ => None,
        })
    }

    /// Returns how the run ended.
    pub(crate) fn outcome(&self) -> &RunOutcome {
        last(&self.effects, |effect| match effect {
            Effect::Finish(outcome) => Some(outcome),
            _ => None,
        })
    }

    /// Returns the journal entry of the call at this index of the reply.
    pub(crate) fn started(&self, index: u32) -> &ToolCallStarted {
        last(&self.records, |record| match &record.body {
            RecordBody::ToolCall(call) if call.index.0 == index => Some(&**call),
            _ => None,
        })
    }

    /// Returns the result of the call at this index of the reply.
    pub(crate) fn result(&self, index: u32) -> &ToolResult {
        last(&self.records, |record| match &record.body {
            RecordBody::ToolResult(result) if result.index.0 == index => Some(&**result),
            _ => None,
        })
    }

    /// Returns the indexes of the calls that the last step started.
    pub(crate) fn just_started(&self) -> Vec<u32> {
        let started = self.step.effects.iter().filter_map(|effect| match effect {
            Effect::RunTool(run) => Some(run.index.0),
            _ => None,
        });
        started.collect()
    }

    /// Returns the types of the last step's records.
    pub(crate) fn just_recorded(&self) -> Vec<&'static str> {
        kinds(&self.step.records)
    }

    /// Returns the texts of the tool messages, in order.
    pub(crate) fn tool_messages(&self) -> Vec<&str> {
        let contents = self.tree.messages().iter().filter_map(|message| {
            let Message::Tool(tool) = message.as_ref() else {
                return None;
            };
            Some(tool.content.as_str())
        });
        contents.collect()
    }

    /// Returns the role and text of every message, one per line.
    pub(crate) fn conversation(&self) -> String {
        let lines = self
            .tree
            .messages()
            .iter()
            .map(|message| match message.as_ref() {
                Message::System { text } => format!("system: {text}"),
                Message::User { .. } => format!("user: {}", message.text()),
                Message::Assistant(_) => {
                    let calls = message
                        .tool_calls()
                        .map(|call| format!(" [{} {}]", call.name, call.arguments));
                    format!("assistant: {}{}", message.text(), calls.collect::<String>())
                }
                Message::Tool(tool) => format!("tool: {}", tool.content),
            });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Returns the types of records.
fn kinds(records: &[Arc<Record>]) -> Vec<&'static str> {
    records.iter().map(|record| record.body.kind()).collect()
}

/// The approval of a call as shown.
pub(crate) const fn approve() -> ApprovalDecision {
    ApprovalDecision::APPROVE
}

/// The approval of a call with other arguments.
pub(crate) fn approve_with(arguments: &str) -> ApprovalDecision {
    ApprovalDecision::approve_with(JsonText::from_text(arguments))
}

pub(super) fn last<'a, T, U>(items: &'a [T], pick: impl Fn(&'a T) -> Option<U>) -> U {
    items
        .iter()
        .rev()
        .find_map(pick)
        .unwrap_or_else(|| panic!("the run asked for no such thing"))
}

fn stamp(active: Duration) -> Stamp {
    Stamp::new(Timestamp::UNIX_EPOCH + active, active)
}
