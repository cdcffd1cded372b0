//! The rules of the [`TraceSink`] port.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;

use neuraxis_core::{Record, SessionId};
use neuraxis_ports::TraceSink;

use super::promptly;
use crate::clock::CountingIds;
use crate::reply;
use crate::run_log::RunLog;

/// Mounts the rules of the [`TraceSink`](neuraxis_ports::TraceSink) port as tests.
#[macro_export]
macro_rules! trace_sink_suite {
    ($sink:expr) => {
        $crate::mount_rules! { trace_sink, $sink, [
            a_flood_of_records_does_not_block_the_sink
            runs_may_report_at_the_same_time
        ] }
    };
}

/// The sink accepts ten thousand records in a row without blocking, whether or not it keeps them.
pub async fn a_flood_of_records_does_not_block_the_sink(sink: impl TraceSink) {
    let records = run(1);
    let flood = move || {
        for record in records.iter().cycle().take(10_000) {
            sink.record(record);
        }
    };
    let taken = promptly("the sink blocks", tokio::task::spawn_blocking(flood)).await;
    taken.expect("the sink takes records without a panic");
}

/// Several runs report at the same time, in any interleaving.
pub async fn runs_may_report_at_the_same_time(sink: impl TraceSink) {
    let sink = Arc::new(sink);
    let report = |number| {
        let sink = Arc::clone(&sink);
        tokio::task::spawn_blocking(move || {
            for record in run(number) {
                sink.record(&record);
            }
        })
    };
    let reports: Vec<_> = (1..=8).map(report).collect();
    for report in reports {
        let taken = promptly("the sink blocks", report).await;
        taken.expect("the sink takes records without a panic");
    }
}

fn run(number: u64) -> Vec<Arc<Record>> {
    let session: SessionId = "conformance".parse().expect("a valid session id");
    let mut log = RunLog::new(CountingIds::nth_run(number), session);
    vec![
        log.started("Hello?"),
        log.warned("slow"),
        log.replied(reply::text("Hi.")),
        log.finished("Hi."),
    ]
}
