//! Runs without sessions and without governance: for programs that keep their own conversations and trust their own tools.

use std::sync::Arc;

use neuraxis_core::{
    AgentSpec, ClientTools, FinishReason, JsonText, Limits, Message, Profile, Record, RecordBody,
    Role, RunId, RunSpec, RunStatus, RunUsage, ToolCallId, ToolKind, Transcript,
};
use serde::Serialize;

use crate::driver::{Driver, ReadyRun, RunScope};
use crate::engine::{Engine, trace_of};
use crate::request::{Delivery, RequestError};
use crate::result;
use crate::run_handle::{CancelOnDrop, RunEnd, RunLink};
use crate::traces::{TraceRecord, trace_records};

/// What a run without a session came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Execution {
    /// The answer, or a sentence that says why there is none.
    pub content: String,
    /// What happened, step by step.
    pub traces: Vec<TraceRecord>,
    /// The tool calls, in the order in which they ended.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Turns that counted.
    pub turns: u32,
    /// Where the run stands.
    pub status: RunStatus,
    /// Why it ended. With [`FinishReason::ClientTools`] the last message holds calls that the caller has to run: their
    /// results are to be added to the history before the next run.
    pub finish_reason: FinishReason,
    /// Tokens, in all and by the role that served.
    pub usage: RunUsage,
    /// The whole conversation: what was given, and what the run added.
    pub message_history: Vec<Arc<Message>>,
}

/// A tool call and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCallRecord {
    /// The call.
    pub id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments it was run with; those the model wrote if it was not run.
    pub arguments: JsonText,
    /// The value; `{"error": "…"}` if it gave none.
    pub result: JsonText,
    /// Whether it gave a value.
    pub success: bool,
    /// How long it ran, in milliseconds; 0 if it did not.
    pub duration_ms: u64,
}

/// Runs without sessions and without governance. Cloning shares the engine.
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) engine: Arc<Engine>,
}

impl Agent {
    /// Answers one prompt.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn execute(
        &self,
        system_prompt: &str,
        user_prompt: &str,
    ) -> Result<Execution, RequestError> {
        self.run(vec![Message::user(user_prompt)], Some(system_prompt))
            .await
    }

    /// Goes on with a conversation.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn execute_with_history(
        &self,
        messages: Vec<Message>,
    ) -> Result<Execution, RequestError> {
        self.run(messages, None).await
    }

    /// Goes on with a conversation. The system prompt goes first unless the conversation begins with one already. All
    /// tools are offered and may run; nothing is stored.
    ///
    /// # Errors
    ///
    /// [`RequestError::EmptyMessage`] without a message to answer; [`RequestError::Attachment`] for an image or a file that
    /// cannot be sent; [`RequestError::ShuttingDown`]. However the run goes
    /// after that, it comes back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn run(
        &self,
        messages: Vec<Message>,
        system_prompt: Option<&str>,
    ) -> Result<Execution, RequestError> {
        if self.engine.is_shutting_down() {
            return Err(RequestError::ShuttingDown);
        }
        let is_system = |message: &Message| matches!(message, Message::System { .. });
        if messages.iter().all(is_system) {
            return Err(RequestError::EmptyMessage);
        }
        self.engine.check_media(&messages, &Role::REASONING).await?;
        let history: Transcript = messages.into_iter().collect();
        let run_id = RunId(self.engine.ids.new_id());
        self.engine
            .learn_contexts(std::iter::once(&Role::REASONING))
            .await;
        let mut spec = self.ungoverned_spec(run_id, system_prompt);
        // What was said before may go.
        let latest = history.messages().last().map(std::slice::from_ref);
        self.engine.fit(&mut spec, latest.unwrap_or_default())?;
        let scope = RunScope {
            run_id,
            session_id: None,
            delivery: Delivery::Whole,
            trace: trace_of(run_id),
            decision: None,
            offered_now: None,
        };
        let run = ReadyRun::new(&self.engine, spec, history.clone());
        let engine = Arc::clone(&self.engine);
        let (driver, first, link) = Driver::begin(engine, scope, None, run).await?;
        self.engine.tasks.spawn(driver.drive(first));
        let guard = CancelOnDrop(link);
        let end = guard.0.end().await;
        Ok(execution(&guard.0, end.ok().as_deref(), &history))
    }

    fn ungoverned_spec(&self, run_id: RunId, system_prompt: Option<&str>) -> RunSpec {
        let engine = &self.engine;
        let mut agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        agent.tools = engine.catalog.specs().cloned().collect();
        agent.system_prompt = system_prompt.map(Into::into);
        agent.limits = Limits::default();
        // Calls of a client's tools can be handed over only by the agent that answers the caller.
        let specs = engine.catalog.specs();
        let run_here = specs.filter(|spec| spec.kind != ToolKind::Client);
        let names: Vec<_> = run_here.map(|spec| spec.name.clone()).collect();
        let agents = engine.agent_specs(&names, None);
        let root = engine.completed(agent);
        let mut spec = RunSpec::new(run_id, [], root);
        spec.agents = agents;
        // Nothing is kept that could be taken up again: the caller runs its tools, adds their results and asks anew.
        spec.client_tools = ClientTools::HandOver;
        spec
    }
}

fn execution(run: &RunLink, end: Option<&RunEnd>, history: &Transcript) -> Execution {
    let records = run.feed.with_records(<[_]>::to_vec);
    // A run without policy and with all its client's calls handed over never waits.
    let outcome = end
        .and_then(|end| end.outcome.clone())
        .unwrap_or_else(result::crashed_outcome);
    Execution {
        content: result::reply(&outcome, &records),
        traces: trace_records(history, &records),
        tool_calls: tool_calls(&records),
        turns: outcome.turns,
        status: outcome.status(),
        usage: outcome.usage,
        finish_reason: outcome.finish_reason,
        message_history: end
            .map(|end| end.messages.messages().to_vec())
            .unwrap_or_default(),
    }
}

/// Reads the tool calls of a run, and of its sub-agents, from its records.
#[must_use]
pub fn tool_calls(records: &[Arc<Record>]) -> Vec<ToolCallRecord> {
    let mut arguments = std::collections::BTreeMap::new();
    let mut calls = Vec::new();
    for record in records {
        match &record.body {
            RecordBody::LlmCall(call) => {
                for (id, written) in crate::traces::requested(record, call) {
                    arguments.insert(id, written);
                }
            }
            RecordBody::ToolCall(started) => {
                arguments.insert(started.tool_call_id.clone(), started.arguments.clone());
            }
            RecordBody::ToolResult(result) => {
                let duration = result.duration.unwrap_or_default().as_millis();
                let known = arguments.remove(&result.tool_call_id);
                calls.push(ToolCallRecord {
                    id: result.tool_call_id.clone(),
                    name: result.name.clone(),
                    arguments: known.unwrap_or_else(|| JsonText::from_text("{}")),
                    result: result.value.clone(),
                    success: result.failure.is_none(),
                    duration_ms: u64::try_from(duration).unwrap_or(u64::MAX),
                });
            }
            _ => {}
        }
    }
    calls
}
