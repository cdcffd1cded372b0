//! The engines whose place this one took, in the same process and on the same store. The store takes all of them for one
//! process, and would let a run at work in one be taken up in another: so each knows what the others have.

use std::sync::{Arc, Weak};

use neuraxis_core::RunId;

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

    /// Tells whether a run is at work in one of them. Such a run looks into its inbox: whoever asks may have posted to it.
    pub(crate) fn have(&self, run: RunId) -> bool {
        let mut engines = self.0.iter().filter_map(Weak::upgrade);
        let at_work_in = engines.find(|engine| engine.active.contains(run));
        if let Some(engine) = &at_work_in {
            engine.active.hear(run);
        }
        at_work_in.is_some()
    }
}
