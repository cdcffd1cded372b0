//! What was told already of calls that a mode lets run. What rules and people allow is told of each call by itself.

use std::sync::Arc;

use neuraxis_core::ToolName;

/// Why calls may run, as it was told before under one decision: what a mode lets run is told in the same words for every
/// call of a tool, and one text serves them all.
#[derive(Debug, Clone, Default)]
pub struct Told(Vec<(ToolName, Arc<str>)>);

impl Told {
    /// Returns what was told of a tool, or tells it.
    pub(super) fn of(&mut self, tool: &ToolName, sentence: impl FnOnce() -> String) -> Arc<str> {
        if let Some((_, known)) = self.0.iter().find(|(name, _)| name == tool) {
            return Arc::clone(known);
        }
        let sentence: Arc<str> = sentence().into();
        self.0.push((tool.clone(), Arc::clone(&sentence)));
        sentence
    }
}
