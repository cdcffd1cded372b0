//! Permits for runs: how many may be in progress, in total and per owner, and whether the store keeps up with those that
//! start.
//!
//! A request without a free permit is refused immediately and told when to retry. There is no queue, because it would
//! only make all requests slower.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis::mcp_server::RunPermit;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::problem::{Kind, Problem, TOO_MANY_OWN_RUNS, TOO_MANY_RUNS};
use crate::rate::in_seconds;

/// The maximum retry delay for a refused client, in seconds. Clients are given different delays in turn, so that they
/// do not all retry for the same slot at the same time.
const RETRY_AFTER: u32 = 5;

/// How long the store may take to write the start of a run before it is considered to lag: a thousand times the usual
/// time.
const LAG: Duration = Duration::from_secs(2);

/// How many starts must be that slow at the same time: a single one may have other reasons.
const LATE: usize = 8;

/// The permits of a server. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct PermitPool {
    all: Arc<Semaphore>,
    owners: Arc<Mutex<HashMap<Arc<str>, u32>>>,
    pending_starts: Arc<Mutex<PendingStarts>>,
    /// How many requests were refused.
    refused: Arc<AtomicU32>,
}

/// The runs whose start the store has not written yet, oldest first.
#[derive(Debug, Default)]
struct PendingStarts {
    since: BTreeMap<u64, Instant>,
    next: u64,
}

/// A permit for one run, from before it starts.
#[derive(Debug)]
pub(crate) struct StartPermit {
    pub(crate) pending_start: PendingStart,
    pub(crate) held: HeldPermit,
}

/// A run that is starting, until this is dropped.
#[derive(Debug)]
pub(crate) struct PendingStart {
    number: u64,
    pending_starts: Arc<Mutex<PendingStarts>>,
}

/// A permit that is released on drop.
#[derive(Debug)]
pub(crate) struct HeldPermit {
    _of_all: RunPermit,
    _of_owner: Option<OwnerPermit>,
}

/// One of an owner's permits, released on drop.
#[derive(Debug)]
pub(crate) struct OwnerPermit {
    owner: Arc<str>,
    owners: Arc<Mutex<HashMap<Arc<str>, u32>>>,
}

impl PermitPool {
    /// Creates permits for this many runs.
    pub(crate) fn new(most: NonZeroU32) -> Self {
        let most = usize::try_from(most.get()).unwrap_or(usize::MAX);
        Self {
            all: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            owners: Arc::default(),
            pending_starts: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Returns the total permits, for code that takes them without starting a run here.
    pub(crate) fn all(&self) -> Arc<Semaphore> {
        Arc::clone(&self.all)
    }

    /// Takes a permit, and one of the owner's if the owner has a limit.
    pub(crate) fn take(&self, owner: Option<(&str, NonZeroU32)>) -> Result<StartPermit, Problem> {
        let refusal = |detail: &str| self.refuse_for_now(&TOO_MANY_RUNS, detail);
        let of_owner = owner.map(|(owner, most)| self.take_for_owner(owner, most));
        let of_owner = of_owner.transpose()?;
        let pending_start = self
            .count_start()
            .ok_or_else(|| refusal("turns arrive faster than the server's store can handle"))?;
        let of_all = RunPermit::take(&self.all)
            .ok_or_else(|| refusal("the server has reached its limit of concurrent turns"))?;
        Ok(StartPermit {
            pending_start,
            held: HeldPermit {
                _of_all: of_all,
                _of_owner: of_owner,
            },
        })
    }

    /// Takes a permit for a run that resumes and must not be refused, and one of the owner's if it has an owner. Fewer
    /// permits then remain for later requests.
    pub(crate) fn take_regardless(&self, owner: Option<&str>) -> HeldPermit {
        HeldPermit {
            _of_all: RunPermit::take_regardless(&self.all),
            _of_owner: owner.map(|owner| self.take_for_owner_regardless(owner)),
        }
    }

    /// Takes one of an owner's permits for a run that resumes and must not be refused.
    pub(crate) fn take_for_owner_regardless(&self, owner: &str) -> OwnerPermit {
        self.count(owner, locked(&self.owners))
    }

    /// Takes one of an owner's permits.
    pub(crate) fn take_for_owner(
        &self,
        owner: &str,
        most: NonZeroU32,
    ) -> Result<OwnerPermit, Problem> {
        let owners = locked(&self.owners);
        let taken = owners.get(owner).copied().unwrap_or_default();
        if taken >= most.get() {
            drop(owners);
            let detail = format!("this owner has reached its limit of concurrent turns ({most})");
            let problem = self.refuse_for_now(&TOO_MANY_OWN_RUNS, &detail);
            return Err(problem.with("allowed", most.get()));
        }
        Ok(self.count(owner, owners))
    }

    /// Refuses a request that may be retried.
    fn refuse_for_now(&self, kind: &'static Kind, detail: &str) -> Problem {
        let seconds = self.refused.fetch_add(1, Ordering::Relaxed) % RETRY_AFTER + 1;
        let detail = format!("{detail}; try again {}", in_seconds(seconds));
        Problem::new(kind, detail).retry_after(seconds)
    }

    /// Counts one more permit of an owner.
    fn count(
        &self,
        owner: &str,
        mut owners: MutexGuard<'_, HashMap<Arc<str>, u32>>,
    ) -> OwnerPermit {
        let owner: Arc<str> = owner.into();
        let taken = owners.entry(Arc::clone(&owner)).or_default();
        *taken = taken.saturating_add(1);
        drop(owners);
        OwnerPermit {
            owner,
            owners: Arc::clone(&self.owners),
        }
    }

    /// Counts a run that starts, or returns `None` while the store lags.
    fn count_start(&self) -> Option<PendingStart> {
        let mut pending_starts = locked(&self.pending_starts);
        let mut oldest_first = pending_starts.since.values();
        if oldest_first
            .nth(LATE - 1)
            .is_some_and(|since| since.elapsed() >= LAG)
        {
            return None;
        }
        let number = pending_starts.next;
        pending_starts.next = number.wrapping_add(1);
        pending_starts.since.insert(number, Instant::now());
        drop(pending_starts);
        Some(PendingStart {
            number,
            pending_starts: Arc::clone(&self.pending_starts),
        })
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        locked(&self.pending_starts).since.remove(&self.number);
    }
}

impl Drop for OwnerPermit {
    fn drop(&mut self) {
        let mut owners = locked(&self.owners);
        let left = owners.get(&self.owner).map(|taken| taken.saturating_sub(1));
        match left {
            Some(left @ 1..) => owners.insert(Arc::clone(&self.owner), left),
            // Owners without runs use no memory.
            _ => owners.remove(&self.owner),
        };
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while the lock is held.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use axum::response::IntoResponse;

    use super::*;

    fn number(most: u32) -> NonZeroU32 {
        NonZeroU32::new(most).unwrap()
    }

    #[tokio::test]
    async fn an_owner_has_a_limited_number_of_permits_and_takes_none_from_others() {
        let permits = PermitPool::new(number(10));
        let two = Some(("ada", number(2)));
        let held = [permits.take(two).unwrap(), permits.take(two).unwrap()];
        let refused = permits.take(two).unwrap_err();
        assert!(refused.is(&TOO_MANY_OWN_RUNS), "{refused:?}");
        let others = permits.take(Some(("bob", number(1)))).unwrap();
        // Another key of the same owner may have a higher limit, and counts the same runs.
        assert!(permits.take(Some(("ada", number(3)))).is_ok());
        drop(held);
        assert!(permits.take(two).is_ok());
        drop(others);
        assert!(
            locked(&permits.owners).is_empty(),
            "nothing is left of them"
        );
        assert_eq!(permits.all.available_permits(), 10);
    }

    #[tokio::test]
    async fn refused_runs_are_given_different_retry_times() {
        let permits = PermitPool::new(number(10));
        let one = Some(("ada", number(1)));
        let held = permits.take(one).unwrap();
        let told: Vec<String> = (0..6)
            .map(|_| {
                let refused = permits.take(one).unwrap_err().into_response();
                let seconds = &refused.headers()[header::RETRY_AFTER];
                seconds.to_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(told, ["1", "2", "3", "4", "5", "1"]);
        drop(held);
    }

    #[tokio::test]
    async fn a_resumed_run_waits_for_a_permit_and_counts_towards_the_limits() {
        let permits = PermitPool::new(number(1));
        let one = Some(("ada", number(1)));
        let first = permits.take(one).unwrap();
        let goes_on = permits.take_regardless(Some("ada"));
        // The waiting task is queued by now.
        tokio::task::yield_now().await;
        drop(first);
        let refused = permits.take(one).unwrap_err();
        assert!(refused.is(&TOO_MANY_OWN_RUNS), "{refused:?}");
        let refused = permits.take(None).unwrap_err();
        assert!(refused.is(&TOO_MANY_RUNS), "{refused:?}");
        drop(goes_on);
        while permits.all.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(permits.take(one).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lagging_store_receives_no_new_runs_until_it_catches_up() {
        let permits = PermitPool::new(number(100));
        let begun: Vec<StartPermit> = (0..LATE).map(|_| permits.take(None).unwrap()).collect();
        assert!(permits.take(None).is_ok(), "they have only begun");
        tokio::time::advance(LAG).await;
        let refused = permits.take(None).unwrap_err();
        assert!(refused.is(&TOO_MANY_RUNS), "{refused:?}");
        assert_eq!(permits.all.available_permits(), 100 - LATE);
        let mut begun = begun.into_iter();
        let StartPermit {
            pending_start,
            held,
        } = begun.next().unwrap();
        drop(pending_start);
        assert!(permits.take(None).is_ok(), "fewer are late");
        drop(held);
    }
}
