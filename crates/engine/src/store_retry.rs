//! Calls of the store that are made again where that may help, and what waits between them.
//!
//! Not for deciding whether repeating is safe: that is a promise of the port.

use backon::{ExponentialBuilder, Retryable};
use neuraxis_ports::StoreError;

/// How often a call is made in all before it is given up: the pauses between come to 15 seconds, or up to twice that.
const ATTEMPTS: usize = 5;

/// Makes a call of the store, and makes it again while its failure may pass.
pub(crate) async fn retried<T, Called>(call: impl FnMut() -> Called) -> Result<T, StoreError>
where
    Called: Future<Output = Result<T, StoreError>>,
{
    call.retry(pauses())
        .sleep(tokio::time::sleep)
        .when(StoreError::is_retryable)
        .await
}

/// As [`retried`], for a call whose first attempt was made already and failed so.
pub(crate) async fn retried_after<T, Called>(
    failed: StoreError,
    mut call: impl FnMut() -> Called,
) -> Result<T, StoreError>
where
    Called: Future<Output = Result<T, StoreError>>,
{
    let mut failed = Some(failed);
    retried(|| {
        let first = failed.take();
        let again = first.is_none().then(&mut call);
        async move {
            match (first, again) {
                (None, Some(again)) => again.await,
                (Some(error), _) => Err(error),
                // One of the two is there.
                (None, None) => Err(StoreError::Unavailable("not asked".to_owned())),
            }
        }
    })
    .await
}

fn pauses() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_jitter()
        .with_max_times(ATTEMPTS - 1)
}
