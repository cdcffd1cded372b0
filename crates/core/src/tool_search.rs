//! How an agent with too many tools for one request gets those it needs: a request begins with a few of them and one
//! tool that finds others.
//!
//! Found tools are appended to the requests and stay, so the bytes before them stay the same for a provider's cache.
//! All tools that may join are in [`AgentSpec::tools`], which governance determined; nothing else can join. The machine
//! does not know which tools suit a question: a driver ranks them, and its answers are on record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ToolName};
use crate::outcome::{ToolFailure, ToolSignal};
use crate::record::{Record, RecordBody, ToolResult};
use crate::spec::AgentSpec;
use crate::tool::ToolSpec;

/// Which of an agent's tools its requests contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ToolSearch {
    /// The tool that finds others. Its calls change nothing.
    pub tool: ToolName,
    /// The tools of the first request, in order. Names that no tool of the agent has are ignored.
    pub offered: Vec<ToolName>,
}

impl ToolSearch {
    /// Starts with these tools, which must include the one that finds others.
    #[must_use]
    pub const fn new(tool: ToolName, offered: Vec<ToolName>) -> Self {
        Self { tool, offered }
    }

    /// Returns the names that join after a call: the tools it found, or its own tool if the model called one that no
    /// request contained. The model already knows that one and should have its definition.
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
    /// Returns the tools of the agent's first request, in order: all of its tools, unless it searches them.
    #[must_use]
    pub fn first_tools(&self) -> Arc<[ToolSpec]> {
        let Some(search) = &self.search else {
            return Arc::clone(&self.tools);
        };
        let known = search.offered.iter();
        let known = known.filter_map(|name| self.tool(name.as_str()));
        known.cloned().collect()
    }

    /// Returns whether a tool of this name finds others of the agent's tools.
    #[must_use]
    pub fn is_searched_by(&self, tool: &str) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.tool.as_str() == tool)
    }

    /// Returns the tools of the agent's requests after the result of a call, if it adds any: appended at the end, only
    /// tools that the agent has, and only as many as there is [room](Self::has_room_for) for. A tool without room can
    /// still be called.
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

/// Returns the tools that the last request of the answering agent contained, or would have contained, according to the
/// records of its run, in order. Empty if it does not search its tools.
///
/// The next run of the session, or a fork, begins with them, so the provider's cache remains useful.
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
