//! What clients may use, and how much of it at the same time. This applies to all clients; a key can restrict it
//! further.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::FromRef;
use neuraxis::mcp_server::McpServer;
use neuraxis::{Channel, Mode, Orchestrator};
use neuraxis_app::ServerConfig;
use serde_json::Value;

use crate::agui::Followers;
use crate::caller::Caller;
use crate::events::Streams;
use crate::guard::is_named;
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::permits::{HeldPermit, OwnerPermit, PermitPool, StartPermit};
use crate::problem::{MODE_NOT_ALLOWED, Problem};
use crate::token::DecisionToken;

/// What the clients of a server may use.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientLimits {
    /// The modes that clients may choose. By default, the policy's modes that are no freer than `moderate`.
    pub modes: Option<Vec<Mode>>,
    /// The maximum number of turns in progress at the same time; further ones are refused.
    pub max_runs: NonZeroU32,
    /// The maximum number of turns in progress at the same time per owner of keys, if the key sets none. Unlimited by
    /// default.
    pub max_runs_per_owner: Option<NonZeroU32>,
    /// The token that a decision about a call must present. Without it, no decision is possible over HTTP.
    pub decisions: Option<DecisionToken>,
    /// The keys of clients. Without keys, the server treats all clients alike.
    pub keys: Keys,
    /// Whether requests with keys may name any host: for an address that other machines can reach, or behind a proxy.
    /// The default is `false`.
    pub any_host: bool,
    /// Additional origins of pages whose requests are accepted with keys, such as `https://chat.example.com`. Pages of
    /// the host that a request names are accepted anyway. None by default.
    pub origins: Vec<String>,
    /// The permits of these runs, if other code than requests also takes some. By default, the server creates its own.
    pub(crate) permits: Option<PermitPool>,
}

impl ClientLimits {
    /// The default of [`max_runs`](Self::max_runs): two cores can hold a thousand streams, but not two thousand.
    pub const MAX_RUNS: NonZeroU32 = ServerConfig::MAX_RUNS;
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            modes: None,
            max_runs: Self::MAX_RUNS,
            max_runs_per_owner: None,
            decisions: None,
            keys: Keys::default(),
            any_host: false,
            origins: Vec::new(),
            permits: None,
        }
    }
}

/// The engine, and the remaining capacity within its limits.
#[derive(Debug, Clone)]
pub(crate) struct ServerState {
    orchestrator: Orchestrator,
    modes: Arc<[Mode]>,
    permits: PermitPool,
    max_runs_per_owner: Option<NonZeroU32>,
    decisions: Option<DecisionToken>,
    keys: Keys,
    any_host: bool,
    origins: Arc<[String]>,
    metrics: Metrics,
    streams: Streams,
    followers: Followers,
}

impl FromRef<ServerState> for Orchestrator {
    fn from_ref(state: &ServerState) -> Self {
        state.orchestrator.clone()
    }
}

impl FromRef<ServerState> for Metrics {
    fn from_ref(state: &ServerState) -> Self {
        state.metrics.clone()
    }
}

impl FromRef<ServerState> for Streams {
    fn from_ref(state: &ServerState) -> Self {
        state.streams.clone()
    }
}

impl ServerState {
    pub(crate) fn new(orchestrator: Orchestrator, limits: &ClientLimits, metrics: Metrics) -> Self {
        metrics.allow_runs(limits.max_runs.get());
        Self {
            modes: modes_of(&orchestrator, limits),
            permits: limits
                .permits
                .clone()
                .unwrap_or_else(|| PermitPool::new(limits.max_runs)),
            max_runs_per_owner: limits.max_runs_per_owner,
            decisions: limits.decisions,
            keys: limits.keys.clone(),
            any_host: limits.any_host,
            origins: limits.origins.clone().into(),
            streams: Streams::new(metrics.clone()),
            followers: Followers::default(),
            metrics,
            orchestrator,
        }
    }

    /// Returns the state for another engine, with the given limits. All engines share the permits, streams and
    /// followers.
    pub(crate) fn with(&self, orchestrator: Orchestrator, limits: &ClientLimits) -> Self {
        Self {
            modes: modes_of(&orchestrator, limits),
            max_runs_per_owner: limits.max_runs_per_owner,
            decisions: limits.decisions,
            any_host: limits.any_host,
            origins: limits.origins.clone().into(),
            orchestrator,
            ..self.clone()
        }
    }

    /// Returns whether a channel may be used in a mode.
    pub(crate) fn allows(&self, channel: &Channel, mode: &Mode) -> bool {
        let rules = self.orchestrator.policy().config().channels.get(channel);
        let allowed_modes = rules.and_then(|rules| rules.allowed_modes.as_ref());
        allowed_modes.is_none_or(|allowed| allowed.contains(mode))
    }

    /// Refuses a mode that clients may not use, or may not use on the channel. The modes named in the error are usable
    /// there. An unknown mode is left to the policy, whose error lists the known ones.
    pub(crate) fn check(&self, channel: &Channel, mode: &Mode) -> Result<(), Problem> {
        let policy = self.orchestrator.policy();
        let is_allowed = |mode: &&Mode| self.allows(channel, mode);
        let usable: Vec<&Mode> = self.modes.iter().filter(is_allowed).collect();
        if usable.contains(&mode) || !policy.modes().any(|known| known == mode) {
            return Ok(());
        }
        let names: Vec<&str> = usable.into_iter().map(Mode::as_str).collect();
        let listed = names.join(", ");
        let (field, detail) = if names.is_empty() {
            let detail = format!(
                "channel {channel} works only in modes that clients of this server may not use; [server] modes sets \
                 them"
            );
            ("channel", detail)
        } else if is_allowed(&mode) {
            let detail =
                format!("clients of this server cannot use mode {mode}; allowed: {listed}");
            ("mode", detail)
        } else {
            let detail =
                format!("channel {channel} cannot be used in mode {mode}; allowed: {listed}");
            ("mode", detail)
        };
        let allowed: Vec<Value> = names.into_iter().map(Value::from).collect();
        Err(Problem::new(&MODE_NOT_ALLOWED, detail)
            .with("field", field)
            .with("allowed", allowed))
    }

    pub(crate) const fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// Returns the token that a decision about a call must present.
    pub(crate) const fn decisions(&self) -> Option<DecisionToken> {
        self.decisions
    }

    /// Returns the clients that follow runs over AG-UI.
    pub(crate) const fn followers(&self) -> &Followers {
        &self.followers
    }

    /// Returns the keys of clients.
    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns whether requests may name any host: with a key, a forged host name does no harm.
    pub(crate) fn accepts_any_host(&self) -> bool {
        self.any_host && self.keys.are_needed()
    }

    /// Returns the origins whose pages are accepted in addition to the server's own.
    pub(crate) fn origins(&self) -> &[String] {
        match self.keys.are_needed() {
            true => &self.origins,
            false => &[],
        }
    }

    /// Returns whether such origins are configured, whether or not there are keys yet.
    pub(crate) fn has_configured_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Returns whether a request names one of these origins, whether or not there are keys yet.
    pub(crate) fn is_configured_origin(&self, origins: &[&[u8]]) -> bool {
        let [origin] = origins else {
            return false;
        };
        self.origins.iter().any(|ours| is_named(ours, origin))
    }

    /// Returns the modes that clients may use, the strictest first.
    pub(crate) fn modes(&self) -> &[Mode] {
        &self.modes
    }

    /// Returns a server that offers the engine to MCP clients within the same limits.
    pub(crate) fn for_mcp(&self) -> McpServer {
        McpServer::new(self.orchestrator.clone())
            .modes(self.modes.iter().cloned())
            .run_permits(self.permits.all())
    }

    /// Takes a permit for a run of a caller.
    pub(crate) fn take_permit(&self, caller: &Caller) -> Result<StartPermit, Problem> {
        self.permits.take(self.owner_limit(caller))
    }

    /// Takes a permit for an owner's run that resumes, even if none is free.
    pub(crate) fn take_permit_regardless(&self, owner: Option<&str>) -> HeldPermit {
        self.permits.take_regardless(owner)
    }

    /// Takes one of an owner's permits for a run that resumes, even if none is free.
    pub(crate) fn take_owner_permit_regardless(&self, owner: &str) -> OwnerPermit {
        self.permits.take_for_owner_regardless(owner)
    }

    /// Takes one of the permits of the caller's owner, if their number is limited.
    pub(crate) fn take_owner_permit(
        &self,
        caller: &Caller,
    ) -> Result<Option<OwnerPermit>, Problem> {
        let limit = self.owner_limit(caller);
        let permit = limit.map(|(owner, most)| self.permits.take_for_owner(owner, most));
        permit.transpose()
    }

    /// Returns the owner whose turns are counted for a caller, and the maximum number in progress at the same time.
    fn owner_limit<'a>(&self, caller: &'a Caller) -> Option<(&'a str, NonZeroU32)> {
        let key = caller.key()?;
        let most = key.max_runs.or(self.max_runs_per_owner)?;
        Some((&key.owner, most))
    }
}

fn modes_of(orchestrator: &Orchestrator, limits: &ClientLimits) -> Arc<[Mode]> {
    let policy = orchestrator.policy();
    match &limits.modes {
        Some(listed) => policy.modes_among(listed).into(),
        None => policy.modes_no_freer_than(&Mode::MODERATE).into(),
    }
}
