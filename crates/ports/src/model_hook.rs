//! The port to a program's own code around model calls: before a request is sent, and before a reply is accepted.
//!
//! A guardrail is one of these. Not for tool calls: use a [`ToolHook`](crate::ToolHook).

use std::fmt::Debug;
use std::ops::Deref;

use async_trait::async_trait;
use neuraxis_core::{Purpose, Reply, Transcript};

use crate::tool::TurnContext;

/// A program's code that inspects what a model is sent and what it replies. It may change both, have the model asked
/// again, and end the agent with a reply of its own. It cannot make anything run that the policy would not allow: it
/// adds no call and no tool.
///
/// **Retries.** None: what the hook returned is on record, and neither a replay nor a resumed run asks it again about
/// the same thing. It is asked again if the record could not be written, and, with [`HookTiming::Alongside`], for each
/// attempt. **Cancel safety.** When the run ends the future is dropped. **Order.** Several hooks are asked in the order
/// in which they were added, each about what the previous one left; agents that work at the same time are asked about
/// at the same time. **Failing.** A hook that panics, or takes longer than 30 seconds, refuses. **Blocking.** The hook
/// is asked in the task of the run and must not block its thread: that would halt the run, including the 30-second
/// limit. Use `tokio::task::spawn_blocking` for blocking work.
///
/// ```
/// use neuraxis_ports::{AfterModel, BeforeModel, HookedReply, HookedRequest, ModelHook, async_trait};
///
/// /// No medical questions, and no telephone numbers in answers.
/// #[derive(Debug)]
/// struct FrontDesk;
///
/// #[async_trait]
/// impl ModelHook for FrontDesk {
///     async fn before(&self, request: &HookedRequest) -> BeforeModel {
///         if request.is_first && request.text.contains("diagnosis") {
///             return BeforeModel::refuse("a medical question", "Please ask a doctor about that.");
///         }
///         BeforeModel::Continue
///     }
///
///     async fn after(&self, reply: &HookedReply) -> AfterModel {
///         match reply.text().contains("555-") {
///             true => AfterModel::ask_again("Leave out telephone numbers."),
///             false => AfterModel::Keep,
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait ModelHook: Debug + Send + Sync + 'static {
    /// Returns when `before` is asked. Must stay the same for the life of the process.
    fn timing(&self) -> HookTiming {
        HookTiming::Before
    }

    /// Returns whether a user may read a reply while it is being written, before `after` has inspected it. If not, its
    /// text is shown once it is complete. Text that was shown and is then changed is retracted. Must stay the same for
    /// the life of the process.
    fn allows_text_streaming(&self) -> bool {
        true
    }

    /// Inspects a request before it is sent: for a turn, for a last answer, for the choice of what to gather, or for
    /// the choice of a role.
    async fn before(&self, _request: &HookedRequest) -> BeforeModel {
        BeforeModel::Continue
    }

    /// Inspects a reply before it is recorded and accepted: of a turn, of a last answer, or of the check of a draft. A
    /// reply that was cut off is not inspected; if there is a hook, no part of it is stored.
    async fn after(&self, _reply: &HookedReply) -> AfterModel {
        AfterModel::Keep
    }
}

/// When a hook inspects requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HookTiming {
    /// Each request, before it is sent.
    #[default]
    Before,
    /// The first request of an agent, while the model already works on it. Nothing the model replies is accepted before
    /// the hook has answered; if the hook refuses, the call is cancelled and what was shown of it is retracted. An
    /// answer that would change the request comes too late and is treated as a failure.
    Alongside,
}

/// A request that a hook inspects. Its [`TurnContext`] has the run, the session, the agent, the turn and who asks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookedRequest {
    /// The run, the session, the agent, the turn, and who asks.
    pub turn: TurnContext,
    /// What the request is for.
    pub purpose: Purpose,
    /// Whether this is the first model request of this agent.
    pub is_first: bool,
    /// The text of the last user message; for a sub-agent, its task.
    pub text: String,
    /// The conversation that is sent, without additions that are not part of it, such as the question which role
    /// serves.
    pub messages: Transcript,
}

impl HookedRequest {
    /// Describes a request that ends with the last user message of a conversation.
    #[must_use]
    pub fn new(turn: TurnContext, purpose: Purpose, is_first: bool, messages: Transcript) -> Self {
        Self {
            turn,
            purpose,
            is_first,
            text: messages.last_user_text(),
            messages,
        }
    }
}

impl Deref for HookedRequest {
    type Target = TurnContext;

    fn deref(&self) -> &TurnContext {
        &self.turn
    }
}

/// A reply that a hook inspects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookedReply {
    /// The run, the session, the agent, the turn, and who asks.
    pub turn: TurnContext,
    /// What the request was for.
    pub purpose: Purpose,
    /// The model's reply, or what the previous hook left of it: text, reasoning and calls.
    pub reply: Reply,
    /// The arguments of the call that delivers the answer, if the answer has a schema.
    pub delivered: Option<String>,
}

impl HookedReply {
    /// Describes a reply that does not deliver an answer by a call.
    #[must_use]
    pub const fn new(turn: TurnContext, purpose: Purpose, reply: Reply) -> Self {
        Self {
            turn,
            purpose,
            reply,
            delivered: None,
        }
    }

    /// Returns what a reader of the reply would get: the answer that a call delivers, or else the text.
    #[must_use]
    pub fn text(&self) -> String {
        let delivered = self.delivered.clone();
        delivered.unwrap_or_else(|| self.reply.text())
    }

    /// Returns whether the reply would end the agent: it has no calls, or it delivers the answer.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.delivered.is_some() || self.reply.calls().next().is_none()
    }
}

impl Deref for HookedReply {
    type Target = TurnContext;

    fn deref(&self) -> &TurnContext {
        &self.turn
    }
}

/// How a request proceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeforeModel {
    /// Unchanged.
    Continue,
    /// With changes, which stay in the conversation.
    Amend {
        /// Replaces the text of the last user message permanently; not empty. What the user wrote then exists only in
        /// the record of the run's start.
        text: Option<String>,
        /// A system message that is added at the end.
        note: Option<String>,
    },
    /// The model is not asked, and the agent ends with a reply.
    Refuse {
        /// Why, for the log.
        reason: String,
        /// The text for the user, or for the agent that asked.
        reply: String,
    },
    /// The model is not asked, and the agent ends with the text so far.
    Stop {
        /// Why, for the log.
        reason: String,
    },
}

impl BeforeModel {
    /// Replaces the text of the last user message.
    pub fn replace_text(text: impl Into<String>) -> Self {
        Self::Amend {
            text: Some(text.into()),
            note: None,
        }
    }

    /// Adds a system message.
    pub fn note(note: impl Into<String>) -> Self {
        Self::Amend {
            text: None,
            note: Some(note.into()),
        }
    }

    /// Ends the agent with a reply.
    pub fn refuse(reason: impl Into<String>, reply: impl Into<String>) -> Self {
        Self::Refuse {
            reason: reason.into(),
            reply: reply.into(),
        }
    }

    /// Ends the agent with the text so far.
    pub fn stop(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Stop { reason }
    }
}

/// What is accepted of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterModel {
    /// The model's reply, unchanged.
    Keep,
    /// Its calls and reasoning, with this instead of its text, or instead of the answer that it delivers. The model's
    /// own words are then recorded nowhere; for a reply without calls that includes its reasoning.
    Rewrite {
        /// The new text; JSON if the answer has a schema.
        text: String,
    },
    /// Nothing: none of its calls runs, and the model is told why and asked again, as many times as for an answer that
    /// does not fit its schema. After that the run ends without a valid answer. The rejected reply stays in the
    /// conversation, where the model and everyone who may read the conversation can see it.
    AskAgain {
        /// What is wrong and what to do about it, for the model.
        reason: String,
    },
    /// Nothing, and the reply is recorded nowhere: the agent ends with another reply.
    Refuse {
        /// Why, for the log.
        reason: String,
        /// The text for the user, or for the agent that asked.
        reply: String,
    },
}

impl AfterModel {
    /// Replaces the text.
    pub fn rewrite(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Rewrite { text }
    }

    /// Asks the model again.
    pub fn ask_again(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::AskAgain { reason }
    }

    /// Ends the agent with another reply.
    pub fn refuse(reason: impl Into<String>, reply: impl Into<String>) -> Self {
        Self::Refuse {
            reason: reason.into(),
            reply: reply.into(),
        }
    }
}
