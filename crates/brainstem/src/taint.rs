//! Untrusted content: which results bring it, and what asks again after it.

use neuraxis_core::{ContentIndex, Decision, Taint, ToolClass, ToolSpec};

use crate::names::Listed;
use crate::policy::Policy;

impl Policy {
    /// Tells whether the results of a tool are untrusted content: it reaches outside this machine, or `[taint]` names it.
    #[must_use]
    pub fn brings_untrusted(&self, tool: &ToolSpec) -> bool {
        tool.annotations.open_world || self.tainting.matches(&tool.name)
    }

    /// Notes in `taint` that a result of `tool` joined the conversation in batch `at`. To be called for every result, those
    /// of failed calls included: an error message is text of strangers too.
    pub fn taint(&self, taint: &mut Taint, tool: &ToolSpec, at: ContentIndex) {
        if self.brings_untrusted(tool) {
            taint.add(&tool.name, Some(at));
        }
    }
}

/// Takes untrusted content that the conversation already holds into a decision, with a sentence that says so. For whoever
/// learns of it only after the request was decided about.
pub fn note_taint(decision: &mut Decision, taint: &Taint) {
    if taint.is_clean() {
        return;
    }
    decision.taint.merge(taint);
    let sources = decision.taint.sources().iter();
    let tools: Vec<_> = sources.map(|source| source.tool.clone()).collect();
    decision.reasons.push(format!(
        "The conversation holds untrusted content (from {}).",
        Listed(&tools)
    ));
}

/// Tells whether a tool could be used against the user by somebody whose text the model read: it writes or reaches out.
pub(crate) fn could_be_abused(tool: &ToolSpec) -> bool {
    tool.class != ToolClass::ReadOnly || tool.annotations.open_world
}
