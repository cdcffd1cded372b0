//! "Allow for this session": user answers that a session remembers.
//!
//! The types are in this crate because they are requested, recorded and stored; `neuraxis-brainstem` determines which
//! calls they cover.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::ToolName;
use crate::json::{ContentHash, JsonText};

/// The user answers that a session remembers. Plain data, stored with the session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Grants {
    grants: Vec<Grant>,
    last_id: u32,
}

/// A remembered "allow".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grant {
    /// Its number in the session, used to revoke it. Numbers increase and are never reused.
    pub id: u32,
    /// The tool.
    pub tool: ToolName,
    /// The hash of the tool's definition at that time and of the root that its calls were relative to. The grant does
    /// not apply to a tool that has changed, or at another root.
    pub definition: ContentHash,
    /// Which of the tool's calls it covers.
    #[serde(flatten)]
    pub scope: GrantScope,
    /// When it was given.
    pub at: Timestamp,
    /// Who gave it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The policy under which it was given; it does not apply under another one.
    pub policy_hash: ContentHash,
    /// A keyed hash that lets an engine distinguish an answer that it stored itself from one that something else wrote
    /// into its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
}

impl Grant {
    /// Maximum size of a remembered answer as JSON: 16 KiB. A larger one applies only to its own call.
    pub const MAX_BYTES: usize = 16 * 1024;

    /// Returns whether it is small enough to be remembered.
    #[must_use]
    pub fn is_small_enough(&self) -> bool {
        JsonText::encode(self).is_ok_and(|json| json.as_str().len() <= Self::MAX_BYTES)
    }
}

/// What the sandbox opens for a single command that asks for it; a command that asks for nothing gets none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Access {
    /// The network of the machine.
    Network,
    /// Writing to the repository's `.git`, except hooks and configuration.
    Git,
}

impl Access {
    /// The complete list of values.
    pub const ALL: [Self; 2] = [Self::Network, Self::Git];

    /// Returns its name in arguments and rules.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Git => "git",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which calls of a tool a remembered answer covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "scope", rename_all = "snake_case")]
#[non_exhaustive]
pub enum GrantScope {
    /// Calls with exactly the same arguments.
    Arguments {
        /// The hash of the arguments.
        hash: ContentHash,
    },
    /// Calls in which every part of the command matches a pattern or is allowed anyway.
    Command {
        /// The pattern, such as `git log **`.
        pattern: String,
        /// What those calls may ask of the sandbox; a call that asks for more is not covered.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        access: Vec<Access>,
    },
    /// Calls whose URLs all lead to hosts that match a pattern.
    Host {
        /// The pattern.
        pattern: String,
    },
    /// Calls whose paths are all below the root and match a pattern.
    Path {
        /// The pattern.
        pattern: String,
    },
    /// Every call of the tool.
    Tool,
}

impl GrantScope {
    /// Returns whether it contains words of the arguments it was given for, rather than only their hash or nothing.
    #[must_use]
    pub const fn quotes_arguments(&self) -> bool {
        match self {
            Self::Command { .. } | Self::Host { .. } | Self::Path { .. } => true,
            Self::Arguments { .. } | Self::Tool => false,
        }
    }
}

impl Grants {
    /// Maximum number of answers that one session remembers.
    pub const MAX_GRANTS: usize = 256;

    /// Returns all answers, in the order in which they were given.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Returns the number of the next answer.
    #[must_use]
    pub const fn next_id(&self) -> u32 {
        self.last_id.saturating_add(1)
    }

    /// Returns whether no further answer can be remembered, because there are too many or no number is left.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.grants.len() >= Self::MAX_GRANTS || self.last_id == u32::MAX
    }

    /// Remembers another answer, if it has the next number and there is room; returns whether it was added.
    pub fn add(&mut self, grant: Grant) -> bool {
        let fits = !self.is_full() && grant.id == self.next_id();
        if fits {
            self.last_id = grant.id;
            self.grants.push(grant);
        }
        fits
    }

    /// Adds an answer that is on record, regardless of how many there are. An answer whose number is already taken is
    /// ignored.
    pub fn record(&mut self, grant: Grant) {
        if grant.id > self.last_id {
            self.last_id = grant.id;
            self.grants.push(grant);
        }
    }

    /// Removes the answers that a check refuses. Their numbers stay taken.
    pub fn retain(&mut self, counts: impl FnMut(&Grant) -> bool) {
        self.grants.retain(counts);
    }

    /// Revokes an answer; returns whether it existed.
    pub fn revoke(&mut self, id: u32) -> bool {
        let before = self.grants.len();
        self.grants.retain(|grant| grant.id != id);
        self.grants.len() < before
    }

    /// Revokes all answers.
    pub fn clear(&mut self) {
        self.grants.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(id: u32) -> Grant {
        Grant {
            id,
            tool: "write_file".parse().unwrap(),
            definition: ContentHash::of(b"definition"),
            scope: GrantScope::Tool,
            at: Timestamp::UNIX_EPOCH,
            by: None,
            policy_hash: ContentHash::of(b"policy"),
            code: None,
        }
    }

    #[test]
    fn grant_numbers_increase_and_are_never_reused() {
        let mut remembered = Grants::default();
        assert!(remembered.add(grant(1)) && remembered.add(grant(2)));
        assert!(!remembered.add(grant(2)), "a number is given once");
        assert!(remembered.revoke(2) && !remembered.revoke(2));
        assert_eq!(remembered.next_id(), 3);
    }

    #[test]
    fn a_session_stores_a_bounded_number_of_grants() {
        let mut remembered = Grants::default();
        while remembered.add(grant(remembered.next_id())) {}
        assert_eq!(remembered.grants().len(), Grants::MAX_GRANTS);
    }
}
