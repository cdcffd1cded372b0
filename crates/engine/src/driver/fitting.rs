//! Makes an attempt of a model call fit the model that makes it, as far as that model's context size is known.
//!
//! The changes apply only to the attempt: for the model that the call is for, the conversation stays whole.

use neuraxis_core::{CallModel, FittedRequest, LlmError, LlmErrorKind, RoleDowngraded, RunTree};
use neuraxis_ports::{CancellationToken, LlmClient};

use crate::driver::Driver;
use crate::driver::serving::Fallback;
use crate::engine::learned;

/// What remains to be done for an attempt to fit its model.
pub(super) enum Fitting {
    /// Nothing: send this request, or the request of the call.
    Done(Option<Box<FittedRequest>>),
    /// A fallback role makes the attempt, and its context may be far smaller.
    StandIn {
        run: Box<RunTree>,
        reported_context: Option<u64>,
    },
}

impl Fitting {
    /// Returns the request that is sent instead of the call's, if any. If the context size of a fallback role's model
    /// is not known, its server is asked now.
    pub(super) async fn fit(
        self,
        call: &CallModel,
        client: &dyn LlmClient,
        cancellation: &CancellationToken,
    ) -> Option<Box<FittedRequest>> {
        let (run, reported_context) = match self {
            Self::Done(fitted) => return fitted,
            Self::StandIn {
                run,
                reported_context,
            } => (run, reported_context),
        };
        let known = reported_context.or_else(|| client.info().context_tokens);
        if known.is_none() {
            let learned = learned(client.learn_context());
            cancellation.run_until_cancelled(learned).await;
        }
        let context = known.or_else(|| client.info().context_tokens)?;
        run.fitted(call, context).map(Box::new)
    }
}

impl Driver {
    /// Returns what must be done for an attempt to fit its model, which for a fallback is not the model that the call
    /// is for.
    pub(super) fn fitting(
        &self,
        call: &CallModel,
        client: &dyn LlmClient,
        downgraded: Option<&RoleDowngraded>,
        fallback: Option<&Fallback>,
    ) -> Fitting {
        if downgraded.is_some() {
            let run = Box::new(self.tree.clone());
            let reported_context = fallback.and_then(Fallback::reported_context);
            return Fitting::StandIn {
                run,
                reported_context,
            };
        }
        let context = client.info().context_tokens;
        let fitted = context.and_then(|context| self.tree.with_shorter_reply(call, context));
        Fitting::Done(fitted.map(Box::new))
    }

    /// Lets a fallback role retry a call that did not fit its model, if its server reported the context size and less
    /// can be sent than the `sent` tokens.
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
        if fallback.is_some_and(|fallback| fallback.reported_context().is_some()) {
            return None;
        }
        let sent = match sent {
            Some(sent) => sent,
            None => self.tree.fitted(call, u64::MAX)?.tokens,
        };
        // If the server counts more tokens than were estimated, scale the limit down in the same ratio.
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
