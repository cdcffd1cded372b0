//! The engines that this one replaced, in the same process and on the same store. To the store they are all one
//! process, so it would let a run in progress in one engine be resumed in another. So each engine knows which runs its
//! predecessors have, and directs callers that follow such a run, or answer its tools, to the engine that has it. Each
//! also knows its successors, where followers of a run continue once the engine has stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use neuraxis_core::RunId;

use super::slot::Reachability;
use crate::orchestrator::Parts;

/// The engines before this one, each for as long as it is in use, for example by a run in progress.
#[derive(Debug, Default)]
pub(crate) struct FormerEngines(Vec<Weak<Parts>>);

impl FormerEngines {
    /// Returns an engine and the engines that it has replaced itself.
    pub(crate) fn up_to(engine: &Arc<Parts>) -> Self {
        let earlier = engine.former.0.iter();
        let used = earlier.filter(|earlier| earlier.strong_count() > 0);
        Self(used.cloned().chain([Arc::downgrade(engine)]).collect())
    }

    /// Returns whether a run is in progress in one of them, or was stopped there and is yet to be released. A run in
    /// progress then checks its inbox, since the caller may have posted to it.
    pub(crate) fn holds_and_notifies(&self, run: RunId) -> bool {
        let mut engines = self.0.iter().filter_map(Weak::upgrade);
        let holder = engines.find(|engine| engine.active.holds(run));
        if let Some(engine) = &holder {
            engine.active.check_inbox(run);
        }
        holder.is_some()
    }

    /// Returns how a run that is in progress in one of them can be reached.
    pub(super) fn reach(&self, run: RunId) -> Reachability {
        let engines = self.0.iter().filter_map(Weak::upgrade);
        let mut reached = engines.map(|engine| engine.active.reach(run));
        let found = reached.find(|reached| !matches!(reached, Reachability::Absent));
        found.unwrap_or(Reachability::Absent)
    }

    /// Notifies all of them which engine replaces them.
    pub(crate) fn announce_successor(&self, engine: &Arc<Parts>) {
        for former in self.0.iter().filter_map(Weak::upgrade) {
            let mut engines = former.successor.lock();
            engines.retain(|engine| engine.strong_count() > 0);
            engines.push(Arc::downgrade(engine));
        }
    }
}

/// The engines that replaced another one, the newest last. An engine that was built for nothing, such as for a
/// configuration that is then refused, soon disappears: the one before it is still the successor.
#[derive(Debug, Default)]
pub(crate) struct Successor(Mutex<Vec<Weak<Parts>>>);

impl Successor {
    /// Returns the newest engine that exists and has not stopped.
    pub(super) fn running(&self) -> Option<Arc<Parts>> {
        let engines = self.lock();
        let mut engines = engines.iter().rev().filter_map(Weak::upgrade);
        engines.find(|engine| !engine.engine.shutdown.is_cancelled())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Parts>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::Role;
    use neuraxis_memory::MemoryStore;
    use neuraxis_testkit::ScriptedModel;

    use super::*;
    use crate::Orchestrator;

    fn after(former: Option<&Orchestrator>) -> Orchestrator {
        let model = Arc::new(ScriptedModel::new());
        let store = Arc::new(MemoryStore::new());
        let builder = Orchestrator::builder().model(Role::REASONING, model);
        let mut builder = builder.store(store);
        if let Some(former) = former {
            builder = builder.replaces(former);
        }
        builder.build().unwrap()
    }

    #[test]
    fn previous_engines_are_remembered_only_while_they_are_in_use() {
        let first = after(None);
        let second = after(Some(&first));
        let third = after(Some(&second));
        assert_eq!(third.runs().parts.former.0.len(), 2);
        drop(first);
        let fourth = after(Some(&third));
        assert_eq!(fourth.runs().parts.former.0.len(), 2, "of three");
    }
}
