//! Retries of store calls whose failure may pass, and the pauses between them.
//!
//! Not for deciding whether a retry is safe: the port guarantees that.

use backon::{BackoffBuilder, ExponentialBuilder};
use neuraxis_ports::StoreError;

/// The maximum number of attempts in all. The pauses between them add up to 15 seconds, or up to twice that.
const ATTEMPTS: usize = 5;

/// Calls the store, and retries while its failure may pass.
pub(crate) async fn retried<T, Called>(mut call: impl FnMut() -> Called) -> Result<T, StoreError>
where
    Called: Future<Output = Result<T, StoreError>>,
{
    match call().await {
        Err(failed) => retried_after(failed, call).await,
        done => done,
    }
}

/// Like [`retried`], for a call whose first attempt has already failed with `failed`.
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
