//! The port to an embedder's hooks.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::{Advice, Consult};

use crate::tool::TurnContext;

/// Somebody who is asked at points of the loop that a profile names, and may end the loop there.
///
/// **Who repeats.** Nobody: an answer is recorded and never asked for again, on a replay neither. **Cancel safety.**
/// Dropping the future withdraws the question. **Order.** Questions of several agents may be open at the same time.
/// **Blocking.** It is asked in the task of the run and must not block its thread: what blocks belongs into
/// `tokio::task::spawn_blocking`.
#[async_trait]
pub trait Advisor: Debug + Send + Sync + 'static {
    /// Says how to go on at this point, which is in this turn of the agent and of this request. Should be quick: the agent
    /// waits for it.
    async fn advise(&self, question: &Consult, turn: &TurnContext) -> Advice;
}
