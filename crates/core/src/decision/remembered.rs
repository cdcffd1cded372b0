//! "Allow for this session": answers of people that a session remembers.
//!
//! The types live here, because they are asked for, recorded and stored; which calls they cover is said by
//! `neuraxis-brainstem`.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::ToolName;
use crate::json::{ContentHash, JsonText};

/// The answers of people that a session remembers. Plain data, stored with the session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    grants: Vec<Grant>,
    last_id: u32,
}

/// A remembered "allow".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grant {
    /// Its number in the session, for taking it back. Numbers rise and never come back.
    pub id: u32,
    /// The tool.
    pub tool: ToolName,
    /// The hash of the tool's definition as it was then, and of the root that its calls counted from: for a tool that has
    /// changed, and at another root, it does not count.
    pub definition: ContentHash,
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
    /// The keyed hash by which an engine knows an answer that it kept itself from one that was written into its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
}

impl Grant {
    /// The most bytes of a remembered answer as JSON: 16 KiB. A larger one holds for its call alone.
    pub const MAX_BYTES: usize = 16 * 1024;

    /// Tells whether it is small enough to be remembered.
    #[must_use]
    pub fn is_small_enough(&self) -> bool {
        JsonText::encode(self).is_ok_and(|json| json.as_str().len() <= Self::MAX_BYTES)
    }
}

/// What the sandbox opens for one command that asks for it; a command that asks for nothing has none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Access {
    /// The network of the machine.
    Network,
    /// Writing in the repository's `.git`, but for hooks and configuration.
    Git,
}

impl Access {
    /// All there is to ask for.
    pub const ALL: [Self; 2] = [Self::Network, Self::Git];

    /// Returns the word for it in arguments and rules.
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

/// Which calls of a tool a remembered answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        /// What those calls may ask of the sandbox; a call that asks for more is not among them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        access: Vec<Access>,
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
    /// Every call of the tool.
    Tool,
}

impl GrantScope {
    /// Tells whether it holds words of the arguments that it was given for; not only their hash, or nothing of them.
    #[must_use]
    pub const fn quotes_arguments(&self) -> bool {
        match self {
            Self::Command { .. } | Self::Host { .. } | Self::Path { .. } => true,
            Self::Arguments { .. } | Self::Tool => false,
        }
    }
}

impl Remembered {
    /// The most answers that one session remembers.
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

    /// Tells whether no further answer is remembered: there are too many, or no number is left for one.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.grants.len() >= Self::MAX_GRANTS || self.last_id == u32::MAX
    }

    /// Remembers an answer more, if it has the next number and there is room; tells whether it does.
    pub fn add(&mut self, grant: Grant) -> bool {
        let fits = !self.is_full() && grant.id == self.next_id();
        if fits {
            self.last_id = grant.id;
            self.grants.push(grant);
        }
        fits
    }

    /// Takes in an answer that is on record, however many there are; one whose number is taken is none.
    pub fn record(&mut self, grant: Grant) {
        if grant.id > self.last_id {
            self.last_id = grant.id;
            self.grants.push(grant);
        }
    }

    /// Leaves out the answers that a check refuses. Their numbers stay taken.
    pub fn retain(&mut self, counts: impl FnMut(&Grant) -> bool) {
        self.grants.retain(counts);
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
    fn numbers_rise_and_never_come_back() {
        let mut remembered = Remembered::default();
        assert!(remembered.add(grant(1)) && remembered.add(grant(2)));
        assert!(!remembered.add(grant(2)), "a number is given once");
        assert!(remembered.revoke(2) && !remembered.revoke(2));
        assert_eq!(remembered.next_id(), 3);
    }

    #[test]
    fn a_session_remembers_only_so_many() {
        let mut remembered = Remembered::default();
        while remembered.add(grant(remembered.next_id())) {}
        assert_eq!(remembered.grants().len(), Remembered::MAX_GRANTS);
    }
}
