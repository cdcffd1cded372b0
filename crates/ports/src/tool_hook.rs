//! The port to a program's own code around tool calls: before they are checked, and before their results are read.
//!
//! Not for the points between the steps of the loop, which are an [`Advisor`](crate::Advisor)'s.

use std::fmt::Debug;
use std::ops::Deref;

use async_trait::async_trait;
use neuraxis_core::{JsonText, ToolCallId, ToolOutcome, ToolOutput, ToolSpec};

use crate::tool::TurnContext;

/// Code of a program that looks at tool calls: it may change their arguments, have a person asked, refuse them, end the agent
/// that makes them, and change what the model reads of their results. It can let nothing run that the policy would not: the
/// policy judges what the hook left of a call, and of both the stricter holds.
///
/// **Who repeats.** Nobody. What a hook said is recorded, and neither a replay nor a run that is taken up asks it again about
/// a call of which that is on record; between two processes this holds if they have the same approval key. It is asked once
/// more about arguments that a person put in place of others, and about a call whose record could not be written: rewriting
/// what was rewritten must change nothing. **Cancel safety.** When the run ends the future is dropped. **Order.** Several hooks are asked in the order in which they were given, each about what
/// the one before left; calls of one reply at the same time. **Failing.** A hook that crashes, or takes longer than 30
/// seconds, refuses: the call is not run, or its result is not read. **Blocking.** It is asked in the task of the run and must not
/// block its thread: the run would stand still, and those 30 seconds with it. What blocks belongs into
/// `tokio::task::spawn_blocking`.
///
/// ```
/// use neuraxis_ports::{BeforeCall, HookedCall, ToolHook, async_trait};
///
/// /// Refunds above 100 are a person's to allow, and those of others are nobody's.
/// #[derive(Debug)]
/// struct Refunds;
///
/// #[async_trait]
/// impl ToolHook for Refunds {
///     async fn before(&self, call: &HookedCall) -> BeforeCall {
///         #[derive(serde::Deserialize)]
///         struct Refund {
///             customer: String,
///             amount: u64,
///         }
///         if call.tool.name.as_str() != "refund" {
///             return BeforeCall::Continue;
///         }
///         match call.arguments.decode::<Refund>() {
///             Ok(refund) if call.owner() != Some(refund.customer.as_str()) => {
///                 BeforeCall::refuse("only refunds of the customer who asks can be made")
///             }
///             Ok(refund) if refund.amount > 100 => BeforeCall::ask("It is a refund above 100."),
///             Ok(_) => BeforeCall::Continue,
///             Err(error) => BeforeCall::refuse(error.to_string()),
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait ToolHook: Debug + Send + Sync + 'static {
    /// Looks at a call of a tool that the agent was offered, before its arguments are checked against the schema and before
    /// the policy judges it. They may be anything that a model can write. A call of a tool that the client runs is looked at before
    /// the client gets it. Where the run ends with such calls, they are handed over as the model wrote them: one whose arguments
    /// would change is refused.
    async fn before(&self, _call: &HookedCall) -> BeforeCall {
        BeforeCall::Continue
    }

    /// Looks at what came of an attempt of a call that ran here, or at what a client brought of one that it ran, before it is
    /// recorded and read. Not at what a tool shows while it runs, which is shown as it comes and kept nowhere where there is a hook.
    /// Not at the answer of a sub-agent, which is a model's: a [`ModelHook`](crate::ModelHook) looks at that. Nor
    /// at the results of calls that were handed over: they come in the conversation of a later request, and the `before` of a
    /// `ModelHook` sees them there.
    async fn after(&self, _call: &HookedCall, _outcome: &ToolOutcome) -> AfterCall {
        AfterCall::Keep
    }
}

/// A call that a hook looks at.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookedCall {
    /// The run, the session, the agent, the turn, and who asks.
    pub turn: TurnContext,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool, as the policy takes it.
    pub tool: ToolSpec,
    /// The arguments as JSON text: those that the model wrote, or what a person or another hook put in their place.
    pub arguments: JsonText,
}

impl HookedCall {
    /// Describes a call.
    #[must_use]
    pub const fn new(
        turn: TurnContext,
        tool_call_id: ToolCallId,
        tool: ToolSpec,
        arguments: JsonText,
    ) -> Self {
        Self {
            turn,
            tool_call_id,
            tool,
            arguments,
        }
    }
}

/// What is known of the turn is known of its call: [`owner`](TurnContext::owner), [`get`](TurnContext::get).
impl Deref for HookedCall {
    type Target = TurnContext;

    fn deref(&self) -> &TurnContext {
        &self.turn
    }
}

/// How a call goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeforeCall {
    /// As it is.
    Continue,
    /// With these arguments in place of those it had.
    Rewrite {
        /// The arguments; checked like any others.
        arguments: JsonText,
    },
    /// A person has to approve it, be it that the policy lets it run.
    Ask {
        /// Why, a sentence for the person.
        reason: String,
    },
    /// It is not run, and the agent goes on.
    Refuse {
        /// Why, for the model, which reads `denied: …`.
        reason: String,
    },
    /// It is not run, nor is any other of the same reply that has not run yet, and the agent that makes it ends with the text
    /// so far.
    Stop {
        /// Why, for the log.
        reason: String,
    },
}

impl BeforeCall {
    /// Lets the call go on with other arguments.
    #[must_use]
    pub const fn rewrite(arguments: JsonText) -> Self {
        Self::Rewrite { arguments }
    }

    /// Has a person asked.
    pub fn ask(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Ask { reason }
    }

    /// Does not let the call run.
    pub fn refuse(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Refuse { reason }
    }

    /// Ends the agent.
    pub fn stop(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Stop { reason }
    }
}

/// What the model reads of a call that ran. What the tool gave is on record nowhere unless it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterCall {
    /// What the tool gave.
    Keep,
    /// This, in place of what the tool gave. A call that failed stays failed.
    Rewrite {
        /// What takes its place.
        output: ToolOutput,
    },
    /// Nothing but that it ran and that its result is withheld.
    Withhold {
        /// Why, for the model.
        reason: String,
    },
}

impl AfterCall {
    /// Puts something else in place of the result.
    #[must_use]
    pub const fn rewrite(output: ToolOutput) -> Self {
        Self::Rewrite { output }
    }

    /// Keeps the result from the model.
    pub fn withhold(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Withhold { reason }
    }
}
