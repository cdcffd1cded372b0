//! What must hold for any input: one function a fuzz target, which panics where it does not.
//!
//! The decoder of events is driven as it is. All other parsers are private to their crates and are reached as a server
//! reaches them: the input is what a server on loopback answers, so an input costs a round trip or three.

mod errors;
mod markup;
mod server;
mod sse;
mod streams;

pub use self::errors::errors;
pub use self::markup::markup;
pub use self::sse::sse;
pub use self::streams::{chat, messages, responses};

use std::time::Duration;

use futures_util::TryStreamExt;
use neuraxis_core::{LlmError, LlmErrorKind, Reply, ReplyAssembler};
use neuraxis_ports::ReplyStream;
use tokio::runtime::{Builder, Runtime};

/// A key that must never show: the one that the tests of `neuraxis-wire` use, and an input repeats.
const CANARY: &str = "sk-canary-5f1e";

/// Far more than an answer on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);

type Outcome = Result<Reply, LlmError>;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Waits for a call, which must not hang, and whose error must not tell the key.
async fn promptly<T>(call: impl Future<Output = Result<T, LlmError>>) -> Result<T, LlmError> {
    let result = tokio::time::timeout(PATIENCE, call).await;
    let result = result.expect("the call hangs");
    if let Err(error) = &result {
        assert!(!format!("{error:?}").contains(CANARY), "the key shows");
    }
    result
}

/// Reads a stream to its end.
async fn collect(mut stream: ReplyStream) -> Outcome {
    let mut assembler = ReplyAssembler::default();
    while let Some(delta) = stream.try_next().await? {
        assembler.push(delta)?;
    }
    assembler.finish()
}

/// Checks that it makes no difference how a stream was cut.
fn same(whole: Outcome, split: Outcome) {
    match (whole, split) {
        (Ok(whole), Ok(split)) => assert_eq!(whole, split),
        // The machine ran out of ports: nothing to do with the input.
        (Err(error), _) | (_, Err(error)) if error.kind == LlmErrorKind::Connection => {}
        (Err(whole), Err(split)) => assert_eq!(whole.kind, split.kind),
        (whole, split) => panic!("whole: {whole:?}\nsplit: {split:?}"),
    }
}
