//! How an agent that has too many tools for one request comes by those it needs: a request begins with a few of them and one
//! tool that finds others.
//!
//! What was found joins the requests at their end and stays, so that the bytes before it stay the same for a provider's cache.
//! All tools that may join stand in [`AgentSpec::tools`], which governance made: nothing else ever does. Which tools suit a
//! question, the machine does not know: a driver ranks them, and its answers are on record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ToolName};
use crate::outcome::{ToolFailure, ToolSignal};
use crate::record::{Record, RecordBody, ToolResult};
use crate::spec::AgentSpec;
use crate::tool::ToolSpec;

/// Which of an agent's tools its requests hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ToolSearch {
    /// The tool that finds others. Its calls change nothing.
    pub tool: ToolName,
    /// The tools of the first request, in the order in which it names them. Names that no tool of the agent has count for
    /// nothing.
    pub offered: Vec<ToolName>,
}

impl ToolSearch {
    /// Begins with these tools, among which is the one that finds others.
    #[must_use]
    pub const fn new(tool: ToolName, offered: Vec<ToolName>) -> Self {
        Self { tool, offered }
    }

    /// Returns the names that are to join by what came of a call: what it found, or its own where the model called a tool
    /// that no request held. The model knows that one by now, and is to have its definition at hand.
    fn joining(&self, result: &ToolResult) -> Vec<ToolName> {
        if *result.name == *self.tool.as_str() {
            return match &result.signal {
                Some(ToolSignal::Found { tools }) => tools.clone(),
                _ => Vec::new(),
            };
        }
        let is_kept_off = matches!(
            result.failure,
            Some(ToolFailure::UnknownTool | ToolFailure::NotEnabled)
        );
        let called = result.name.parse().ok().filter(|_| !is_kept_off);
        called.into_iter().collect()
    }
}

impl AgentSpec {
    /// Returns the tools of the agent's first request, in their order: all that it has, unless it searches them.
    #[must_use]
    pub fn first_tools(&self) -> Arc<[ToolSpec]> {
        let Some(search) = &self.search else {
            return Arc::clone(&self.tools);
        };
        let known = search.offered.iter();
        let known = known.filter_map(|name| self.tool(name.as_str()));
        known.cloned().collect()
    }

    /// Tells whether a tool of this name finds others of the agent's.
    #[must_use]
    pub fn is_searched_by(&self, tool: &str) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.tool.as_str() == tool)
    }

    /// Returns the tools of the agent's requests after a call came to something, where that adds any to those before: at the
    /// end, only tools that the agent has, and only as many as there is [room](Self::has_room_for) for. One without room can
    /// be called all the same.
    pub(crate) fn joined(
        &self,
        offered: &[ToolSpec],
        result: &ToolResult,
    ) -> Option<Arc<[ToolSpec]>> {
        let mut tools = Vec::new();
        for name in self.search.as_ref()?.joining(result) {
            let before = if tools.is_empty() { offered } else { &tools };
            let is_there = before.iter().any(|tool| tool.name == name);
            let another = self.tool(name.as_str()).filter(|_| !is_there);
            let Some(another) = another.filter(|tool| self.has_room_for(before, tool)) else {
                continue;
            };
            if tools.is_empty() {
                tools.extend_from_slice(offered);
            }
            tools.push(another.clone());
        }
        (!tools.is_empty()).then(|| tools.into())
    }
}

/// Returns the tools that the last request of the agent that answers held, or would have held, by the records of its run, in
/// their order. None where it does not search its tools.
///
/// The next run of the session, or one that branches off, begins with them, so that what a provider has in its cache serves
/// again.
pub fn offered_tools<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<ToolName> {
    let mut records = records.into_iter();
    let Some(started) = records.next().and_then(Record::run_started) else {
        return Vec::new();
    };
    let root = &started.spec.root;
    if root.search.is_none() {
        return Vec::new();
    }
    let mut offered = root.first_tools();
    for record in records.filter(|record| record.agent == AgentId::ROOT) {
        if let RecordBody::ToolResult(result) = &record.body {
            offered = root.joined(&offered, result).unwrap_or(offered);
        }
    }
    offered.iter().map(|tool| tool.name.clone()).collect()
}
