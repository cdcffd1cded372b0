//! The tree of a run: what each agent did, turn by turn.

mod lines;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use neuraxis::core::{AgentId, Record, RecordBody, ToolCallId, ToolResult, Turn};

use crate::tree::Node;

/// How deep agents are drawn below agents. The loop allows fewer.
const MAX_DEPTH: usize = 32;

/// Returns what the run did, as the children of its root.
pub(super) fn of(records: &[Arc<Record>]) -> Vec<Node> {
    let mut outline = Outline::default();
    for record in records {
        outline.read(record);
    }
    outline.draw(AgentId::ROOT, 0)
}

/// What the agents of a run did.
#[derive(Debug, Default)]
struct Outline {
    agents: BTreeMap<AgentId, Vec<Entry>>,
    /// Where calls stand that have no result yet.
    open: HashMap<ToolCallId, (AgentId, usize)>,
}

/// Something that an agent did.
#[derive(Debug)]
struct Entry {
    turn: Turn,
    line: String,
    /// The agents that it started.
    started: Vec<AgentId>,
}

impl Outline {
    fn read(&mut self, record: &Record) {
        let mut started = Vec::new();
        let line = match &record.body {
            RecordBody::ToolCall(call) => {
                let place = self.agents.get(&record.agent).map_or(0, Vec::len);
                let key = call.tool_call_id.clone();
                self.open.insert(key, (record.agent, place));
                started.clone_from(&call.agents);
                Some(lines::call(call))
            }
            RecordBody::ToolResult(result) => self.complete(result),
            body => lines::of(record, body),
        };
        if let Some(line) = line {
            self.agents.entry(record.agent).or_default().push(Entry {
                turn: record.turn,
                line,
                started,
            });
        }
    }

    /// Adds the result to its call. Returns a line for one that was never started.
    fn complete(&mut self, result: &ToolResult) -> Option<String> {
        let place = self.open.remove(&result.tool_call_id);
        let entry = place.and_then(|(agent, place)| self.agents.get_mut(&agent)?.get_mut(place));
        match entry {
            Some(entry) => {
                entry.line.push_str(&lines::came_of(result));
                None
            }
            None => Some(lines::not_started(result)),
        }
    }

    fn draw(&self, agent: AgentId, depth: usize) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut turn = Turn(0);
        let entries = self.agents.get(&agent).map(Vec::as_slice);
        for entry in entries.unwrap_or_default() {
            let node = self.node(entry, depth);
            if entry.turn == Turn(0) {
                nodes.push(node);
                continue;
            }
            if entry.turn != turn || nodes.is_empty() {
                turn = entry.turn;
                nodes.push(Node::new(format!("turn {turn}")));
            }
            if let Some(of_turn) = nodes.last_mut() {
                of_turn.children.push(node);
            }
        }
        nodes
    }

    fn node(&self, entry: &Entry, depth: usize) -> Node {
        let mut node = Node::new(entry.line.clone());
        if depth >= MAX_DEPTH {
            return node;
        }
        let agents = entry.started.iter().map(|agent| Node {
            line: format!("agent {agent}"),
            children: self.draw(*agent, depth + 1),
        });
        node.children = agents.collect();
        node
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::engine::read_log;

    use super::*;
    use crate::tree::{Branches, draw};

    /// Draws a log as a program sees it, without colors.
    fn drawn(log: &str) -> String {
        let text = draw(&of(&read_log(log).unwrap()), Branches::Lines, None);
        anstream::adapter::strip_str(&text).to_string()
    }

    macro_rules! golden {
        ($name:literal) => {
            include_str!(concat!("../../../../core/tests/golden/", $name, ".jsonl"))
        };
    }

    #[test]
    fn agents_stand_below_the_calls_that_started_them() {
        insta::assert_snapshot!(drawn(golden!("parallel_agents")));
    }

    #[test]
    fn approvals_and_takings_up_have_lines_of_their_own() {
        insta::assert_snapshot!(drawn(golden!("edited_approval_and_crash")));
    }

    #[test]
    fn a_run_that_was_cut_off_is_drawn_as_far_as_it_came() {
        let whole = golden!("parallel_agents");
        for lines in 0..whole.lines().count() {
            let part: Vec<&str> = whole.lines().take(lines).collect();
            let drawn = drawn(&part.join("\n"));
            assert_eq!(drawn.is_empty(), lines == 0, "{lines} lines: {drawn}");
        }
    }
}
