//! Follows a run from any record on, live to its end, whichever process drives it.
//!
//! A run at work here is heard as it happens. Of another's, and of one that nobody drives, the store is asked for new records
//! now and then: live events are heard in the process that drives the run alone.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream;
use neuraxis_core::{RunId, Seq};
use neuraxis_ports::StoreError;

use super::Runs;
use super::slot::Reached;
use crate::event::{Event, Events};

/// How often the store is asked for new records of a run that is not at work here.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Runs {
    /// Returns the events of a run after one of its records, 0 for all of them, up to the last: live if the run is at work in
    /// this process, otherwise record by record as they are kept, within about a quarter of a second. A run that waits, or that
    /// nobody drives, is waited for.
    ///
    /// The events end with the run's last record, once the run is deleted or cannot be read any more, and when the engine
    /// shuts down.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`], or why the run cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the events disturbs nobody.
    pub async fn attach(&self, run: RunId, after: Seq) -> Result<Events, StoreError> {
        let mut attached = Attached {
            runs: self.clone(),
            run,
            last: after,
            ready: VecDeque::new(),
            live: None,
            is_over: false,
        };
        // Whoever follows a run that there is not hears so at once.
        if let Reached::No = self.parts.active.reach(run) {
            attached.look().await?;
        }
        Ok(Events::new(stream::unfold(
            attached,
            |mut attached| async move {
                let event = attached.next().await?;
                Some((event, attached))
            },
        )))
    }
}

/// A run that is followed.
struct Attached {
    runs: Runs,
    run: RunId,
    /// The last record that was heard.
    last: Seq,
    ready: VecDeque<Event>,
    /// The run's own events, while it is at work here.
    live: Option<Events>,
    is_over: bool,
}

impl Attached {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.note(&event);
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Some(live) = &mut self.live {
                match live.next().await {
                    Some(event) if event.is_after(self.last) => {
                        self.note(&event);
                        return Some(event);
                    }
                    Some(_) => {}
                    // It was put aside, lost or left without an end: it may go on anywhere.
                    None => {
                        self.live = None;
                        self.pause().await;
                    }
                }
                continue;
            }
            if let Reached::Here(handle) = self.runs.parts.active.reach(self.run) {
                self.live = Some(handle.events());
                continue;
            }
            match self.look().await {
                Ok(()) => {}
                Err(error) if error.is_retryable() => {
                    tracing::debug!(run = %self.run, %error, "a run that is followed was not read");
                }
                Err(error) => {
                    tracing::warn!(run = %self.run, %error, "a run is not followed any more");
                    self.is_over = true;
                }
            }
            if self.ready.is_empty() && !self.is_over {
                self.pause().await;
            }
        }
    }

    /// Takes over what was kept since the last record that was heard.
    async fn look(&mut self) -> Result<(), StoreError> {
        let records = self.runs.parts.store.records(self.run, self.last).await?;
        self.ready.extend(records.into_iter().map(Event::Record));
        if self.ready.is_empty() {
            // Whoever had the last record already is told no other.
            let run = self.runs.parts.store.run(self.run).await?;
            self.is_over = run.ended_at.is_some() && run.records <= self.last.0;
        }
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        if let Event::Record(record) = event {
            self.last = record.seq;
            self.is_over = record.ends_the_run();
        }
    }

    async fn pause(&mut self) {
        let shutdown = &self.runs.parts.engine.shutdown;
        let pause = tokio::time::sleep(LOOK_EVERY);
        self.is_over = shutdown.run_until_cancelled(pause).await.is_none();
    }
}
