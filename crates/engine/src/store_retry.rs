//! Calls of the store that are made again where that may help, and what waits between them.
//!
//! Not for deciding whether repeating is safe: that is a promise of the port.

use backon::{BackoffBuilder, ExponentialBuilder};
use neuraxis_ports::StoreError;

/// How often a call is made in all before it is given up: the pauses between come to 15 seconds, or up to twice that.
const ATTEMPTS: usize = 5;

/// Makes a call of the store, and makes it again while its failure may pass.
pub(crate) async fn retried<T, Called>(mut call: impl FnMut() -> Called) -> Result<T, StoreError>
where
    Called: Future<Output = Result<T, StoreError>>,
{
    match call().await {
        Err(failed) => retried_after(failed, call).await,
        done => done,
    }
}

/// As [`retried`], for a call whose first attempt was made already and failed so.
pub(crate) async fn retried_after<T, Called>(
    mut failed: StoreError,
    mut call: impl FnMut() -> Called,
) -> Result<T, StoreError>
where
    Called: Future<Output = Result<T, StoreError>>,
{
    for pause in pauses().build() {
        if !failed.is_retryable() {
            break;
        }
        tokio::time::sleep(pause).await;
        match call().await {
            Ok(done) => return Ok(done),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn pauses() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_jitter()
        .with_max_times(ATTEMPTS - 1)
}
