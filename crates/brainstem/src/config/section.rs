//! What all sections of the configuration have in common: each can be laid over another, key by key.

use std::collections::BTreeMap;
use std::time::Duration;

use neuraxis_core::{MicroUsd, Role};

/// A part of the configuration that can be laid over another.
pub(crate) trait Layered: Sized {
    /// Returns `base` with everything replaced that `self` sets.
    fn over(self, base: Self) -> Self;

    /// Tells whether nothing is set.
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

impl Layered for Vec<Role> {
    fn over(self, mut base: Self) -> Self {
        base.extend(self);
        base
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

/// The limits that one section sets; what is `None` it leaves to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PartialLimits {
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_tool_calls: Option<u32>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_cost: Option<MicroUsd>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) tool_timeout: Option<Duration>,
}

/// Defines a section: every field is [`Layered`], may be left out, and is left out when it is not set.
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

/// Defines a section that may also set limits. (`#[serde(flatten)]` would lose the place of an unknown key.)
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
                /// Turns before the last answer is asked for.
                pub max_turns: Option<u32>,
                /// Tool calls of a run, those of sub-agents included.
                pub max_tool_calls: Option<u32>,
                /// Tokens of all model calls of a run.
                pub max_tokens: Option<u64>,
                /// Money a run may cost, in millionths of a US dollar.
                pub max_cost_micro_usd: Option<neuraxis_core::MicroUsd>,
                /// Active time of a whole run, such as `"180s"`.
                #[serde(with = "neuraxis_core::duration_text::optional")]
                #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
                pub deadline: Option<std::time::Duration>,
                /// Time of one call of a tool that sets none itself, such as `"30s"`.
                #[serde(with = "neuraxis_core::duration_text::optional")]
                #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
                pub tool_timeout: Option<std::time::Duration>,
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
                }
            }
        }
    };
}

pub(super) use {section, section_with_limits};
