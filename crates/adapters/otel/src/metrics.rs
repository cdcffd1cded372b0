//! Metrics of runs, computed from their records.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    CountLabel, LlmCall, LlmFailed, MicroUsd, ModelRef, NextAttempt, Record, RecordBody, Role,
    TokenCount, ToolResult, Usage,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider as _, UpDownCounter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use crate::config::{OtlpConfig, StartError};
use crate::endpoints::Endpoints;
use crate::export::{CountedMetrics, Delivery, Tally, in_time};
use crate::names::{self, Metric};
use crate::spans::{provider, word};

/// The histogram bounds for seconds that the conventions prescribe.
const SECONDS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// Additional bounds for what may wait for agents and for users: up to a day.
const WAITING: [f64; 8] = [
    163.84, 327.68, 655.36, 1_310.72, 2_621.44, 5_242.88, 20_971.52, 83_886.08,
];

/// The histogram bounds for tokens that the conventions prescribe.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Counts and measures runs.
#[derive(Debug)]
pub(crate) struct Metrics {
    provider: Arc<SdkMeterProvider>,
    tally: Arc<Tally>,
    token_usage: Histogram<u64>,
    operation: Histogram<f64>,
    first_chunk: Histogram<f64>,
    tool: Histogram<f64>,
    agent: Histogram<f64>,
    cost: Counter<u64>,
    retries: Counter<u64>,
    trims: Counter<u64>,
    commit: Histogram<f64>,
    active: UpDownCounter<i64>,
    waiting: Gauge<u64>,
}

impl Metrics {
    pub(crate) fn new(config: &OtlpConfig, resource: Resource) -> Result<Self, StartError> {
        let (exporter, tally) = CountedMetrics::new(config)?;
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_periodic_exporter(exporter)
            .build();
        let meter = provider.meter(env!("CARGO_PKG_NAME"));
        let long = [SECONDS.as_slice(), WAITING.as_slice()].concat();
        Ok(Self {
            token_usage: meter
                .u64_histogram(names::TOKEN_USAGE.name)
                .with_unit(names::TOKEN_USAGE.unit)
                .with_description(names::TOKEN_USAGE.what)
                .with_boundaries(TOKENS.to_vec())
                .build(),
            operation: seconds(&meter, names::OPERATION_DURATION, &SECONDS),
            first_chunk: seconds(&meter, names::TIME_TO_FIRST_CHUNK, &SECONDS),
            tool: seconds(&meter, names::TOOL_DURATION, &long),
            agent: seconds(&meter, names::AGENT_DURATION, &long),
            cost: counter(&meter, names::COST_TOTAL),
            retries: counter(&meter, names::RETRIES),
            trims: counter(&meter, names::TRIMS),
            commit: seconds(&meter, names::COMMIT_DURATION, &SECONDS),
            active: meter
                .i64_up_down_counter(names::RUNS_ACTIVE.name)
                .with_unit(names::RUNS_ACTIVE.unit)
                .with_description(names::RUNS_ACTIVE.what)
                .build(),
            waiting: meter
                .u64_gauge(names::APPROVALS_WAITING.name)
                .with_unit(names::APPROVALS_WAITING.unit)
                .with_description(names::APPROVALS_WAITING.what)
                .build(),
            provider: Arc::new(provider),
            tally,
        })
    }

    pub(crate) fn run_began(&self) {
        self.active.add(1, &[]);
    }

    pub(crate) fn run_ended(&self) {
        self.active.add(-1, &[]);
    }

    pub(crate) fn committed(&self, took: Duration) {
        self.commit.record(took.as_secs_f64(), &[]);
    }

    pub(crate) fn note_waiting(&self, approvals: u64) {
        self.waiting.record(approvals, &[]);
    }

    pub(crate) fn record(&self, record: &Record, endpoints: &Endpoints) {
        match &record.body {
            RecordBody::LlmCall(call) => self.model_replied(call, endpoints),
            RecordBody::LlmFailed(failed) => self.model_failed(failed, endpoints),
            RecordBody::ToolResult(result) => self.tool_ended(result),
            RecordBody::ContextTrimmed(_) => self.trims.add(1, &[]),
            _ => {}
        }
    }

    /// Records how long an agent worked.
    pub(crate) fn agent_ended(&self, name: &str, reason: &str, took: Duration) {
        let labels = [
            KeyValue::new(names::AGENT_NAME, name.to_owned()),
            KeyValue::new(names::FINISH, reason.to_owned()),
        ];
        self.agent.record(took.as_secs_f64(), &labels);
    }

    fn model_replied(&self, call: &LlmCall, endpoints: &Endpoints) {
        let answered = &call.reply.model;
        let mut labels = of_model(&call.served_by, Some(answered), None, endpoints);
        let model = answered.model.to_string();
        labels.push(KeyValue::new(names::RESPONSE_MODEL, model));
        self.operation.record(call.duration.as_secs_f64(), &labels);
        if let Some(first) = call.first_delta {
            self.first_chunk.record(first.as_secs_f64(), &labels);
        }
        self.used(&call.reply.usage, &mut labels);
        self.cost(call.cost, call.cost_label, labels);
    }

    fn model_failed(&self, failed: &LlmFailed, endpoints: &Endpoints) {
        let requested = failed.model.as_deref();
        let mut labels = of_model(&failed.served_by, None, requested, endpoints);
        if let Some(usage) = &failed.error.usage {
            self.used(usage, &mut labels);
        }
        self.cost(failed.cost, failed.cost_label, labels.clone());
        labels.push(KeyValue::new(names::ERROR_TYPE, word(&failed.error.kind)));
        self.operation
            .record(failed.duration.as_secs_f64(), &labels);
        if failed.next == NextAttempt::Follows {
            self.retries.add(1, &labels);
        }
    }

    /// Records token counts that are known.
    fn used(&self, usage: &Usage, labels: &mut Vec<KeyValue>) {
        for (kind, count) in [("input", usage.prompt), ("output", usage.completion)] {
            // An unknown count is not zero tokens.
            if count == TokenCount::UNKNOWN {
                continue;
            }
            labels.push(KeyValue::new(names::TOKEN_TYPE, kind));
            self.token_usage.record(count.tokens, labels);
            labels.pop();
        }
    }

    fn cost(&self, cost: Option<MicroUsd>, label: CountLabel, mut labels: Vec<KeyValue>) {
        if let Some(MicroUsd(cost)) = cost {
            labels.push(KeyValue::new(names::COST_LABEL, word(&label)));
            self.cost.add(cost, &labels);
        }
    }

    /// Measures a call that ran. Other calls are not measured: their names may be anything that a model wrote.
    fn tool_ended(&self, result: &ToolResult) {
        let (Some(took), Some(_)) = (result.duration, result.effect_id) else {
            return;
        };
        let mut labels = vec![KeyValue::new(names::TOOL_NAME, result.name.to_string())];
        let failure = result.failure.map(|failure| word(&failure));
        labels.extend(failure.map(|failure| KeyValue::new(names::ERROR_TYPE, failure)));
        self.tool.record(took.as_secs_f64(), &labels);
    }

    /// Returns the outcome of the batches so far. Each batch repeats the totals of those before it, so as long as the
    /// process runs, nothing is permanently lost.
    pub(crate) fn delivery(&self) -> Delivery {
        self.tally.delivery()
    }

    /// Sends the measurements within the given time. Blocks the thread.
    pub(crate) fn close(&self, within: Duration) -> Delivery {
        let provider = Arc::clone(&self.provider);
        // The SDK's reader waits for five seconds regardless of its timeout.
        in_time(within, move || {
            if let Err(error) = provider.shutdown_with_timeout(within) {
                tracing::debug!(%error, "the last metrics were not delivered");
            }
        });
        self.tally.last()
    }
}

/// Returns the labels of a role and its model.
fn of_model(
    role: &Role,
    answered: Option<&ModelRef>,
    failed: Option<&ModelRef>,
    endpoints: &Endpoints,
) -> Vec<KeyValue> {
    let mut labels = vec![
        KeyValue::new(names::OPERATION, "chat"),
        KeyValue::new(names::ROLE, role.as_str().to_owned()),
    ];
    if let Some(model) = endpoints.requested_model(role, failed, answered) {
        labels.push(KeyValue::new(names::PROVIDER, provider(&model.provider)));
        labels.push(KeyValue::new(names::REQUEST_MODEL, model.model.to_string()));
    }
    labels.extend(endpoints.server_of(role));
    labels
}

fn seconds(meter: &Meter, metric: Metric, bounds: &[f64]) -> Histogram<f64> {
    meter
        .f64_histogram(metric.name)
        .with_unit(metric.unit)
        .with_description(metric.what)
        .with_boundaries(bounds.to_vec())
        .build()
}

fn counter(meter: &Meter, metric: Metric) -> Counter<u64> {
    meter
        .u64_counter(metric.name)
        .with_unit(metric.unit)
        .with_description(metric.what)
        .build()
}
