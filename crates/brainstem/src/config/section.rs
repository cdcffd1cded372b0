//! What all sections of the configuration have in common: each can be laid over another, key by key.

use std::collections::BTreeMap;
use std::time::Duration;

use neuraxis_core::{Limits, MicroUsd};

/// A part of the configuration that can be laid over another.
pub(crate) trait Layered: Sized {
    /// Returns `base` with everything replaced that `self` sets.
    fn over(self, base: Self) -> Self;

    /// Returns whether nothing is set.
    fn is_unset(&self) -> bool;
}

impl<T> Layered for Option<T> {
    fn over(self, base: Self) -> Self {
        self.or(base)
    }

    fn is_unset(&self) -> bool {
        self.is_none()
    }
}

impl<K: Ord, V: Layered> Layered for BTreeMap<K, V> {
    fn over(self, mut base: Self) -> Self {
        for (key, value) in self {
            let value = match base.remove(&key) {
                Some(below) => value.over(below),
                None => value,
            };
            base.insert(key, value);
        }
        base
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Layered for Vec<T> {
    fn over(self, mut base: Self) -> Self {
        base.extend(self);
        base
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

/// The limits that one section sets; it leaves `None` to other sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PartialLimits {
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_tool_calls: Option<u32>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_cost: Option<MicroUsd>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) tool_timeout: Option<Duration>,
    pub(crate) max_agents: Option<u32>,
    pub(crate) max_agent_depth: Option<u32>,
}

impl PartialLimits {
    /// Returns the limits of an agent if nothing else sets any: the loop's defaults where these set none. A configured
    /// time limit of a call applies to every tool, the default only to tools that set none.
    pub(crate) fn completed(self) -> Limits {
        let default = Limits::default();
        Limits {
            max_turns: self.max_turns.or(default.max_turns),
            max_tool_calls: self.max_tool_calls,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            deadline: self.deadline,
            tool_timeout: self.tool_timeout.unwrap_or(default.tool_timeout),
            max_tool_timeout: self.tool_timeout,
        }
    }
}

impl From<Limits> for PartialLimits {
    /// Takes what limits every run; the time limit of tools that set none is a default and limits nothing.
    fn from(limits: Limits) -> Self {
        let Limits {
            max_turns,
            max_tool_calls,
            max_tokens,
            max_cost,
            deadline,
            tool_timeout: _,
            max_tool_timeout,
        } = limits;
        Self {
            max_turns,
            max_tool_calls,
            max_tokens,
            max_cost,
            deadline,
            tool_timeout: max_tool_timeout,
            max_agents: None,
            max_agent_depth: None,
        }
    }
}

/// Defines a section: every field is [`Layered`] and optional, and is not serialized if unset.
macro_rules! section {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[serde(skip_serializing_if = "crate::config::Layered::is_unset")]
                pub $field: $type,
            )*
        }

        impl $crate::config::Layered for $name {
            fn over(self, base: Self) -> Self {
                Self { $($field: $crate::config::Layered::over(self.$field, base.$field),)* }
            }

            fn is_unset(&self) -> bool {
                $($crate::config::Layered::is_unset(&self.$field))&&*
            }
        }
    };
}

/// Defines a section that may also set limits. (`#[serde(flatten)]` would lose the location of an unknown key.)
macro_rules! section_with_limits {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $crate::config::section::section! {
            $(#[$doc])*
            pub struct $name {
                /// Turns before the last answer is requested.
                pub max_turns: Option<u32>,
                /// Tool calls of a run, including those of sub-agents.
                pub max_tool_calls: Option<u32>,
                /// Tokens of all model calls of a run.
                pub max_tokens: Option<u64>,
                /// The cost of a run, in millionths of a US dollar.
                pub max_cost_micro_usd: Option<neuraxis_core::MicroUsd>,
                /// Active time of a whole run, such as `"180s"`.
                #[serde(with = "neuraxis_core::duration_text::optional")]
                #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
                pub deadline: Option<std::time::Duration>,
                /// The time limit of one tool call, such as `"30s"`. A tool may set a shorter one.
                #[serde(with = "neuraxis_core::duration_text::optional")]
                #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
                pub tool_timeout: Option<std::time::Duration>,
                /// How many agents the answering agent and those below it may start in a whole run. 0 allows none; 64
                /// if no section sets it.
                pub max_agents: Option<u32>,
                /// How deep started agents may nest: 1 if they may start none themselves, 0 to start none at all; 2 if
                /// no section sets it.
                pub max_agent_depth: Option<u32>,
                $($(#[$field_doc])* pub $field: $type,)*
            }
        }

        impl $name {
            pub(crate) const fn limits(&self) -> $crate::config::PartialLimits {
                $crate::config::PartialLimits {
                    max_turns: self.max_turns,
                    max_tool_calls: self.max_tool_calls,
                    max_tokens: self.max_tokens,
                    max_cost: self.max_cost_micro_usd,
                    deadline: self.deadline,
                    tool_timeout: self.tool_timeout,
                    max_agents: self.max_agents,
                    max_agent_depth: self.max_agent_depth,
                }
            }
        }
    };
}

/// The pattern of a section that may set limits, with its keys other than limits: a section is destructured in full, so
/// that no key is forgotten, but its limits are checked by other code, which destructures them in [`PartialLimits`].
macro_rules! besides_limits {
    ($name:ident { $($field:ident $(: $ignored:tt)?),* $(,)? }) => {
        $name {
            max_turns: _,
            max_tool_calls: _,
            max_tokens: _,
            max_cost_micro_usd: _,
            deadline: _,
            tool_timeout: _,
            max_agents: _,
            max_agent_depth: _,
            $($field $(: $ignored)?,)*
        }
    };
}

/// Reads a setting that is either one word or a table with one key. (The code that serde derives takes the first key of
/// a table and does not notice further keys.)
macro_rules! word_or_table {
    ($name:ident: $word:literal => $plain:ident, $key:ident: $table:ty => $variant:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::value::MapAccessDeserializer;
                use serde::de::{Error, MapAccess, Unexpected, Visitor};

                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Table {
                    $key: $table,
                }

                struct WordOrTable;

                impl<'de> Visitor<'de> for WordOrTable {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!(
                            "\"",
                            $word,
                            "\" or a table with the key ",
                            stringify!($key)
                        ))
                    }

                    fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                        if word == $word {
                            Ok($name::$plain)
                        } else if word == stringify!($key) {
                            Err(E::invalid_type(Unexpected::UnitVariant, &"newtype variant"))
                        } else {
                            Err(E::unknown_variant(word, &[$word, stringify!($key)]))
                        }
                    }

                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                        Ok($name::$variant(table.$key))
                    }
                }

                deserializer.deserialize_any(WordOrTable)
            }
        }
    };
}

pub(crate) use besides_limits;
pub(super) use {section, section_with_limits, word_or_table};
