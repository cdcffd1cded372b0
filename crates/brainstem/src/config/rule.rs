//! `[rules.NAME]`: an answer about calls, selected by tool, mode, channel and arguments.

use std::collections::BTreeMap;

use neuraxis_core::{Access, Channel, Mode, Remember, ToolClass};
use serde::{Deserialize, Serialize};

use super::Permission;
use super::section::section;

section! {
    /// `[rules.NAME]`: an answer about calls. Every condition that is set must hold; an omitted one always holds.
    pub struct RuleConfig {
        /// The answer. Required.
        pub answer: Option<Permission>,
        /// Name patterns of the tools. Required; `["*"]` stands for all.
        pub tools: Option<Vec<String>>,
        /// What the tool may change.
        pub class: Option<Vec<ToolClass>>,
        /// Whether the tool may destroy something.
        pub destructive: Option<bool>,
        /// Whether the tool reaches outside this machine.
        pub open_world: Option<bool>,
        /// The modes of the request.
        pub modes: Option<Vec<Mode>>,
        /// The channels of the request.
        pub channels: Option<Vec<Channel>>,
        /// The owners of the session. The rule applies to no other owner, and not if the owner is unknown.
        pub owners: Option<Vec<String>>,
        /// Patterns of paths below the root, such as `"src/**"`.
        pub paths: Option<Vec<String>>,
        /// Whether a path leads outside the root. Only `true` is meaningful, and not in a rule that allows.
        pub outside_root: Option<bool>,
        /// Patterns of hosts of URLs, such as `"*.example.org"`.
        pub hosts: Option<Vec<String>>,
        /// Patterns of commands, word by word, such as `"git status"` and `"git log **"`.
        pub commands: Option<Vec<String>>,
        /// Patterns of the folders to run in, from the root. Without it, a rule that allows commands applies only at
        /// the root.
        pub cwd: Option<Vec<String>>,
        /// What a command may request of the sandbox. A rule that allows commands allows only what it lists.
        pub access: Option<Vec<Access>>,
        /// Patterns for the values of other arguments, by argument name. Numbers are compared by `"> 100"`,
        /// `">= 100"`, `"< 100"` and `"<= 100"`.
        pub values: Option<BTreeMap<String, Vec<String>>>,
        /// A function of the embedding program that must confirm the call. Examples and cases run without the program:
        /// an example treats the function as confirming, and a case asks.
        pub when: Option<String>,
        /// The arguments that hold paths, URLs or commands, instead of the usual ones.
        pub arguments: Option<Vec<String>>,
        /// The limit on how much of a user's answer may be remembered. Defaults to that of the mode.
        pub remember: Option<Remember>,
        /// The reason, as a sentence for users.
        pub reason: Option<String>,
        /// Calls that the rule must match; checked when the policy is loaded.
        pub r#match: Option<Vec<ExampleConfig>>,
        /// Calls that the rule must not match; checked when the policy is loaded.
        pub not_match: Option<Vec<ExampleConfig>>,
    }
}

section! {
    /// A call that serves as an example in a rule. Omitted properties, such as tool and class, are filled in to fit the
    /// rule.
    pub struct ExampleConfig {
        /// The tool. Defaults to the first one that the rule names without wildcards.
        pub tool: Option<String>,
        /// The arguments as a table; if omitted, the three keys below apply.
        #[cfg_attr(feature = "schema", schemars(with = "()", extend("type" = ["object", "null"])))]
        pub arguments: Option<toml::Table>,
        /// Only the argument `command`.
        pub command: Option<String>,
        /// Only the argument `path`.
        pub path: Option<String>,
        /// Only the argument `url`.
        pub url: Option<String>,
        /// What the tool may change.
        pub class: Option<ToolClass>,
        /// Whether the tool may destroy something.
        pub destructive: Option<bool>,
        /// Whether the tool reaches outside this machine.
        pub open_world: Option<bool>,
        /// The mode of the request.
        pub mode: Option<Mode>,
        /// The channel of the request.
        pub channel: Option<Channel>,
        /// The owner of the session.
        pub owner: Option<String>,
    }
}
