//! `/v1/models`: the agents and roles that a request may name as its model.

use axum::Json;
use axum::extract::{Path, State};
use neuraxis::core::{AgentName, Role};
use neuraxis::{Brought, Orchestrator, UserRequest};
use serde::Serialize;

use crate::caller::Caller;
use crate::limits::Limited;
use crate::problem::{NO_SUCH_MODEL, Problem};

/// The model of a request that names none in particular: the agent of the channel, with the role that policy chooses.
const DEFAULT: &str = "neuraxis";

/// What stands before the name of a role where an agent has the same name.
const OF_ROLE: &str = "role:";

/// What the models are.
#[derive(Debug, Serialize)]
pub(crate) struct Models {
    object: &'static str,
    data: Vec<Model>,
}

/// An agent or a role.
#[derive(Debug, Serialize)]
pub(crate) struct Model {
    id: String,
    object: &'static str,
    /// When it was made, which nothing here knows.
    created: u64,
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
pub(crate) async fn list(State(limited): State<Limited>, caller: Caller) -> Json<Models> {
    let data = all(limited.orchestrator(), &caller.agents(&limited));
    Json(Models {
        object: "list",
        data,
    })
}

/// `GET /v1/models/{id}`
pub(crate) async fn show(
    State(limited): State<Limited>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Model>, Problem> {
    let mut models = all(limited.orchestrator(), &caller.agents(&limited)).into_iter();
    let found = models.find(|model| model.id == id);
    found.map(Json).ok_or_else(|| no_such(&id))
}

/// Returns the models of a caller that these agents may answer.
fn all(orchestrator: &Orchestrator, agents: &[AgentName]) -> Vec<Model> {
    let policy = orchestrator.policy();
    let is_agent = |name: &str| policy.agents().any(|agent| agent.as_str() == name);
    let own = std::iter::once(Model::new(DEFAULT, "neuraxis"));
    let agents = agents
        .iter()
        .map(|agent| Model::new(agent.as_str(), "neuraxis"));
    let roles = orchestrator.models().map(|(role, info)| {
        let provider = info.model.provider.to_string();
        match is_agent(role.as_str()) {
            true => Model::new(format!("{OF_ROLE}{role}"), provider),
            false => Model::new(role.as_str(), provider),
        }
    });
    own.chain(agents).chain(roles).collect()
}

/// Lets the model that a client names answer: an agent, or a role.
pub(super) fn choose(
    orchestrator: &Orchestrator,
    name: &str,
    request: UserRequest,
    brought: Brought,
) -> Result<(UserRequest, Brought), Problem> {
    if name == DEFAULT {
        return Ok((request, brought));
    }
    let of_role = name.strip_prefix(OF_ROLE);
    if of_role.is_none() && orchestrator.policy().agents().any(|it| it.as_str() == name) {
        return Ok((request.agent(AgentName::new(name.to_owned())), brought));
    }
    let role = Role::new(of_role.unwrap_or(name).to_owned());
    match orchestrator.models().any(|(known, _)| *known == role) {
        true => Ok((request, brought.role(role))),
        false => Err(no_such(name)),
    }
}

fn no_such(name: &str) -> Problem {
    let name: String = name.chars().take(64).collect();
    let detail = format!("there is no model {name:?} here; GET /v1/models lists those there are");
    Problem::new(&NO_SUCH_MODEL, detail).with("field", "model")
}
