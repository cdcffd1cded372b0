//! Makes an attempt of a model call fit the model that makes it, as far as it is known how much context that one has.
//!
//! Nothing of it lasts: for the model that the call is for, the conversation stays whole.

use neuraxis_core::{CallModel, FittedRequest, LlmError, LlmErrorKind, RoleDowngraded, RunTree};
use neuraxis_ports::{CancellationToken, LlmClient};

use crate::driver::Driver;
use crate::driver::serving::Fallback;
use crate::engine::learned;

/// What is still to be done for an attempt to fit its model.
pub(super) enum Fitting {
    /// Nothing but to send this, or the request of the call.
    Done(Option<Box<FittedRequest>>),
    /// It is made by a role that stands in, whose context may be far smaller.
    StandIn {
        run: Box<RunTree>,
        said_context: Option<u64>,
    },
}

impl Fitting {
    /// Returns what is sent in place of the request of the call, if anything is. The server of a role that stands in is asked
    /// now how much context its model has, where that is not known.
    pub(super) async fn fit(
        self,
        call: &CallModel,
        client: &dyn LlmClient,
        cancellation: &CancellationToken,
    ) -> Option<Box<FittedRequest>> {
        let (run, said_context) = match self {
            Self::Done(fitted) => return fitted,
            Self::StandIn { run, said_context } => (run, said_context),
        };
        let known = said_context.or_else(|| client.info().context_tokens);
        if known.is_none() {
            let learned = learned(client.learn_context());
            cancellation.run_until_cancelled(learned).await;
        }
        let context = known.or_else(|| client.info().context_tokens)?;
        run.fitted(call, context).map(Box::new)
    }
}

impl Driver {
    /// Returns what is to be done for an attempt to fit its model: another than the one that the call is for, if it stands in.
    pub(super) fn fitting(
        &self,
        call: &CallModel,
        client: &dyn LlmClient,
        downgraded: Option<&RoleDowngraded>,
        fallback: Option<&Fallback>,
    ) -> Fitting {
        if downgraded.is_some() {
            let run = Box::new(self.tree.clone());
            let said_context = fallback.and_then(Fallback::said_context);
            return Fitting::StandIn { run, said_context };
        }
        let context = client.info().context_tokens;
        let fitted = context.and_then(|context| self.tree.with_shorter_reply(call, context));
        Fitting::Done(fitted.map(Box::new))
    }

    /// Lets a role that stands in try a call once more that did not fit it, where its server said how much context it has and
    /// less can be sent than the so many tokens that were.
    pub(super) fn fitted_again(
        &self,
        call: &CallModel,
        downgraded: Option<&RoleDowngraded>,
        fallback: Option<&Fallback>,
        error: &LlmError,
        sent: Option<u64>,
    ) -> Option<Box<Fallback>> {
        let downgraded = downgraded?;
        let LlmErrorKind::ContextOverflow {
            limit: Some(limit),
            needed,
        } = error.kind
        else {
            return None;
        };
        if fallback.is_some_and(|fallback| fallback.said_context().is_some()) {
            return None;
        }
        let sent = match sent {
            Some(sent) => sent,
            None => self.tree.fitted(call, u64::MAX)?.tokens,
        };
        // Where it counts more than was estimated, so much less of what is estimated fits.
        let context = match needed.filter(|needed| *needed > sent) {
            Some(needed) => limit.saturating_mul(sent) / needed,
            None => limit,
        };
        let fitted = self.tree.fitted(call, context)?;
        let is_shorter = fitted.request.max_output_tokens < call.request.max_output_tokens;
        if fitted.tokens >= sent && !is_shorter {
            return None;
        }
        Some(Fallback::again(downgraded, fallback, call.attempt, context))
    }
}
