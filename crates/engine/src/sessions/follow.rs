//! Follows a run that another process may be driving: its records as they are stored, to the last one.
//!
//! Needs only a store. Live events reach only the process that drives the run; callers in that process can follow with
//! [`Runs::attach`](crate::Runs::attach).

use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{Record, RunId, Seq};
use neuraxis_ports::StoreError;

use super::Sessions;
use crate::live::RunListener;
use crate::store_follower::{Expected, StoreFollower};

/// A run that is being followed.
#[derive(Debug)]
pub struct FollowedRun {
    follower: StoreFollower,
    ready: VecDeque<Arc<Record>>,
    is_over: bool,
}

impl Sessions {
    /// Follows a run from the record after the given one; 0 for all records. Returns the existing records, and new ones
    /// within about a quarter of a second after they are stored. Keeps waiting if the run waits or no process is
    /// driving it.
    #[must_use]
    pub fn follow(&self, run: RunId, after: Seq) -> FollowedRun {
        FollowedRun {
            follower: StoreFollower::new(&self.store, run, after),
            ready: VecDeque::new(),
            is_over: false,
        }
    }
}

impl FollowedRun {
    /// Returns the next record; `None` after the run's last.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`], also once the run is deleted, or the reason why the run cannot be read. The call may
    /// be repeated.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no record.
    pub async fn next(&mut self) -> Result<Option<Arc<Record>>, StoreError> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Ok(Some(record));
            }
            if self.is_over {
                return Ok(None);
            }
            while !self.follower.is_due() {
                self.follower.wait(&mut self.ready).await;
            }
            let expected = self.follower.look(&mut self.ready).await?;
            self.is_over = expected == Expected::Nothing;
        }
    }
}

impl RunListener for VecDeque<Arc<Record>> {
    fn show_record(&mut self, record: Arc<Record>) {
        self.push_back(record);
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_memory::MemoryStore;
    use std::time::Duration;

    use neuraxis_ports::{RunLog as _, Session, SessionIndex, SessionStore};
    use neuraxis_testkit::{CountingIds, RunLog, START, reply};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn records_arrive_as_they_are_committed_up_to_the_last_of_the_run() {
        let store = Arc::new(MemoryStore::new());
        let session = Session::new("main".parse().unwrap(), START);
        store.create_session(&session).await.unwrap();
        let run = CountingIds::nth_run(1);
        let lease = store.begin_run(&session.id, run).await.unwrap();
        let mut log = RunLog::new(run, session.id.clone());
        let first = [log.started("Hello?")];
        store.commit(&lease, &first).await.unwrap();
        let shared: Arc<dyn SessionStore> = store.clone();
        let mut followed = Sessions::new(shared).follow(run, Seq(0));
        assert_eq!(followed.next().await.unwrap().unwrap(), first[0]);
        let rest = [log.replied(reply::text("Hi.")), log.finished("Hi.")];
        let (next, kept) = tokio::join!(followed.next(), async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            store.commit(&lease, &rest).await
        });
        kept.unwrap();
        assert_eq!(next.unwrap().unwrap(), rest[0]);
        assert_eq!(followed.next().await.unwrap().unwrap(), rest[1]);
        assert_eq!(followed.next().await, Ok(None));
        let mut late = Sessions::new(store).follow(run, Seq(3));
        assert_eq!(late.next().await, Ok(None));
    }
}
