//! What is available, and what the policy would decide. Nothing here calls a model or a tool.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use neuraxis::brainstem::AgentConfig;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::{
    AgentName, Decision, Role, ToolAnnotations, ToolClass, ToolKind, ToolName, ToolSpec,
    whole_millis,
};
use neuraxis::{Channel, Mode, Orchestrator};
use neuraxis_app::{Scope, ServerKey};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use crate::body;
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::Problem;
use crate::turn::Turn;

/// The session id used to explain a request. The session is never created.
const NO_SESSION: &str = "explained";

/// A list of the tools.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tools {
    /// The tools.
    tools: Vec<Tool>,
}

/// A tool, as models see it and as the policy classifies it.
#[derive(Debug, Serialize, JsonSchema)]
struct Tool {
    /// Its name.
    name: ToolName,
    /// What it does, as models read it.
    description: Arc<str>,
    /// What it may change.
    class: ToolClass,
    /// Further properties that governance considers.
    annotations: ToolAnnotations,
    /// Who runs it.
    kind: ToolKind,
    /// The time limit on one call, in milliseconds, if the tool sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    /// The JSON Schema of its arguments.
    parameters: Value,
}

impl Tool {
    fn of(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: Arc::clone(&spec.description),
            class: spec.class,
            annotations: spec.annotations,
            kind: spec.kind,
            timeout_ms: spec.timeout.map(whole_millis),
            parameters: spec.parameters.decode().unwrap_or_default(),
        }
    }
}

/// `GET /api/v1/tools`
pub(crate) async fn tools(State(orchestrator): State<Orchestrator>) -> Json<Tools> {
    let tools = orchestrator.tools().specs().map(Tool::of).collect();
    Json(Tools { tools })
}

/// A list of the models.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Models {
    /// The models, by role.
    models: Vec<Model>,
}

/// The model of a role.
#[derive(Debug, Serialize, JsonSchema)]
struct Model {
    /// The role that the model serves.
    role: Role,
    /// The provider, such as `openai`.
    provider: String,
    /// The model's name at that provider.
    model: String,
    /// The maximum number of tokens of a request and its reply together, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_tokens: Option<u64>,
    /// What a user should know before trusting its answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
    /// Whether it failed repeatedly, so that others serve its role until it recovers.
    is_degraded: bool,
}

/// `GET /api/v1/models`
pub(crate) async fn models(State(orchestrator): State<Orchestrator>) -> Json<Models> {
    let degraded = orchestrator.degraded_roles();
    let models = orchestrator.models().map(|(role, info)| Model {
        role: role.clone(),
        is_degraded: degraded.iter().any(|other| other.role == *role),
        provider: info.model.provider.to_string(),
        model: info.model.model.to_string(),
        context_tokens: info.context_tokens,
        notice: info.notice,
    });
    Json(Models {
        models: models.collect(),
    })
}

/// A list of the agents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Agents {
    /// The agents.
    agents: Vec<Agent>,
}

/// An agent, as it is configured.
#[derive(Debug, Serialize, JsonSchema)]
struct Agent {
    /// Its name.
    name: AgentName,
    #[serde(flatten)]
    config: AgentConfig,
}

/// `GET /api/v1/agents`
pub(crate) async fn agents(State(state): State<ServerState>, caller: Caller) -> Json<Agents> {
    let policy = state.orchestrator().policy();
    let agents = caller.agents(&state).into_iter().filter_map(|name| {
        let config = policy.agent(&name)?.clone();
        Some(Agent { name, config })
    });
    Json(Agents {
        agents: agents.collect(),
    })
}

/// What the caller may do, and the values it may choose from.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
pub(crate) struct Choices {
    /// The hash of the policy; it changes when the policy does.
    policy_hash: String,
    /// What the caller may do.
    #[schemars(schema_with = "scopes_schema")]
    scopes: Vec<Scope>,
    /// The key that the caller presented. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<OwnKey>,
    /// The modes that the caller may use.
    modes: Vec<Mode>,
    /// The channels that the caller may use in one of these modes.
    channels: Vec<Channel>,
    /// The agents.
    agents: Vec<AgentName>,
}

/// The caller's key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Key")]
struct OwnKey {
    /// Its id, as in `keys list`; not secret.
    id: String,
    /// The owner of the sessions that it creates and sees.
    owner: String,
    /// Its purpose, if it was given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The time from which it is refused. Absent if it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

impl OwnKey {
    fn of(key: &ServerKey) -> Self {
        Self {
            id: key.id.clone(),
            owner: key.owner.clone(),
            name: key.name.clone(),
            expires_at: key.expires_at,
        }
    }
}

fn scopes_schema(_: &mut SchemaGenerator) -> Schema {
    let names = Scope::ALL.map(Scope::as_str);
    json_schema!({ "type": "array", "items": { "type": "string", "enum": names } })
}

/// `GET /api/v1/policy`
pub(crate) async fn policy(State(state): State<ServerState>, caller: Caller) -> Json<Choices> {
    let policy = state.orchestrator().policy();
    let modes = caller.modes(&state);
    let mut channels = caller.channels(&state);
    channels.retain(|channel| modes.iter().any(|mode| state.allows(channel, mode)));
    Json(Choices {
        policy_hash: policy.hash().to_string(),
        scopes: caller.scopes(),
        key: caller.key().map(OwnKey::of),
        modes,
        channels,
        agents: caller.agents(&state),
    })
}

/// `POST /api/v1/policy/explain`: what the policy would decide about the first turn of a session.
pub(crate) async fn explain(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Decision>, Problem> {
    let turn = Turn::parse(&body::json(&headers, body).await?)?;
    let session = NO_SESSION.parse().map_err(|_| unnamed())?;
    let request = turn.into_request(session, &caller, &state)?;
    let decision = state.orchestrator().decide_today(&request).await?;
    Ok(Json(decision))
}

fn unnamed() -> Problem {
    crate::refusal::internal(&"the placeholder session id is invalid")
}
