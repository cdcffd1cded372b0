//! What clients may use, and how much of it at the same time: until there are keys, all of them are the same to the server.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::FromRef;
use neuraxis::brainstem::Policy;
use neuraxis::{Mode, Orchestrator};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::{MODE_NOT_ALLOWED, Problem, TOO_MANY_RUNS};

/// After how many seconds a client that found no place for a run tries again.
const RETRY_AFTER: u32 = 5;

/// What the clients of a server may use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The modes that clients may choose. If left out, those of the policy that are no freer than moderate.
    pub modes: Option<Vec<Mode>>,
    /// How many turns may be at work at the same time; another one is refused.
    pub max_runs: NonZeroU32,
}

impl Limits {
    /// The default of [`max_runs`](Self::max_runs): two cores hold a thousand streams, and not two thousand.
    pub const MAX_RUNS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1_023);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            modes: None,
            max_runs: Self::MAX_RUNS,
        }
    }
}

/// The engine, and what is left of its limits.
#[derive(Debug, Clone)]
pub(crate) struct Limited {
    orchestrator: Orchestrator,
    modes: Arc<[Mode]>,
    places: Arc<Semaphore>,
}

impl FromRef<Limited> for Orchestrator {
    fn from_ref(limited: &Limited) -> Self {
        limited.orchestrator.clone()
    }
}

impl Limited {
    pub(crate) fn new(orchestrator: Orchestrator, limits: &Limits) -> Self {
        let policy = orchestrator.policy();
        let modes = limits.modes.clone();
        let modes = modes.unwrap_or_else(|| no_freer_than(&Mode::MODERATE, policy));
        let most = usize::try_from(limits.max_runs.get()).unwrap_or(usize::MAX);
        Self {
            modes: modes.into(),
            places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            orchestrator,
        }
    }

    /// Refuses a mode that is not for clients. One that there is not is left to the policy, which names those there are.
    pub(crate) fn check(&self, mode: &Mode) -> Result<(), Problem> {
        let mut known = self.orchestrator.policy().modes();
        if self.modes.contains(mode) || !known.any(|known| known == mode) {
            return Ok(());
        }
        let names: Vec<&str> = self.modes.iter().map(Mode::as_str).collect();
        let detail = format!(
            "clients of this server may not use mode {mode}; allowed: {}",
            names.join(", ")
        );
        let allowed: Vec<Value> = names.into_iter().map(Value::from).collect();
        Err(Problem::new(&MODE_NOT_ALLOWED, detail)
            .with("field", "mode")
            .with("allowed", allowed))
    }

    /// Takes a place for a run, which is free again when it is dropped.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| {
            let detail = format!(
                "as many turns are at work as this server takes; try again in {RETRY_AFTER} seconds"
            );
            Problem::new(&TOO_MANY_RUNS, detail).retry_after(RETRY_AFTER)
        })
    }
}

/// Returns the modes that let tools do no more than another does.
fn no_freer_than(other: &Mode, policy: &Policy) -> Vec<Mode> {
    let modes = &policy.config().modes;
    let Some(other) = modes.get(other) else {
        return Vec::new();
    };
    let modes = modes.iter().filter(|(_, mode)| !mode.is_freer_than(other));
    modes.map(|(name, _)| name.clone()).collect()
}
