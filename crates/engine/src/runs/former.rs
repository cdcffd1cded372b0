//! The engines whose place this one took, in the same process and on the same store. The store takes all of them for one
//! process, and would let a run at work in one be taken up in another: so each knows what those before it have, and leads to
//! it whoever follows such a run or answers its tools. And each knows the one after it, where whoever follows a run goes on
//! once the engine has stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use neuraxis_core::RunId;

use super::slot::Reached;
use crate::orchestrator::Parts;

/// The engines before this one, each as long as anybody uses it, be it a run at work.
#[derive(Debug, Default)]
pub(crate) struct FormerEngines(Vec<Weak<Parts>>);

impl FormerEngines {
    /// An engine, and those whose place it took itself.
    pub(crate) fn up_to(engine: &Arc<Parts>) -> Self {
        let earlier = engine.former.0.iter();
        let used = earlier.filter(|earlier| earlier.strong_count() > 0);
        Self(used.cloned().chain([Arc::downgrade(engine)]).collect())
    }

    /// Tells whether a run is at work in one of them, or was stopped there and is still to be given back. One at work looks into
    /// its inbox: whoever asks may have posted to it.
    pub(crate) fn have(&self, run: RunId) -> bool {
        let mut engines = self.0.iter().filter_map(Weak::upgrade);
        let kept_by = engines.find(|engine| engine.active.keeps(run));
        if let Some(engine) = &kept_by {
            engine.active.hear(run);
        }
        kept_by.is_some()
    }

    /// Returns what reaches a run that is at work in one of them.
    pub(super) fn reach(&self, run: RunId) -> Reached {
        let engines = self.0.iter().filter_map(Weak::upgrade);
        let mut reached = engines.map(|engine| engine.active.reach(run));
        let found = reached.find(|reached| !matches!(reached, Reached::No));
        found.unwrap_or(Reached::No)
    }

    /// Names the engine that takes their place to all of them.
    pub(crate) fn give_way_to(&self, engine: &Arc<Parts>) {
        for former in self.0.iter().filter_map(Weak::upgrade) {
            let mut engines = former.successor.lock();
            engines.retain(|engine| engine.strong_count() > 0);
            engines.push(Arc::downgrade(engine));
        }
    }
}

/// The engines that took the place of another one, the newest last. One that was built in vain, such as for a configuration that
/// is refused then, is soon gone: the one before it still has the place.
#[derive(Debug, Default)]
pub(crate) struct Successor(Mutex<Vec<Weak<Parts>>>);

impl Successor {
    /// Returns the newest engine that is there and has not stopped.
    pub(super) fn at_work(&self) -> Option<Arc<Parts>> {
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
    fn an_engine_is_remembered_through_all_that_follow_and_no_longer_than_it_is_used() {
        let first = after(None);
        let second = after(Some(&first));
        let third = after(Some(&second));
        assert_eq!(third.runs().parts.former.0.len(), 2);
        drop(first);
        let fourth = after(Some(&third));
        assert_eq!(fourth.runs().parts.former.0.len(), 2, "of three");
    }
}
