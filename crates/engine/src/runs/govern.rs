//! Asks governance about a request, gathers only the facts that matter to the policy, and describes the run that it
//! allows.

use std::sync::Arc;

use neuraxis_brainstem::{Refusal, Request, works_on_files};
use neuraxis_core::jiff::{SignedDuration, Timestamp};
use neuraxis_core::{
    AgentName, BudgetScope, Decision, Limits, PlanName, Record, Role, RunId, RunSpec, SessionId,
    SessionMetrics, Spent,
};
use neuraxis_ports::{Session, StoreError, UsageOf};

use super::recheck::InForce;
use super::{Runs, owner};
use crate::agent::InstructionContext;
use crate::request::{Earlier, RequestError, UserRequest};

/// What is known about a request beyond its own content.
#[derive(Debug, Clone, Copy, Default)]
struct RequestFacts<'a> {
    /// The roles whose models accept its attachments, if that is not all of them.
    roles: Option<&'a [Role]>,
    /// The number of messages in its conversation, if that matters.
    history: Option<usize>,
    /// The usage of its session's runs, if that matters.
    session: Spent,
    /// Today's usage of its owner's runs, if that matters.
    day: Spent,
}

impl Runs {
    /// Decides what a request may do, without running it. The content of its conversation and earlier usage are not
    /// taken into account.
    ///
    /// # Errors
    ///
    /// [`RequestError::Policy`] if the policy refuses the request.
    pub(crate) fn decide(&self, request: &UserRequest) -> Result<Decision, RequestError> {
        self.decide_with(request, self.plan_of(request), RequestFacts::default())
    }

    /// Decides what a request that begins a session now may do, without running it. What its owner used today is taken
    /// into account.
    pub(crate) async fn decide_today(
        &self,
        request: &UserRequest,
    ) -> Result<Decision, RequestError> {
        let facts = self.facts(request, None).await?;
        self.decide_with(request, self.plan_of(request), facts)
    }

    /// Decides about a request as if it had no plan: a request that was made earlier had its user's plan.
    pub(super) fn decide_without_plan(
        &self,
        request: &UserRequest,
    ) -> Result<Decision, RequestError> {
        self.decide_with(request, None, RequestFacts::default())
    }

    /// Decides about a request that begins a session with a conversation of this many messages.
    pub(super) async fn decide_branch(
        &self,
        request: &UserRequest,
        messages: usize,
    ) -> Result<Decision, RequestError> {
        let mut facts = self.facts(request, None).await?;
        facts.history = facts.history.map(|_| messages);
        match self.parts.engine.roles_that_take(request).await? {
            Some(roles) => self.decide_among(&roles, request, facts),
            None => self.decide_with(request, self.plan_of(request), facts),
        }
    }

    /// Decides about a request that only these roles can serve, since their models accept its attachments.
    fn decide_among<'a>(
        &self,
        roles: &'a [Role],
        request: &UserRequest,
        mut facts: RequestFacts<'a>,
    ) -> Result<Decision, RequestError> {
        facts.roles = Some(roles);
        let decided = self.decide_with(request, self.plan_of(request), facts);
        let engine = &self.parts.engine;
        decided.map_err(|error| match &error {
            RequestError::Policy(Refusal::NoRole { allowed, .. }) => {
                engine.unsupported_error(request, allowed)
            }
            // The requested role's own model may be the one that does not accept the attachments.
            RequestError::Policy(Refusal::RoleNotAllowed { asked, .. }) => engine
                .unsupported_error_of_role(request, asked)
                .unwrap_or(error),
            _ => error,
        })
    }

    /// Returns the session of a request, if it exists and the request may enter it, and sets the session's owner as the
    /// owner of the request.
    pub(super) async fn enter_session(
        &self,
        request: &mut UserRequest,
    ) -> Result<Option<Session>, RequestError> {
        let session = match self.parts.store.session(&request.session_id).await {
            Ok(session) => session,
            Err(StoreError::NoSuchSession(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        owner::enter(request, &session)?;
        self.check_unaltered(&session.id).await?;
        let context = std::mem::take(&mut request.context);
        request.context = context.owned_by(session.owner.clone());
        Ok(Some(session))
    }

    /// Refuses a session that was altered.
    pub(crate) async fn check_unaltered(&self, session: &SessionId) -> Result<(), RequestError> {
        match self.alteration(session).await? {
            Some(why) => Err(RequestError::Altered {
                session: session.clone(),
                why,
            }),
            None => Ok(()),
        }
    }

    /// Decides about a request. If the decision does not depend on its content, it is taken from the cache.
    pub(super) async fn decision(
        &self,
        request: &UserRequest,
        session: Option<&Session>,
    ) -> Result<Arc<Decision>, RequestError> {
        let plan = self.plan_of(request);
        let takers = self.parts.engine.roles_that_take(request).await?;
        if let Some(roles) = takers {
            let facts = self.facts(request, session).await?;
            return self.decide_among(&roles, request, facts).map(Arc::new);
        }
        if self
            .parts
            .engine
            .policy
            .decision_is_cacheable(&request.channel, plan)
        {
            let tools = self.parts.engine.catalog();
            let decide = || self.decide_with(request, plan, RequestFacts::default());
            let known = &self.parts.decisions;
            return known.decision(request, plan, &tools, decide);
        }
        let facts = self.facts(request, session).await?;
        Ok(Arc::new(self.decide_with(request, plan, facts)?))
    }

    fn decide_with(
        &self,
        request: &UserRequest,
        plan: Option<&PlanName>,
        facts: RequestFacts<'_>,
    ) -> Result<Decision, RequestError> {
        let engine = &self.parts.engine;
        let tools = engine.catalog();
        let user_text = request.user_text();
        let mut evaluated = Request::new(&request.mode, &request.channel, &user_text)
            .with_tools(tools.all_specs())
            .with_spent(facts.session, facts.day)
            .with_roles(facts.roles.unwrap_or(&engine.roles));
        if let Some(agent) = &request.agent {
            evaluated = evaluated.with_agent(agent);
        }
        if let Some(role) = request.role() {
            evaluated = evaluated.with_role(role);
        }
        if let Some(plan) = plan {
            evaluated = evaluated.with_plan(plan);
        }
        if let Some(messages) = facts.history {
            evaluated = evaluated.with_history(messages);
        }
        Ok(engine.policy.evaluate_request(&evaluated)?)
    }

    /// Gathers the facts that matter to the policy. The store is asked for nothing else.
    async fn facts(
        &self,
        request: &UserRequest,
        session: Option<&Session>,
    ) -> Result<RequestFacts<'static>, StoreError> {
        let policy = &self.parts.engine.policy;
        let mut facts = RequestFacts::default();
        if policy.may_clarify(&request.channel, &request.user_text()) {
            facts.history = Some(match session {
                Some(session) => self.parts.store.history(&session.id).await?.len(),
                None => 0,
            });
        }
        let Some(plan) = self.plan_of(request) else {
            return Ok(facts);
        };
        if let Some(session) = session
            && policy.has_budget(plan, BudgetScope::Session)
        {
            let metrics = self.parts.store.metrics(&session.id).await?;
            facts.session = metrics.spent();
        }
        if policy.has_budget(plan, BudgetScope::Day) {
            let owner = match session {
                Some(session) => session.owner.clone(),
                None => request.context.owner().map(str::to_owned),
            };
            facts.day = self.spent_today(owner).await?;
        }
        Ok(facts)
    }

    /// Returns today's usage of an owner's runs.
    async fn spent_today(&self, owner: Option<String>) -> Result<Spent, StoreError> {
        let of = UsageOf::Owner(owner);
        let today = start_of_day(self.parts.engine.clock.now());
        Ok(self.parts.store.usage_since(&of, today).await?.spent())
    }

    /// Like [`in_force`](Self::in_force), but within what the owner has left of the day's budget: while a run waited,
    /// other runs may have used it up. A run that has only begun, to be driven by another process, keeps the limits
    /// that it began with.
    pub(super) async fn in_force_today(
        &self,
        session: &SessionId,
        spec: &RunSpec,
        decision: &Decision,
        records: &[Arc<Record>],
    ) -> Result<InForce, StoreError> {
        let mut in_force = self.in_force(session, spec, decision);
        let own = SessionMetrics::of_run(records.iter().map(|record| &**record));
        if own.llm_calls == 0 {
            return Ok(in_force);
        }
        let limits = in_force.limits.as_deref().copied();
        let limits = limits.unwrap_or(spec.root.limits);
        let within = self.within_day(session, spec, limits, own.spent()).await?;
        if within != limits {
            in_force.limits = Some(Box::new(within));
        }
        Ok(in_force)
    }

    /// Returns what a run may use in total, given what it has used itself, within what its owner has left of the day's
    /// budget.
    pub(super) async fn within_day(
        &self,
        session: &SessionId,
        spec: &RunSpec,
        limits: Limits,
        own: Spent,
    ) -> Result<Limits, StoreError> {
        let policy = &self.parts.engine.policy;
        let plan = spec.plan.as_ref();
        let Some(plan) = plan.filter(|plan| policy.has_budget(plan, BudgetScope::Day)) else {
            return Ok(limits);
        };
        let owner = self.parts.store.session(session).await?.owner;
        let day = self.spent_today(owner).await?;
        Ok(policy.within_day(plan, limits, day, own))
    }

    fn plan_of<'a>(&'a self, request: &'a UserRequest) -> Option<&'a PlanName> {
        request.plan.as_ref().or(self.parts.plan.as_ref())
    }

    pub(super) fn new_session_for(&self, request: &UserRequest) -> Result<Session, StoreError> {
        self.created_session(request.session_id.clone(), request.context.owner())
    }

    /// Describes the run of a request.
    ///
    /// # Errors
    ///
    /// [`RequestError::TooLarge`], [`RequestError::ClientInput`] and [`RequestError::Attachment`].
    pub(crate) async fn spec_of(
        &self,
        request: &UserRequest,
        decision: Arc<Decision>,
    ) -> Result<Arc<RunSpec>, RequestError> {
        let run_id = RunId(self.parts.engine.ids.new_id());
        let mut spec = self.run_spec(run_id, request, decision).await?;
        let latest = request.join(&mut spec)?;
        let engine = &self.parts.engine;
        engine.fit(&mut spec, &latest, &request.user_text()).await?;
        Ok(Arc::new(spec))
    }

    /// Describes a run to which no message has been added yet.
    ///
    /// # Errors
    ///
    /// [`RequestError::Instructions`].
    pub(crate) async fn run_spec(
        &self,
        run_id: RunId,
        request: &UserRequest,
        decision: Arc<Decision>,
    ) -> Result<RunSpec, RequestError> {
        let engine = &self.parts.engine;
        let name = engine.policy.agent_of(&decision);
        let name = name.unwrap_or(&AgentName::MAIN_THREAD);
        let user_text = request.user_text();
        let context = InstructionContext {
            agent: name,
            session_id: Some(&request.session_id),
            mode: Some(&request.mode),
            channel: Some(&request.channel),
            message: Some(&*user_text).filter(|text| !text.is_empty()),
            request: &request.context,
            now: engine.clock.now(),
        };
        let catalog = engine.catalog();
        let offered = self.parts.decisions.tools(&catalog, &decision.tools);
        let mut agent = engine.policy.main_agent(&decision, offered.specs);
        let below = engine.roles_below(name);
        engine
            .learn_contexts_of(&agent, Some(&decision), &below)
            .await;
        if engine.policy.instructs_itself(&decision) {
            engine.instruct(&mut agent, &context)?;
        }
        let mut root = engine.completed(agent, Some(&decision));
        let specs = catalog.all_specs();
        let agents = engine.sub_agents(&root, specs, Some(&decision), &context)?;
        engine.fit_to_all(&mut root, &decision);
        let mut used = agents.values().flat_map(|agent| agent.tools.iter());
        let work_on_files = offered.work_on_files || used.any(works_on_files);
        let mut spec = RunSpec::new(run_id, [], root);
        spec.agents = agents;
        spec.session_id = Some(request.session_id.clone());
        spec.folder = engine.root.clone().filter(|_| work_on_files);
        spec.agent_limits = engine.agent_limits(decision.agent_limits);
        let own_answer = engine.answers.get(name);
        spec.decision = Some(Arc::clone(&decision));
        spec.root.compact_first = request.earlier == Earlier::SummedUp;
        spec.context = request.context.stored_values();
        spec.plan = self.plan_of(request).cloned();
        request.join_without_messages(&mut spec);
        if let Some(answer) = request.answer.as_ref().or(own_answer) {
            answer.require_of(&mut spec.root);
        }
        Ok(spec)
    }
}

/// Returns the start of the day in UTC: the same for all users, wherever the process runs.
fn start_of_day(now: Timestamp) -> Timestamp {
    let into = now.as_second().rem_euclid(86_400);
    let midnight = now.checked_sub(SignedDuration::from_secs(into));
    let midnight = midnight.unwrap_or(Timestamp::MIN).as_second();
    Timestamp::from_second(midnight).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_utc() {
        let start = |now: &str| start_of_day(now.parse().unwrap()).to_string();
        assert_eq!(start("2026-03-01T00:00:00Z"), "2026-03-01T00:00:00Z");
        assert_eq!(start("2026-03-01T23:59:59.999Z"), "2026-03-01T00:00:00Z");
        assert_eq!(start("1969-12-31T12:00:00.5Z"), "1969-12-31T00:00:00Z");
    }
}
