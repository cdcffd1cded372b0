//! One key: its owner, what it allows, its expiry, and how it is recognized.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::str::FromStr;

use neuraxis_brainstem::Policy;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{AgentName, Channel, ContentHash, Mode, PlanName};
use serde::{Deserialize, Serialize};

/// The number of random bytes of an id, which is not secret.
const ID_BYTES: usize = 6;

/// The number of random bytes of the secret part of a key.
const SECRET_BYTES: usize = 32;

/// What a key allows its holder to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Create and delete sessions, take turns, and steer and end runs.
    Turns,
    /// View sessions, runs, and what is available for use.
    Read,
    /// Decide about calls that wait for approval.
    Approve,
    /// Read the server's metrics, which cover the activity of all owners.
    Metrics,
    /// All of the above, for the sessions of all owners.
    Admin,
}

impl Scope {
    /// All scopes, the least first.
    pub const ALL: [Self; 5] = [
        Self::Turns,
        Self::Read,
        Self::Approve,
        Self::Metrics,
        Self::Admin,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Read => "read",
            Self::Approve => "approve",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A string that is not the name of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope; the scopes are turns, read, approve, metrics and admin")]
#[non_exhaustive]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let mut all = Self::ALL.into_iter();
        all.find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}

/// A key as the file contains it: its owner, what it allows, and the hash that identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerKey {
    /// The public id of the key: 12 hexadecimal digits, not secret.
    pub id: String,
    /// The SHA-256 of the whole key.
    pub hash: ContentHash,
    /// The owner of the sessions that it creates and sees.
    pub owner: String,
    /// Its purpose, as free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it allows its holder to do.
    pub scopes: BTreeSet<Scope>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The time from which it is refused; never if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The freest mode it may choose; the server's own limit also applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mode: Option<Mode>,
    /// The modes it may choose; `None` for all of the server's modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<Mode>>,
    /// The channels it may use; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<Channel>>,
    /// The agents that may answer it, including those of channels; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentName>>,
    /// The plan that limits its requests, instead of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanName>,
    /// The maximum number of requests per minute that each server accepts with it; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// The maximum number of turns of its owner that each server runs at a time when one arrives with this key, instead
    /// of the server's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<NonZeroU32>,
}

impl ServerKey {
    /// Creates a key for an owner, and the text that its holder presents: `nxk_ID_SECRET`. The text is stored nowhere.
    ///
    /// # Errors
    ///
    /// If the system provides no random bytes.
    pub fn make(
        owner: impl Into<String>,
        scopes: impl IntoIterator<Item = Scope>,
        now: Timestamp,
    ) -> io::Result<(Self, String)> {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        let (id, secret) = bytes.split_at(ID_BYTES);
        let id = hex::encode(id);
        let text = format!("nxk_{id}_{}", hex::encode(secret));
        let key = Self {
            id,
            hash: ContentHash::of(text.as_bytes()),
            owner: owner.into(),
            name: None,
            scopes: scopes.into_iter().collect(),
            created_at: now,
            expires_at: None,
            revoked_at: None,
            max_mode: None,
            modes: None,
            channels: None,
            agents: None,
            plan: None,
            requests_per_minute: None,
            max_runs: None,
        };
        Ok((key, text))
    }

    /// Returns why the key is refused at a time; `None` if it is accepted.
    #[must_use]
    pub fn refused_at(&self, now: Timestamp) -> Option<&'static str> {
        if self.revoked_at.is_some() {
            return Some("revoked");
        }
        let is_over = self.expires_at.is_some_and(|at| at <= now);
        is_over.then_some("expired")
    }

    /// Returns the plan of the key if the policy has no plan of that name. All requests with the key are then refused.
    #[must_use]
    pub fn missing_plan(&self, policy: &Policy) -> Option<&PlanName> {
        let plan = self.plan.as_ref()?;
        let is_known = policy.plans().any(|known| known == plan);
        (!is_known).then_some(plan)
    }
}
