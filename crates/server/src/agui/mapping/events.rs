//! How each event of a run is reported to a client.

use std::sync::Arc;

use neuraxis::core::{AgentId, LiveBody, LiveEvent, LlmCall, Purpose, Record, RecordBody};
use serde_json::{Value, json};

use super::{Mapping, call_output};
use crate::agui::event::Body;

impl Mapping {
    pub(super) fn apply_live(&mut self, live: &LiveEvent) {
        if !self.subagents.is_active(live.agent) {
            return;
        }
        match &live.body {
            LiveBody::TextDelta { text } => self.add_delta(live, call_output::Kind::Text, text),
            LiveBody::ReasoningDelta { text } => {
                self.add_delta(live, call_output::Kind::Reasoning, text);
            }
            LiveBody::TextRetracted => self.retract_call(live.call),
            LiveBody::ToolProgress {
                tool_call_id,
                name,
                steps,
                ..
            } => {
                let mut value = json!({"toolCallId": tool_call_id, "name": name});
                if let (Some(steps), Some(value)) = (steps, value.as_object_mut()) {
                    value.insert("steps".to_owned(), json!(steps));
                }
                self.emit(live.agent, custom("tool_progress", value));
            }
            LiveBody::ToolOutput { tool_call_id, text } => {
                let value = json!({"toolCallId": tool_call_id, "text": text});
                self.emit(live.agent, custom("tool_output", value));
            }
            LiveBody::Question(open) => {
                let (id, question) = (&open.question_id, &open.question);
                let value = json!({
                    "questionId": id,
                    "toolCallId": open.tool_call_id,
                    "expiresAt": open.expires_at.to_string(),
                    "from": question.from,
                    "message": question.message,
                    "fields": question.fields,
                    // The protocol has no way to answer while a run continues; the server's own API accepts the answer.
                    "answerAt": format!("/api/v1/runs/{}/questions/{id}", self.run),
                });
                self.emit(live.agent, custom("question", value));
            }
            LiveBody::QuestionSettled {
                question_id,
                tool_call_id,
                outcome,
            } => {
                let value = json!({"questionId": question_id, "toolCallId": tool_call_id, "outcome": outcome});
                self.emit(live.agent, custom("question_settled", value));
            }
            _ => {}
        }
    }

    /// Emits a warning that is not in any record.
    pub(in crate::agui) fn warn(&mut self, code: &str, message: &str) {
        let value = json!({"code": code, "message": message});
        self.emit(AgentId::ROOT, custom("warning", value));
    }

    pub(super) fn apply_record(&mut self, record: &Record) {
        if record.ends_the_run() {
            if let RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) = &record.body {
                self.outcome = Some((**outcome).clone());
            }
            return;
        }
        let agent = record.agent;
        if !self.subagents.is_active(agent) {
            return;
        }
        match &record.body {
            RecordBody::RunStarted(started) => self.spec = Some(Arc::clone(&started.spec)),
            RecordBody::Decision(decision) => self.self_check.clone_from(&decision.self_check),
            RecordBody::LlmCall(call) => {
                if agent == AgentId::ROOT {
                    self.tool_questions.clear();
                }
                self.apply_reply(record, call);
            }
            RecordBody::LlmFailed(failed) => self.retract_call(failed.effect_id),
            RecordBody::ToolCall(call) => {
                self.emit_call(
                    agent,
                    &call.tool_call_id,
                    (&call.name, call.arguments.as_str()),
                    None,
                );
                for started in &call.agents {
                    self.subagents.start(*started, agent, call);
                    self.subagents.emit_start(*started, self.run, &mut self.out);
                }
            }
            RecordBody::ToolResult(result) => {
                let question = result.question().filter(|_| agent == AgentId::ROOT);
                self.tool_questions.extend(question.map(str::to_owned));
                self.emit_result(agent, result);
            }
            RecordBody::ApprovalRequested(request) => {
                self.emit_call(
                    agent,
                    &request.tool_call_id,
                    (&request.name, request.arguments.as_str()),
                    None,
                );
                self.questions.push((agent, (**request).clone()));
            }
            RecordBody::ApprovalDecided(decided) => {
                self.questions
                    .retain(|(_, request)| request.tool_call_id != decided.tool_call_id);
                self.waits = false;
            }
            RecordBody::Waiting(_) => self.waits = true,
            RecordBody::Resumed(_) => self.waits = false,
            RecordBody::Plan(changed) => self.apply_plan(changed.plan.decode().ok()),
            RecordBody::Warning(warning) => {
                let value = json!({"code": warning.code, "message": warning.message});
                self.emit(agent, custom("warning", value));
            }
            RecordBody::Final(_) => self.end_subagent(agent, None),
            RecordBody::RunFailed(outcome) => {
                self.end_subagent(agent, Some(outcome.finish_reason.to_string()));
            }
            _ => {}
        }
    }

    fn apply_reply(&mut self, record: &Record, call: &LlmCall) {
        if !self.settled.insert(call.effect_id) {
            return;
        }
        let known = self
            .usage
            .iter_mut()
            .find(|(model, _)| *model == call.reply.model);
        match known {
            Some((_, usage)) => *usage += call.reply.usage,
            None => self
                .usage
                .push((call.reply.model.clone(), call.reply.usage)),
        }
        if !matches!(call.purpose, Purpose::Turn | Purpose::LastAnswer) {
            return;
        }
        self.begin_turn(record.agent, call.effect_id);
        let parent = self.settle(record.agent, call);
        let runs_calls = call.purpose == Purpose::Turn
            && call.reply.turned_down().is_none()
            && !call.reply.is_refusal();
        if let (true, Some(content_index)) = (runs_calls, record.content_index) {
            self.emit_calls(record, content_index, call, &parent);
        }
    }

    fn apply_plan(&mut self, plan: Option<Value>) {
        let (Some(state), Some(plan)) = (&mut self.state, plan) else {
            return;
        };
        state.insert("plan".to_owned(), plan.clone());
        let body = if self.plan_is_shown {
            // `add` replaces an existing value.
            let delta = json!([{"op": "add", "path": "/plan", "value": plan}]);
            Body::StateDelta { delta }
        } else {
            let snapshot = state.clone();
            Body::StateSnapshot { snapshot }
        };
        self.plan_is_shown = true;
        self.emit(AgentId::ROOT, body);
    }
}

const fn custom(name: &'static str, value: Value) -> Body {
    Body::Custom { name, value }
}
