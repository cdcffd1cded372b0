//! A run as a tree: what each agent did, turn by turn.

pub(super) mod lines;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anstyle::Style;
use neuraxis::core::log::checklist;
use neuraxis::core::{
    AgentId, Record, RecordBody, SessionMetrics, ToolCallId, ToolResult, ToolSignal, Turn,
    whole_millis,
};
use serde_json::{Value, json};

use crate::bars::span;
use crate::call::{CallLog, named, rows};
use crate::detail::Detail;
use crate::rows::{Mark, Row};
use crate::tree::{Branches, Node};

/// The maximum nesting depth of agents that is drawn. The loop allows fewer levels.
const MAX_DEPTH: usize = 32;

/// The minimum width in columns of a terminal with room for bars.
const LEAST_FOR_BARS: usize = 50;

/// The minimum and maximum number of columns of a bar.
const BAR: (usize, usize) = (8, 24);

/// Returns what the run did, as the children of its root. If the columns of a terminal are given, each node has a bar
/// at its left that shows when it happened, between the run's beginning and end without the time spent waiting for the
/// user or a client. What calls printed and changed is below them, at this level of detail.
pub(super) fn of(
    records: &[Arc<Record>],
    detail: Detail,
    drawn_with: Branches,
    columns: Option<usize>,
) -> Vec<Node> {
    let mut outline = Outline {
        detail,
        ..Outline::default()
    };
    for record in records {
        outline.read(record);
    }
    let (mut nodes, _) = outline.draw(AgentId::ROOT, 0);
    let columns = columns.filter(|columns| *columns >= LEAST_FOR_BARS);
    if let Some(columns) = columns {
        let bar = (columns / 6).clamp(BAR.0, BAR.1);
        add_bars(&mut nodes, outline.active, bar, drawn_with);
    }
    nodes.into_iter().map(Node::from).collect()
}

/// Returns the same as JSON: the text of each line, and its beginning and end in milliseconds of the run's active time.
pub(super) fn in_json(records: &[Arc<Record>]) -> Value {
    let mut outline = Outline::default();
    for record in records {
        outline.read(record);
    }
    let (nodes, _) = outline.draw(AgentId::ROOT, 0);
    nodes.iter().map(Timed::in_json).collect()
}

/// What the agents of a run did.
#[derive(Debug, Default)]
struct Outline {
    agents: BTreeMap<AgentId, Vec<Entry>>,
    detail: Detail,
    /// The calls that have no result yet.
    calls: CallLog,
    /// The agent and entry of each call that has no result yet.
    open: HashMap<ToolCallId, (AgentId, usize)>,
    used: BTreeMap<AgentId, SessionMetrics>,
    /// How long the run had been active at the last step, in milliseconds.
    active: u64,
}

/// Something that an agent did.
#[derive(Debug)]
struct Entry {
    turn: Turn,
    line: String,
    /// The lines below this one.
    rows: Vec<Row>,
    /// The agents that it started.
    started: Vec<AgentId>,
    when: Time,
}

/// The beginning and end, in milliseconds of the run's active time.
type Time = (u64, u64);

/// A node and when it happened.
struct Timed {
    node: Node,
    when: Time,
    children: Vec<Timed>,
}

impl Outline {
    fn read(&mut self, record: &Record) {
        if let Some(active) = record.active_ms {
            self.active = self.active.max(active);
        }
        let now = self.active;
        let mut when = (now, now);
        let since = |took: Duration| (now.saturating_sub(whole_millis(took)), now);
        let (mut started, mut rows) = (Vec::new(), Vec::new());
        self.calls.add(record);
        let line = match &record.body {
            RecordBody::ToolCall(call) => {
                let place = self.agents.get(&record.agent).map_or(0, Vec::len);
                let key = call.tool_call_id.clone();
                self.open.insert(key, (record.agent, place));
                started.clone_from(&call.agents);
                Some(named(&call.name, call.arguments.as_str()))
            }
            RecordBody::ToolResult(result) => self.complete(result),
            RecordBody::Plan(changed) => {
                let list = checklist(&changed.plan).unwrap_or_default();
                rows.extend(list.lines().map(|step| Row::new(Mark::Plain, step)));
                lines::of(record, &record.body)
            }
            body => {
                when = match body {
                    RecordBody::LlmCall(call) => since(call.duration),
                    RecordBody::LlmFailed(failed) => since(failed.duration),
                    RecordBody::ToolFailed(failed) => since(failed.duration),
                    _ => when,
                };
                lines::of(record, body)
            }
        };
        let used = self.used.entry(record.agent).or_default();
        *used += &SessionMetrics::of_run([record]);
        if let Some(line) = line {
            self.agents.entry(record.agent).or_default().push(Entry {
                turn: record.turn,
                line,
                rows,
                started,
                when,
            });
        }
    }

    /// Adds the result to its call. Returns a line for a call that was never started.
    fn complete(&mut self, result: &ToolResult) -> Option<String> {
        let call = self.calls.close(&result.tool_call_id);
        let place = self.open.remove(&result.tool_call_id);
        let entry = place.and_then(|(agent, place)| self.agents.get_mut(&agent)?.get_mut(place));
        let Some(entry) = entry else {
            return Some(lines::ended(&call, result));
        };
        entry.line.push_str(&lines::outcome_suffix(&call, result));
        entry.when.1 = self.active;
        // A new plan is in a record of its own.
        if !matches!(result.signal, Some(ToolSignal::Plan { .. })) {
            entry.rows = rows(&call.arguments, result, self.detail);
        }
        None
    }

    /// Draws an agent, and returns when it was active.
    fn draw(&self, agent: AgentId, depth: usize) -> (Vec<Timed>, Option<Time>) {
        let mut nodes: Vec<Timed> = Vec::new();
        let mut turn = Turn(0);
        let mut worked: Option<Time> = None;
        let entries = self.agents.get(&agent).map(Vec::as_slice);
        for entry in entries.unwrap_or_default() {
            let node = self.node(entry, depth);
            let when = node.when;
            worked = Some(worked.map_or(when, |it| covering(it, when)));
            if entry.turn == Turn(0) {
                nodes.push(node);
                continue;
            }
            if entry.turn != turn || nodes.is_empty() {
                turn = entry.turn;
                nodes.push(Timed::new(format!("turn {turn}"), when));
            }
            if let Some(of_turn) = nodes.last_mut() {
                of_turn.when = covering(of_turn.when, when);
                of_turn.children.push(node);
            }
        }
        (nodes, worked)
    }

    fn node(&self, entry: &Entry, depth: usize) -> Timed {
        let mut node = Timed::new(entry.line.clone(), entry.when);
        node.node.rows.clone_from(&entry.rows);
        if depth >= MAX_DEPTH {
            return node;
        }
        for agent in &entry.started {
            let (children, worked) = self.draw(*agent, depth + 1);
            let used = self.used.get(agent).map(lines::used_by_agent);
            let line = format!("agent {agent}{}", used.unwrap_or_default());
            let when = worked.unwrap_or(entry.when);
            node.when = covering(node.when, when);
            node.children.push(Timed {
                children,
                ..Timed::new(line, when)
            });
        }
        node
    }
}

impl Timed {
    fn in_json(&self) -> Value {
        let children: Value = self.children.iter().map(Self::in_json).collect();
        json!({
            "line": anstream::adapter::strip_str(&self.node.line).to_string(),
            "begin_ms": self.when.0,
            "end_ms": self.when.1,
            "children": children,
        })
    }

    fn new(line: String, when: Time) -> Self {
        Self {
            node: Node::new(line),
            when,
            children: Vec::new(),
        }
    }
}

/// Returns the shortest time that covers two others.
fn covering(one: Time, other: Time) -> Time {
    (one.0.min(other.0), one.1.max(other.1))
}

/// Draws when each node happened, and moves its children into it.
fn add_bars(nodes: &mut [Timed], whole: u64, bar: usize, drawn_with: Branches) {
    const DIM: Style = Style::new().dimmed();
    for timed in nodes {
        let span = span(timed.when, whole, bar, drawn_with);
        timed.node.gutter = format!("{DIM}{span}{DIM:#} ");
        add_bars(&mut timed.children, whole, bar, drawn_with);
    }
}

impl From<Timed> for Node {
    fn from(timed: Timed) -> Self {
        let children = timed.children.into_iter().map(Self::from);
        Self {
            children: children.collect(),
            ..timed.node
        }
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::engine::read_log;

    use super::*;
    use crate::tree::draw;

    /// Draws a log for programs, without colors.
    fn drawn(log: &str) -> String {
        drawn_in(log, None)
    }

    /// Draws a log for a terminal of this many columns, without colors.
    fn drawn_in(log: &str, columns: Option<usize>) -> String {
        let records = read_log(log).unwrap();
        let nodes = of(&records, Detail::Usual, Branches::Lines, columns);
        let text = draw(&nodes, Branches::Lines, columns);
        anstream::adapter::strip_str(&text).to_string()
    }

    macro_rules! golden {
        ($name:literal) => {
            include_str!(concat!("../../../../core/tests/golden/", $name, ".jsonl"))
        };
    }

    #[test]
    fn agents_are_drawn_below_the_calls_that_started_them() {
        insta::assert_snapshot!(drawn(golden!("parallel_agents")));
    }

    #[test]
    fn a_run_with_bars_fits_into_sixty_columns() {
        insta::assert_snapshot!(drawn_in(golden!("parallel_agents"), Some(60)));
    }

    #[test]
    fn a_run_with_bars_fits_into_eighty_columns() {
        insta::assert_snapshot!(drawn_in(golden!("edited_approval_and_crash"), Some(80)));
    }

    #[test]
    fn a_run_with_bars_fits_into_a_hundred_and_forty_columns() {
        insta::assert_snapshot!(drawn_in(golden!("parallel_agents"), Some(140)));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in 30..150 {
            for line in drawn_in(golden!("parallel_agents"), Some(columns)).lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn approvals_and_resumptions_have_their_own_lines() {
        insta::assert_snapshot!(drawn(golden!("edited_approval_and_crash")));
    }

    #[test]
    fn a_result_that_a_hook_rewrote_says_so() {
        let log = golden!("edited_approval_and_crash");
        let result = r#""type":"tool_result""#;
        assert!(log.contains(result), "{log}");
        assert!(!drawn(log).contains("rewritten by a hook"));
        let rewritten = log.replace(result, &format!(r#"{result},"rewritten":true"#));
        let drawn = drawn(&rewritten);
        assert!(drawn.contains(" · rewritten by a hook"), "{drawn}");
    }

    #[test]
    fn a_truncated_run_is_drawn_up_to_its_last_record() {
        let whole = golden!("parallel_agents");
        for lines in 0..whole.lines().count() {
            let part: Vec<&str> = whole.lines().take(lines).collect();
            let drawn = drawn(&part.join("\n"));
            assert_eq!(drawn.is_empty(), lines == 0, "{lines} lines: {drawn}");
        }
    }
}
