//! What a front end sends: the `RunAgentInput` of AG-UI.
//!
//! Unknown fields are ignored, and null is treated as absent, because front ends of many versions exist.

use neuraxis::core::{AgentName, JsonText, Taint, ToolSpec};
use neuraxis::{Channel, ClientInput, Mode, SessionId, UserRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::messages::{Conversation, NewMessages};
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::{INVALID_JSON, INVALID_SESSION_ID, Problem};
use crate::request_body::{self, invalid, typed};

/// The maximum length of a run's id, in characters.
const MAX_RUN_ID_CHARS: usize = 256;

/// The front end's ids of the session and the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientIds {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    pub(super) parent_run_id: Option<String>,
}

/// A front end's request to start or resume a run.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) ids: ClientIds,
    pub(super) session: SessionId,
    pub(super) state: Option<Value>,
    /// As they were sent.
    pub(super) messages: Vec<Value>,
    pub(super) conversation: Conversation,
    pub(super) resume: Vec<Resume>,
    tools: Vec<ToolSpec>,
    /// The entries of `context`, as text.
    context: Vec<String>,
    chosen: Chosen,
}

/// The answer to an interrupt.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiResume")]
#[serde(rename_all = "camelCase")]
pub(super) struct Resume {
    /// The name of the question.
    pub(super) interrupt_id: String,
    pub(super) status: ResumeStatus,
    /// The answer: `approved`, and optionally `editedArgs` and `reason`.
    #[serde(default)]
    pub(super) payload: Option<Value>,
}

impl Resume {
    /// Returns whether the question is left unanswered.
    pub(super) fn is_cancelled(&self) -> bool {
        self.status == ResumeStatus::Cancelled
    }
}

/// Whether the question was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiResumeStatus")]
#[serde(rename_all = "snake_case")]
pub(super) enum ResumeStatus {
    /// Answered with the payload.
    Resolved,
    /// Not answered, which denies the call.
    Cancelled,
}

/// A front end's request to start or resume a run: `RunAgentInput`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RunAgentInput")]
#[serde(
    rename_all = "camelCase",
    expecting = "an object with the field threadId"
)]
pub(super) struct Wire {
    /// The session.
    #[schemars(with = "SessionId")]
    thread_id: String,
    /// The front end's id for the run.
    #[schemars(length(min = 1, max = 256))]
    run_id: String,
    /// The front end's id for the previous run.
    parent_run_id: Option<String>,
    /// The front end's state, which is sent back with the plan added.
    state: Option<Value>,
    /// The messages of the thread. Those that are new to the session are used.
    #[schemars(with = "Option<Vec<serde_json::Map<String, Value>>>")]
    messages: Option<Vec<Value>>,
    /// The tools that the front end executes.
    tools: Option<Vec<WireTool>>,
    /// Additional context for the agent, besides its instructions.
    context: Option<Vec<WireContext>>,
    /// The front end's choices: `agent`, `channel` and `mode`.
    forwarded_props: Option<Value>,
    /// Answers to the run's interrupts.
    resume: Option<Vec<Resume>>,
}

/// A tool that the front end executes.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiTool")]
struct WireTool {
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
}

/// A piece of context for the agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiContext")]
struct WireContext {
    description: Option<String>,
    value: Option<Value>,
}

/// What a front end may choose, in `forwardedProps`.
#[derive(Debug, Default, Deserialize)]
struct Chosen {
    agent: Option<AgentName>,
    channel: Option<Channel>,
    mode: Option<Mode>,
}

impl Input {
    /// Parses the body of a request.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        if bytes.trim_ascii().is_empty() {
            return Err(request_body::empty_body());
        }
        let body: Value = serde_json::from_slice(bytes).map_err(|error| {
            let (text, place) = request_body::json_error(&error);
            let detail = format!("cannot parse the body as JSON: {text}{place}");
            let (line, column) = (error.line(), error.column());
            Problem::new(&INVALID_JSON, detail)
                .with("line", line)
                .with("column", column)
        })?;
        if !body.is_object() {
            return Err(invalid("threadId", "the body must be a JSON object"));
        }
        if let Some(path) = request_body::find_nul(&body) {
            return Err(request_body::nul_problem(&path));
        }
        let wire: Wire = typed(body, "")?;
        let session = wire.thread_id.parse::<SessionId>().map_err(|error| {
            Problem::new(&INVALID_SESSION_ID, format!("threadId: {error}"))
                .with("field", "threadId")
        })?;
        if wire.run_id.is_empty() || wire.run_id.chars().nth(MAX_RUN_ID_CHARS).is_some() {
            let rule = format!("expected 1 to {MAX_RUN_ID_CHARS} characters");
            return Err(invalid("runId", &rule));
        }
        let messages = wire.messages.unwrap_or_default();
        let chosen = match wire.forwarded_props {
            Some(props @ Value::Object(_)) => typed(props, "forwardedProps")?,
            _ => Chosen::default(),
        };
        let tools = wire.tools.unwrap_or_default().into_iter().enumerate();
        let tools = tools.map(|(at, tool)| tool.into_spec(at));
        let context = wire.context.unwrap_or_default().into_iter();
        Ok(Self {
            ids: ClientIds {
                thread_id: wire.thread_id,
                run_id: wire.run_id,
                parent_run_id: wire.parent_run_id,
            },
            session,
            state: wire.state,
            conversation: Conversation::parse(&messages)?,
            messages,
            resume: wire.resume.unwrap_or_default(),
            tools: tools.collect::<Result<_, _>>()?,
            context: context.filter_map(WireContext::into_text).collect(),
            chosen,
        })
    }

    /// Converts the input to the engine's request, assigned to the caller, with the session's new messages and their
    /// taint. Refuses what the caller may not choose.
    pub(super) fn request(
        &self,
        new: NewMessages,
        untrusted: Taint,
        caller: &Caller,
        state: &ServerState,
    ) -> Result<UserRequest, Problem> {
        let instructions: Vec<&str> = self
            .conversation
            .instructions()
            .chain(self.context.iter().map(String::as_str))
            .collect();
        let mut client_input = ClientInput::default()
            .conversation(new.before)
            .untrusted(untrusted)
            .tools(self.tools.iter().cloned())
            .hand_over();
        if !instructions.is_empty() {
            client_input = client_input.instructions(instructions.join("\n\n"));
        }
        let mut request =
            UserRequest::new(self.session.clone(), new.message).with_client_input(client_input);
        for part in new.attachments {
            request = request.attach(part);
        }
        let (channel, mode) = (self.chosen.channel.clone(), self.chosen.mode.clone());
        (request.channel, request.mode) = caller.channel_and_mode(state, channel, mode);
        if let Some(agent) = &self.chosen.agent {
            request = request.agent(agent.clone());
        }
        caller.apply(state, request)
    }
}

impl WireTool {
    fn into_spec(self, at: usize) -> Result<ToolSpec, Problem> {
        let name = self
            .name
            .parse()
            .map_err(|error: neuraxis::core::InvalidId| {
                invalid(&format!("tools[{at}].name"), &error.to_string())
            })?;
        let tool = ToolSpec::new(name, self.description.unwrap_or_default());
        Ok(match self.parameters {
            Some(parameters) => tool.parameters(JsonText::from_text(parameters.to_string())),
            None => tool,
        })
    }
}

impl WireContext {
    /// Renders it as a model reads it.
    fn into_text(self) -> Option<String> {
        let value = match self.value? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Some(match self.description {
            Some(description) if !description.is_empty() => format!("{description}:\n{value}"),
            _ => value,
        })
    }
}
