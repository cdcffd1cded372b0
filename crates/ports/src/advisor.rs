//! The port to an embedder's hooks.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::{Advice, Consult};

use crate::tool::TurnContext;

/// An advisor that is asked at points of the loop that a profile names, and may end the loop there.
///
/// **Retries.** None: an answer is recorded and never asked for again, not even in a replay. **Cancel safety.**
/// Dropping the future withdraws the question. **Order.** Questions of several agents may be open at the same time.
/// **Blocking.** The advisor is asked in the task of the run and must not block its thread; use
/// `tokio::task::spawn_blocking` for blocking work.
#[async_trait]
pub trait Advisor: Debug + Send + Sync + 'static {
    /// Returns how to continue at this point, which belongs to the given turn of the agent and its request. Should be
    /// quick: the agent waits for it.
    async fn advise(&self, question: &Consult, turn: &TurnContext) -> Advice;
}
