//! Checks that must hold for any input: one function per fuzz target, which panics if its check fails.
//!
//! The event decoder is called directly. All other parsers are private to their crates and are reached the way a server
//! reaches them: a loopback server answers with the input, so each input costs up to three round trips.

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

/// A key that must never be displayed: the tests of `neuraxis-wire` use the same one, and an input repeats it.
const CANARY: &str = "sk-canary-5f1e";

/// Far longer than an answer on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);

type Outcome = Result<Reply, LlmError>;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Waits for a call, which must not hang, and whose error must not contain the key.
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

/// Checks that splitting a stream makes no difference.
fn same(whole: Outcome, split: Outcome) {
    match (whole, split) {
        (Ok(whole), Ok(split)) => assert_eq!(whole, split),
        // The machine ran out of ports, which does not depend on the input.
        (Err(error), _) | (_, Err(error)) if error.kind == LlmErrorKind::Connection => {}
        (Err(whole), Err(split)) => assert_eq!(whole.kind, split.kind),
        (whole, split) => panic!("whole: {whole:?}\nsplit: {split:?}"),
    }
}
