//! What is believed about tools: the class of those of third-party servers, which results are untrusted content, and
//! what asks again after it.

use std::collections::BTreeMap;

use neuraxis_core::{
    Access, ContentIndex, Decision, JsonText, Taint, ToolAnnotations, ToolClass, ToolSpec,
};

use crate::config::TrustConfig;
use crate::error::PolicyError;
use crate::names::Listed;
use crate::policy::Policy;
use crate::request::Call;
use crate::rules::{Facts, ToolPatterns};

/// What the local configuration says about some tools of servers.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    tools: ToolPatterns,
    class: Option<ToolClass>,
    open_world: Option<bool>,
    destructive: Option<bool>,
}

impl Trust {
    pub(crate) fn check(config: &BTreeMap<String, TrustConfig>) -> Result<Vec<Self>, PolicyError> {
        let check = |(name, trust): (&String, &TrustConfig)| {
            let at = format!("trust.{name}.tools");
            let Some(tools) = trust.tools.as_ref().filter(|tools| !tools.is_empty()) else {
                let values = "patterns of tool names, such as [\"github__list_*\"]";
                return Err(PolicyError::IncompleteRule { at, values });
            };
            Ok(Self {
                tools: ToolPatterns::check(&at, tools)?,
                class: trust.class,
                open_world: trust.open_world,
                destructive: trust.destructive,
            })
        };
        config.iter().map(check).collect()
    }
}

impl Policy {
    /// Turns what a server claims about its tool into what governance relies on. Call it for every tool of a server,
    /// before the tool is offered or judged.
    ///
    /// No claim counts. Unless the local configuration (`[trust.NAME]`) says otherwise, such a tool changes things
    /// permanently, may destroy something, and reaches outside this machine. A tool that is trusted to only read
    /// destroys nothing, unless `[trust.NAME]` says so. If several entries match a tool, the most cautious one decides.
    #[must_use]
    pub fn apply_trust(&self, mut claimed: ToolSpec) -> ToolSpec {
        let entries: Vec<&Trust> = self
            .trust
            .iter()
            .filter(|trust| trust.tools.matches(&claimed.name))
            .collect();
        let trusted_hint = |hint: fn(&Trust) -> Option<bool>| {
            let mut hints = entries.iter().filter_map(|trust| hint(trust)).peekable();
            hints.peek().is_some().then(|| hints.any(|hint| hint))
        };
        let class = entries.iter().filter_map(|trust| trust.class).max();
        claimed.class = class.unwrap_or(ToolClass::Irreversible);
        claimed.annotations.open_world = trusted_hint(|trust| trust.open_world).unwrap_or(true);
        // A tool that is known to only read destroys nothing.
        let is_known_to_read = class == Some(ToolClass::ReadOnly);
        let may_destroy = trusted_hint(|trust| trust.destructive);
        claimed.annotations.destructive = may_destroy.unwrap_or(!is_known_to_read);
        // Nothing on this machine confines what another machine or process does.
        claimed.annotations.confined = false;
        claimed
    }

    /// Returns whether the result of a call is untrusted content: the call reaches outside this machine, or `[taint]`
    /// names its tool. A call that is [confined](neuraxis_core::ToolAnnotations::confined) to this machine is treated
    /// like reading a file, which is not untrusted.
    #[must_use]
    pub fn brings_untrusted(&self, tool: &ToolSpec, arguments: &JsonText) -> bool {
        self.brings(tool, &Facts::new(arguments, None))
    }

    pub(crate) fn brings(&self, tool: &ToolSpec, facts: &Facts<'_>) -> bool {
        self.tainting.matches(&tool.name) || reaches_out_by_facts(tool, facts)
    }

    /// Records in `taint` that the result of a call joined the conversation in batch `at`. Call it for every result,
    /// including those of failed calls: an error message is third-party text, too.
    pub fn taint(
        &self,
        taint: &mut Taint,
        tool: &ToolSpec,
        arguments: &JsonText,
        at: ContentIndex,
    ) {
        if self.brings_untrusted(tool, arguments) {
            taint.add(&tool.name, Some(at));
        }
    }
}

/// Returns whether a call reaches outside this machine: its tool does, and nothing confines this call.
#[must_use]
pub fn reaches_out(tool: &ToolSpec, arguments: &JsonText) -> bool {
    reaches_out_by_facts(tool, &Facts::new(arguments, None))
}

/// Returns the hints that apply to a call: those of its tool, but without `open_world` if this call is confined.
pub(crate) fn annotations_of(call: &Call<'_>) -> ToolAnnotations {
    let mut annotations = call.tool.annotations;
    annotations.open_world = reaches_out(call.tool, call.arguments);
    annotations
}

fn reaches_out_by_facts(tool: &ToolSpec, facts: &Facts<'_>) -> bool {
    let is_confined_call = || {
        let access = facts.access();
        tool.annotations.confined && !access.is_unclear && !access.items.contains(&Access::Network)
    };
    tool.annotations.open_world && !is_confined_call()
}

/// Adds the untrusted content that the conversation already holds to a decision, with a sentence that says so. For
/// callers that learn about it only after the request was decided.
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

/// Returns whether the author of text that the model reads could use a tool against the user: it writes or reaches out.
pub(crate) fn could_be_abused(tool: &ToolSpec) -> bool {
    tool.class != ToolClass::ReadOnly || tool.annotations.open_world
}
