//! The table.

use std::fmt;

use crate::round::{Outcome, Round};

/// The head of the table.
pub(crate) const HEAD: &str = "\
| streams | server | lost | p50, ms | p99, ms | added p50, ms | added p99, ms | CPU per 1,000 deltas, ms | KiB per stream |
| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    streams: usize,
    server: &'static str,
    lost: u64,
    latency: [f64; 2],
    /// The difference to the reference server.
    added: Option<[f64; 2]>,
    processor: f64,
    kib: u64,
}

impl Row {
    /// Describes a round, compared to the reference server's result.
    pub(crate) fn of(
        server: &'static str,
        round: &Round,
        outcome: &Outcome,
        bare: Option<&Outcome>,
    ) -> Self {
        let latency = [50, 99].map(|percent| millis(&outcome.late, percent));
        let added = bare.map(|bare| {
            let [median, high] = [50, 99].map(|percent| millis(&bare.late, percent));
            [latency[0] - median, latency[1] - high]
        });
        Self {
            streams: round.streams,
            server,
            lost: outcome.lost,
            latency,
            added,
            // Seconds per delta times 1e6 are milliseconds per thousand deltas.
            processor: outcome.per_delta.as_secs_f64() * 1e6,
            kib: outcome.bytes / 1_024,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, high] = self.latency;
        let added = |place: usize| match self.added {
            Some(added) => format!("{:.2}", added[place]),
            None => "–".to_owned(),
        };
        write!(
            f,
            "| {} | {} | {} | {median:.2} | {high:.2} | {} | {} | {:.1} | {} |",
            self.streams,
            self.server,
            self.lost,
            added(0),
            added(1),
            self.processor,
            self.kib
        )
    }
}

/// Returns a percentile, in milliseconds, of times in microseconds sorted in ascending order.
pub(crate) fn millis(late: &[u64], percent: usize) -> f64 {
    let place = (late.len() * percent / 100).min(late.len().saturating_sub(1));
    #[expect(clippy::cast_precision_loss, reason = "hours are exact")]
    let micros = late.get(place).copied().unwrap_or_default() as f64;
    micros / 1_000.0
}
