//! The port to a program's own code around tool calls: before they are checked, and before their results are read.
//!
//! Not for the points between the steps of the loop: use an [`Advisor`](crate::Advisor).

use std::fmt::Debug;
use std::ops::Deref;

use async_trait::async_trait;
use neuraxis_core::{JsonText, ToolCallId, ToolOutcome, ToolOutput, ToolSpec};

use crate::tool::TurnContext;

/// A program's code that inspects tool calls. It may change their arguments, require approval, refuse them, end the
/// agent that makes them, and change what the model reads of their results. It cannot make anything run that the policy
/// would not allow: the policy judges the call as the hook left it, and the stricter of the two decisions applies.
///
/// **Retries.** None. What a hook returned is recorded, and neither a replay nor a resumed run asks it again about a
/// call with such a record; across processes this requires that they have the same approval key. It is asked again
/// about arguments that a user substituted, and about a call whose record could not be written, so rewriting rewritten
/// arguments must change nothing. **Cancel safety.** When the run ends the future is dropped. **Order.** Several hooks
/// are asked in the order in which they were added, each about what the previous one left; calls of one reply are asked
/// about at the same time. **Failing.** A hook that panics, or takes longer than 30 seconds, refuses: the call is not
/// run, or its result is not read. **Blocking.** The hook is asked in the task of the run and must not block its
/// thread: that would halt the run, including the 30-second limit. Use `tokio::task::spawn_blocking` for blocking work.
///
/// ```
/// use neuraxis_ports::{BeforeCall, HookedCall, ToolHook, async_trait};
///
/// /// Refunds above 100 need approval, and customers can only get refunds of their own.
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
    /// Inspects a call of a tool that the agent was offered, before its arguments are checked against the schema and
    /// before the policy judges it. The arguments may be anything that a model can write. A call of a client tool is
    /// inspected before the client gets it. If the run ends with such calls, they are handed over as the model wrote
    /// them: a call whose arguments would change is refused.
    async fn before(&self, _call: &HookedCall) -> BeforeCall {
        BeforeCall::Continue
    }

    /// Inspects the outcome of an attempt of a call that ran here, or the result that a client supplied for a call that
    /// it ran, before it is recorded and read. Does not cover a tool's live output, which is shown as it arrives and,
    /// if there is a hook, not stored. Does not cover the answer of a sub-agent, which comes from a model: use a
    /// [`ModelHook`](crate::ModelHook). Nor does it cover the results of calls that were handed over: they come in the
    /// conversation of a later request, where the `before` of a `ModelHook` sees them.
    async fn after(&self, _call: &HookedCall, _outcome: &ToolOutcome) -> AfterCall {
        AfterCall::Keep
    }
}

/// A call that a hook inspects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookedCall {
    /// The run, the session, the agent, the turn, and who asks.
    pub turn: TurnContext,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool, as the policy sees it.
    pub tool: ToolSpec,
    /// The arguments as JSON text: the model's, or those that a user or another hook substituted.
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

/// Gives access to the turn of the call: [`owner`](TurnContext::owner), [`get`](TurnContext::get).
impl Deref for HookedCall {
    type Target = TurnContext;

    fn deref(&self) -> &TurnContext {
        &self.turn
    }
}

/// How a call proceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeforeCall {
    /// Unchanged.
    Continue,
    /// With these arguments instead.
    Rewrite {
        /// The new arguments; checked like any others.
        arguments: JsonText,
    },
    /// The user must approve it, even if the policy would let it run.
    Ask {
        /// Why, as a sentence for the user.
        reason: String,
    },
    /// It is not run, and the agent continues.
    Refuse {
        /// Why, for the model, which reads `denied: …`.
        reason: String,
    },
    /// It is not run, nor is any other call of the same reply that has not run yet, and the agent that makes it ends
    /// with the text so far.
    Stop {
        /// Why, for the log.
        reason: String,
    },
}

impl BeforeCall {
    /// Lets the call proceed with other arguments.
    #[must_use]
    pub const fn rewrite(arguments: JsonText) -> Self {
        Self::Rewrite { arguments }
    }

    /// Requires approval.
    pub fn ask(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Ask { reason }
    }

    /// Refuses the call.
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

/// What the model reads of a call that ran. The tool's own result is recorded only if it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterCall {
    /// The tool's result.
    Keep,
    /// This instead of the tool's result. A call that failed stays failed.
    Rewrite {
        /// The replacement.
        output: ToolOutput,
    },
    /// Only that the call ran and that its result is withheld.
    Withhold {
        /// Why, for the model.
        reason: String,
    },
}

impl AfterCall {
    /// Replaces the result.
    #[must_use]
    pub const fn rewrite(output: ToolOutput) -> Self {
        Self::Rewrite { output }
    }

    /// Withholds the result from the model.
    pub fn withhold(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Withhold { reason }
    }
}
