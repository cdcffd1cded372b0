//! The usage of a session: calls, errors, tokens, money, time. A pure fold over the records of its runs.

use std::borrow::Borrow;
use std::ops::AddAssign;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::duration;
use crate::ids::ToolName;
use crate::json::is_default;
use crate::limits::{MicroUsd, Spent};
use crate::record::{Record, RecordBody, ToolResult, ToolStatus};
use crate::spec::RunSpec;
use crate::usage::{CountLabel, RunUsage, Usage};

/// An amount of money, and how it was determined. Sums are exact: whole millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// The amount; a lower bound if the label is unknown.
    #[serde(rename = "cost_micro_usd", default)]
    pub amount: MicroUsd,
    /// Measured if the provider counted the tokens and the deployment set the price; estimated if either comes from
    /// elsewhere, such as a public price list; unknown if one of the two is missing.
    #[serde(rename = "cost_label", default)]
    pub label: CountLabel,
}

impl Cost {
    /// An unknown cost.
    pub const UNKNOWN: Self = Self {
        amount: MicroUsd(0),
        label: CountLabel::Unknown,
    };

    /// Returns the cost that a record reports; `None` for a record without one. If an agent ended with unknown usage,
    /// for example because a call was stopped, the cost is unknown.
    #[must_use]
    pub fn of(body: &RecordBody) -> Option<Self> {
        match body {
            // A hook answered instead of the model.
            RecordBody::LlmCall(call)
                if call.cost.is_none()
                    && call.reply.is_refusal()
                    && call.reply.usage == Usage::UNKNOWN =>
            {
                None
            }
            RecordBody::LlmCall(call) => Some(Self::reported(call.cost, call.cost_label)),
            RecordBody::LlmFailed(failed) => {
                let may_cost = failed.cost.is_some() || failed.error.used().is_some();
                may_cost.then(|| Self::reported(failed.cost, failed.cost_label))
            }
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => {
                let is_unknown = outcome.usage.total.total.label == CountLabel::Unknown;
                is_unknown.then_some(Self::UNKNOWN)
            }
            _ => None,
        }
    }

    /// Creates a cost from what is reported about a call; unknown if no amount is reported.
    pub(crate) fn reported(amount: Option<MicroUsd>, label: CountLabel) -> Self {
        amount.map_or(Self::UNKNOWN, |amount| Self { amount, label })
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.amount.0 = self.amount.0.saturating_add(other.amount.0);
        self.label = self.label.max(other.label);
    }
}

/// The usage of one or more runs. Computed by a [`RunMeter`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct SessionMetrics {
    /// Runs that began.
    pub runs: u64,
    /// Model calls that returned a reply.
    pub llm_calls: u64,
    /// Attempts of model calls that failed.
    pub llm_failures: u64,
    /// Tool calls with a result, including errors.
    pub tool_calls: u64,
    /// Tool calls whose result is an error.
    pub tool_errors: u64,
    /// Tool calls with a result that count toward no limit: those that did not run, and those that deliver an answer.
    /// Zero if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub uncounted_tool_calls: u64,
    /// Tokens, in total and by the role that served; includes failed attempts as far as known.
    pub usage: RunUsage,
    /// The cost, as far as prices are known.
    #[serde(rename = "cost_micro_usd")]
    pub cost: MicroUsd,
    /// How certain the cost is: unknown, and then a lower bound, if a call was made to a model without a price, or was
    /// stopped before its usage was reported. Measured if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub cost_label: CountLabel,
    /// The sum of the runs' active times. What a run did while it was stopped at a limit counts; waiting for a user or
    /// a client does not, and concurrent calls count once.
    #[serde(rename = "worked_ms", with = "duration::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub worked: Duration,
}

impl SessionMetrics {
    /// Returns the usage of one run, from all of its records in order.
    pub fn of_run<R: Borrow<Record>>(records: impl IntoIterator<Item = R>) -> Self {
        let mut meter = RunMeter::default();
        for record in records {
            meter.read(record.borrow());
        }
        meter.used
    }

    /// Returns the cost of the model calls as far as prices are known, and how certain it is.
    #[must_use]
    pub const fn paid(&self) -> Cost {
        Cost {
            amount: self.cost,
            label: self.cost_label,
        }
    }

    /// Returns how many tool calls count toward tool-call limits.
    #[must_use]
    pub const fn counted_tool_calls(&self) -> u64 {
        self.tool_calls.saturating_sub(self.uncounted_tool_calls)
    }

    /// Returns the usage in everything that budgets limit.
    #[must_use]
    pub fn spent(&self) -> Spent {
        Spent {
            tokens: self.usage.total.all_tokens(),
            cost: self.cost,
            time: self.worked,
            tool_calls: u32::try_from(self.counted_tool_calls()).unwrap_or(u32::MAX),
        }
    }

    fn pay(&mut self, cost: Cost) {
        let mut paid = self.paid();
        paid += cost;
        (self.cost, self.cost_label) = (paid.amount, paid.label);
    }

    fn count(&mut self, body: &RecordBody) {
        if let Some(cost) = Cost::of(body) {
            self.pay(cost);
        }
        match body {
            RecordBody::RunStarted(_) => self.runs += 1,
            RecordBody::LlmCall(call) => {
                self.llm_calls += 1;
                self.usage.add(&call.served_by, call.reply.usage);
            }
            RecordBody::LlmFailed(failed) => {
                self.llm_failures += 1;
                if let Some(usage) = failed.error.used() {
                    self.usage.add(&failed.served_by, usage);
                }
            }
            RecordBody::ToolResult(result) => {
                self.tool_calls += 1;
                self.tool_errors += u64::from(result.status == ToolStatus::Error);
            }
            // A stopped call has no record: only the agent's outcome shows that it may have to be paid for.
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => {
                for (role, usage) in outcome.usage.roles.iter() {
                    if usage.total.label == CountLabel::Unknown {
                        self.usage.add(role, usage.labels_alone());
                    }
                }
            }
            _ => {}
        }
    }
}

impl AddAssign<&Self> for SessionMetrics {
    fn add_assign(&mut self, other: &Self) {
        self.runs += other.runs;
        self.llm_calls += other.llm_calls;
        self.llm_failures += other.llm_failures;
        self.tool_calls += other.tool_calls;
        self.tool_errors += other.tool_errors;
        self.uncounted_tool_calls += other.uncounted_tool_calls;
        self.usage.merge(&other.usage);
        self.pay(other.paid());
        self.worked = self.worked.saturating_add(other.worked);
    }
}

/// Computes the usage of one run from all of its records in order. By default it counts everything.
///
/// The first record of each step contains the run's active time since its start: a step adds the difference to the
/// previous step.
///
/// ```
/// use neuraxis_core::{Record, RunMeter};
///
/// # let records: Vec<Record> = Vec::new();
/// let mut meter = RunMeter::default();
/// for record in &records {
///     meter.read(record);
/// }
/// assert_eq!(meter.used().llm_calls, 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunMeter {
    used: SessionMetrics,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// The tools that the run's agents use to deliver their answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    delivers: Vec<ToolName>,
    /// The active time of the run at the last step that was read.
    #[serde(rename = "active_ms", with = "duration::millis")]
    active: Duration,
    /// Whether that step was too old to count.
    #[serde(skip_serializing_if = "is_default")]
    before: bool,
}

impl RunMeter {
    /// Creates a meter that counts nothing older than the given time. It must still be given the older records.
    #[must_use]
    pub fn since(since: Timestamp) -> Self {
        Self {
            since: Some(since),
            ..Self::default()
        }
    }

    /// Reads the run's next record.
    pub fn read(&mut self, record: &Record) {
        if let Some(started) = record.run_started() {
            self.delivers = delivering_tools(&started.spec);
        }
        let after = self.since.map(|since| record.at.duration_since(since));
        let counts = after.is_none_or(|after| !after.is_negative());
        if counts {
            self.used.count(&record.body);
            if let RecordBody::ToolResult(result) = &record.body
                && !self.is_counted(result)
            {
                self.used.uncounted_tool_calls += 1;
            }
        }
        let Some(active) = record.active_ms.map(Duration::from_millis) else {
            return;
        };
        if counts {
            let mut added = active.saturating_sub(self.active);
            if let Some(after) = after.filter(|_| self.before) {
                // If `since` falls between two steps, at most the time after it counts.
                added = added.min(after.unsigned_abs());
            }
            self.used.worked = self.used.worked.saturating_add(added);
        }
        self.active = self.active.max(active);
        self.before = !counts;
    }

    /// Returns the usage according to the records read so far.
    #[must_use]
    pub const fn used(&self) -> &SessionMetrics {
        &self.used
    }

    /// Returns whether the call of a result counts toward limits: as in the loop, it ran and does not deliver an
    /// answer.
    fn is_counted(&self, result: &ToolResult) -> bool {
        let mut delivers = self.delivers.iter();
        result.effect_id.is_some() && !delivers.any(|tool| tool.as_str() == &*result.name)
    }
}

fn delivering_tools(spec: &RunSpec) -> Vec<ToolName> {
    let agents = spec.all_agents();
    let tools = agents.filter_map(|agent| agent.answer.as_ref()?.tool.clone());
    let mut tools: Vec<_> = tools.collect();
    tools.sort_unstable();
    tools.dedup();
    tools
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::finish::{FinishReason, RunOutcome};
    use crate::ids::{AgentId, Role, RunId, Seq, Turn};
    use crate::record::Warning;
    use crate::usage::TokenCount;

    const MIDNIGHT: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn a_cost_sum_is_exact_and_has_the_label_of_its_weakest_part() {
        let part = |amount, label| Cost {
            amount: MicroUsd(amount),
            label,
        };
        let mut sum = Cost::default();
        for _ in 0..1_000_000 {
            sum += part(1, CountLabel::Measured);
        }
        assert_eq!(sum, part(1_000_000, CountLabel::Measured));
        sum += part(5, CountLabel::Estimated);
        sum += part(0, CountLabel::Measured);
        assert_eq!(sum, part(1_000_005, CountLabel::Estimated));
        sum += Cost::UNKNOWN;
        assert_eq!(sum, part(1_000_005, CountLabel::Unknown));
        let text = serde_json::to_string(&sum).unwrap();
        assert_eq!(text, r#"{"cost_micro_usd":1000005,"cost_label":"unknown"}"#);
    }

    fn step(seconds_after_midnight: i64, active_ms: Option<u64>) -> Record {
        let at = MIDNIGHT + SignedDuration::from_secs(seconds_after_midnight);
        Record {
            seq: Seq(1),
            content_index: None,
            run_id: RunId(uuid::Uuid::nil()),
            agent: AgentId::ROOT,
            turn: Turn(1),
            at,
            active_ms,
            body: RecordBody::Warning(Box::new(Warning {
                code: "test".to_owned(),
                message: "test".to_owned(),
            })),
        }
    }

    #[test]
    fn a_stopped_call_makes_the_usage_a_lower_bound() {
        let mut usage = RunUsage::default();
        usage.add(&Role::CODING, Usage::UNKNOWN);
        let outcome = RunOutcome {
            content: String::new(),
            finish_reason: FinishReason::Cancelled,
            turns: 1,
            usage,
            sources: Vec::new(),
            unheard: 0,
            failed_call: None,
            interruption: None,
        };
        let mut end = step(1, None);
        end.body = RecordBody::Final(Box::new(outcome));
        let used = SessionMetrics::of_run([&step(0, Some(0)), &end]);
        assert_eq!(used.paid(), Cost::UNKNOWN);
        assert_eq!(used.usage.total.total, TokenCount::UNKNOWN);
        assert_eq!(used.usage.roles[&Role::CODING].total, TokenCount::UNKNOWN);
    }

    fn worked(steps: &[(i64, Option<u64>)], mut meter: RunMeter) -> u128 {
        for (seconds, active_ms) in steps {
            meter.read(&step(*seconds, *active_ms));
        }
        meter.used().worked.as_millis()
    }

    #[test]
    fn the_time_of_a_run_is_the_greatest_active_time_in_its_records() {
        let steps = [
            (0, Some(0)),
            (5, Some(5_000)),
            (5, None),
            (900, Some(5_000)),
            (901, Some(6_000)),
        ];
        assert_eq!(
            worked(&steps, RunMeter::default()),
            6_000,
            "waiting does not count"
        );
        assert_eq!(worked(&[], RunMeter::default()), 0);
        let steps = steps.map(|(seconds, active)| step(seconds, active));
        assert_eq!(SessionMetrics::of_run(&steps).worked.as_millis(), 6_000);
    }

    #[test]
    fn only_time_after_midnight_counts_for_the_new_day() {
        let day = || RunMeter::since(MIDNIGHT);
        let steps = [
            (-60, Some(0)),
            (-20, Some(40_000)),
            (10, Some(70_000)),
            (12, Some(72_000)),
        ];
        assert_eq!(worked(&steps, day()), 12_000);
        assert_eq!(worked(&steps, RunMeter::default()), 72_000);
        // Waiting past midnight is no activity on either day.
        let waits = [
            (-60, Some(0)),
            (-20, Some(40_000)),
            (9_000, Some(40_000)),
            (9_002, Some(42_000)),
        ];
        assert_eq!(worked(&waits, day()), 2_000);
        // All of it after midnight; then all of it before.
        assert_eq!(worked(&[(0, Some(0)), (3, Some(3_000))], day()), 3_000);
        assert_eq!(worked(&[(-9, Some(0)), (-3, Some(6_000))], day()), 0);
    }

    #[test]
    fn old_metrics_without_uncounted_calls_count_all_calls() {
        let kept = r#"{"runs":1,"tool_calls":3,"tool_errors":2}"#;
        let used: SessionMetrics = serde_json::from_str(kept).unwrap();
        assert_eq!(used.counted_tool_calls(), 3);
        let json = serde_json::to_string(&used).unwrap();
        assert!(!json.contains("uncounted"), "{json}");
    }

    #[test]
    fn a_stopped_wall_clock_does_not_stop_the_time_of_a_run() {
        let steps = [(0, Some(0)), (0, Some(250))];
        assert_eq!(worked(&steps, RunMeter::since(MIDNIGHT)), 250);
    }
}
