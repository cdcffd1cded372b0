//! One key: whose it is, what it allows, until when, and how it is known again.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::str::FromStr;

use neuraxis_brainstem::Policy;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{AgentName, Channel, ContentHash, Mode, PlanName};
use serde::{Deserialize, Serialize};

/// How many random bytes an id has. It is no secret.
const ID_BYTES: usize = 6;

/// How many random bytes the secret part of a key has.
const SECRET_BYTES: usize = 32;

/// What a key lets its holder do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Make sessions, take turns, steer and end runs, and delete sessions.
    Turns,
    /// See sessions, runs and what there is to be used.
    Read,
    /// Decide about calls that wait for a person.
    Approve,
    /// Read the server's figures, which tell what all owners do.
    Metrics,
    /// All of that, for the sessions of all owners.
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

/// A text that names no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a scope; the scopes are turns, read, approve, metrics and admin")]
#[non_exhaustive]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let mut all = Self::ALL.into_iter();
        all.find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}

/// A key as the file holds it: whose it is, what it allows, and the hash by which it is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerKey {
    /// What people call the key by: 12 hexadecimal digits, no secret.
    pub id: String,
    /// The SHA-256 of the whole key.
    pub hash: ContentHash,
    /// Whose sessions it makes and sees.
    pub owner: String,
    /// What it is for, in somebody's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it lets its holder do.
    pub scopes: BTreeSet<Scope>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused; never if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The freest mode it may choose; the server's own limit holds besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mode: Option<Mode>,
    /// The modes it may choose; all of the server's if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<Mode>>,
    /// The channels it may use; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<Channel>>,
    /// The agents that may answer it, those of channels included; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentName>>,
    /// The plan that limits its requests, in place of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanName>,
    /// How many requests a minute each server takes with it; any number if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// How many turns of its owner each server has at work at a time when one comes with it, in place of the server's own
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<NonZeroU32>,
}

impl ServerKey {
    /// Makes a key of an owner, and the text that its holder shows: `nxk_ID_SECRET`. The text is nowhere else.
    ///
    /// # Errors
    ///
    /// When the system gives no randomness.
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

    /// Returns why the key is refused at a time; `None` if it is taken.
    #[must_use]
    pub fn refused_at(&self, now: Timestamp) -> Option<&'static str> {
        if self.revoked_at.is_some() {
            return Some("revoked");
        }
        let is_over = self.expires_at.is_some_and(|at| at <= now);
        is_over.then_some("expired")
    }

    /// Returns the plan that it has, if the policy has none of that name: all that is asked with it is refused then.
    #[must_use]
    pub fn missing_plan(&self, policy: &Policy) -> Option<&PlanName> {
        let plan = self.plan.as_ref()?;
        let is_known = policy.plans().any(|known| known == plan);
        (!is_known).then_some(plan)
    }
}
