//! Metrics of trace export.

use std::sync::OnceLock;

use neuraxis_app::Telemetry;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::counted;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkLabels {
    sink: &'static str,
}

/// Metrics of trace export.
#[derive(Debug)]
pub(super) struct TelemetryMetrics {
    delivered: Family<SinkLabels, Counter>,
    dropped: Family<SinkLabels, Counter>,
    telemetry: OnceLock<Telemetry>,
}

impl TelemetryMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            delivered: counted(
                registry,
                "telemetry_delivered",
                "Delivered spans, metric batches and trace lines, by destination",
            ),
            dropped: counted(
                registry,
                "telemetry_dropped",
                "Lost spans, metric batches and trace lines, by destination",
            ),
            telemetry: OnceLock::new(),
        }
    }

    pub(super) fn watch(&self, telemetry: Telemetry) {
        // The destination of traces is fixed when the server starts.
        let _ = self.telemetry.set(telemetry);
    }

    pub(super) fn note_waiting(&self, approvals: i64) {
        if let Some(telemetry) = self.telemetry.get() {
            telemetry.note_waiting(u64::try_from(approvals).unwrap_or_default());
        }
    }

    /// Copies the counts of the exporter.
    pub(super) fn count(&self) {
        let telemetry = self.telemetry.get().into_iter();
        for destination in telemetry.flat_map(Telemetry::destinations) {
            let to = SinkLabels {
                sink: destination.sink,
            };
            let counts = [
                (&self.delivered, destination.delivery.delivered),
                (&self.dropped, destination.delivery.dropped),
            ];
            for (family, count) in counts {
                let counter = family.get_or_create_owned(&to);
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
    }

    /// Counts one of each kind.
    #[cfg(test)]
    pub(super) fn count_each(&self) {
        for family in [&self.delivered, &self.dropped] {
            family.get_or_create(&SinkLabels { sink: "otlp" }).inc();
        }
    }
}
