//! The definition of an agent, and how an engine includes agents: their settings become part of the policy, their tools
//! part of the catalog, and their models part of the roles.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use neuraxis_brainstem::{AgentConfig, AgentDefinition, OpeningConfig, PolicyError};
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{AgentName, Channel, Mode, Role, SessionId, ToolName};
use neuraxis_ports::{LlmClient, ModelHook, RequestContext, Tool, ToolHook};

use crate::builder::BuildError;
use crate::catalog::ToolCatalog;
use crate::request::RequestError;

/// The definition of an agent.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: AgentName,
    /// The settings that could also be written in `[agents.NAME]`.
    pub(crate) config: AgentConfig,
    pub(crate) instructions: Option<Instructions>,
    /// The agent's own model.
    pub(crate) model: Option<Arc<dyn LlmClient>>,
    /// The agent's own tools.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// The agents that it calls.
    pub(crate) agents: Vec<Arc<Self>>,
    /// The hooks that inspect what it does.
    pub(crate) hooks: AgentHooks,
}

/// The program's hooks that inspect one agent, each kind in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentHooks {
    pub(crate) tool: Vec<Arc<dyn ToolHook>>,
    pub(crate) model: Vec<Arc<dyn ModelHook>>,
}

impl AgentHooks {
    const fn is_empty(&self) -> bool {
        self.tool.is_empty() && self.model.is_empty()
    }
}

impl Definition {
    /// An agent with no settings.
    pub(crate) fn named(name: AgentName) -> Self {
        Self {
            name,
            config: AgentConfig::default(),
            instructions: None,
            model: None,
            tools: Vec::new(),
            agents: Vec::new(),
            hooks: AgentHooks::default(),
        }
    }
}

/// The facts available to an instructions function when a run begins. A run without a session has no mode and no
/// channel.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct InstructionContext<'a> {
    /// The agent that receives the instructions.
    pub agent: &'a AgentName,
    /// The session.
    pub session_id: Option<&'a SessionId>,
    /// How much freedom the request has.
    pub mode: Option<&'a Mode>,
    /// What kind of request it is.
    pub channel: Option<&'a Channel>,
    /// The user's message, or the user's last message if there is no new one.
    pub message: Option<&'a str>,
    /// The caller, and what else the program says about the request.
    pub request: &'a RequestContext,
    /// When the run begins.
    pub now: Timestamp,
}

/// A function that builds instructions from what is known of a request.
#[derive(Clone)]
pub(crate) struct Instructions(Arc<dyn Fn(&InstructionContext<'_>) -> String + Send + Sync>);

impl Instructions {
    pub(crate) fn new(
        of: impl Fn(&InstructionContext<'_>) -> String + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(of))
    }

    /// Returns the agent's instructions; `None` if there are none. Fails if the program's function panics: without its
    /// instructions, an agent might do anything.
    pub(crate) fn text(
        &self,
        context: &InstructionContext<'_>,
    ) -> Result<Option<Arc<str>>, RequestError> {
        // The function only reads the request, so a panic leaves nothing half changed.
        let made = catch_unwind(AssertUnwindSafe(|| (self.0)(context)));
        let text = made.map_err(|_| RequestError::Instructions(context.agent.clone()))?;
        Ok((!text.trim().is_empty()).then(|| text.into()))
    }
}

impl fmt::Debug for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instructions")
    }
}

/// The agents of an engine, each one once.
#[derive(Debug, Default)]
pub(crate) struct AgentSet {
    agents: BTreeMap<AgentName, Arc<Definition>>,
    shared: Vec<AgentName>,
    /// The agent that the engine was built for, if any. Its model serves wherever no other model is named.
    root: Option<AgentName>,
}

impl AgentSet {
    /// Adds an agent and the agents that it calls.
    pub(crate) fn add(&mut self, agent: &Arc<Definition>) -> Result<(), BuildError> {
        match self.agents.get(&agent.name) {
            Some(known) if Arc::ptr_eq(known, agent) => return Ok(()),
            Some(_) => return Err(BuildError::DuplicateAgent(agent.name.clone())),
            None => {}
        }
        self.agents.insert(agent.name.clone(), Arc::clone(agent));
        agent.agents.iter().try_for_each(|below| self.add(below))
    }

    /// Allows every agent to be offered the tool of this one.
    pub(crate) fn share(&mut self, agent: AgentName) {
        self.shared.push(agent);
    }

    /// Sets the agent that the engine is for.
    pub(crate) fn lead(&mut self, agent: AgentName) {
        self.root = Some(agent);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Returns the roles that agents name.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let agents = self.agents.values().map(|agent| &agent.config);
        let named =
            agents.flat_map(|config| [&config.role, &config.first_role, &config.after_calls_role]);
        let gathering = self
            .agents
            .values()
            .filter_map(|agent| match &agent.config.opening {
                Some(OpeningConfig::Gather(gather)) => Some(&gather.role),
                _ => None,
            });
        named.flatten().chain(gathering).cloned().collect()
    }

    /// Returns what governance needs to know about the agents.
    pub(crate) fn definitions(&self) -> Vec<AgentDefinition> {
        let agents = self.agents.values();
        agents.map(|agent| self.definition(agent)).collect()
    }

    fn definition(&self, agent: &Definition) -> AgentDefinition {
        let mut config = agent.config.clone();
        if !agent.agents.is_empty() {
            let below = agent.agents.iter().map(|below| below.name.clone());
            config.agents.get_or_insert_default().extend(below);
        }
        let own_role = self.own_role(agent);
        config.role = own_role.clone().or(config.role);
        let mut definition = AgentDefinition::new(agent.name.clone(), config);
        let tools = agent.tools.iter();
        definition.own_tools = tools.map(|tool| tool.spec().name.clone()).collect();
        definition.own_role = own_role;
        definition.is_shared = self.shared.contains(&agent.name);
        definition
    }

    /// Returns the role of an agent's own model.
    fn own_role(&self, agent: &Definition) -> Option<Role> {
        let is_root = self.root.as_ref() == Some(&agent.name);
        let has_own = agent.model.is_some() && !is_root;
        has_own.then(|| Role::new(format!("agent:{}", agent.name)))
    }

    /// Returns the models that agents own, by the role that each serves.
    pub(crate) fn models(&self) -> impl Iterator<Item = (Role, Arc<dyn LlmClient>)> {
        let agents = self.agents.values();
        agents.filter_map(|agent| {
            let role = self.own_role(agent).unwrap_or(Role::REASONING);
            Some((role, Arc::clone(agent.model.as_ref()?)))
        })
    }

    /// Returns the tools that agents own, each one once even if several agents own it.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for tool in self.agents.values().flat_map(|agent| &agent.tools) {
            if !tools.iter().any(|known| Arc::ptr_eq(known, tool)) {
                tools.push(Arc::clone(tool));
            }
        }
        tools
    }

    /// Refuses an agent whose settings name a tool that does not exist. Patterns with wildcards are exempt, since they
    /// may not match anything yet. So is an agent that runs alone, which lacks what an orchestrator would offer it.
    pub(crate) fn check_tools(&self, catalog: &ToolCatalog) -> Result<(), PolicyError> {
        if self.root.is_some() {
            return Ok(());
        }
        let tools: Vec<ToolName> = catalog.specs().map(|spec| spec.name.clone()).collect();
        let of_agent = |agent: &Arc<Definition>| agent.config.unknown_tools(&agent.name, &tools);
        let mut faults = self.agents.values().flat_map(of_agent);
        let is_name = |fault: &PolicyError| match fault {
            PolicyError::UnknownTool { pattern, .. } => pattern.parse::<ToolName>().is_ok(),
            _ => false,
        };
        faults.find(is_name).map_or(Ok(()), Err)
    }

    /// Returns `true` if the agent that this tool calls is defined by a program.
    pub(crate) fn is_called_by(&self, tool: &ToolName) -> bool {
        self.agents.values().any(|agent| {
            let named = agent.config.tool_name.as_ref();
            named.map_or(agent.name.as_str(), ToolName::as_str) == tool.as_str()
        })
    }

    /// Returns the hooks of single agents.
    pub(crate) fn hooks(&self) -> BTreeMap<AgentName, AgentHooks> {
        let agents = self.agents.iter();
        let watched = agents.filter(|(_, agent)| !agent.hooks.is_empty());
        watched
            .map(|(name, agent)| (name.clone(), agent.hooks.clone()))
            .collect()
    }

    /// Returns the instructions that are built from what is known of a request.
    pub(crate) fn instructions(&self) -> BTreeMap<AgentName, Instructions> {
        let agents = self.agents.iter();
        let made =
            agents.filter_map(|(name, agent)| Some((name.clone(), agent.instructions.clone()?)));
        made.collect()
    }
}
