//! Metrics of model calls: their number, duration, tokens and cost.

use neuraxis::core::{
    CountLabel, LlmCall, LlmFailed, MicroUsd, NextAttempt, Record, RecordBody, Role, Usage,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{counted, timed};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoleLabels {
    role: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    role: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    role: String,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CostLabels {
    role: String,
    label: &'static str,
}

/// Metrics of model calls.
#[derive(Debug)]
pub(super) struct ModelMetrics {
    calls: Family<CallLabels, Counter>,
    retries: Family<RoleLabels, Counter>,
    seconds: Family<RoleLabels, Histogram>,
    first_chunk: Family<RoleLabels, Histogram>,
    tokens: Family<TokenLabels, Counter>,
    cost: Family<CostLabels, Counter>,
}

impl ModelMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            calls: counted(
                registry,
                "model_calls",
                "Model call attempts, by the role that served them",
            ),
            retries: counted(
                registry,
                "model_retries",
                "Failed model call attempts that another attempt was to follow, even if the run ended first",
            ),
            seconds: timed(
                registry,
                "model_call_duration",
                "Duration of model call attempts",
            ),
            first_chunk: timed(
                registry,
                "model_first_chunk",
                "Time until the first piece of a streamed reply",
            ),
            tokens: counted(
                registry,
                "tokens",
                "Tokens sent to and received from models; cached tokens and cache writes are included in prompt \
                 tokens, reasoning in completion tokens",
            ),
            cost: counted(
                registry,
                "cost_micro_usd",
                "Cost of model calls in millionths of a dollar, including failed attempts; excludes models without a \
                 price",
            ),
        }
    }

    /// Starts to count the calls of a role, so that the first failures already have a rate.
    pub(super) fn begin(&self, role: &Role) {
        for outcome in ["done", "failed"] {
            let RoleLabels { role } = role_labels(role);
            let _ = self.calls.get_or_create(&CallLabels { role, outcome });
        }
    }

    pub(super) fn record(&self, record: &Record) {
        match &record.body {
            RecordBody::LlmCall(call) => self.replied(call),
            RecordBody::LlmFailed(failed) => self.failed(failed),
            _ => {}
        }
    }

    fn replied(&self, call: &LlmCall) {
        let role = &call.served_by;
        self.count_call(role, "done");
        self.seconds
            .get_or_create_owned(&role_labels(role))
            .observe(call.duration.as_secs_f64());
        if let Some(first) = call.first_delta {
            let seconds = self.first_chunk.get_or_create_owned(&role_labels(role));
            seconds.observe(first.as_secs_f64());
        }
        self.count_tokens(role, &call.reply.usage);
        self.count_cost(role, call.cost, call.cost_label);
    }

    fn failed(&self, failed: &LlmFailed) {
        let role = &failed.served_by;
        self.count_call(role, "failed");
        self.seconds
            .get_or_create_owned(&role_labels(role))
            .observe(failed.duration.as_secs_f64());
        if failed.next == NextAttempt::Follows {
            self.retries.get_or_create_owned(&role_labels(role)).inc();
        }
        if let Some(usage) = &failed.error.usage {
            self.count_tokens(role, usage);
        }
        self.count_cost(role, failed.cost, failed.cost_label);
    }

    fn count_call(&self, role: &Role, outcome: &'static str) {
        let RoleLabels { role } = role_labels(role);
        self.calls
            .get_or_create(&CallLabels { role, outcome })
            .inc();
    }

    fn count_tokens(&self, role: &Role, usage: &Usage) {
        for (kind, count) in [
            ("prompt", usage.prompt),
            ("completion", usage.completion),
            ("reasoning", usage.reasoning),
            ("cached", usage.cached),
            ("cache_written", usage.cache_written.unwrap_or_default()),
        ] {
            let RoleLabels { role } = role_labels(role);
            let tokens = self.tokens.get_or_create_owned(&TokenLabels { role, kind });
            tokens.inc_by(count.tokens);
        }
    }

    fn count_cost(&self, role: &Role, cost: Option<MicroUsd>, label: CountLabel) {
        let Some(MicroUsd(cost)) = cost else { return };
        let label = match label {
            CountLabel::Measured => "measured",
            CountLabel::Estimated => "estimated",
            CountLabel::Unknown => "unknown",
        };
        let RoleLabels { role } = role_labels(role);
        let paid = self.cost.get_or_create_owned(&CostLabels { role, label });
        paid.inc_by(cost);
    }

    /// Counts one of each kind.
    #[cfg(test)]
    pub(super) fn count_each(&self) {
        let role = &Role::REASONING;
        self.count_call(role, "done");
        self.retries.get_or_create_owned(&role_labels(role)).inc();
        self.count_tokens(role, &Usage::UNKNOWN);
        self.count_cost(role, Some(MicroUsd(1)), CountLabel::Measured);
        for times in [&self.seconds, &self.first_chunk] {
            times.get_or_create_owned(&role_labels(role)).observe(0.0);
        }
    }
}

fn role_labels(role: &Role) -> RoleLabels {
    RoleLabels {
        role: role.as_str().to_owned(),
    }
}
