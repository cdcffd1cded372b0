//! The caller: identified once for each request, before any other check, and consulted by every handler.
//!
//! Without keys, all callers are equal, except one that presents the token that only the user of this machine can read.
//! With keys, a request belongs to its key's owner, who sees only the owner's data and may choose only what the key
//! allows. Every protocol passes its requests to [`Caller::apply`].

mod admit;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use neuraxis::core::log::RunView;
use neuraxis::core::{AgentName, RunId, Taint};
use neuraxis::ports::{RequestContext, RunSummary, Session, StoreError};
use neuraxis::{Channel, Mode, Orchestrator, Policy, SessionId, UserRequest};
use neuraxis_app::{Scope, ServerKey};
use serde_json::Value;

use crate::access;
use crate::keys::Key;
use crate::limits::ServerState;
use crate::problem::{
    AGENT_NOT_ALLOWED, CHANNEL_NOT_ALLOWED, INVALID_QUERY, Kind, MODE_NOT_ALLOWED, NO_SUCH_SESSION,
    Problem, SCOPE_NEEDED,
};
use crate::refusal::{internal, no_run};
use crate::request_id::RequestId;
use crate::token;
use crate::trace_parent;

pub(crate) use admit::{Admission, Admissions, Admitting, admit};

/// The maximum number of runs whose untrusted content is looked up for one request, the latest of those that it names.
/// The taint that a run started with is part of its own.
const MAX_ANSWERS: usize = 500;

/// How many of them are looked up at the same time.
const AT_ONCE: usize = 8;

/// The caller of a request.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// Any program on this machine, if there are no keys.
    Anyone,
    /// The user of this machine, who presented its token.
    Local,
    /// A client that presented a key.
    Key(Arc<Key>),
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get().cloned();
        caller.ok_or_else(|| internal(&"the caller was not identified"))
    }
}

impl Caller {
    /// Returns the key that was presented, if any.
    pub(crate) fn key(&self) -> Option<&ServerKey> {
        match self {
            Self::Anyone | Self::Local => None,
            Self::Key(key) => Some(&key.stored),
        }
    }

    /// Returns the caller's scopes.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let has = |scope: &Scope| match self {
            Self::Anyone => matches!(scope, Scope::Turns | Scope::Read),
            Self::Local => true,
            Self::Key(key) => {
                let scopes = &key.stored.scopes;
                scopes.contains(scope) || scopes.contains(&Scope::Admin)
            }
        };
        Scope::ALL.into_iter().filter(has).collect()
    }

    /// Refuses a caller that lacks a scope.
    pub(crate) fn check_scope(&self, scope: Scope) -> Result<(), Problem> {
        let scopes = self.scopes();
        if scopes.contains(&scope) {
            return Ok(());
        }
        let names: Vec<&str> = scopes.into_iter().map(Scope::as_str).collect();
        let detail = format!(
            "this request needs a key with the scope {scope}; this key has {}",
            names.join(", ")
        );
        Err(Problem::new(&SCOPE_NEEDED, detail).with("scope", scope.as_str()))
    }

    /// Refuses a caller that may not decide about waiting calls.
    pub(crate) fn check_may_decide(&self, state: &ServerState) -> Result<(), Problem> {
        match self {
            Self::Anyone => Err(token::needed(state.decisions())),
            Self::Local | Self::Key(_) => self.check_scope(Scope::Approve),
        }
    }

    /// Returns the owner of sessions that the caller creates; none without keys.
    fn owner(&self) -> Option<&str> {
        self.key().map(|key| key.owner.as_str())
    }

    /// Returns the name of the caller as records state it, or `None` if it is unknown.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Anyone => None,
            Self::Local => Some("the local user, over HTTP".to_owned()),
            Self::Key(key) => {
                let (owner, id) = (&key.stored.owner, &key.stored.id);
                Some(format!("{owner}, over HTTP with key {id}"))
            }
        }
    }

    /// Returns whether a run's session belongs to another owner than the caller.
    pub(crate) fn is_foreign(&self, run: &RunSummary) -> bool {
        self.other_owner(run.owner.as_deref()).is_some()
    }

    /// Returns the owner if it is not the caller.
    fn other_owner<'a>(&self, owner: Option<&'a str>) -> Option<&'a str> {
        owner.filter(|owner| self.owner() != Some(*owner))
    }

    /// Refuses a message to a run in a session in which the caller may not take turns: it would be recorded as its
    /// owner's.
    pub(crate) fn check_may_message(
        &self,
        state: &ServerState,
        run: &RunSummary,
    ) -> Result<(), Problem> {
        let is_anyones = self.key().is_none() && !state.keys().are_needed();
        if is_anyones || !self.is_foreign(run) {
            return Ok(());
        }
        let session = run.session.as_str();
        let detail = format!(
            "the session {session} belongs to another owner; only its owner can add messages to it"
        );
        Err(Problem::new(&NO_SUCH_SESSION, detail).with("session_id", session))
    }

    /// Returns the only owner whose sessions the caller sees, or `None` if it sees all.
    fn visible_owner(&self) -> Option<&str> {
        let is_admin = |key: &&ServerKey| key.scopes.contains(&Scope::Admin);
        let key = self.key().filter(|key| !is_admin(key))?;
        Some(&key.owner)
    }

    /// Returns the context for what the caller creates.
    pub(crate) fn creation_context(&self) -> RequestContext {
        RequestContext::default().owned_by(self.owner().map(str::to_owned))
    }

    /// Returns the context for what the caller does with existing data.
    pub(crate) fn access_context(&self) -> RequestContext {
        RequestContext::default().owned_by(self.list_owner())
    }

    /// Returns the context of a run that the caller resumes. It holds a permit, which is never refused here, until the
    /// run ends or is suspended again.
    pub(crate) async fn resume_context(
        &self,
        state: &ServerState,
        session: &SessionId,
    ) -> Result<RequestContext, Problem> {
        let session = self.session(state.orchestrator(), session).await?;
        Ok(self
            .access_context()
            .with(state.take_permit_regardless(session.owner.as_deref())))
    }

    /// Returns the owner to whom the caller's lists are restricted, or `None` if they are not.
    pub(crate) fn list_owner(&self) -> Option<String> {
        self.visible_owner().map(str::to_owned)
    }

    /// Returns the owner to whom a list is restricted, given the owner that a client names. Returns `None` if it is not
    /// restricted.
    pub(crate) fn list_owner_for(&self, owner: Option<String>) -> Result<Option<String>, Problem> {
        let Some(owner) = owner else {
            return Ok(self.list_owner());
        };
        // Not every store supports a search for this character.
        if owner.contains('\0') {
            let detail = "owner must not contain the character U+0000, because no owner does";
            return Err(Problem::new(&INVALID_QUERY, detail));
        }
        if self.visible_owner().is_some_and(|own| own != owner) {
            let detail = "owner: without the scope admin, a key sees only its own owner's data";
            return Err(Problem::new(&INVALID_QUERY, detail));
        }
        Ok(Some(owner))
    }

    /// Returns a session. A session that the caller may not see is treated as missing.
    pub(crate) async fn session(
        &self,
        orchestrator: &Orchestrator,
        id: &SessionId,
    ) -> Result<Session, Problem> {
        let session = orchestrator.sessions().get(id).await?;
        access::record_owner(self.other_owner(session.owner.as_deref()));
        match self.visible_owner() {
            Some(owner) if session.owner.as_deref() != Some(owner) => {
                Err(StoreError::NoSuchSession(id.clone()).into())
            }
            _ => Ok(session),
        }
    }

    /// Returns a run. A run that the caller may not see is treated as missing.
    pub(crate) async fn run(
        &self,
        orchestrator: &Orchestrator,
        id: RunId,
    ) -> Result<RunSummary, Problem> {
        let run = self.find_run(orchestrator, id).await?;
        run.ok_or_else(|| no_run(id))
    }

    /// Returns a run, or `None` if no run with this id is visible to the caller.
    pub(crate) async fn find_run(
        &self,
        orchestrator: &Orchestrator,
        id: RunId,
    ) -> Result<Option<RunSummary>, Problem> {
        let run = match orchestrator.sessions().run(id).await {
            Ok(run) => run,
            Err(StoreError::NoSuchRun(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        access::record_owner(self.other_owner(run.owner.as_deref()));
        let seen = self.visible_owner();
        let is_seen = seen.is_none_or(|owner| run.owner.as_deref() == Some(owner));
        Ok(is_seen.then_some(run))
    }

    /// Returns the taint of the runs whose answers a client sends back, as far as the caller may see them.
    pub(crate) async fn taint_of(
        &self,
        orchestrator: &Orchestrator,
        runs: &BTreeSet<RunId>,
    ) -> Result<Taint, Problem> {
        let runs = runs.iter().rev().take(MAX_ANSWERS).copied();
        // Concurrently: a long conversation would otherwise wait for each run in turn.
        let found = stream::iter(runs.map(|run| self.find_run(orchestrator, run)));
        let mut found = found.buffer_unordered(AT_ONCE);
        let mut taint = Taint::default();
        while let Some(run) = found.try_next().await? {
            taint.merge(&run.map(|run| run.log.taint).unwrap_or_default());
        }
        Ok(taint)
    }

    /// Assigns a request to the caller, and refuses a mode, channel or agent that the caller may not choose. Every way
    /// of taking a turn goes through this.
    pub(crate) fn apply(
        &self,
        state: &ServerState,
        mut request: UserRequest,
    ) -> Result<UserRequest, Problem> {
        state.check(&request.channel, &request.mode)?;
        request.trace = request.trace.or_else(trace_parent::current);
        if let Some(id) = RequestId::current() {
            request = request.request_id(id.as_str());
        }
        let Some(key) = self.key() else {
            // With keys, sessions can have owners. A caller without a key owns none of those, so it takes no turns in
            // them.
            if state.keys().are_needed() {
                request.context = std::mem::take(&mut request.context).unowned();
            }
            return Ok(request);
        };
        let policy = state.orchestrator().policy();
        let modes = self.modes(state);
        if policy.modes().any(|known| *known == request.mode) && !modes.contains(&request.mode) {
            return Err(not_allowed(
                &MODE_NOT_ALLOWED,
                "mode",
                request.mode.as_str(),
                modes.iter().map(Mode::as_str),
            ));
        }
        let channels = self.channels(state);
        let channel = &request.channel;
        let named = key.channels.as_ref();
        // For an unknown channel, it is unknown which agent would answer.
        let names_no_agent = key.agents.is_some() && request.agent.is_none();
        let is_unclear = names_no_agent && !policy.channels().any(|known| known == channel);
        if is_unclear || named.is_some_and(|named| !named.contains(channel)) {
            return Err(not_allowed(
                &CHANNEL_NOT_ALLOWED,
                "channel",
                channel.as_str(),
                channels.iter().map(Channel::as_str),
            ));
        }
        let agent = request.agent.clone();
        let agent = agent.unwrap_or_else(|| agent_of(policy, channel));
        let agents = key.agents.as_ref();
        if let Some(agents) = agents.filter(|agents| !agents.contains(&agent)) {
            return Err(not_allowed(
                &AGENT_NOT_ALLOWED,
                "agent",
                agent.as_str(),
                agents.iter().map(AgentName::as_str),
            ));
        }
        let mut request = request.owner(&key.owner);
        request.plan = key.plan.clone().or(request.plan);
        Ok(request)
    }

    /// Refuses a contribution to a run that the caller could not have started: its content would be acted on in a mode,
    /// in a channel or by an agent that the key does not allow.
    pub(crate) async fn check_may_join(
        &self,
        state: &ServerState,
        run: RunId,
    ) -> Result<(), Problem> {
        let is_narrow = |key: &ServerKey| {
            key.modes.is_some()
                || key.max_mode.is_some()
                || key.channels.is_some()
                || key.agents.is_some()
        };
        if !self.key().is_some_and(is_narrow) {
            return Ok(());
        }
        let records = state.orchestrator().sessions().records(run).await?;
        let view = RunView::of(&records);
        let (Some(session), Some(decision)) = (view.session(), view.decision()) else {
            let detail = "the run's records do not state its mode";
            return Err(Problem::new(&MODE_NOT_ALLOWED, detail));
        };
        let mut request = UserRequest::new(session.clone(), "");
        request.mode = decision.mode.clone();
        request.channel = decision.channel.clone();
        request.agent.clone_from(&decision.agent);
        self.apply(state, request).map(drop)
    }

    /// Returns the modes that the caller may choose.
    pub(crate) fn modes(&self, state: &ServerState) -> Vec<Mode> {
        let mut modes = state.modes().to_vec();
        let Some(key) = self.key() else {
            return modes;
        };
        if let Some(named) = &key.modes {
            modes.retain(|mode| named.contains(mode));
        }
        if let Some(most) = &key.max_mode {
            let policy = state.orchestrator().policy();
            let up_to = policy.modes_no_freer_than(most);
            modes.retain(|mode| up_to.contains(mode));
        }
        modes
    }

    /// Returns the channel and the mode of a request: those that it names, or else the defaults among those that the
    /// caller may choose.
    pub(crate) fn channel_and_mode(
        &self,
        state: &ServerState,
        channel: Option<Channel>,
        mode: Option<Mode>,
    ) -> (Channel, Mode) {
        let channel = channel.unwrap_or_else(|| self.usual_channel(state));
        let mode = mode.unwrap_or_else(|| self.usual_mode(state, &channel));
        (channel, mode)
    }

    /// Returns the only channel that the caller may use, if there is exactly one, because few clients can name it.
    /// Otherwise returns `chat`.
    fn usual_channel(&self, state: &ServerState) -> Channel {
        match self.channels(state).as_slice() {
            [only] => only.clone(),
            // If this is refused, the error lists the channels.
            _ => Channel::CHAT,
        }
    }

    fn usual_mode(&self, state: &ServerState, channel: &Channel) -> Mode {
        let mut usable = self.modes(state);
        usable.retain(|mode| state.allows(channel, mode));
        let usual = state.orchestrator().policy().usual_mode(&usable);
        // If this is refused, the error lists the modes.
        usual.unwrap_or(Mode::MODERATE)
    }

    /// Returns the channels that the caller may use.
    pub(crate) fn channels(&self, state: &ServerState) -> Vec<Channel> {
        let policy = state.orchestrator().policy();
        let named = self.key().and_then(|key| key.channels.as_ref());
        let is_named = |channel: &&Channel| named.is_none_or(|named| named.contains(channel));
        policy.channels().filter(is_named).cloned().collect()
    }

    /// Returns the agents that may answer the caller.
    pub(crate) fn agents(&self, state: &ServerState) -> Vec<AgentName> {
        let policy = state.orchestrator().policy();
        let named = self.key().and_then(|key| key.agents.as_ref());
        let is_named = |agent: &&AgentName| named.is_none_or(|named| named.contains(agent));
        policy.agents().filter(is_named).cloned().collect()
    }

    /// Returns whether the caller may ask without naming an agent: on some channel, an agent that it may use answers.
    pub(crate) fn may_ask(&self, state: &ServerState) -> bool {
        let policy = state.orchestrator().policy();
        let Some(agents) = self.key().and_then(|key| key.agents.as_ref()) else {
            return true;
        };
        let channels = self.channels(state);
        let mut answering = channels.iter().map(|channel| agent_of(policy, channel));
        answering.any(|agent| agents.contains(&agent))
    }
}

/// Returns the agent of a request that names none: its channel's.
fn agent_of(policy: &Policy, channel: &Channel) -> AgentName {
    let rules = policy.config().channels.get(channel);
    let agent = rules.and_then(|rules| rules.agent.clone());
    agent.unwrap_or(AgentName::MAIN_THREAD)
}

fn not_allowed<'a>(
    kind: &'static Kind,
    field: &'static str,
    value: &str,
    allowed: impl Iterator<Item = &'a str>,
) -> Problem {
    let names: Vec<&str> = allowed.collect();
    let detail = match names.is_empty() {
        true => format!("this key cannot use any {field}"),
        false => format!(
            "this key cannot use {field} {value}; allowed: {}",
            names.join(", ")
        ),
    };
    let allowed: Vec<Value> = names.into_iter().map(Value::from).collect();
    Problem::new(kind, detail)
        .with("field", field)
        .with("allowed", allowed)
}
