//! `/v1/models`: the agents and roles that a request may name as its model.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use neuraxis::core::{AgentName, Role};
use neuraxis::{Channel, ClientInput, Mode, Orchestrator, UserRequest};
use schemars::JsonSchema;
use serde::Serialize;

use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::{NO_SUCH_MODEL, Problem};

/// The model of a request that names no specific one: the channel's agent, with the role that the policy chooses.
pub(super) const DEFAULT: &str = "neuraxis";

/// The prefix of a role's name if an agent has the same name.
const OF_ROLE: &str = "role:";

/// The message and session id of a request that is only used to check whether it would be accepted.
const PROBE: &str = "models";

/// A list of the models.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiModels")]
pub(crate) struct Models {
    /// `list`.
    object: &'static str,
    /// The models.
    data: Vec<Model>,
}

/// An agent or a role.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiModel")]
pub(crate) struct Model {
    /// The value for the field `model` of a request.
    id: String,
    /// `model`.
    object: &'static str,
    /// The creation time, which is unknown here.
    created: u64,
    /// For an agent, `neuraxis`; for a role, its model's provider.
    owned_by: String,
}

impl Model {
    fn new(id: impl Into<String>, owned_by: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            object: "model",
            created: 0,
            owned_by: owned_by.into(),
        }
    }
}

/// `GET /v1/models`
pub(crate) async fn list(State(state): State<ServerState>, caller: Caller) -> Json<Models> {
    Json(Models {
        object: "list",
        data: all(&state, &caller).collect(),
    })
}

/// `GET /v1/models/{id}`
pub(crate) async fn show(
    State(state): State<ServerState>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Model>, Problem> {
    // A path segment that is not text names no model.
    let Path(id) = id.map_err(|_| no_such("\u{fffd}"))?;
    let found = all(&state, &caller).find(|model| model.id == id);
    found.map(Json).ok_or_else(|| no_such(&id))
}

/// Returns the models that a caller may use. A model for which every request would be refused is left out.
fn all<'a>(state: &'a ServerState, caller: &'a Caller) -> impl Iterator<Item = Model> + 'a {
    let orchestrator = state.orchestrator();
    let policy = orchestrator.policy();
    let is_agent = move |name: &str| policy.agents().any(|agent| agent.as_str() == name);
    let own = std::iter::once(Model::new(DEFAULT, "neuraxis"));
    let agents = caller
        .agents(state)
        .into_iter()
        .map(|agent| Model::new(agent.as_str().to_owned(), "neuraxis"));
    let roles = orchestrator.models().map(move |(role, info)| {
        let provider = info.model.provider.to_string();
        match is_agent(role.as_str()) {
            true => Model::new(format!("{OF_ROLE}{role}"), provider),
            false => Model::new(role.as_str().to_owned(), provider),
        }
    });
    let all = own.chain(agents).chain(roles);
    let choices = choices(state, caller);
    all.filter(move |model| {
        let mut choices = choices.iter();
        choices.any(|(channel, mode)| is_usable(state, caller, &model.id, channel, mode))
    })
}

/// Returns the channels and modes that a caller may name in its requests.
fn choices(state: &ServerState, caller: &Caller) -> Vec<(Channel, Mode)> {
    let modes = caller.modes(state);
    let channels = caller.channels(state).into_iter();
    let choices = channels.flat_map(|channel| {
        let modes = modes.iter().cloned();
        modes.map(move |mode| (channel.clone(), mode))
    });
    choices.collect()
}

/// Returns whether a caller's request for a model would be accepted.
fn is_usable(
    state: &ServerState,
    caller: &Caller,
    model: &str,
    channel: &Channel,
    mode: &Mode,
) -> bool {
    let Ok(session) = PROBE.parse() else {
        return false;
    };
    let orchestrator = state.orchestrator();
    let request = UserRequest::new(session, PROBE)
        .channel(channel.clone())
        .mode(mode.clone());
    let chosen = choose(orchestrator, model, request, ClientInput::default());
    let admitted = chosen.and_then(|(request, client_input)| {
        caller.apply(state, request.with_client_input(client_input))
    });
    admitted.is_ok_and(|request| orchestrator.decide(&request).is_ok())
}

/// Selects the agent or role that a client names as its model.
pub(super) fn choose(
    orchestrator: &Orchestrator,
    name: &str,
    request: UserRequest,
    client_input: ClientInput,
) -> Result<(UserRequest, ClientInput), Problem> {
    if name == DEFAULT {
        return Ok((request, client_input));
    }
    let of_role = name.strip_prefix(OF_ROLE);
    if of_role.is_none() && orchestrator.policy().agents().any(|it| it.as_str() == name) {
        return Ok((request.agent(AgentName::new(name.to_owned())), client_input));
    }
    let role = Role::new(of_role.unwrap_or(name).to_owned());
    match orchestrator.models().any(|(known, _)| *known == role) {
        true => Ok((request, client_input.role(role))),
        false => Err(no_such(name)),
    }
}

fn no_such(name: &str) -> Problem {
    let name: String = name.chars().take(64).collect();
    let detail = format!("no such model: {name:?}; GET /v1/models lists the available ones");
    Problem::new(&NO_SUCH_MODEL, detail).with("field", "model")
}
