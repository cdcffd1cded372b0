//! Caches governance's results: one decision for all requests that get the same one whatever they say, and one list of
//! tools for all runs that are offered the same.
//!
//! Modes, channels, agents, roles and plans are those of the policy, since it refuses requests that name others, and
//! the tools are selected by them. So the number of entries is bounded, and entries are dropped only when the tools
//! change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_brainstem::works_on_files;
use neuraxis_core::{Decision, PlanName, Role, ToolName, ToolSpec};

use crate::catalog::ToolCatalog;
use crate::request::UserRequest;

/// The decisions and lists of tools that were created so far.
#[derive(Debug, Default)]
pub(crate) struct DecisionCache(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    /// The version of the catalog that they apply to.
    version: u64,
    /// Keyed by mode, channel and agent, which are part of the decision, and by plan and requested role.
    decisions: Vec<Decided>,
    tools: Vec<OfferedTools>,
}

type Decided = (Option<PlanName>, Option<Role>, Arc<Decision>);

/// The tools that runs are offered. Runs share one list, which adapters recognize as already encoded.
#[derive(Debug, Clone)]
pub(super) struct OfferedTools {
    pub(super) specs: Arc<[ToolSpec]>,
    /// Whether any of them works with files of this machine.
    pub(super) work_on_files: bool,
}

impl DecisionCache {
    /// Returns the decision about requests of this mode, channel, agent, role and plan, and creates it if needed.
    ///
    /// # Errors
    ///
    /// Errors of creating the decision, which are not cached.
    pub(super) fn decision<E>(
        &self,
        request: &UserRequest,
        plan: Option<&PlanName>,
        catalog: &ToolCatalog,
        decide: impl FnOnce() -> Result<Decision, E>,
    ) -> Result<Arc<Decision>, E> {
        let mut tables = self.about(catalog);
        let is_it = |(of_plan, of_role, decision): &&Decided| {
            decision.mode == request.mode
                && decision.channel == request.channel
                && decision.agent == request.agent
                && of_role.as_ref() == request.role()
                && of_plan.as_ref() == plan
        };
        if let Some((.., decision)) = tables.decisions.iter().find(is_it) {
            return Ok(Arc::clone(decision));
        }
        let decision = Arc::new(decide()?);
        tables.decisions.push((
            plan.cloned(),
            request.role().cloned(),
            Arc::clone(&decision),
        ));
        Ok(decision)
    }

    /// Returns the named tools of a catalog, in the order of the names.
    pub(super) fn tools(&self, catalog: &ToolCatalog, names: &[ToolName]) -> OfferedTools {
        let mut tables = self.about(catalog);
        let is_it = |tools: &&OfferedTools| tools.specs.iter().map(|spec| &spec.name).eq(names);
        if let Some(tools) = tables.tools.iter().find(is_it) {
            return tools.clone();
        }
        let found = names.iter().filter_map(|name| catalog.tool(name));
        let specs: Arc<[ToolSpec]> = found.map(|tool| tool.spec().clone()).collect();
        let tools = OfferedTools {
            work_on_files: specs.iter().any(works_on_files),
            specs,
        };
        // A list that lacks a tool would never be recognized, so it is not cached.
        if tools.specs.len() == names.len() {
            tables.tools.push(tools.clone());
        }
        tools
    }

    /// Returns the tables for these tools, and drops those for others.
    fn about(&self, catalog: &ToolCatalog) -> MutexGuard<'_, Tables> {
        let mut tables = self.lock();
        if tables.version != catalog.version() {
            *tables = Tables {
                version: catalog.version(),
                ..Tables::default()
            };
        }
        tables
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use neuraxis_core::{Channel, ContentHash, Mode, Role};
    use neuraxis_testkit::{ScriptedTool, spec};

    use super::*;

    fn request(mode: &str) -> UserRequest {
        UserRequest::new("s".parse().unwrap(), "hi").mode(Mode::new(mode.to_owned()))
    }

    fn made(mode: &str) -> Result<Decision, Infallible> {
        let mode = Mode::new(mode.to_owned());
        Ok(Decision::new(
            mode,
            Channel::CHAT,
            Role::REASONING,
            ContentHash::EMPTY,
        ))
    }

    #[test]
    fn decisions_are_cached_per_mode_and_plan_and_refusals_are_not() {
        let (cache, catalog) = (DecisionCache::default(), ToolCatalog::default());
        let [small, large] = ["small", "large"].map(|name| PlanName::new(name.to_owned()));
        let of = |mode, plan| {
            cache
                .decision(&request(mode), plan, &catalog, || made(mode))
                .unwrap()
        };
        let first = of("one", None);
        assert!(Arc::ptr_eq(&first, &of("one", None)));
        for (mode, plan) in [("two", None), ("one", Some(&small)), ("one", Some(&large))] {
            assert!(!Arc::ptr_eq(&first, &of(mode, plan)), "{mode} {plan:?}");
        }
        let refused = cache.decision(&request("other"), None, &catalog, || Err(()));
        assert_eq!(refused.err(), Some(()));
        assert_eq!(cache.lock().decisions.len(), 4);
        assert_eq!(of("other", None).mode.as_str(), "other", "asked again");
    }

    #[test]
    fn runs_with_the_same_tools_share_one_list_in_decision_order() {
        let mut catalog = ToolCatalog::default();
        for name in ["look", "read"] {
            let tool = ScriptedTool::echoing(spec(name));
            catalog.add(Arc::new(tool)).unwrap();
        }
        let cache = DecisionCache::default();
        let list = |of: &[&str]| {
            let names: Vec<ToolName> = of.iter().map(|name| name.parse().unwrap()).collect();
            cache.tools(&catalog, &names).specs
        };
        let both = list(&["read", "look"]);
        assert_eq!(both.first().map(|spec| spec.name.as_str()), Some("read"));
        assert!(Arc::ptr_eq(&both, &list(&["read", "look"])));
        assert_eq!(list(&["look"]).len(), 1);
        assert!(list(&["gone"]).is_empty());
        assert_eq!(cache.lock().tools.len(), 2);
    }
}
