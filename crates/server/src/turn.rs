//! The body of a request to take a turn.

use neuraxis::core::AgentName;
use neuraxis::engine::{AnswerSchema, RequestError};
use neuraxis::{Channel, ClientInput, Mode, SessionId, UserRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::attached::{self, Attached};
use crate::caller::Caller;
use crate::client_tool::{self, ClientTool};
use crate::limits::ServerState;
use crate::problem::Problem;
use crate::request_body::{self, RequestBody};

/// A user message, with the settings that a client may choose.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(
    rename = "NewTurn",
    extend("anyOf" = [
        { "required": ["message"], "properties": { "message": { "pattern": request_body::NOT_BLANK } } },
        { "required": ["attachments"], "properties": { "attachments": { "minItems": 1 } } },
    ])
)]
#[serde(deny_unknown_fields, expecting = "an object with the field message")]
pub(crate) struct Turn {
    /// The message. It may be empty or absent if there are attachments.
    #[serde(default)]
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    message: String,
    /// Files that go with the message, in this order after its text: at most 20, each at most 7 MiB (a text file 1
    /// MiB), together at most 15 MiB.
    #[serde(default)]
    attachments: Vec<Attached>,
    /// What kind of request it is: one of the channels of `/api/v1/policy`. The default is `chat`, or the only one that
    /// the caller may use.
    #[serde(default)]
    channel: Option<Channel>,
    /// How much freedom the run has: one of the modes of `/api/v1/policy`. The default is `moderate`, or the freest
    /// mode that is no freer and that the caller may choose.
    #[serde(default)]
    mode: Option<Mode>,
    /// The agent that answers, instead of the channel's own.
    #[serde(default)]
    agent: Option<AgentName>,
    /// A JSON Schema that the answer must fit. It must describe an object.
    #[serde(default)]
    #[schemars(extend(
        "type" = ["object", "null"],
        "required" = ["type"],
        "properties" = { "type": { "const": "object" } },
        "additionalProperties" = true,
    ))]
    schema: Option<Value>,
    /// Tools that the client runs itself: at most 128, together at most 1 MiB. When the model calls one, the turn
    /// answers `waiting`, and the run continues once the client sends the result to
    /// `/api/v1/runs/{id}/tools/{call_id}`.
    #[serde(default)]
    #[schemars(length(max = 128))]
    tools: Vec<ClientTool>,
}

impl RequestBody for Turn {
    const FIELDS: &'static [&'static str] = &[
        "message",
        "attachments",
        "channel",
        "mode",
        "agent",
        "schema",
        "tools",
    ];
}

impl Turn {
    /// Parses a turn from JSON.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let turn: Self = request_body::parse(bytes)?;
        request_body::check_no_nul("message", &turn.message)?;
        if turn.message.trim().is_empty() && turn.attachments.is_empty() {
            return Err(RequestError::EmptyMessage.into());
        }
        Ok(turn)
    }

    /// Converts the turn to the engine's request, owned by the caller. Refuses anything that the caller may not choose.
    pub(crate) fn into_request(
        self,
        session: SessionId,
        caller: &Caller,
        state: &ServerState,
    ) -> Result<UserRequest, Problem> {
        let mut request = UserRequest::new(session, self.message);
        request.attachments = attached::parts(&self.attachments)?;
        (request.channel, request.mode) = caller.channel_and_mode(state, self.channel, self.mode);
        if let Some(agent) = self.agent {
            request = request.agent(agent);
        }
        if let Some(schema) = self.schema {
            let schema = AnswerSchema::from_json(schema.to_string());
            let schema = schema.map_err(|error| Problem::invalid("schema", error))?;
            request = request.answer(schema);
        }
        if !self.tools.is_empty() {
            let tools = client_tool::specs(self.tools)?;
            request = request.with_client_input(ClientInput::default().tools(tools));
        }
        caller.apply(state, request)
    }
}
