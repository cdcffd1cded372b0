//! Which untrusted content a conversation holds.

use serde::{Deserialize, Serialize};

use crate::ids::{ContentIndex, ToolName};
use crate::record::{Record, RecordBody};

/// The untrusted content that a conversation holds: text of strangers that may try to give orders.
///
/// It only ever grows. It names each tool once, so that its size is bounded by the number of tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Taint {
    sources: Vec<TaintSource>,
}

/// A tool that brought untrusted content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaintSource {
    /// The tool.
    pub tool: ToolName,
    /// The batch of the run in which it first did; none where it was in an earlier run of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<ContentIndex>,
}

impl Taint {
    /// Tells whether there is none.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns what brought it, in the order in which it came.
    #[must_use]
    pub fn sources(&self) -> &[TaintSource] {
        &self.sources
    }

    /// Notes that a tool brought untrusted content, unless that is known.
    pub fn add(&mut self, tool: &ToolName, since: Option<ContentIndex>) {
        if !self.sources.iter().any(|source| source.tool == *tool) {
            self.sources.push(TaintSource {
                tool: tool.clone(),
                since,
            });
        }
    }

    /// Takes over everything that another one holds, such as that of a sub-agent.
    pub fn merge(&mut self, other: &Self) {
        for source in &other.sources {
            self.add(&source.tool, source.since);
        }
    }

    /// Returns what a later run of the session begins with: the same tools, none of them in a batch of that run.
    fn of_earlier_runs(&self) -> Self {
        let mut earlier = Self::default();
        for source in &self.sources {
            earlier.add(&source.tool, None);
        }
        earlier
    }

    /// Takes in a record of a run: what the run began with, and each result that is untrusted content. What a session's
    /// runs brought is what all of their records hold.
    pub fn read(&mut self, record: &Record) {
        match &record.body {
            RecordBody::Decision(decision) => self.merge(&decision.taint.of_earlier_runs()),
            RecordBody::ToolResult(result) if result.untrusted => {
                if let Ok(tool) = result.name.parse() {
                    self.add(&tool, None);
                }
            }
            _ => {}
        }
    }
}
