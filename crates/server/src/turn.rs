//! What a client says to take a turn: the body of the request.

use neuraxis::core::AgentName;
use neuraxis::engine::{AnswerSchema, RequestError};
use neuraxis::{Brought, Channel, Mode, SessionId, UserRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::attached::{self, Attached};
use crate::caller::Caller;
use crate::client_tool::{self, ClientTool};
use crate::limits::Limited;
use crate::problem::Problem;
use crate::said::{self, Said};

/// A user message with the circumstances that a client may choose.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewTurn")]
#[serde(deny_unknown_fields, expecting = "an object with the field message")]
pub(crate) struct Turn {
    /// The message.
    #[schemars(regex(pattern = said::SAYS_SOMETHING))]
    message: String,
    /// Files that go with it, in this order after its text: 20 at most, 7 MiB each (a text 1 MiB), 15 MiB together.
    #[serde(default)]
    attachments: Vec<Attached>,
    /// Where the request comes from: one of the channels of `/api/v1/policy`; `chat` if left out, or the only one that the caller may use.
    #[serde(default)]
    channel: Option<Channel>,
    /// How much freedom the run has: one of the modes of `/api/v1/policy`; if left out, `moderate`, or the freest that
    /// is no freer and that the caller may choose.
    #[serde(default)]
    mode: Option<Mode>,
    /// The agent that answers, in place of the channel's own.
    #[serde(default)]
    agent: Option<AgentName>,
    /// A JSON Schema that the answer has to fit: that of an object.
    #[serde(default)]
    #[schemars(extend(
        "type" = ["object", "null"],
        "required" = ["type"],
        "properties" = { "type": { "const": "object" } },
    ))]
    schema: Option<Value>,
    /// Tools that the client runs itself: 128 at most, 1 MiB together. A call of one makes the turn answer `waiting`, and the
    /// run goes on with the result that the client brings to `/api/v1/runs/{id}/tools/{call_id}`.
    #[serde(default)]
    #[schemars(length(max = 128))]
    tools: Vec<ClientTool>,
}

impl Said for Turn {
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
    /// Reads a turn from JSON.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let turn: Self = said::parse(bytes)?;
        said::without_nul("message", &turn.message)?;
        if turn.message.trim().is_empty() {
            return Err(RequestError::EmptyMessage.into());
        }
        Ok(turn)
    }

    /// Makes the engine's request of it, which is the caller's own. The caller is refused what it may not choose.
    pub(crate) fn into_request(
        self,
        session: SessionId,
        caller: &Caller,
        limited: &Limited,
    ) -> Result<UserRequest, Problem> {
        let mut request = UserRequest::new(session, self.message);
        request.attachments = attached::parts(&self.attachments)?;
        (request.channel, request.mode) = caller.chosen(limited, self.channel, self.mode);
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
            request = request.bring(Brought::default().tools(tools));
        }
        caller.apply(limited, request)
    }
}
