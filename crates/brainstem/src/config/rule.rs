//! `[rules.NAME]`: an answer about calls that are described by tool, mode, channel and arguments.

use std::collections::BTreeMap;

use neuraxis_core::{Access, Channel, Mode, Remember, ToolClass};
use serde::{Deserialize, Serialize};

use super::Permission;
use super::section::section;

section! {
    /// `[rules.NAME]`: an answer about calls. Every condition that is given has to hold; one that is left out always does.
    pub struct RuleConfig {
        /// The answer. Has to be set.
        pub answer: Option<Permission>,
        /// Patterns of the names of the tools. Has to be set; `["*"]` stands for all.
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
        /// Whose session it is. Holds for nobody else, and not where nobody said who asks.
        pub owners: Option<Vec<String>>,
        /// Patterns of paths beneath the root, such as `"src/**"`.
        pub paths: Option<Vec<String>>,
        /// Whether a path leads out of the root. Only `true` makes sense, and not in a rule that allows.
        pub outside_root: Option<bool>,
        /// Patterns of hosts of URLs, such as `"*.example.org"`.
        pub hosts: Option<Vec<String>>,
        /// Patterns of commands, word by word, such as `"git status"` and `"git log **"`.
        pub commands: Option<Vec<String>>,
        /// Patterns of the folders to run in, from the root. A rule that allows commands holds at the root alone without it.
        pub cwd: Option<Vec<String>>,
        /// What a command may ask of the sandbox. A rule that allows commands allows nothing of it that is not listed.
        pub access: Option<Vec<Access>>,
        /// Patterns of the values of other arguments, by the argument's name. `"> 100"`, `">= 100"`, `"< 100"` and `"<= 100"`
        /// compare numbers.
        pub values: Option<BTreeMap<String, Vec<String>>>,
        /// A function of the embedding program that has to say that the call is one. In examples and cases, where there is no
        /// program, it holds for examples, and a case asks.
        pub when: Option<String>,
        /// The arguments that hold paths, URLs or commands, instead of those that are usual.
        pub arguments: Option<Vec<String>>,
        /// The most that a person's answer may be remembered; the mode's own limit if left out.
        pub remember: Option<Remember>,
        /// Why, a sentence for people.
        pub reason: Option<String>,
        /// Calls that the rule has to match; checked when the policy is loaded.
        pub r#match: Option<Vec<ExampleConfig>>,
        /// Calls that the rule must not match; checked when the policy is loaded.
        pub not_match: Option<Vec<ExampleConfig>>,
    }
}

section! {
    /// A call that stands as an example in a rule. What is left out of tool, class and the like is as the rule needs it.
    pub struct ExampleConfig {
        /// The tool; if left out, the first one that the rule names without wildcards.
        pub tool: Option<String>,
        /// The arguments as a table; without it the three below.
        #[cfg_attr(feature = "schema", schemars(with = "()", extend("type" = ["object", "null"])))]
        pub arguments: Option<toml::Table>,
        /// The argument `command` alone.
        pub command: Option<String>,
        /// The argument `path` alone.
        pub path: Option<String>,
        /// The argument `url` alone.
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
        /// Whose session it is.
        pub owner: Option<String>,
    }
}
