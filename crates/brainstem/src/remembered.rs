//! "Allow for this session": answers of people that are remembered, listed and taken back.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{ContentHash, Decision, Remember, ToolName, Verdict};
use serde::{Deserialize, Serialize};

use crate::config::Answer;
use crate::policy::Policy;
use crate::request::Call;
use crate::rules::{CommandPattern, Facts, HostPattern, Led, Part, path_glob};

/// The most answers that one session remembers.
const MAX_GRANTS: usize = 256;

/// The answers of people that a session remembers. Plain data, to be stored with the session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    grants: Vec<Grant>,
    last_id: u32,
}

/// A remembered "allow".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its number in the session, for taking it back.
    pub id: u32,
    /// The tool.
    pub tool: ToolName,
    /// Which of its calls.
    #[serde(flatten)]
    pub scope: GrantScope,
    /// When it was given.
    pub at: Timestamp,
    /// Who gave it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The policy under which it was given: under another one it does not count.
    pub policy_hash: ContentHash,
}

/// Which calls of a tool a remembered answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
#[non_exhaustive]
pub enum GrantScope {
    /// Those with the very same arguments.
    Arguments {
        /// Their hash.
        hash: ContentHash,
    },
    /// Those of which every part of the command fits a pattern, or is allowed anyway.
    Command {
        /// The pattern, such as `git log **`.
        pattern: String,
    },
    /// Those whose URLs all lead to some hosts.
    Host {
        /// The pattern.
        pattern: String,
    },
    /// Those whose paths all are beneath the root and fit a pattern.
    Path {
        /// The pattern.
        pattern: String,
    },
    /// All of them.
    Tool,
}

/// Why an answer is not remembered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The call does not ask, so that there is nothing to remember.
    #[error("the call does not ask a person")]
    NotAsked,
    /// The policy does not let this much be remembered.
    #[error("the policy does not let this answer be remembered so far")]
    NotAllowed,
    /// The scope does not cover the call that was asked about.
    #[error("the answer is not about the call that was asked about")]
    OtherCall,
    /// Too many answers are remembered.
    #[error("{MAX_GRANTS} answers are remembered already; take some back")]
    TooMany,
}

impl Remembered {
    /// Returns all answers, in the order in which they were given.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Takes an answer back; tells whether there was one.
    pub fn revoke(&mut self, id: u32) -> bool {
        let before = self.grants.len();
        self.grants.retain(|grant| grant.id != id);
        self.grants.len() < before
    }

    /// Takes all answers back.
    pub fn clear(&mut self) {
        self.grants.clear();
    }
}

impl Policy {
    /// Remembers that a person allowed `call` and everything like it, as far as the policy lets that be remembered.
    /// Returns the number of the answer.
    ///
    /// # Errors
    ///
    /// A [`GrantError`] if the call does not ask, the policy does not let so much be remembered, `scope` does not cover the
    /// call itself, or there are too many.
    pub fn remember(
        &self,
        remembered: &mut Remembered,
        decision: &Decision,
        call: &Call<'_>,
        scope: GrantScope,
        at: Timestamp,
        by: Option<String>,
    ) -> Result<u32, GrantError> {
        let Verdict::Ask { remember, .. } = self.judge(decision, call) else {
            return Err(GrantError::NotAsked);
        };
        if scope.needs() > remember {
            return Err(GrantError::NotAllowed);
        }
        if remembered.grants.len() >= MAX_GRANTS {
            return Err(GrantError::TooMany);
        }
        let id = remembered.last_id.saturating_add(1);
        let mut after = remembered.clone();
        after.last_id = id;
        after.grants.push(Grant {
            id,
            tool: call.tool.name.clone(),
            scope,
            at,
            by,
            policy_hash: self.hash(),
        });
        // What is remembered has to answer this very question, or nobody was asked about it.
        if self.judge(decision, &call.with_remembered(&after)) != Verdict::Allow {
            return Err(GrantError::OtherCall);
        }
        *remembered = after;
        Ok(id)
    }

    /// Returns what a person may be offered to remember about a call, the narrowest first; nothing where nothing may be.
    #[must_use]
    pub fn grant_choices(&self, decision: &Decision, call: &Call<'_>) -> Vec<GrantScope> {
        let Verdict::Ask { remember, .. } = self.judge(decision, call) else {
            return Vec::new();
        };
        let facts = Facts::new(call.arguments, call.root);
        let mut scopes = vec![GrantScope::Arguments {
            hash: call.arguments.hash(),
        }];
        if let Some([only]) = facts.parts() {
            let words: Vec<&str> = only.words.iter().take(2).map(String::as_str).collect();
            let plain = |word: &&str| !word.contains(['*', ' ']) && !word.starts_with('-');
            if only.unclear.is_none() && words.iter().all(plain) {
                let pattern = format!("{} **", words.join(" "));
                scopes.push(GrantScope::Command { pattern });
            }
        }
        let hosts = facts.hosts(None);
        if let ([host], false) = (hosts.items.as_slice(), hosts.is_unclear) {
            let pattern = host.clone();
            scopes.push(GrantScope::Host { pattern });
        }
        scopes.push(GrantScope::Tool);
        scopes.retain(|scope| scope.needs() <= remember);
        scopes
    }
}

impl GrantScope {
    /// How much has to be rememberable for this.
    pub(crate) const fn needs(&self) -> Remember {
        match self {
            Self::Tool => Remember::Tool,
            _ => Remember::Arguments,
        }
    }

    /// Tells whether it covers one part of a command.
    pub(crate) fn covers_part(&self, part: &Part) -> bool {
        let Self::Command { pattern } = self else {
            return false;
        };
        part.unclear.is_none()
            && CommandPattern::parse(pattern).is_ok_and(|pattern| pattern.matches(part))
    }

    /// Tells whether it covers a whole call.
    pub(crate) fn covers(&self, call: &Call<'_>, facts: &Facts<'_>) -> bool {
        match self {
            Self::Tool => true,
            Self::Arguments { hash } => *hash == call.arguments.hash(),
            Self::Command { .. } => false,
            Self::Host { pattern } => {
                let hosts = facts.hosts(None);
                let Ok(pattern) = HostPattern::parse(pattern) else {
                    return false;
                };
                !hosts.items.is_empty()
                    && !hosts.is_unclear
                    && hosts.items.iter().all(|host| pattern.matches(host))
            }
            Self::Path { pattern } => {
                let paths = facts.paths(None);
                let Ok(glob) = path_glob(pattern, Answer::Allow) else {
                    return false;
                };
                let glob = glob.compile_matcher();
                let fits = |led: &Led| matches!(led, Led::Inside(path) if glob.is_match(path));
                !paths.items.is_empty() && !paths.is_unclear && paths.items.iter().all(fits)
            }
        }
    }
}
