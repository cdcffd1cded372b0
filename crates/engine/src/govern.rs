//! Asks governance about a request, and finds out for it what it needs to know: no more than matters to the policy.

use std::sync::Arc;

use neuraxis_brainstem::{Request, Spent};
use neuraxis_core::jiff::{SignedDuration, Timestamp};
use neuraxis_core::{BudgetScope, Decision, PlanName, SessionId, SessionMetrics};
use neuraxis_ports::{Session, SessionStore, StoreError, UsageOf};

use crate::request::{RequestError, UserRequest};
use crate::runs::Runs;

/// What is known of a request beside what it says itself.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// How many messages its conversation has, where that matters.
    history: Option<usize>,
    /// What the runs of its session used, where that matters.
    session: Spent,
    /// What the runs of its owner used today, where that matters.
    day: Spent,
}

impl Runs {
    /// Decides what a request may do, without doing it. What its conversation holds and what was used before is left out.
    ///
    /// # Errors
    ///
    /// [`RequestError::Policy`] if policy refuses it.
    pub(crate) fn decide(&self, request: &UserRequest) -> Result<Decision, RequestError> {
        self.decide_knowing(request, Known::default())
    }

    /// Decides about a request, and makes its session if there is none.
    pub(crate) async fn govern(
        &self,
        store: &dyn SessionStore,
        request: &UserRequest,
    ) -> Result<Arc<Decision>, RequestError> {
        let session = match store.session(&request.session_id).await {
            Ok(session) => Some(session),
            Err(StoreError::NoSuchSession(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let decision = self.decision(store, request, session.as_ref()).await?;
        if session.is_none() {
            self.create_session(store, &request.session_id).await?;
        }
        Ok(decision)
    }

    /// Decides about a request; about those that get the same decision whatever they say, once.
    async fn decision(
        &self,
        store: &dyn SessionStore,
        request: &UserRequest,
        session: Option<&Session>,
    ) -> Result<Arc<Decision>, RequestError> {
        let plan = self.plan_of(request);
        if self
            .parts
            .engine
            .policy
            .decides_alike(&request.channel, plan)
        {
            let decide = || self.decide_knowing(request, Known::default());
            return self.parts.engine.decisions.of(request, plan, decide);
        }
        let known = self.known(store, request, session).await?;
        Ok(Arc::new(self.decide_knowing(request, known)?))
    }

    fn decide_knowing(
        &self,
        request: &UserRequest,
        known: Known,
    ) -> Result<Decision, RequestError> {
        let engine = &self.parts.engine;
        let mut asked = Request::new(&request.mode, &request.channel, &request.message)
            .with_tools(engine.catalog.all_specs())
            .with_spent(known.session, known.day)
            .with_roles(&engine.roles);
        if let Some(plan) = self.plan_of(request) {
            asked = asked.with_plan(plan);
        }
        if let Some(messages) = known.history {
            asked = asked.with_history(messages);
        }
        Ok(engine.policy.evaluate_request(&asked)?)
    }

    /// Decides about a request as if it had no plan: one that was made before had that of its user.
    pub(crate) fn decide_without_plan(
        &self,
        request: &UserRequest,
    ) -> Result<Decision, RequestError> {
        let engine = &self.parts.engine;
        let asked = Request::new(&request.mode, &request.channel, &request.message)
            .with_tools(engine.catalog.all_specs())
            .with_roles(&engine.roles);
        Ok(engine.policy.evaluate_request(&asked)?)
    }

    /// Finds out what matters to the policy. Nothing is asked of the store that does not.
    async fn known(
        &self,
        store: &dyn SessionStore,
        request: &UserRequest,
        session: Option<&Session>,
    ) -> Result<Known, StoreError> {
        let policy = &self.parts.engine.policy;
        let mut known = Known::default();
        if policy.may_ask_back(&request.channel, &request.message) {
            known.history = Some(match session {
                Some(session) => store.history(&session.id).await?.len(),
                None => 0,
            });
        }
        let Some(plan) = self.plan_of(request) else {
            return Ok(known);
        };
        if let Some(session) = session
            && policy.counts(plan, BudgetScope::Session)
        {
            let metrics = store.metrics(&session.id).await?;
            known.session = spent(&metrics);
        }
        if policy.counts(plan, BudgetScope::Day) {
            let of = UsageOf::Owner(session.and_then(|session| session.owner.clone()));
            let today = start_of_day(self.parts.engine.clock.now());
            known.day = spent(&store.usage_since(&of, today).await?);
        }
        Ok(known)
    }

    fn plan_of<'a>(&'a self, request: &'a UserRequest) -> Option<&'a PlanName> {
        request.plan.as_ref().or(self.parts.engine.plan.as_ref())
    }

    async fn create_session(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<(), StoreError> {
        let session = Session::new(id.clone(), self.parts.engine.clock.now());
        match store.create_session(&session).await {
            // Somebody else was quicker.
            Err(StoreError::SessionExists(_)) => Ok(()),
            other => other,
        }
    }
}

fn spent(metrics: &SessionMetrics) -> Spent {
    let usage = &metrics.usage.total;
    let parts = usage.prompt.tokens.saturating_add(usage.completion.tokens);
    Spent {
        tokens: usage.total.tokens.max(parts),
        cost: metrics.cost,
        time: metrics.worked,
        tool_calls: u32::try_from(metrics.tool_calls).unwrap_or(u32::MAX),
    }
}

/// Returns when the day began, by the time of Greenwich: the same for everybody, wherever the process runs.
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
    fn a_day_begins_at_midnight_of_greenwich() {
        let start = |now: &str| start_of_day(now.parse().unwrap()).to_string();
        assert_eq!(start("2026-03-01T00:00:00Z"), "2026-03-01T00:00:00Z");
        assert_eq!(start("2026-03-01T23:59:59.999Z"), "2026-03-01T00:00:00Z");
        assert_eq!(start("1969-12-31T12:00:00.5Z"), "1969-12-31T00:00:00Z");
    }
}
