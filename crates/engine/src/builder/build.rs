//! Checks the parts and puts them together.

use std::sync::Arc;

use neuraxis_brainstem::Policy;
use neuraxis_core::PlanName;

use super::agents::{agent_set, answers};
use super::{BuildError, OrchestratorBuilder, ask_when, rule_functions};
use crate::agent::Agent;
use crate::approval_key::ApprovalKey;
use crate::catalog::ToolCatalog;
use crate::catalogs::Catalogs;
use crate::engine::Engine;
use crate::foreign_tool::{ForeignTool, RunElsewhere};
use crate::live::LiveExchange;
use crate::long_result::read_output::ReadOutput;
use crate::orchestrator::{Orchestrator, Parts};
use crate::runs::{ActiveRuns, DecisionCache, KnownSessions, LostRuns, Successor};

impl OrchestratorBuilder {
    /// Builds the orchestrator. Warns of tools that can never run, in the log and through [`Orchestrator::warnings`].
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names what is missing or which tool is wrong.
    pub fn build(mut self) -> Result<Orchestrator, BuildError> {
        let store = self.store.take();
        let (verified, plan) = (self.verified.take(), self.plan.take());
        let dispatcher = self.dispatcher.take();
        let live_feed = self.live_feed.take();
        let former = std::mem::take(&mut self.former);
        let engine = self.engine(Keeping::Sessions)?;
        if let Some(plan) = &plan {
            check_plan(plan, &engine.policy)?;
        }
        let warnings = engine.tool_warnings();
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let parts = Arc::new(Parts {
            engine: Arc::new(engine),
            warnings,
            store: store.ok_or(BuildError::NoStore)?,
            known: KnownSessions::new(),
            verified,
            plan,
            decisions: DecisionCache::default(),
            active: ActiveRuns::default(),
            former,
            successor: Successor::default(),
            lost: LostRuns::default(),
            dispatcher,
            dispatches: Arc::default(),
            live: live_feed.map(|feed| Arc::new(LiveExchange::new(feed))),
        });
        parts.former.announce_successor(&parts);
        Ok(Orchestrator::new(parts))
    }

    /// Builds an agent that runs without sessions and without governance: the agent `main_thread`, with everything
    /// added here. A store is not used.
    ///
    /// This gives an agent what its own builder has no method for, such as [retries](Self::retry), [trace
    /// sinks](Self::trace_sink), [prices](Self::policy), [client tools](Self::client_tool) and [servers whose tools
    /// come and go](Self::tool_source): name the agent `main_thread` and add it with [`agent`](Self::agent). An agent
    /// with another name does not answer as `main_thread`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_engine::{Agent, Orchestrator, RetryPolicy};
    /// # use neuraxis_testkit::{ScriptedModel, reply};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = Arc::new(ScriptedModel::always(reply::text("Wet.")));
    /// let forecaster = Agent::builder("main_thread").instructions("You tell the weather.").model(model);
    /// let agent = Orchestrator::builder()
    ///     .agent(forecaster.build()?)
    ///     .retry(RetryPolicy::never())
    ///     .build_agent()?;
    /// assert_eq!(agent.execute(None, "How is it in Delft?").await?.content, "Wet.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names what is missing or which tool is wrong.
    pub fn build_agent(self) -> Result<Agent, BuildError> {
        Ok(Agent::main_thread(Arc::new(self.engine(Keeping::Nothing)?)))
    }

    /// Builds what an orchestrator and an agent have in common.
    pub(super) fn engine(mut self, keeping: Keeping) -> Result<Engine, BuildError> {
        let agents = agent_set(&self.agents)?;
        self.wiring.models.extend(agents.models());
        if self.wiring.models.is_empty() {
            return Err(BuildError::NoModel);
        }
        if !agents.is_empty() {
            let policy = &self.wiring.policy;
            let roles = self.wiring.models.keys().cloned();
            let policy = policy.with_agents(agents.definitions(), roles)?;
            self.wiring.policy = Arc::new(policy);
        }
        rule_functions::join(&mut self.wiring.policy, self.rule_functions)?;
        self.wiring.instructions = agents.instructions();
        // A deployment's instructions override a program's, whether those are text or a function.
        let policy = &self.wiring.policy;
        let instructions = &mut self.wiring.instructions;
        instructions.retain(|agent, _| !policy.configures_instructions(agent));
        self.wiring.answers = answers(&self.wiring.policy)?;
        self.wiring.agent_hooks = agents.hooks();
        let mut catalog = ToolCatalog::default();
        for (name, why) in self.absent {
            catalog.add_absent(&name, why);
        }
        for tool in self.tools.into_iter().chain(agents.tools()) {
            catalog.add(tool)?;
        }
        for (server, tool) in self.foreign {
            // The policy may have been set after the tools were added.
            let tool = ForeignTool::new(&server, tool, &self.wiring.policy)?;
            catalog.add(Arc::new(tool))?;
        }
        for tool in self.wiring.policy.agent_tools() {
            // A program's tool takes precedence over a configured one.
            if catalog.tool(&tool.name).is_some() && !agents.is_called_by(&tool.name) {
                let name = &tool.name;
                tracing::warn!(tool = %name, "a tool with this name replaces the one that starts an agent");
                continue;
            }
            catalog.add(Arc::new(RunElsewhere(tool)))?;
        }
        if keeping == Keeping::Sessions {
            // Added last, so that the positions of the tools before it do not change.
            catalog.add_reader(ReadOutput::new())?;
        }
        agents.check_tools(&catalog)?;
        ask_when::check(&self.asked_about, &catalog)?;
        let approval_key = match self.approval_key {
            Some(key) => key,
            None => ApprovalKey::random().map_err(BuildError::NoRandomness)?,
        };
        let catalogs = Catalogs::new(catalog, self.sources);
        Ok(Engine::new(self.wiring, catalogs, approval_key))
    }
}

/// Checks that the policy has the default plan: otherwise every request that names no plan would be refused.
fn check_plan(plan: &PlanName, policy: &Policy) -> Result<(), BuildError> {
    let known: Vec<&str> = policy.plans().map(PlanName::as_str).collect();
    if known.contains(&plan.as_str()) {
        return Ok(());
    }
    let (plan, known) = (plan.clone(), known.join(", "));
    Err(BuildError::DefaultPlan { plan, known })
}

/// What an engine stores of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    Sessions,
    Nothing,
}
