//! Metrics of runs and tool calls: a trace sink, which receives every record.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis::core::{
    AgentSpec, Record, RecordBody, Role, RunId, ToolFailure, ToolKind, ToolResult, Transcript,
};
use neuraxis::ports::TraceSink;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::models::ModelMetrics;
use super::{counted, timed};

/// The maximum number of tools with separate counts: tools of MCP servers come and go.
const MAX_TOOLS: usize = 256;

/// The label of a tool without a separate count: an unknown one, a client's, or one beyond the maximum.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolCallLabels {
    tool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    tool: String,
}

/// Metrics of runs, their model calls and their tool calls.
#[derive(Debug)]
pub(crate) struct RunMetrics {
    models: ModelMetrics,
    at_work: Gauge,
    begun: Counter,
    ended: Family<RunLabels, Counter>,
    trims: Counter,
    tool_calls: Family<ToolCallLabels, Counter>,
    tool_seconds: Family<ToolLabels, Histogram>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: HashSet<RunId>,
    /// The tools that runs were offered.
    tools: HashSet<Arc<str>>,
}

impl RunMetrics {
    /// Starts to count the model calls of a role.
    pub(super) fn begin_model(&self, role: &Role) {
        self.models.begin(role);
    }

    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            models: ModelMetrics::register(registry),
            at_work: counted(registry, "runs_at_work", "Runs that this process drives"),
            begun: counted(registry, "runs_begun", "Started runs"),
            ended: counted(registry, "runs_ended", "Ended runs, by reason"),
            trims: counted(
                registry,
                "context_trims",
                "How often messages were dropped to make a conversation fit",
            ),
            tool_calls: counted(registry, "tool_calls", "Tool calls with a result"),
            tool_seconds: timed(registry, "tool_call_duration", "Duration of tool calls"),
            state: Mutex::default(),
        };
        // As for problems: an alert must not miss the first ones.
        for reason in ["failed", "deadline"] {
            let _ = metrics.ended.get_or_create(&RunLabels { reason });
        }
        metrics
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_active(&self, run: RunId) {
        if self.state().runs.insert(run) {
            self.at_work.inc();
        }
    }

    /// Adds the names of the tools that an agent is offered, except a client's, whose names the client chooses.
    fn add_tools(&self, agent: &AgentSpec) {
        let tools = &mut self.state().tools;
        for tool in agent.tools.iter() {
            if tools.len() >= MAX_TOOLS {
                return;
            }
            let name: &str = tool.name.as_str();
            if tool.kind != ToolKind::Client && !tools.contains(name) {
                tools.insert(Arc::from(name));
            }
        }
    }

    fn started(&self, record: &Record) {
        if let RecordBody::RunStarted(started) = &record.body {
            self.add_tools(&started.spec.root);
            for agent in started.spec.agents.values() {
                self.add_tools(agent);
            }
        }
    }

    fn tool_ended(&self, result: &ToolResult) {
        let known = self.state().tools.get(&*result.name).cloned();
        let tool = known.as_deref().unwrap_or(OTHER).to_owned();
        let outcome = result.failure.map_or("done", ToolFailure::name);
        if let Some(took) = result.duration {
            let took: Duration = took;
            let tool = tool.clone();
            let seconds = self.tool_seconds.get_or_create_owned(&ToolLabels { tool });
            seconds.observe(took.as_secs_f64());
        }
        let ended = ToolCallLabels { tool, outcome };
        self.tool_calls.get_or_create(&ended).inc();
    }
}

impl TraceSink for RunMetrics {
    fn begin(&self, run: RunId, _history: &Transcript) {
        self.note_active(run);
    }

    fn resume(&self, run: RunId, _history: &Transcript, records: &[Arc<Record>]) {
        self.note_active(run);
        records.iter().for_each(|record| self.started(record));
    }

    fn end(&self, run: RunId) {
        if self.state().runs.remove(&run) {
            self.at_work.dec();
        }
    }

    fn record(&self, record: &Arc<Record>) {
        match &record.body {
            RecordBody::RunStarted(_) => {
                self.begun.inc();
                self.started(record);
            }
            RecordBody::LlmCall(_) | RecordBody::LlmFailed(_) => self.models.record(record),
            RecordBody::ContextTrimmed(_) => {
                self.trims.inc();
            }
            RecordBody::ToolResult(result) => self.tool_ended(result),
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)
                if record.ends_the_run() =>
            {
                let reason = outcome.finish_reason.name();
                self.ended.get_or_create(&RunLabels { reason }).inc();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
impl RunMetrics {
    /// Counts one of each kind.
    pub(super) fn count_each(&self) {
        self.ended.get_or_create(&RunLabels { reason: OTHER }).inc();
        self.models.count_each();
        let (tool, outcome) = (OTHER.to_owned(), "done");
        let took = ToolLabels { tool: tool.clone() };
        self.tool_seconds.get_or_create(&took).observe(0.0);
        let ended = ToolCallLabels { tool, outcome };
        self.tool_calls.get_or_create(&ended).inc();
    }
}
