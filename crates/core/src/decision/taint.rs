//! The untrusted content that a conversation contains.

use serde::{Deserialize, Serialize};

use crate::ids::{ContentIndex, ToolName};
use crate::record::{Record, RecordBody};

/// The untrusted content that a conversation contains: third-party text that may try to give instructions.
///
/// Taint only grows. It names each tool once, so its size is bounded by the number of tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Taint {
    sources: Vec<TaintSource>,
}

/// A tool that introduced untrusted content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaintSource {
    /// The tool.
    pub tool: ToolName,
    /// The batch of the run in which it first did so; `None` if that was in an earlier run of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<ContentIndex>,
}

impl Taint {
    /// Returns whether there is no untrusted content.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the tools that introduced it, in the order in which they did.
    #[must_use]
    pub fn sources(&self) -> &[TaintSource] {
        &self.sources
    }

    /// Notes that a tool introduced untrusted content, if this is not already known.
    pub fn add(&mut self, tool: &ToolName, since: Option<ContentIndex>) {
        if !self.sources.iter().any(|source| source.tool == *tool) {
            self.sources.push(TaintSource {
                tool: tool.clone(),
                since,
            });
        }
    }

    /// Adds everything that another taint contains, such as that of a sub-agent.
    pub fn merge(&mut self, other: &Self) {
        for source in &other.sources {
            self.add(&source.tool, source.since);
        }
    }

    /// Returns the taint that a later run of the session begins with: the same tools, none of them assigned to a batch
    /// of that run.
    fn of_earlier_runs(&self) -> Self {
        let mut earlier = Self::default();
        for source in &self.sources {
            earlier.add(&source.tool, None);
        }
        earlier
    }

    /// Adds what a record of a run shows: the taint the run began with, and each result that is untrusted content. The
    /// taint of a session's runs results from reading all of their records.
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
