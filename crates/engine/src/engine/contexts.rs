//! The context sizes of the models that may serve an agent, and making its run fit the smallest of them.
//!
//! Not for a growing conversation: the machine keeps it within the sizes that are set here.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_brainstem::AgentConfig;
use neuraxis_core::{AgentName, AgentSpec, Compaction, Decision, Message, ModelRef, Role, RunSpec};
use tokio::time::timeout;

use super::Engine;
use crate::driver::answered;
use crate::request::RequestError;

/// How long the engine waits for a model's client to find something out about the model; it should take less.
const LEARNED_WITHIN: Duration = Duration::from_secs(5);

/// Waits for a model's client to find something out about the model. If it takes too long or panics, it has found
/// nothing.
pub(crate) async fn learned(learning: impl Future<Output = ()>) {
    let _ = timeout(LEARNED_WITHIN, answered(learning)).await;
}

impl Engine {
    /// Like [`learned`], for a run that has not begun: the wait ends when the engine shuts down.
    pub(crate) async fn learn(&self, learning: impl Future<Output = ()> + Send) {
        self.closing.run_until_cancelled(learned(learning)).await;
    }

    /// Makes a new run fit the models that serve it, including every agent of the run. An agent with many tools starts
    /// with those that suit the request. Tools are left out if their definitions do not fit the context together with
    /// the messages that a new run begins with.
    ///
    /// # Errors
    ///
    /// [`RequestError::TooLarge`] if the messages do not fit even without tools.
    pub(crate) async fn fit(
        &self,
        spec: &mut RunSpec,
        messages: &[Arc<Message>],
        message: &str,
    ) -> Result<(), RequestError> {
        for agent in std::iter::once(&mut spec.root).chain(spec.agents.values_mut()) {
            self.narrow_requests(agent, message);
        }
        let root = &mut spec.root;
        let size = root.request_size(messages);
        let decision = spec.decision.as_deref();
        if root.context_tokens.is_some_and(|it| size.exceeds(it)) {
            self.learn_context_again(root, decision).await;
        }
        if let Some(context_tokens) = root.context_tokens
            && size.exceeds(context_tokens)
            && let Some(model) = self.smallest_model(root, decision)
        {
            root.fit_tools(messages);
            let size = root.request_size(messages);
            return Err(RequestError::TooLarge {
                model,
                context_tokens,
                size,
            });
        }
        root.fit_tools(messages);
        let left_out = &root.left_out;
        spec.agents.retain(|tool, _| !left_out.contains(tool));
        for agent in spec.agents.values_mut() {
            agent.fit_tools(&[]);
        }
        Ok(())
    }

    /// Returns the smallest context, in tokens, of the models that serve these roles, considering only those with known
    /// sizes.
    pub(super) fn smallest_context<'a>(
        &self,
        roles: impl Iterator<Item = &'a Role>,
        decision: Option<&Decision>,
    ) -> Option<u64> {
        self.contexts(roles, decision).flatten().min()
    }

    /// Returns the largest context, in tokens, of the models that serve these roles; `None` unless all sizes are known.
    pub(super) fn largest_context<'a>(
        &self,
        roles: impl Iterator<Item = &'a Role>,
        decision: Option<&Decision>,
    ) -> Option<u64> {
        let contexts: Option<Vec<u64>> = self.contexts(roles, decision).collect();
        contexts?.into_iter().max()
    }

    fn contexts<'a>(
        &self,
        roles: impl Iterator<Item = &'a Role>,
        decision: Option<&Decision>,
    ) -> impl Iterator<Item = Option<u64>> {
        let models = roles.filter_map(move |role| self.model(role, decision));
        models.map(|(_, model)| model.info().context_tokens)
    }

    /// Lets the models that may serve an agent find out their context sizes, and those that may serve the agents that
    /// it starts, by the roles that these name.
    pub(crate) async fn learn_contexts_of(
        &self,
        agent: &AgentSpec,
        decision: Option<&Decision>,
        below: &[Role],
    ) {
        let others = decision.into_iter().flat_map(roles_besides);
        let serving = agent.turn_roles().chain(others).chain(below);
        let serving: Vec<&Role> = serving.collect();
        self.learn_contexts(&serving).await;
        // A conversation is summarized only if the size of its context is known.
        if let Compaction::Summarize { role } = &agent.profile.compaction
            && self
                .smallest_context(agent.turn_roles(), decision)
                .is_some()
        {
            self.learn_contexts(&[role]).await;
        }
    }

    /// Lets the models that serve these roles find out their context sizes, if not known yet.
    async fn learn_contexts(&self, roles: &[&Role]) {
        for role in roles {
            if let Some((_, model)) = self.model(role, None)
                && model.info().context_tokens.is_none()
            {
                self.learn(model.learn_context()).await;
            }
        }
    }

    /// Lets the models that may serve an agent find out their context sizes again: their servers may have been
    /// restarted with larger ones. An agent that was given less than its models have keeps that.
    async fn learn_context_again(&self, agent: &mut AgentSpec, decision: Option<&Decision>) {
        let others = decision.into_iter().flat_map(roles_besides);
        let roles: Vec<&Role> = agent.turn_roles().chain(others).collect();
        let smallest = || self.smallest_context(roles.iter().copied(), decision);
        if agent.context_tokens != smallest() {
            return;
        }
        for role in &roles {
            if let Some((_, model)) = self.model(role, decision) {
                self.learn(model.learn_context()).await;
            }
        }
        agent.context_tokens = smallest();
    }

    /// Limits an agent's context to that of the smallest model that may serve it. Reasoning counts toward the context
    /// if any of the models is sent its reasoning again.
    pub(crate) fn fit_to_all(&self, agent: &mut AgentSpec, decision: &Decision) {
        let contexts = self.smallest_context(roles_besides(decision), Some(decision));
        agent.context_tokens = contexts.into_iter().chain(agent.context_tokens).min();
        agent.drops_reasoning &= !self.resends_reasoning(roles_besides(decision), Some(decision));
    }

    /// Returns whether any model that serves these roles is sent its reasoning from before the last user message again.
    pub(super) fn resends_reasoning<'a>(
        &self,
        roles: impl Iterator<Item = &'a Role>,
        decision: Option<&Decision>,
    ) -> bool {
        let mut models = roles.filter_map(|role| self.model(role, decision));
        models.any(|(_, model)| model.info().resends_reasoning)
    }

    /// Returns the roles that an agent names, and those of the agents that it may start, directly or indirectly.
    pub(crate) fn roles_below(&self, name: &AgentName) -> Vec<Role> {
        let agents = self
            .policy
            .sub_agents(name)
            .into_values()
            .chain([name.clone()]);
        let configs = agents.filter_map(|agent| self.policy.agent(&agent));
        configs.flat_map(AgentConfig::roles).cloned().collect()
    }

    /// Returns the model with the smallest context of those that may serve an agent, or the model of its role if no
    /// size is known.
    fn smallest_model(&self, agent: &AgentSpec, decision: Option<&Decision>) -> Option<ModelRef> {
        let others = decision.into_iter().flat_map(roles_besides);
        let roles = agent.turn_roles().chain(others);
        let models = roles.filter_map(|role| self.model(role, decision));
        let infos = models.map(|(_, model)| model.info());
        let smallest = infos.min_by_key(|info| info.context_tokens.unwrap_or(u64::MAX));
        smallest.map(|info| info.model)
    }
}

/// Returns the roles that may serve an agent in addition to its own.
fn roles_besides(decision: &Decision) -> impl Iterator<Item = &Role> {
    let routed = decision.routing.iter().flat_map(|routing| &routing.choices);
    let larger = decision.escalation.iter().filter_map(|it| it.role.as_ref());
    routed.chain(larger)
}
