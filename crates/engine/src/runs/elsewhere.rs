//! Runs that other processes drive: handed over when their first records are stored, notified of what was posted, and
//! followed in the store by ordinary handles.

use std::error::Error;
use std::sync::Arc;

use neuraxis_core::{
    InboxEntry, InboxInput, Input, Record, RunId, RunStatus, Seq, SessionId, TraceContext,
};
use neuraxis_ports::{RunDispatcher, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::Runs;
use super::restored::{client_finished, recorded_trace};
use super::resume::{Answer, ResumeError};
use super::slot::{Claim, OrphanPolicy, note_unended};
use crate::driver::{Driver, INBOX_SIZE};
use crate::feed::{CallBuffer, Feed, LiveCall};
use crate::live::RunListener;
use crate::run_end::{EndSender, RunEnd};
use crate::run_handle::{RunHandle, RunLink};
use crate::store_follower::{Expected, StoreFollower};

impl Runs {
    /// Leaves a run whose first records are stored to other processes, and follows it. If the caller goes away
    /// meanwhile, the run is still left, or ended if no other request would ask for it.
    pub(super) async fn hand_over(
        &self,
        dispatcher: &Arc<dyn RunDispatcher>,
        driver: Box<Driver>,
        handle: RunHandle,
        orphan_policy: OrphanPolicy,
    ) -> RunHandle {
        let RunHandle {
            link,
            session_id,
            trace,
            is_repeat,
        } = handle;
        let run_id = link.run_id;
        let (released, until_released) = oneshot::channel();
        let (runs, dispatcher) = (self.clone(), Arc::clone(dispatcher));
        let session = session_id.clone();
        self.parts.engine.tasks.spawn(async move {
            driver.release().await;
            if released.is_closed() && orphan_policy == OrphanPolicy::End {
                return runs.claim_and_end_orphan(run_id).await;
            }
            runs.dispatch_soon(&dispatcher, session, run_id);
            // If the caller is gone, there is nothing to notify.
            let _ = released.send(());
        });
        // However the run was left, it is followed from here on.
        let _ = until_released.await;
        let records = link.feed.with_records(<[_]>::to_vec);
        RunHandle {
            trace,
            is_repeat,
            ..self.follow(run_id, session_id, records)
        }
    }

    /// Ends a run that is not waited for and that no other process knows of, unless this process is already continuing
    /// it.
    async fn claim_and_end_orphan(&self, run_id: RunId) {
        if let Some(claim) = Claim::take(&self.parts, run_id)
            && let Err(error) = self.end_orphan(claim).await
        {
            note_unended(run_id, &error);
        }
    }

    /// Stores answers for a run that other processes drive, and has it continue.
    pub(super) async fn post_answers(
        &self,
        run_id: RunId,
        session: SessionId,
        records: Vec<Arc<Record>>,
        answers: &[Answer],
    ) -> Result<RunHandle, ResumeError> {
        let store = &self.parts.store;
        for answer in answers {
            let entry = InboxEntry::new(inbox_input(&records, answer)?);
            store.post(run_id, &entry).await?;
        }
        let run = store.run(run_id).await?;
        if run.status == RunStatus::Waiting && !run.has_mail {
            return Err(ResumeError::NothingToDo);
        }
        if let Some(dispatcher) = &self.parts.dispatcher {
            self.dispatch_soon(dispatcher, session.clone(), run_id);
        }
        Ok(self.follow(run_id, session, records))
    }

    /// Creates a handle of a run that another process drives and whose first records are known.
    pub(crate) fn follow(
        &self,
        run_id: RunId,
        session_id: SessionId,
        mut records: Vec<Arc<Record>>,
    ) -> RunHandle {
        let (sender, inbox) = mpsc::channel(INBOX_SIZE);
        let sender_of_end = EndSender::default();
        let end = sender_of_end.receiver();
        let feed = Arc::new(Feed::default());
        let last = records.last().map_or(Seq(0), |record| record.seq);
        let trace = recorded_trace(&records);
        let trace = trace.unwrap_or_else(|| TraceContext::of_run(run_id));
        feed.publish(&mut records);
        let followed = Followed {
            runs: self.clone(),
            run_id,
            session_id: session_id.clone(),
            follower: self.follower(run_id, last),
            feed: Arc::clone(&feed),
            inbox,
            end: sender_of_end,
        };
        let engine = &self.parts.engine;
        engine.tasks.spawn(followed.run_to_end());
        RunHandle {
            link: RunLink {
                run_id,
                inbox: sender,
                end,
                feed,
                ids: Arc::clone(&engine.ids),
                by: None,
            },
            session_id,
            trace,
            is_repeat: false,
        }
    }

    /// Creates a follower of a run that is not in progress in this process, after one of its records.
    pub(super) fn follower(&self, run: RunId, after: Seq) -> StoreFollower {
        let parts = &self.parts;
        StoreFollower::new(&parts.store, run, after).with_live(parts.live.as_ref())
    }
}

/// A run that is followed in the store instead of being driven here.
struct Followed {
    runs: Runs,
    run_id: RunId,
    session_id: SessionId,
    follower: StoreFollower,
    feed: Arc<Feed>,
    inbox: mpsc::Receiver<Box<Input>>,
    end: EndSender,
}

impl Followed {
    async fn run_to_end(mut self) {
        loop {
            match self.look().await {
                Ok(Some(end)) => {
                    if self.post_what_was_sent().await {
                        continue;
                    }
                    // From now on senders are told that nothing is accepted here.
                    if end.outcome.is_some() {
                        self.end.note_ending();
                    }
                    self.inbox.close();
                    self.post_what_was_sent().await;
                    self.feed.end();
                    return self.end.send(Ok(end));
                }
                Ok(None) => {}
                Err(error) if error.is_retryable() => {
                    tracing::debug!(run = %self.run_id, %error, "could not read a followed run");
                }
                Err(error) => {
                    self.feed.end();
                    return self.end.send(Err(error));
                }
            }
            if let Wait::Shutdown = self.wait().await {
                // Listeners see no end: the run continues, but this process does not.
                return self.feed.end();
            }
        }
    }

    /// Waits until there may be new records, and meanwhile shows live events that arrive.
    async fn wait(&mut self) -> Wait {
        let shutdown = self.runs.parts.engine.shutdown.clone();
        while !self.follower.is_due() {
            tokio::select! {
                () = shutdown.cancelled() => return Wait::Shutdown,
                Some(input) = self.inbox.recv() => {
                    self.post(*input).await;
                    return Wait::Over;
                }
                () = self.follower.wait(&mut self.feed) => {}
            }
        }
        Wait::Over
    }

    /// Shows new records. Returns what the run left if it has ended, or waits for an answer from outside.
    async fn look(&mut self) -> Result<Option<Arc<RunEnd>>, StoreError> {
        if self.follower.look(&mut self.feed).await? == Expected::Records {
            return Ok(None);
        }
        let records = self.feed.with_records(<[_]>::to_vec);
        let stored = self.runs.stored_run(&self.session_id, self.run_id, records);
        Ok(stored.await?.link.end().await.ok())
    }

    /// Posts to the run's inbox what was sent through the handle and not taken yet; returns `true` if there was
    /// anything.
    async fn post_what_was_sent(&mut self) -> bool {
        let mut is_any = false;
        while let Ok(input) = self.inbox.try_recv() {
            self.post(*input).await;
            is_any = true;
        }
        is_any
    }

    /// Posts an input sent through the handle to the run's inbox.
    async fn post(&self, input: Input) {
        let Some(input) = InboxInput::of(input) else {
            return;
        };
        if let Err(error) = self.runs.post(self.run_id, input).await {
            let error: &(dyn Error + 'static) = &error;
            tracing::warn!(run = %self.run_id, error, "could not store an input that was sent to the run");
        }
    }
}

/// Why a follower of a run stops waiting.
enum Wait {
    Over,
    /// The engine lets go of what has not ended. Refusing new runs is not enough for that: those in progress continue
    /// for a while.
    Shutdown,
}

impl RunListener for Arc<Feed> {
    fn open(&mut self, call: LiveCall) -> Arc<CallBuffer> {
        self.begin(call.effect_id);
        self.buffer(call)
    }

    fn show_calls(&mut self, changed: &[Arc<CallBuffer>], _after: Seq) {
        if !changed.is_empty() {
            self.grown();
        }
    }

    fn show_record(&mut self, record: Arc<Record>) {
        self.publish(&mut vec![record]);
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.feed.end();
    }
}

fn inbox_input(records: &[Arc<Record>], answer: &Answer) -> Result<InboxInput, ResumeError> {
    Ok(match answer {
        Answer::Approval(decided) => InboxInput::ApprovalDecided(decided.clone()),
        Answer::ToolResult {
            call,
            outcome,
            duration,
        } => {
            let finished = client_finished(records, call, outcome.clone(), *duration)
                .ok_or_else(|| ResumeError::NotWaiting(call.clone()))?;
            InboxInput::ClientResult(finished.into())
        }
    })
}
