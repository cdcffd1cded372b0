//! How a run gets its driver: its first step is created, stored, and handed to the driver.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_brainstem::ReasonCache;
use neuraxis_core::{DataPolicy, Input, Record, RunSpec, RunTree, Stamp, Step, Transcript};
use neuraxis_ports::StoreError;
use tokio::sync::mpsc;

use super::active_time::ActiveTime;
use super::alarm::Alarm;
use super::interrupts::Interrupts;
use super::journal::{self, Journal};
use super::loading::Loading;
use super::under_way::UnderWay;
use super::{Driver, INBOX_SIZE, RunScope};
use crate::engine::Engine;
use crate::feed::{DrivenHere, Feed};
use crate::run_end::EndSender;
use crate::run_handle::RunLink;
use crate::runs::RunSlot;

/// A run whose first step here was created, and that is not driven yet.
pub(crate) struct ReadyRun {
    pub(crate) tree: RunTree,
    /// The first effects to perform, and the records of that step.
    pub(crate) first: Step,
    /// Results that clients supplied, for hooks to inspect before the run receives them.
    pub(crate) client_results: Vec<Input>,
    /// Its records so far.
    pub(crate) records: Vec<Arc<Record>>,
    /// How long it took to store the records of its first step, if they were stored when it was leased.
    pub(crate) store_time: Option<Duration>,
    /// How long it was active before.
    pub(crate) active: Duration,
    /// Which parts of its records may be stored.
    pub(crate) policy: DataPolicy,
}

impl ReadyRun {
    /// Starts a run that trace sinks have not been notified of yet.
    pub(crate) fn new(engine: &Engine, spec: Arc<RunSpec>, history: Transcript) -> Self {
        let policy = spec.data_policy();
        let stamp = Stamp::new(engine.clock.now(), Duration::ZERO);
        let (tree, first) = RunTree::start(spec, history, stamp);
        Self {
            tree,
            first,
            client_results: Vec::new(),
            records: Vec::new(),
            store_time: None,
            active: Duration::ZERO,
            policy,
        }
    }

    /// Returns the records of its first step in the form in which they are stored.
    pub(crate) fn storable(&self) -> Vec<Arc<Record>> {
        journal::storable(self.policy, &self.first.records).into_owned()
    }
}

/// A run that has its driver, and whose first step's records are yet to be stored.
pub(crate) struct Beginning {
    driver: Box<Driver>,
    first: Step,
    link: RunLink,
    /// Whether nothing was on record before its first step.
    is_new: bool,
    /// See [`ReadyRun`].
    store_time: Option<Duration>,
}

impl Driver {
    /// Creates the driver of a run: the only way in which any run comes to be driven.
    ///
    /// Not an `async fn`, which would reserve space for all of this for as long as the run begins.
    pub(crate) fn begin(
        engine: Arc<Engine>,
        scope: RunScope,
        slot: Option<RunSlot>,
        run: ReadyRun,
    ) -> Beginning {
        let ReadyRun {
            tree,
            mut first,
            client_results,
            mut records,
            store_time,
            active,
            policy,
        } = run;
        let is_new = records.is_empty();
        let (sender, inbox) = mpsc::channel(INBOX_SIZE);
        let end = EndSender::default();
        let lease = slot.as_ref().map(RunSlot::lease_token);
        let driven_here = lease.map(|lease| DrivenHere { lease, policy });
        let feed = Arc::new(Feed::driven(driven_here));
        feed.publish(&mut records);
        let active = ActiveTime::after(active, &feed);
        let link = RunLink {
            run_id: scope.run_id,
            inbox: sender,
            end: end.receiver(),
            feed: Arc::clone(&feed),
            ids: Arc::clone(&engine.ids),
            by: None,
        };
        let driver = Box::new(Self {
            tree,
            journal: Arc::new(Journal {
                run_id: scope.run_id,
                engine: Arc::clone(&engine),
                slot,
                feed,
                policy,
                given: tokio::sync::Mutex::default(),
                recorded: std::sync::Mutex::default(),
                verified: std::sync::Mutex::default(),
            }),
            scope,
            interrupts: Interrupts::new(engine.shutdown.clone()),
            work: UnderWay::default(),
            catalog: engine.catalog(),
            engine,
            inbox,
            end,
            ready: client_results.into(),
            unwritten: std::mem::take(&mut first.records),
            posted: Vec::new(),
            running: Vec::with_capacity(1),
            attempts: Vec::new(),
            loading: Loading::default(),
            reasons: ReasonCache::default(),
            active,
            alarm: Alarm::default(),
            outcome: None,
            left: None,
        });
        Beginning {
            driver,
            first,
            link,
            is_new,
            store_time,
        }
    }
}

impl Beginning {
    /// Stores what the first step recorded. If that fails, the lease of a run that never began is released.
    pub(crate) async fn persist_first_step(
        self,
    ) -> Result<(Box<Driver>, Step, RunLink), StoreError> {
        let Self {
            mut driver,
            mut first,
            link,
            is_new,
            store_time,
        } = self;
        let journal = Arc::clone(&driver.journal);
        let written = match store_time {
            Some(took) => {
                journal.show(&mut driver.unwritten, took);
                Ok(())
            }
            // A run whose first records exceed its limits does not begin.
            None if is_new => journal.append(&mut driver.unwritten).await,
            None => driver.write(&mut first).await,
        };
        if let Err(error) = written {
            if let Some(slot) = &driver.journal.slot {
                slot.abandon_if_unrecorded().await;
            }
            return Err(error);
        }
        Ok((driver, first, link))
    }
}
