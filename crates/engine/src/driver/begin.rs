//! How a run comes to have a driver: its first step is made, kept, and handed to what goes on with it.

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
use crate::feed::{Feed, Origin};
use crate::run_end::EndSender;
use crate::run_handle::RunLink;
use crate::runs::RunSlot;

/// A run whose first step here was made, and that nobody drives yet.
pub(crate) struct ReadyRun {
    pub(crate) tree: RunTree,
    /// What is to be done first, and the records that say so.
    pub(crate) first: Step,
    /// What clients brought, for hooks to look at before the run hears of it.
    pub(crate) brought: Vec<Input>,
    /// What is on record of it already.
    pub(crate) records: Vec<Arc<Record>>,
    /// How long it took to keep the records of its first step, where that was done as it was leased.
    pub(crate) kept: Option<Duration>,
    /// How long it was active before.
    pub(crate) active: Duration,
    /// What of its records may be stored.
    pub(crate) policy: DataPolicy,
}

impl ReadyRun {
    /// Begins a run, of which trace sinks are still to hear.
    pub(crate) fn new(engine: &Engine, spec: Arc<RunSpec>, history: Transcript) -> Self {
        let policy = spec.data_policy();
        let stamp = Stamp::new(engine.clock.now(), Duration::ZERO);
        let (tree, first) = RunTree::start(spec, history, stamp);
        Self {
            tree,
            first,
            brought: Vec::new(),
            records: Vec::new(),
            kept: None,
            active: Duration::ZERO,
            policy,
        }
    }

    /// Returns the records of its first step as they are stored.
    pub(crate) fn storable(&self) -> Vec<Arc<Record>> {
        journal::storable(self.policy, &self.first.records).into_owned()
    }
}

/// A run that has its driver. What its first step recorded is still to be kept.
pub(crate) struct Beginning {
    driver: Box<Driver>,
    first: Step,
    link: RunLink,
    /// Whether nothing of it was on record before its first step.
    is_new: bool,
    /// As of [`ReadyRun`].
    kept: Option<Duration>,
}

impl Driver {
    /// Makes the driver of a run: the one way in which any run comes to be driven.
    ///
    /// No `async fn`, which would keep room for all of this for as long as the run begins.
    pub(crate) fn begin(
        engine: Arc<Engine>,
        scope: RunScope,
        slot: Option<RunSlot>,
        run: ReadyRun,
    ) -> Beginning {
        let ReadyRun {
            tree,
            mut first,
            brought,
            mut records,
            kept,
            active,
            policy,
        } = run;
        let is_new = records.is_empty();
        let (sender, inbox) = mpsc::channel(INBOX_SIZE);
        let end = EndSender::default();
        let lease = slot.as_ref().map(RunSlot::lease_number);
        let origin = lease.map(|lease| Origin { lease, policy });
        let feed = Arc::new(Feed::driven(origin));
        feed.publish(&mut records);
        let active = ActiveTime::after(active, &feed);
        let link = RunLink {
            run_id: scope.run_id,
            inbox: sender,
            end: end.receiver(),
            feed: Arc::clone(&feed),
            ids: Arc::clone(&engine.ids),
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
            }),
            scope,
            interrupts: Interrupts::new(engine.shutdown.clone()),
            work: UnderWay::default(),
            catalog: engine.catalog(),
            engine,
            inbox,
            end,
            ready: brought.into(),
            unwritten: std::mem::take(&mut first.records),
            posted: Vec::new(),
            running: Vec::with_capacity(1),
            attempts: Vec::new(),
            loading: Loading::default(),
            reasons: ReasonCache::default(),
            active,
            alarm: Alarm::default(),
            outcome: None,
            lost: None,
        });
        Beginning {
            driver,
            first,
            link,
            is_new,
            kept,
        }
    }
}

impl Beginning {
    /// Keeps what the first step recorded. If that fails, the lease of a run that never began is given back.
    pub(crate) async fn kept(self) -> Result<(Box<Driver>, Step, RunLink), StoreError> {
        let Self {
            mut driver,
            mut first,
            link,
            is_new,
            kept,
        } = self;
        let journal = Arc::clone(&driver.journal);
        let written = match kept {
            Some(took) => {
                journal.show(&mut driver.unwritten, took);
                Ok(())
            }
            // A run that has no room for its beginning does not begin.
            None if is_new => journal.append(&mut driver.unwritten).await,
            None => driver.write(&mut first).await,
        };
        if let Err(error) = written {
            if let Some(slot) = &driver.journal.slot {
                slot.give_back_unless_recorded().await;
            }
            return Err(error);
        }
        Ok((driver, first, link))
    }
}
