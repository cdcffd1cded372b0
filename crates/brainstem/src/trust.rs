//! What is believed of tools of other people's servers.

use std::collections::BTreeMap;

use neuraxis_core::{ToolClass, ToolSpec};

use crate::config::TrustConfig;
use crate::error::PolicyError;
use crate::policy::Policy;
use crate::rules::ToolPatterns;

/// What local configuration says about some tools of servers.
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
                let values = "patterns of names, such as [\"github__list_*\"]";
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
    /// Turns what a tool's own server claims about it into what governance goes by. To be called for every tool of a
    /// server, before it is offered or judged.
    ///
    /// A claim counts only where it makes the tool look more dangerous: without a word of local configuration
    /// (`[trust.NAME]`), such a tool changes things for good and reaches outside this machine. Where several entries name
    /// a tool, the most cautious word counts.
    #[must_use]
    pub fn trusted(&self, mut claimed: ToolSpec) -> ToolSpec {
        let about: Vec<&Trust> = self
            .trust
            .iter()
            .filter(|trust| trust.tools.matches(&claimed.name))
            .collect();
        let believed = |word: fn(&Trust) -> Option<bool>| {
            let mut words = about.iter().filter_map(|trust| word(trust)).peekable();
            words.peek().is_some().then(|| words.any(|word| word))
        };
        let class = about.iter().filter_map(|trust| trust.class).max();
        claimed.class = class.unwrap_or(ToolClass::Irreversible);
        claimed.annotations.open_world = believed(|trust| trust.open_world).unwrap_or(true);
        let may_destroy = believed(|trust| trust.destructive);
        claimed.annotations.destructive = may_destroy.unwrap_or(claimed.annotations.destructive);
        claimed
    }
}
