//! How each record changes the view of a run.
//!
//! A step is recorded as a whole but read record by record: when the last result of a batch arrives, it is not yet
//! known whether the agent continues or ends. The results join immediately, and so do the messages that arrived in the
//! meantime. If a record of the same step shows that these did not join, or not yet, they are taken back.

use std::sync::Arc;
use std::time::Duration;

use super::conversation::{Conversation, ReplySource};
use super::view::{AgentView, RunView, Trims};
use crate::decision::Checked;
use crate::effect::Purpose;
use crate::finish::{FinishReason, RunOutcome};
use crate::ids::{AgentId, Seq, ToolCallId, ToolName};
use crate::input::{Advice, NextAttempt};
use crate::message::Message;
use crate::record::{
    LOOP_VERSION, LlmCall, LlmFailed, PromptReason, Record, RecordBody, RunStarted,
    ToolCallStarted, ToolResult,
};
use crate::run::checked;
use crate::spec::{AgentSpec, RunSpec};
use crate::texts::Texts;

impl RunView {
    /// Applies the run's next record.
    pub fn apply(&mut self, record: &Arc<Record>) {
        self.summary.apply(record);
        if let Some(active) = record.active_ms {
            self.step = record.seq;
            self.active = Duration::from_millis(active);
        }
        match &record.body {
            RecordBody::RunStarted(started) => self.start(record, started),
            RecordBody::Decision(decision) => {
                let clarify = decision.clarify.as_ref();
                self.question = clarify.map(|clarify| clarify.question.clone());
                self.decision = Some(Arc::clone(decision));
            }
            RecordBody::ToolCall(call) => self.call_began(record, call),
            RecordBody::ToolResult(result) => self.call_settled(record, result),
            RecordBody::ApprovalRequested(_) => self.approval_requests.push(Arc::clone(record)),
            RecordBody::ApprovalDecided(decided) => self.close_question(&decided.tool_call_id),
            RecordBody::Escalated(escalated) => self.question.clone_from(&escalated.question),
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => {
                self.end(record, outcome);
            }
            _ => self.apply_to_conversation(record),
        }
    }

    /// Returns all messages that were sent with the model call of a record, or with a failed attempt of it. Call this
    /// before applying the record. A substitute role may have been sent fewer messages: see
    /// [`left_out`](crate::RoleDowngraded::left_out). `None` for a failed attempt whose messages no record contains
    /// before its reply: side requests, and a sub-agent's task.
    #[must_use]
    pub fn sent_with(&self, record: &Record) -> Option<Vec<Arc<Message>>> {
        let (purpose, recorded) = match &record.body {
            RecordBody::LlmCall(call) => (call.purpose, Some(&call.messages)),
            RecordBody::LlmFailed(failed) => (failed.purpose, None),
            _ => return None,
        };
        let agent = self.agents.get(&record.agent)?;
        let aside = match purpose {
            Purpose::Compaction | Purpose::Routing => return recorded.cloned(),
            Purpose::SelfCheck => true,
            Purpose::Turn | Purpose::Gather | Purpose::LastAnswer => agent.needs_task(),
        };
        let new: &[Arc<Message>] = if aside { recorded? } else { &[] };
        let conversation = agent.conversation.messages().iter();
        Some(conversation.chain(new).cloned().collect())
    }

    fn start(&mut self, record: &Arc<Record>, started: &RunStarted) {
        let history = std::mem::take(&mut self.history);
        let texts = Texts::of(started.loop_version);
        let (conversation, _) = Conversation::of_root(&started.spec, history, texts);
        let root = AgentView {
            tool: None,
            conversation,
            joined: (Seq(0), 0),
        };
        self.agents.insert(AgentId::ROOT, root);
        self.started = Some(Arc::clone(record));
    }

    fn call_began(&mut self, record: &Arc<Record>, call: &ToolCallStarted) {
        self.close_attempt(&call.tool_call_id);
        self.attempts.push(Arc::clone(record));
        let tool: Option<ToolName> = call.name.parse().ok();
        let spec = self.spec().zip(tool.as_ref());
        let spec = spec.and_then(|(spec, tool)| spec.agents.get(tool));
        let Some(conversation) = spec.map(Conversation::of_sub_agent) else {
            return;
        };
        for id in &call.agents {
            let agent = AgentView {
                tool: tool.clone(),
                conversation: conversation.clone(),
                joined: (Seq(0), 0),
            };
            self.agents.insert(*id, agent);
        }
    }

    fn close_attempt(&mut self, call: &ToolCallId) {
        let is_of = |record: &Arc<Record>| matches!(&record.body, RecordBody::ToolCall(open) if open.tool_call_id == *call);
        self.attempts.retain(|record| !is_of(record));
    }

    fn close_question(&mut self, call: &ToolCallId) {
        let is_of = |record: &Arc<Record>| matches!(&record.body, RecordBody::ApprovalRequested(asked) if asked.tool_call_id == *call);
        self.approval_requests.retain(|record| !is_of(record));
    }

    fn call_settled(&mut self, record: &Record, result: &ToolResult) {
        self.close_attempt(&result.tool_call_id);
        self.close_question(&result.tool_call_id);
        let (step, spec) = (self.step, self.spec().cloned());
        let version = self.started().map(|started| started.loop_version);
        let texts = &Texts::of(version.unwrap_or(LOOP_VERSION)).results;
        let (Some(agent), Some(spec)) = (self.agents.get_mut(&record.agent), spec) else {
            return;
        };
        let profile = &agent.spec(&spec).profile;
        agent.conversation.settle(profile, result, texts);
        if agent.conversation.open_calls() == 0 {
            agent.end_turn(step);
        }
    }

    fn end(&mut self, record: &Arc<Record>, outcome: &RunOutcome) {
        let question = self.question.take_if(|_| record.agent == AgentId::ROOT);
        if record.ends_the_run() {
            self.outcome = Some(Arc::clone(record));
        }
        let spec = self.spec().cloned();
        let Some(agent) = self.agents.get_mut(&record.agent) else {
            return;
        };
        let is_cited =
            spec.is_some_and(|spec| agent.spec(&spec).checks_citations(&outcome.finish_reason));
        // Messages that arrived in the meantime will no longer be answered: they follow everything else. Logs without
        // `unheard` are the exception: the run after such a log began without these messages.
        agent.take_back_steered(self.step);
        let conversation = &mut agent.conversation;
        conversation.join_results();
        if outcome.finish_reason.ends_at_a_limit() {
            conversation.add_answer(&outcome.content);
        } else if is_cited {
            conversation.answer_with(&outcome.content);
        }
        if let Some(question) = question.filter(|_| outcome.finish_reason == FinishReason::Clarify)
        {
            conversation.add_answer(&question);
        }
        if outcome.unheard > 0 {
            conversation.join_steered();
        }
    }

    /// Applies a record that only changes a conversation.
    fn apply_to_conversation(&mut self, record: &Record) {
        let (step, spec, trims) = (self.step, self.spec().cloned(), self.trims);
        let (Some(agent), Some(spec)) = (self.agents.get_mut(&record.agent), spec) else {
            return;
        };
        match &record.body {
            RecordBody::LlmCall(call) => agent.model_replied(record, call, &spec, step),
            RecordBody::LlmFailed(failed) => agent.model_failed(record, failed, &spec, step),
            RecordBody::Steered(steered) => agent.conversation.steer(Arc::clone(&steered.message)),
            RecordBody::MaxTurnsReached(_) => agent.commit_steered(),
            RecordBody::MaxTurnsPromptInjected(injected) => {
                agent.conversation.add_system_note(&injected.message);
            }
            RecordBody::LimitReached(reached) => {
                agent.commit_steered();
                if let Some(prompt) = &reached.prompt {
                    agent.conversation.add_system_note(prompt);
                }
            }
            RecordBody::Cancelled(cancelled) => {
                if let Some(cut) = &cancelled.cut {
                    agent.conversation.push_cut(&cut.text);
                }
            }
            RecordBody::Advised(advised) => agent.advised(&advised.advice),
            RecordBody::PromptInjected(injected) => {
                let was_taken_back = agent.take_back_steered(step);
                agent.conversation.add_system_note(&injected.message);
                // Messages that arrived while an answer was being examined join after what the loop says about it.
                if was_taken_back || injected.reason == PromptReason::AnswerAgain {
                    agent.end_turn(step);
                }
            }
            RecordBody::ContextTrimmed(cut) => {
                agent.commit_steered();
                if trims == Trims::Followed {
                    agent.conversation.trim(cut.cut());
                }
            }
            _ => {}
        }
    }
}

impl AgentView {
    fn spec<'a>(&self, run: &'a RunSpec) -> &'a AgentSpec {
        run.agent(self.tool.as_ref())
    }

    /// Changes to a sub-agent's first request are in the record of its model call, together with its task.
    fn advised(&mut self, advice: &Advice) {
        if self.needs_task() {
            return;
        }
        match advice {
            Advice::Amend { text, notes } => self.conversation.amend(text.as_deref(), notes),
            Advice::Refuse { reply, .. } => self.conversation.add_answer(reply),
            _ => {}
        }
    }

    /// A sub-agent's task is in the record of its first model call.
    fn needs_task(&self) -> bool {
        self.tool.is_some() && self.conversation.without_prompt().is_empty()
    }

    fn model_replied(&mut self, record: &Record, call: &LlmCall, spec: &RunSpec, step: Seq) {
        let source = source_of(record);
        match call.purpose {
            _ if call.reply.is_refusal() => {
                self.add_task(call);
                self.conversation.add_answer(&call.reply.text());
            }
            Purpose::Turn => {
                self.add_task(call);
                self.conversation.push_reply(source, &call.reply);
                if self.conversation.open_calls() == 0 {
                    self.end_turn(step);
                }
            }
            Purpose::Gather => {
                self.add_task(call);
                let opening = &self.spec(spec).profile.opening;
                self.conversation
                    .push_gathered(source, opening, Some(&call.reply));
            }
            Purpose::SelfCheck => {
                if let Checked::Corrected(text) = checked(&call.reply) {
                    self.conversation.correct(&text);
                }
                self.end_turn(step);
            }
            Purpose::LastAnswer => self.add_task(call),
            // Side requests are not part of the conversation.
            Purpose::Compaction | Purpose::Routing => {}
        }
    }

    fn add_task(&mut self, call: &LlmCall) {
        if self.needs_task() {
            for message in &call.messages {
                self.conversation.add_message(Arc::clone(message));
            }
        }
    }

    fn model_failed(&mut self, record: &Record, failed: &LlmFailed, spec: &RunSpec, step: Seq) {
        match failed.purpose {
            _ if failed.next != NextAttempt::None => {}
            Purpose::Gather => {
                let opening = &self.spec(spec).profile.opening;
                self.conversation
                    .push_gathered(source_of(record), opening, None);
            }
            Purpose::SelfCheck => self.end_turn(step),
            _ => {}
        }
    }

    /// All calls of the last reply are settled: unless the agent ends with this step, its next turn begins.
    fn end_turn(&mut self, step: Seq) {
        self.conversation.join_results();
        self.joined = (step, self.conversation.join_steered());
    }

    /// Makes what joined in this step permanent.
    const fn commit_steered(&mut self) {
        self.joined = (Seq(0), 0);
    }

    /// Takes back what joined in this step; returns `false` if the turn did not end in this step, or the agent is known
    /// to continue.
    fn take_back_steered(&mut self, step: Seq) -> bool {
        let (joined_in, count) = self.joined;
        let may_take_back = joined_in == step;
        if may_take_back {
            self.conversation.unjoin_steered(count);
            self.joined = (Seq(0), 0);
        }
        may_take_back
    }
}

/// Returns the source of a record's reply.
fn source_of(record: &Record) -> ReplySource {
    ReplySource {
        run: record.run_id,
        agent: record.agent,
        content_index: record.content_index.unwrap_or_default(),
    }
}
