//! One round: a number of concurrent streams from one server, from the first delta to the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::RATE;
use crate::listen::{Api, listen};
use crate::process::{Measured, Used};

/// How much longer than planned a round may take, so that late data can arrive.
const PATIENCE: Duration = Duration::from_secs(120);

/// One round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) streams: usize,
    pub(crate) duration: Duration,
}

/// The result of a round.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How late each delta was, in microseconds, in ascending order.
    pub(crate) late: Vec<u64>,
    /// How many deltas never arrived.
    pub(crate) lost: u64,
    /// Processor time per delta while all streams were open.
    pub(crate) per_delta: Duration,
    /// Memory per open stream, in bytes.
    pub(crate) bytes: u64,
}

impl Round {
    /// Listens to all streams of one server.
    pub(crate) async fn run(&self, server: &Measured, api: Api) -> Outcome {
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        // One-time initialization must happen before the measurement.
        self.warm_up(&address, api).await;
        let received = Arc::new(AtomicU64::new(0));
        let idle = server.used();
        let listening: Vec<_> = (0..self.streams)
            .map(|session| {
                let (address, received) = (address.clone(), Arc::clone(&received));
                tokio::spawn(async move { listen(&address, api, session, &received).await })
            })
            .collect();
        let (begin, end) = self.amid(server, &received).await;
        let mut late = Vec::new();
        for listening in listening {
            let all = timeout(self.duration + PATIENCE, listening).await;
            late.extend(all.unwrap().unwrap());
        }
        late.sort_unstable();
        let streams = u64::try_from(self.streams).unwrap();
        let expected = streams * self.duration.as_secs() * RATE;
        let deltas = u32::try_from(end.1 - begin.1).unwrap().max(1);
        Outcome {
            lost: expected.saturating_sub(u64::try_from(late.len()).unwrap()),
            late,
            per_delta: (end.0.processor - begin.0.processor) / deltas,
            bytes: end.0.bytes.saturating_sub(idle.bytes) / streams,
        }
    }

    /// Returns the usage and the number of deltas received once all streams are open, and shortly before they end.
    async fn amid(&self, server: &Measured, received: &AtomicU64) -> ((Used, u64), (Used, u64)) {
        let now = || (server.used(), received.load(Ordering::Relaxed));
        sleep(self.duration * 3 / 10).await;
        let begin = now();
        sleep(self.duration * 5 / 10).await;
        (begin, now())
    }

    /// Listens to one stream to its end: an abandoned one might continue without its listener and be measured too.
    async fn warm_up(&self, address: &str, api: Api) {
        let received = AtomicU64::new(0);
        let one = listen(address, api, usize::MAX, &received);
        let all = timeout(self.duration + PATIENCE, one).await.unwrap();
        assert!(!all.is_empty(), "no delta was heard of {address}");
    }
}
