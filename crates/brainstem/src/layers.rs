//! The lattice: layers over a policy, each of which may only tighten what is above it.
//!
//! The built-in policy and a deployment's configuration form a policy. A key, a session, an agent, a sub-agent, or an
//! untrusted file in a project may then narrow it, each in the same sections of TOML. A layer that would loosen
//! anything is refused, with the line and what it would loosen.

mod tighten;

use neuraxis_core::{JsonText, Mode, ToolSpec};

use crate::config::{Layered, Permission, PolicyConfig};
use crate::error::PolicyError;
use crate::judge::Floor;
use crate::policy::Policy;
use crate::rules::ToolAnswers;

/// The owner of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LayerKind {
    /// An untrusted file in the working directory.
    Project,
    /// The key or user that makes the request.
    Key,
    /// The session that the request belongs to.
    Session,
    /// The agent that the caller configured.
    Agent,
    /// An agent that another agent started.
    SubAgent,
}

impl LayerKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Project => "project file",
            Self::Key => "key",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::SubAgent => "sub-agent",
        }
    }
}

impl Policy {
    /// Returns a [`PolicyError::Loosens`] for each key that would loosen this policy. [`tightened`](Self::tightened)
    /// checks whether the layer is otherwise valid.
    #[must_use]
    pub fn loosening_errors(&self, kind: LayerKind, layer: &PolicyConfig) -> Vec<PolicyError> {
        tighten::check(self, kind, layer)
    }

    /// Lays a layer over this policy. The result allows nothing that this policy does not allow.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Loosens`] names the first key that would loosen something. Other errors are the same as for
    /// [`Policy::layered`].
    pub fn tightened(&self, kind: LayerKind, layer: PolicyConfig) -> Result<Self, PolicyError> {
        if let Some(error) = self.loosening_errors(kind, &layer).into_iter().next() {
            return Err(error);
        }
        let mut floors = Vec::new();
        for (mode, config) in &layer.modes {
            if config.tools == crate::config::ToolAnswersConfig::default() {
                continue;
            }
            // Only what the layer itself sets becomes a floor: rules above may lift what it leaves out.
            let mut answers = config.tools.clone();
            let fields = [
                &mut answers.read_only,
                &mut answers.idempotent,
                &mut answers.irreversible,
                &mut answers.open_world,
                &mut answers.destructive,
            ];
            for answer in fields {
                answer.get_or_insert(Permission::Allow);
            }
            floors.push(Floor {
                layer: kind.name(),
                mode: mode.clone(),
                answers: ToolAnswers::new(&answers),
            });
        }
        let encoded =
            JsonText::encode(&layer).unwrap_or_else(|error| JsonText::string(&error.to_string()));
        let configured_agents = layer.agents.clone().over(self.configured_agents.clone());
        let mut merged = layer;
        merged.extra_roles.clear();
        // This layer need not know the settings that layers above it have for modes.
        let unreachable = merged.unreachable_mode(&PolicyConfig::default());
        let config = merged.over(self.config.clone());
        let hash = self.hash.chain(encoded.hash());
        let mut policy = self.rebuilt(config, self.program_agents.clone(), hash)?;
        unreachable.map_or(Ok(()), Err)?;
        policy.floors.extend(floors);
        policy.configured_agents = configured_agents;
        Ok(policy)
    }

    /// Returns the strictest permission that a layer sets for a tool in a mode, if any does.
    pub(crate) fn floor(&self, mode: &Mode, tool: &ToolSpec) -> Option<Permission> {
        let floors = self.floors.iter().filter(|floor| floor.mode == *mode);
        floors.map(|floor| floor.answers.answer(tool)).max()
    }
}
