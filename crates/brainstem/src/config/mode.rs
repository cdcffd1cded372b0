//! `[modes.NAME]`: how much freedom a request has.

use neuraxis_core::{Remember, Role};
use serde::{Deserialize, Serialize};

use super::section::{section, section_with_limits};

section_with_limits! {
    /// `[modes.NAME]`: how much freedom a request has. May also set limits.
    ///
    /// In a mode of a deployment's own, roles left out are all roles, and answers about tools left out are denials.
    pub struct ModeConfig {
        /// The roles that may serve; `"*"` stands for all.
        pub roles: Option<Vec<Role>>,
        /// The sampling temperature, from 0 to 2; left out, it is the model's own.
        pub temperature: Option<f32>,
        /// The most tokens of one reply; left out, it is the model's own.
        pub max_output_tokens: Option<u32>,
        /// What happens to tool calls.
        pub tools: ToolAnswersConfig,
        /// What happens, besides, to calls that write or reach out once the conversation holds untrusted content; they
        /// ask if it is left out.
        pub after_untrusted: Option<Permission>,
        /// How much of a person's "allow" may be remembered for the session; nothing if left out.
        pub remember: Option<Remember>,
        /// How long a question to a person stays open, such as `"24h"`; for good if left out.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub approval_expires: Option<std::time::Duration>,
        /// How often a failed call is made again, unless its tool says that it would fail again, and where twice is no
        /// more than once; once if it is left out.
        pub tool_retries: Option<u32>,
    }
}

section! {
    /// `[modes.NAME.tools]`: an answer for each thing a tool may be. Of several that apply, the strictest counts.
    pub struct ToolAnswersConfig {
        /// For tools that change nothing.
        pub read_only: Option<Permission>,
        /// For tools that change something, but twice is the same as once.
        pub idempotent: Option<Permission>,
        /// For all other tools.
        pub irreversible: Option<Permission>,
        /// Besides, for tools that reach outside this machine.
        pub open_world: Option<Permission>,
        /// Besides, for tools that may destroy something.
        pub destructive: Option<Permission>,
    }
}

impl ModeConfig {
    /// Tells whether a mode lets tools do anything that another does not, as far as the modes themselves say.
    pub(crate) fn is_freer_than(&self, other: &Self) -> bool {
        let untrusted = |mode: &Self| mode.after_untrusted.unwrap_or(Permission::Ask);
        let answers = self.tools.answers().into_iter();
        let mut pairs = answers.zip(other.tools.answers());
        pairs.any(|(own, other)| own < other) || untrusted(self) < untrusted(other)
    }
}

impl ToolAnswersConfig {
    /// Returns all answers. What is left out is denied.
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

/// What a policy answers about a tool, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// It may run, and nobody is asked.
    Allow,
    /// A person has to say so first.
    Ask,
    /// It may not run.
    Deny,
}

impl Permission {
    /// Returns the answer as it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
