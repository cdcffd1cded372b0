//! How the end of a run is reported: with its answer, with questions to a user, or with an error.

use neuraxis::RunStatus;
use neuraxis::core::{AgentId, ApprovalRequested, FinishReason};
use serde_json::{Value, json};

use super::Mapping;
use crate::agui::event::{Body, Interrupt, Outcome, RunResult, UsageOfModel};

/// The error code of a run that ended without an answer.
const RUN_FAILED: &str = "run-failed";

impl Mapping {
    /// Emits the result of the run: its reply, which ends with the notice, if there is one.
    pub(in crate::agui) fn end(
        &mut self,
        reply: &str,
        notice: Option<&str>,
        status: RunStatus,
        reason: Option<&FinishReason>,
    ) {
        let outcome = match reason {
            Some(FinishReason::Cancelled) => Outcome::Cancelled,
            Some(FinishReason::ClientTools) => {
                let tool_questions = std::mem::take(&mut self.tool_questions);
                self.add_missing_text(&tool_questions.join("\n\n"), None);
                Outcome::Success {
                    pending_tool_call_ids: self.unanswered(),
                }
            }
            _ if matches!(status, RunStatus::Failed | RunStatus::Interrupted) => {
                if !self.is_given_up {
                    self.fail(reply.to_owned(), RUN_FAILED);
                    return;
                }
                self.warn(RUN_FAILED, reply);
                Outcome::Cancelled
            }
            _ => {
                let outcome = self.outcome.as_ref();
                match (outcome.map(|outcome| outcome.content.clone()), notice) {
                    (Some(content), Some(notice)) => self.add_missing_text(&content, Some(notice)),
                    _ => self.add_missing_text(reply, None),
                }
                Outcome::Success {
                    pending_tool_call_ids: Vec::new(),
                }
            }
        };
        self.finish(outcome, status, reason);
    }

    /// Emits what the run waits for.
    pub(in crate::agui) fn wait(&mut self) {
        let questions = std::mem::take(&mut self.questions);
        if questions.is_empty() {
            let outcome = Outcome::Success {
                pending_tool_call_ids: self.unanswered(),
            };
            self.finish(outcome, RunStatus::Waiting, None);
            return;
        }
        let interrupts = questions
            .iter()
            .map(|(agent, request)| self.interrupt(*agent, request));
        let outcome = Outcome::Interrupt {
            interrupts: interrupts.collect(),
        };
        let ids = questions
            .iter()
            .map(|(agent, request)| (*agent, request.question(self.run)));
        let ids: Vec<_> = ids.collect();
        self.close(Some(&ids));
        self.finish(outcome, RunStatus::Waiting, None);
    }

    /// Emits that the run, or the request on it, failed.
    pub(in crate::agui) fn fail(&mut self, message: String, code: &str) {
        self.close(None);
        let body = Body::RunError {
            message,
            code: code.to_owned(),
            usage: self.used(),
        };
        self.emit(AgentId::ROOT, body);
    }

    fn finish(&mut self, outcome: Outcome, status: RunStatus, reason: Option<&FinishReason>) {
        self.close(None);
        let result = RunResult {
            neuraxis_run_id: self.run.to_string(),
            session_id: self.ids.thread_id.clone(),
            status,
            finish_reason: reason.cloned(),
        };
        let body = Body::RunFinished {
            thread_id: self.ids.thread_id.clone(),
            run_id: self.ids.run_id.clone(),
            result,
            outcome,
            usage: self.used(),
        };
        self.emit(AgentId::ROOT, body);
    }

    /// Ends whatever is open, because nothing may be open when a run ends. `interrupts` are the questions, with the
    /// agent that asks each.
    fn close(&mut self, interrupts: Option<&[(AgentId, String)]>) {
        self.end_open_messages(None);
        self.end_subagents(interrupts);
        self.end_step();
    }

    fn used(&self) -> Vec<UsageOfModel> {
        let each = self.usage.iter();
        each.map(|(model, usage)| UsageOfModel::new(model, usage))
            .collect()
    }

    /// Emits the part of the answer that has not been sent, and the notice, which is in no event.
    fn add_missing_text(&mut self, answer: &str, notice: Option<&str>) {
        self.end_open_messages(None);
        let mut missing = self.unsent_part(answer.trim()).to_owned();
        if let Some(notice) = notice {
            if !missing.is_empty() {
                missing.push_str("\n\n");
            }
            missing.push_str(notice);
        }
        if missing.is_empty() {
            return;
        }
        let message_id = format!("{}.answer", self.run);
        self.client_messages.begin(&message_id, None);
        self.client_messages.append_text(&message_id, &missing);
        let start = Body::TextMessageStart {
            message_id: message_id.clone(),
            role: "assistant",
        };
        let content = Body::TextMessageContent {
            message_id: message_id.clone(),
            delta: missing,
        };
        for body in [start, content, Body::TextMessageEnd { message_id }] {
            self.emit(AgentId::ROOT, body);
        }
    }

    /// Returns the part of an answer that has not been sent.
    fn unsent_part<'a>(&self, answer: &'a str) -> &'a str {
        let sent: String = self.client_messages.texts().collect();
        if sent.trim_end().ends_with(answer) {
            return "";
        }
        let last = self.client_messages.texts().next_back().map(str::trim);
        let last = last.filter(|last| !last.is_empty());
        let rest = last.and_then(|last| answer.strip_prefix(last));
        rest.unwrap_or(answer).trim_start()
    }

    fn interrupt(&self, agent: AgentId, request: &ApprovalRequested) -> Interrupt {
        let arguments: Value = request
            .arguments
            .decode()
            .unwrap_or_else(|_| request.arguments.as_str().into());
        Interrupt {
            id: request.question(self.run),
            reason: "tool_call",
            message: format!("{}: {}", request.name, request.reason),
            tool_call_id: request.tool_call_id.to_string(),
            response_schema: json!({
                "type": "object",
                "properties": {
                    "approved": {"type": "boolean"},
                    "editedArgs": {"type": "object"},
                    "reason": {"type": "string"},
                },
                "required": ["approved"],
            }),
            expires_at: request.expires_at.map(|at| at.to_string()),
            metadata: json!({"tool": request.name, "arguments": arguments}),
            subagent_run_id: self.subagents.id(agent),
        }
    }
}
