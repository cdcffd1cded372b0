//! Identifiers and ordinals, each a separate type so that two of them cannot be confused.
//!
//! Nothing here generates a random id or reads a clock: globally unique ids come from the `Ids` port, and the machine
//! counts the others.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::tool::{FINAL_ANSWER, FIND_TOOLS, READ_OUTPUT};

/// Defines ordinals: numbers that increase by one, with `next`.
macro_rules! ordinals {
    ($($(#[$doc:meta])* $name:ident($repr:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub $repr);

        impl $name {
            /// Returns the next number.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ordinals! {
    /// The position of a record in its run: 1 for the first, without gaps. 0 means "before any record".
    Seq(u64);
    /// The number of a model call or tool batch in its run, across all agents, from 0 in the order they started.
    ContentIndex(u32);
    /// A turn of one agent: one model call with the tool calls it leads to. 1 for the first, 0 before it.
    Turn(u32);
    /// The position of a tool call in its reply, from 0.
    CallIndex(u32);
    /// The position of a content part in its message, from 0.
    BlockIndex(u32);
    /// The number of an attempt at an effect: 1 for the first.
    Attempt(u32);
}

/// Defines names: short strings chosen by users, compared as they are.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $text:literal;)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(Cow<'static, str>);

        impl $name {
            $($(#[$item_doc])* pub const $item: Self = Self(Cow::Borrowed($text));)*

            /// Wraps a name without checking it.
            pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
                Self(name.into())
            }

            /// Returns the name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

names! {
    /// Which model serves a call. More roles than the three built-in ones may be configured.
    Role {
        /// The fast model: routing and simple questions.
        ROUTER = "router";
        /// The thorough model.
        REASONING = "reasoning";
        /// The model for programming tasks.
        CODING = "coding";
    }
    /// How much freedom a request has. More modes than the built-in ones may be configured.
    Mode {
        /// Read-only, local, few turns.
        CONSERVATIVE = "conservative";
        /// The default: writing requires approval.
        MODERATE = "moderate";
        /// Everything; irreversible calls require approval.
        EXPLORATORY = "exploratory";
    }
    /// What kind of request it is. More channels than the built-in ones may be configured.
    Channel {
        /// Conversation; the default.
        CHAT = "chat";
        /// Work on a project's files.
        CODE_TASK = "code_task";
        /// A check of this machine's state.
        SYSTEM_HEALTH = "system_health";
        /// A question that several researchers work on.
        DEEP_RESEARCH = "deep_research";
    }
    /// A named set of limits that a key or a user has.
    PlanName {}
    /// An agent: it answers a request, or works for another agent. More agents than the built-in ones may be
    /// configured.
    AgentName {
        /// The agent that talks with the user; used by every channel that names no other.
        MAIN_THREAD = "main_thread";
        /// The agent that leads a piece of research.
        DEEP_RESEARCH = "deep_research";
        /// The agent that researches one topic.
        RESEARCHER = "researcher";
    }
    /// The id of an input, chosen by its sender outside the machine; a second input with the same id is a no-op.
    InputId {}
}

impl Role {
    /// The roles that exist without configuration, in the order in which they fall back to one another. Configured
    /// roles come after them.
    pub const BUILT_IN: [Self; 3] = [Self::REASONING, Self::ROUTER, Self::CODING];
}

/// A run: one user message handled end to end. A UUIDv7 generated by the `Ids` port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An agent of a run: `a0` is the root; others are numbered in the order they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AgentId(pub u32);

impl AgentId {
    /// The agent that answers the user.
    pub const ROOT: Self = Self(0);
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

impl FromStr for AgentId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let number = text
            .strip_prefix('a')
            .and_then(|digits| digits.parse().ok());
        number.map(Self).ok_or(InvalidId {
            what: "agent id",
            rule: "the letter a and a number",
        })
    }
}

/// Something the machine asked the driver to do; also the idempotency key of a tool call.
///
/// Its text form is the run's id, a period and a number, so it is globally unique and the same on every replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    /// The run that asked.
    pub run: RunId,
    /// The effect's number in that run, from 1.
    pub number: u32,
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.number)
    }
}

impl FromStr for EffectId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let parse = || {
            let (run, number) = text.split_once('.')?;
            Some(Self {
                run: RunId(Uuid::parse_str(run).ok()?),
                number: number.parse().ok()?,
            })
        };
        parse().ok_or(InvalidId {
            what: "effect id",
            rule: "a run's id, a full stop and a number",
        })
    }
}

macro_rules! serialize_as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

pub(crate) use serialize_as_text;

serialize_as_text!(AgentId, EffectId, ToolName, SessionId);

/// The id of a tool call, built by the loop from run, agent, model call and index, so it is the same on every replay.
/// It ends with the last three: `_a0_3_1` is the second call in the reply to `a0` whose `content_index` is 3.
///
/// At most 64 characters, the limit of the OpenAI Responses API for `call_id`. The provider's own id is stored beside
/// it, to be sent back to that provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ToolCallId(Arc<str>);

impl ToolCallId {
    /// Creates the id of the call at `index` in the reply to the model call `content_index` of `agent`.
    #[must_use]
    pub fn new(run: RunId, agent: AgentId, content_index: ContentIndex, index: CallIndex) -> Self {
        let mut text = String::with_capacity(64);
        text.push_str("call_");
        text.push_str(run.0.simple().encode_lower(&mut Uuid::encode_buffer()));
        // Writing to a `String` cannot fail.
        let _ = write!(text, "_{agent}_{content_index}_{index}");
        Self(text.into())
    }

    /// Returns the run that the call belongs to; `None` for an id from outside.
    ///
    /// ```
    /// use neuraxis_core::{AgentId, CallIndex, ContentIndex, RunId, ToolCallId};
    ///
    /// let run = RunId(neuraxis_core::uuid::Uuid::nil());
    /// let call = ToolCallId::new(run, AgentId::ROOT, ContentIndex(0), CallIndex(0));
    /// assert_eq!(call.run(), Some(run));
    /// assert_eq!(ToolCallId::from_text("call_1").run(), None);
    /// ```
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        let (run, _) = self.0.strip_prefix("call_")?.split_once('_')?;
        run.parse().ok().map(RunId)
    }

    /// Wraps an id from outside, such as one in a history sent by a client.
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A tool's name: 1 to 64 of `A-Z a-z 0-9 _ -`, which every provider accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Returns [`FINAL_ANSWER`] as a name.
    #[must_use]
    pub fn final_answer() -> Self {
        Self(FINAL_ANSWER.into())
    }

    /// Returns [`FIND_TOOLS`] as a name.
    #[must_use]
    pub fn find_tools() -> Self {
        Self(FIND_TOOLS.into())
    }

    /// Returns [`READ_OUTPUT`] as a name.
    #[must_use]
    pub fn read_output() -> Self {
        Self(READ_OUTPUT.into())
    }

    /// Returns the name as a shared string, without copying.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// A session's id: 1 to 128 of `A-Z a-z 0-9 . _ : -`, chosen by the creator of the session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

/// A client's name for a request, so repeating the request does not repeat its effects: 1 to 255 visible ASCII
/// characters. Its scope is its session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

macro_rules! checked_text {
    ($name:ident, $what:literal, $rule:literal, $most:literal, $extra:pat) => {
        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let fits = (1..=$most).contains(&text.len())
                    && text
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, $extra));
                if fits {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidId {
                        what: $what,
                        rule: $rule,
                    })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

checked_text!(
    ToolName,
    "tool name",
    "1 to 64 of A-Z a-z 0-9 _ -",
    64,
    b'_' | b'-'
);
checked_text!(
    SessionId,
    "session id",
    "1 to 128 of A-Z a-z 0-9 . _ : -",
    128,
    b'.' | b'_' | b':' | b'-'
);

checked_text!(
    IdempotencyKey,
    "idempotency key",
    "1 to 255 visible ASCII characters, none of them a space",
    255,
    b'!'..=b'~'
);

/// A string that does not have the form of the id it stands for. The string itself is not repeated, since it may be
/// hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {what}: it must be {rule}")]
#[non_exhaustive]
pub struct InvalidId {
    /// The kind of id that was expected.
    pub what: &'static str,
    /// The form that such an id must have.
    pub rule: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_call_id_fits_the_64_characters_that_openai_allows() {
        let id = ToolCallId::new(
            RunId(Uuid::max()),
            AgentId(9_999),
            ContentIndex(99_999),
            CallIndex(999),
        );
        assert!(
            id.as_str().len() <= 64,
            "{id} has {} characters",
            id.as_str().len()
        );
    }

    #[test]
    fn ids_are_read_back_from_their_text() {
        let effect = EffectId {
            run: RunId(Uuid::from_u128(7)),
            number: 12,
        };
        assert_eq!(effect.to_string().parse(), Ok(effect));
        assert_eq!("a3".parse(), Ok(AgentId(3)));
    }

    #[test]
    fn the_built_in_tools_of_the_engine_have_valid_names() {
        for name in [
            ToolName::final_answer(),
            ToolName::find_tools(),
            ToolName::read_output(),
        ] {
            assert_eq!(name.as_str().parse(), Ok(name));
        }
    }

    #[test]
    fn hostile_session_ids_are_refused() {
        for text in ["", "../x", "a/b", "a\0b", "a b", &"x".repeat(129)] {
            assert!(text.parse::<SessionId>().is_err(), "{text:?} was accepted");
        }
        assert!("user:42.main-1".parse::<SessionId>().is_ok());
    }

    #[test]
    fn an_idempotency_key_is_visible_ascii_of_bounded_length() {
        for text in [
            "",
            " ",
            "a b",
            "a\tb",
            "a\u{7f}",
            "sch\u{f6}n",
            &"x".repeat(256),
        ] {
            let refused = text.parse::<IdempotencyKey>().unwrap_err();
            assert!(refused.to_string().contains("255 visible"), "{refused}");
        }
        for text in ["7", "\"8e03978e-40d5\"", "a/b?c=%20~!", &"x".repeat(255)] {
            assert_eq!(text.parse::<IdempotencyKey>().unwrap().as_str(), text);
        }
    }
}
