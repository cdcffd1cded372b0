//! `[modes.NAME]`: how much freedom a request has.

use std::collections::BTreeMap;

use neuraxis_core::{Mode, Remember, Role};
use serde::{Deserialize, Serialize};

use super::section::{section, section_with_limits};

section_with_limits! {
    /// `[modes.NAME]`: how much freedom a request has. May also set limits.
    ///
    /// In a deployment's own mode, omitted roles mean all roles, and an omitted answer about tools means deny.
    pub struct ModeConfig {
        /// The roles that may serve; `"*"` stands for all.
        pub roles: Option<Vec<Role>>,
        /// The sampling temperature, from 0 to 2. Defaults to that of the model.
        pub temperature: Option<f32>,
        /// The maximum number of tokens of one reply. Defaults to that of the model.
        pub max_output_tokens: Option<u32>,
        /// What happens to tool calls.
        pub tools: ToolAnswersConfig,
        /// The minimum answer to calls that write or reach out once the conversation holds untrusted content. Defaults
        /// to ask.
        pub after_untrusted: Option<Permission>,
        /// How much of a user's "allow" a session may remember. Defaults to nothing.
        pub remember: Option<Remember>,
        /// How long a question to a person stays open, such as `"24h"`. Defaults to indefinitely.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub approval_expires: Option<std::time::Duration>,
        /// How often a failed call is retried, unless its tool says that it would fail again, and only if repeating it
        /// is safe. Defaults to 1.
        pub tool_retries: Option<u32>,
    }
}

section! {
    /// `[modes.NAME.tools]`: an answer for each property that a tool may have. If several apply, the strictest decides.
    pub struct ToolAnswersConfig {
        /// For tools that change nothing.
        pub read_only: Option<Permission>,
        /// For tools that change something, but for which two calls have the same effect as one.
        pub idempotent: Option<Permission>,
        /// For all other tools.
        pub irreversible: Option<Permission>,
        /// In addition, for tools that reach outside this machine.
        pub open_world: Option<Permission>,
        /// In addition, for tools that may destroy something.
        pub destructive: Option<Permission>,
    }
}

impl ModeConfig {
    /// Returns whether a mode lets tools do anything that another does not, judging by the modes alone.
    pub(crate) fn is_freer_than(&self, other: &Self) -> bool {
        let untrusted = |mode: &Self| mode.after_untrusted.unwrap_or(Permission::Ask);
        let answers = self.tools.answers().into_iter();
        let mut pairs = answers.zip(other.tools.answers());
        pairs.any(|(own, other)| own < other) || untrusted(self) < untrusted(other)
    }
}

/// Returns the names of modes, the strictest first: each comes after those that let tools do less than it does. Modes
/// that cannot be compared are ordered by how many others are no freer, and then by name.
pub(crate) fn strictest_first(modes: &BTreeMap<Mode, ModeConfig>) -> Vec<Mode> {
    let no_freer = |mode: &ModeConfig| {
        let others = modes.values();
        others.filter(|other| !other.is_freer_than(mode)).count()
    };
    let mut ranked: Vec<_> = modes
        .iter()
        .map(|(name, mode)| (no_freer(mode), name))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, name)| name.clone()).collect()
}

impl ToolAnswersConfig {
    /// Returns all answers. An omitted one is a denial.
    fn answers(&self) -> [Permission; 5] {
        let Self {
            read_only,
            idempotent,
            irreversible,
            open_world,
            destructive,
        } = self;
        let answers = [read_only, idempotent, irreversible, open_world, destructive];
        answers.map(|answer| answer.unwrap_or(Permission::Deny))
    }
}

/// A policy's answer about a tool, ordered from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// It may run without asking.
    Allow,
    /// A person must allow it first.
    Ask,
    /// It may not run.
    Deny,
}

impl Permission {
    /// Returns the answer as it is written in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
