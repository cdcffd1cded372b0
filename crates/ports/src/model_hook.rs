//! The port to a program's own code around model calls: before a request is sent, and before a reply counts.
//!
//! What others call a guardrail is one of these. Not for tool calls, which are a [`ToolHook`](crate::ToolHook)'s.

use std::fmt::Debug;
use std::ops::Deref;

use async_trait::async_trait;
use neuraxis_core::{Purpose, Reply, Transcript};

use crate::tool::TurnContext;

/// Code of a program that looks at what a model is sent and at what it says: it may change both, have the model asked again,
/// and end the agent with a reply of its own. It can let nothing run that the policy would not: it adds no call and no tool.
///
/// **Who repeats.** Nobody: what it said is on record, and neither a replay nor a run that is taken up asks it again about
/// that. It is asked once more where the record could not be written, and by [`HookTiming::Alongside`] with each attempt.
/// **Cancel safety.** When the run ends the future is dropped. **Order.** Several hooks are asked in the order in which they
/// were given, each about what the one before left; agents at work at the same time, at the same time. **Failing.** A hook that
/// crashes, or takes longer than 30 seconds, refuses. **Blocking.** It is asked in the task of the run and must not block its
/// thread: the run would stand still, and those 30 seconds with it. What blocks belongs into `tokio::task::spawn_blocking`.
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
    /// Says when `before` is asked. The same for the whole life of the process.
    fn timing(&self) -> HookTiming {
        HookTiming::Before
    }

    /// Tells whether a person may read a reply while it is written, before `after` has looked at it: if not, its text is shown
    /// once it is whole. What was shown and is then changed is taken back. The same for the whole life of the process.
    fn lets_text_stream(&self) -> bool {
        true
    }

    /// Looks at a request before it is sent: of a turn, of a last answer, of the choice of what to gather or of a role.
    async fn before(&self, _request: &HookedRequest) -> BeforeModel {
        BeforeModel::Continue
    }

    /// Looks at a reply before it is recorded and counts: of a turn, of a last answer, or of the check of a draft. Not at one that
    /// is cut off, of which nothing is kept where there is a hook.
    async fn after(&self, _reply: &HookedReply) -> AfterModel {
        AfterModel::Keep
    }
}

/// When a hook looks at requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HookTiming {
    /// At each, before it is sent.
    #[default]
    Before,
    /// At the first of an agent, while the model works on it already: nothing the model says counts before the hook has
    /// answered, and if it refuses, the call is cancelled and what was shown of it is taken back. An answer that would change
    /// the request comes too late and counts as a failure.
    Alongside,
}

/// A request that a hook looks at. The run, the session, the agent, the turn and who asks are those of its
/// [`TurnContext`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookedRequest {
    /// The run, the session, the agent, the turn, and who asks.
    pub turn: TurnContext,
    /// What is asked for.
    pub purpose: Purpose,
    /// Whether nothing was asked of a model for this agent before.
    pub is_first: bool,
    /// The text of the last user message; of a sub-agent, what it is to do.
    pub text: String,
    /// The conversation that is sent, without what is not part of it, as the question which role serves.
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

/// A reply that a hook looks at.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookedReply {
    /// The run, the session, the agent, the turn, and who asks.
    pub turn: TurnContext,
    /// What was asked for.
    pub purpose: Purpose,
    /// What the model said, or what the hook before left of it: text, reasoning and calls.
    pub reply: Reply,
    /// The arguments of the call that delivers the answer, where the answer has a form.
    pub delivered: Option<String>,
}

impl HookedReply {
    /// Describes a reply that delivers nothing by a call.
    #[must_use]
    pub const fn new(turn: TurnContext, purpose: Purpose, reply: Reply) -> Self {
        Self {
            turn,
            purpose,
            reply,
            delivered: None,
        }
    }

    /// Returns what a person or a program would read of it: the answer that a call delivers, or else the text.
    #[must_use]
    pub fn text(&self) -> String {
        let delivered = self.delivered.clone();
        delivered.unwrap_or_else(|| self.reply.text())
    }

    /// Tells whether the agent would end with it: it calls nothing, or delivers the answer.
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

/// How a request goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeforeModel {
    /// As it is.
    Continue,
    /// With changes, which stay in the conversation.
    Amend {
        /// What takes the place of the text of the last user message, for good; not empty. What the user wrote stays in the
        /// record of the run's beginning alone.
        text: Option<String>,
        /// A system message that is added at the end.
        note: Option<String>,
    },
    /// The model is not asked, and the agent ends with a reply.
    Refuse {
        /// Why, for the log.
        reason: String,
        /// What the user is told, or the agent that asked.
        reply: String,
    },
    /// The model is not asked, and the agent ends with the text so far.
    Stop {
        /// Why, for the log.
        reason: String,
    },
}

impl BeforeModel {
    /// Puts a text in the place of that of the last user message.
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

/// What counts of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterModel {
    /// What the model said.
    Keep,
    /// Its calls and reasoning, and this in place of its text, or of the answer that it delivers. What the model wrote is then
    /// on record nowhere, and of a reply without calls its reasoning goes, too.
    Rewrite {
        /// The text; of an answer that has a form, JSON.
        text: String,
    },
    /// Nothing of it: none of its calls runs, and the model is told why and asked again, as often as an answer of a form would
    /// be. After that the run ends with no valid answer. The model still reads what it wrote, and so does whoever may read the
    /// conversation.
    AskAgain {
        /// What is wrong and what to do, for the model.
        reason: String,
    },
    /// Nothing of it, which is then on record nowhere: the agent ends with another reply.
    Refuse {
        /// Why, for the log.
        reason: String,
        /// What the user is told, or the agent that asked.
        reply: String,
    },
}

impl AfterModel {
    /// Puts something else in the place of the text.
    pub fn rewrite(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Rewrite { text }
    }

    /// Has the model asked again.
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
