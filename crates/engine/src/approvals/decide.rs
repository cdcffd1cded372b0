//! Decides about calls that wait for a person.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::RunView;
use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, ApprovalRequested, ContentHash, InboxEntry, InboxInput,
    InputError, InputId, Record, RecordBody, RunId, Seq, ToolCallId,
};
use neuraxis_ports::StoreError;
use tokio::time::{Instant, sleep};

use super::{Approvals, WaitingApproval, expiry_of, read_open};
use crate::catalog::ToolCallError;
use crate::run_handle::RunHandle;
use crate::runs::{Answer, ResumeError, Taker};

/// How long a decision that is left to whoever has the run is looked for in the log, and how often. Whoever has it takes it
/// at once, or with its next look into the inbox.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

/// What a decision led to.
#[derive(Debug)]
pub enum Decided {
    /// The run goes on here.
    GoesOn(RunHandle),
    /// The decision is kept, and no other one about the question was by then. Another process has the run, or had it when it
    /// died: if it lives, it goes on with it.
    LeftToHolder,
}

/// Why a run does not go on with a decision.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The tool does not take the arguments that were edited. The call still waits.
    #[error(transparent)]
    Arguments(ToolCallError),
    /// The run cannot be taken up. The call still waits, if it did.
    #[error("the run does not go on")]
    Resume(#[source] ResumeError),
    /// Another process has the run, and the decision could not be left to it.
    #[error("the decision could not be kept")]
    NotKept(#[source] StoreError),
    /// The decision was left to the process that had the run, which has it no more, and the run cannot be taken up here; or
    /// it has ended without a look at the decision.
    #[error("the decision is kept, but the run does not go on")]
    KeptOnly(#[source] ResumeError),
}

impl Approvals {
    /// Decides about a call that waits for a person, whichever process its run is in. The decision is kept before this
    /// returns; the run goes on if it was put aside. The hash is that of the arguments the person was shown.
    ///
    /// Returns the last record of the run before the decision: [`attach`](crate::Runs::attach) tells what came after it, and
    /// [`result`](crate::Runs::result) what the run comes to.
    ///
    /// # Errors
    ///
    /// [`ResumeError::NotAsked`] if the run asks nothing about such a call with such arguments, or somebody answered otherwise
    /// before, whether the run has heard of that or not; [`ResumeError::Arguments`] if the tool does not take the arguments that
    /// were edited; [`ResumeError::ServerAway`] if it, or a call that was allowed and has not begun, is of a server that has no
    /// tools here now;
    /// [`ResumeError::NotConfigured`] if the run is in a mode or channel that the policy does not have;
    /// [`ResumeError::NotADecision`] for [`ApprovalDecision::Expired`]; [`ResumeError::Expired`] if the time for it
    /// is over, which is all that is kept then; otherwise as [`post`](crate::Runs::post).
    ///
    /// # Cancel safety
    ///
    /// As [`post`](crate::Runs::post).
    pub async fn decide(
        &self,
        run_id: RunId,
        call: &ToolCallId,
        arguments_hash: ContentHash,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<Seq, ResumeError> {
        let store = self.store();
        // What is said of a call below is for its owner alone.
        self.runs().check_owner_of(run_id).await?;
        let run = store.run(run_id).await?;
        let records = store.records(run_id, Seq(0)).await?;
        let last = records.last().map_or(Seq(0), |record| record.seq);
        let mut open = read_open(&run, &records);
        if run.ended_at.is_some() {
            open.clear();
        }
        let is_it = |waiting: &WaitingApproval| {
            let request = &waiting.request;
            request.tool_call_id == *call && request.arguments_hash == arguments_hash
        };
        let Some(asked) = open.iter().find(|waiting| is_it(waiting)) else {
            let call = call.clone();
            return Err(match expired_at(&call, arguments_hash, &records) {
                Some(at) => ResumeError::Expired { call, at },
                None => ResumeError::NotAsked(call),
            });
        };
        refuse_expiry(asked, &decision)?;
        // Before it is looked at the time: what that lets pass was in time here, too.
        let decided = self.decided(asked, decision, by);
        self.check_time(asked).await?;
        self.check_arguments(asked, &decided.decision)
            .map_err(|why| {
                let call = call.clone();
                ResumeError::Arguments { call, why }
            })?;
        self.runs().check_folder(run_id, &records, Taker::Engine)?;
        self.runs().check_policy(run_id, &records)?;
        let allows = matches!(decided.decision, ApprovalDecision::Approve { .. });
        let is_allowed = |asked: &ApprovalRequested| allows && asked.tool_call_id == *call;
        self.runs().check_servers(&records, is_allowed)?;
        let verdict = discriminant(&decided.decision);
        let posted = InboxInput::ApprovalDecided(decided);
        match self.runs().post(run_id, posted).await {
            Err(ResumeError::Store(StoreError::InputReused { .. })) => {
                return Err(ResumeError::NotAsked(call.clone()));
            }
            posted => posted?,
        }
        // Another answer may have come to be on record since the questions were read. Of this one its words may be withheld there.
        let records = store.records(run_id, Seq(0)).await.unwrap_or_default();
        let answer = answer_to(&asked.request, &records).map(|answer| &answer.decision);
        let is_other = |answer: &ApprovalDecision| {
            discriminant(answer) != verdict && *answer != ApprovalDecision::Expired
        };
        match answer.is_some_and(is_other) {
            true => Err(ResumeError::NotAsked(call.clone())),
            false => Ok(last),
        }
    }

    /// Refuses a decision that comes too late. The run hears that the question expired, if no sweep has told it, and goes on
    /// without the call.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Expired`] if the time for the decision is over; also as [`post`](crate::Runs::post) then.
    ///
    /// # Cancel safety
    ///
    /// As [`post`](crate::Runs::post).
    pub async fn check_time(&self, waiting: &WaitingApproval) -> Result<(), ResumeError> {
        let Some(at) = self.expired(waiting) else {
            return Ok(());
        };
        // The run is told what became of the question, and nothing of the person.
        let expiry = expiry_of(&waiting.request);
        self.runs().post(waiting.run_id, expiry).await?;
        let call = waiting.request.tool_call_id.clone();
        Err(ResumeError::Expired { call, at })
    }

    /// Decides about a call that waits for a person and returns the run, if it goes on here: for whoever wants to follow it.
    /// Where another process has the run, the decision is left to that one: of several about one question the first counts,
    /// and the others are told so. A run takes a decision that is given too late for an expiry, and goes on without the call:
    /// whoever is to be told so beforehand asks [`check_time`](Self::check_time).
    ///
    /// # Errors
    ///
    /// A [`DecideError`]; [`ResumeError::NotAsked`] in it if somebody answered otherwise before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle leaves the run at work. Dropping the future may leave the decision with a run that nobody
    /// drives: [`recover`](crate::Runs::recover) finds it.
    pub async fn decide_and_resume(
        &self,
        waiting: &WaitingApproval,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<Decided, DecideError> {
        self.decide_all_and_resume(vec![(waiting, decision)], by)
            .await
    }

    /// As [`decide_and_resume`](Self::decide_and_resume), about several calls of one run at once: it goes on with all of the
    /// decisions.
    ///
    /// # Errors
    ///
    /// As [`decide_and_resume`](Self::decide_and_resume), of the first that is refused; [`ResumeError::NothingToDo`] without
    /// decisions, and [`ResumeError::NotADecision`] for [`ApprovalDecision::Expired`].
    ///
    /// # Cancel safety
    ///
    /// As [`decide_and_resume`](Self::decide_and_resume).
    pub async fn decide_all_and_resume(
        &self,
        decisions: Vec<(&WaitingApproval, ApprovalDecision)>,
        by: Option<String>,
    ) -> Result<Decided, DecideError> {
        let Some(run) = decisions.first().map(|(waiting, _)| waiting.run_id) else {
            return Err(DecideError::Resume(ResumeError::NothingToDo));
        };
        let mut decided = Vec::with_capacity(decisions.len());
        for (waiting, decision) in decisions {
            refuse_expiry(waiting, &decision).map_err(DecideError::Resume)?;
            let checked = self.check_arguments(waiting, &decision);
            checked.map_err(DecideError::Arguments)?;
            decided.push((waiting, self.decided(waiting, decision, by.clone())));
        }
        let answers = decided.iter().map(|(_, it)| Answer::Approval(it.clone()));
        match self.runs().resume(run, answers.collect()).await {
            // Somebody may have answered, and put the run aside again, since it was read what it asks.
            Ok(handle) if handle.run_id() == run => match answered_before(&handle, &decided) {
                Some(call) => Err(DecideError::Resume(ResumeError::NotAsked(call))),
                None => Ok(Decided::GoesOn(handle)),
            },
            // Another run goes on in its place, which asked nothing.
            Ok(_) => Err(DecideError::Resume(ResumeError::Ended(run))),
            // It was answered in another way meanwhile, such as by a handle or by its expiry.
            Err(ResumeError::Refused(
                InputError::NotWaiting(call) | InputError::ApprovalMismatch(call),
            )) => Err(DecideError::Resume(ResumeError::NotAsked(call))),
            // Runs are driven elsewhere, and another answer is left there already.
            Err(ResumeError::Store(StoreError::InputReused { .. })) => {
                let call = decided.first().map(|(_, it)| it.tool_call_id.clone());
                let why = call.map_or(ResumeError::Ended(run), ResumeError::NotAsked);
                Err(DecideError::Resume(why))
            }
            // Somebody has it, or took it while this one did.
            Err(
                ResumeError::AtWork(_)
                | ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_)),
            ) => self.leave_to_holder(run, &decided).await,
            Err(error) => Err(DecideError::Resume(error)),
        }
    }

    /// Makes a decision count as one that was given through this engine: what is put into a store in another way than by
    /// this service, [`resume`](crate::Runs::resume) or [`post`](crate::Runs::post) needs that.
    #[must_use]
    pub fn sign(&self, run: RunId, mut decided: ApprovalDecided) -> ApprovalDecided {
        let key = &self.parts.engine.approval_key;
        key.sign(run, &mut decided);
        decided
    }

    /// Leaves decisions to the process that has the run. If none has it by now, the run goes on here.
    async fn leave_to_holder(
        &self,
        run: RunId,
        decided: &[(&WaitingApproval, ApprovalDecided)],
    ) -> Result<Decided, DecideError> {
        let not_asked =
            |decided: &ApprovalDecided| ResumeError::NotAsked(decided.tool_call_id.clone());
        let of_owner = self.runs().check_owner_of(run).await;
        of_owner.map_err(DecideError::Resume)?;
        let mut is_first = Vec::with_capacity(decided.len());
        for (_, decided) in decided {
            let signed = self.sign(run, decided.clone());
            let input = InboxInput::ApprovalDecided(signed);
            if self.runs().tell_unstored(run, &input) {
                is_first.push(true);
                continue;
            }
            let entry = InboxEntry::new(input);
            is_first.push(match self.store().post(run, &entry).await {
                Ok(()) => true,
                // Another answer is there, which need not be the one that counts either.
                Err(StoreError::InputReused { .. }) => false,
                Err(error) => return Err(DecideError::NotKept(error)),
            });
        }
        // A lease that ran out meanwhile leaves nobody who would look for them.
        match self.runs().resume(run, Vec::new()).await {
            Ok(handle) if handle.run_id() == run => {
                return match answered_before(&handle, decided) {
                    Some(call) => Err(DecideError::Resume(ResumeError::NotAsked(call))),
                    None => Ok(Decided::GoesOn(handle)),
                };
            }
            Ok(_) => return Err(DecideError::KeptOnly(ResumeError::Ended(run))),
            Err(
                ResumeError::AtWork(_)
                | ResumeError::Ended(_)
                | ResumeError::NothingToDo
                | ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_)),
            ) => {}
            Err(error) => return Err(DecideError::KeptOnly(error)),
        }
        // Whoever has the run may have had an answer already that was not on record yet, or may have ended it.
        let until = Instant::now() + TAKEN_WITHIN;
        for ((waiting, decided), is_first) in decided.iter().zip(is_first) {
            let counts = match self.answer_on_record(waiting, decided, until).await {
                Ok(Some(counts)) => counts,
                Ok(None) => is_first,
                Err(error) => return Err(DecideError::KeptOnly(error)),
            };
            if !counts {
                return Err(DecideError::Resume(not_asked(decided)));
            }
        }
        Ok(Decided::LeftToHolder)
    }

    /// Waits a little for the answer to a question that is to be on record soon, and tells whether it is the one given; `None`
    /// if none is.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Ended`]: none will be.
    async fn answer_on_record(
        &self,
        waiting: &WaitingApproval,
        given: &ApprovalDecided,
        until: Instant,
    ) -> Result<Option<bool>, ResumeError> {
        let run = waiting.run_id;
        loop {
            let records = self.store().records(run, Seq(0)).await?;
            if let Some(answer) = answer_to(&waiting.request, &records) {
                let (answer, given) = (&answer.decision, &given.decision);
                let view = RunView::of(records.get(..1).unwrap_or_default());
                // Of such a log its words may be kept out.
                let is_withheld = view.spec().is_some_and(|spec| spec.withheld().is_some());
                let is_given =
                    answer == given || is_withheld && discriminant(answer) == discriminant(given);
                return Ok(Some(is_given));
            }
            if records.last().is_some_and(|last| last.ends_the_run()) {
                return Err(ResumeError::Ended(run));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            sleep(LOOK).await;
        }
    }

    /// Refuses edited arguments that the tool does not take: they would use up the approval for nothing.
    fn check_arguments(
        &self,
        waiting: &WaitingApproval,
        decision: &ApprovalDecision,
    ) -> Result<(), ToolCallError> {
        let ApprovalDecision::Approve {
            arguments: Some(arguments),
            ..
        } = decision
        else {
            return Ok(());
        };
        let tools = self.parts.engine.catalog();
        match tools.check(&waiting.request.name, arguments) {
            // A tool that this process does not have is checked where it is.
            Ok(_) | Err(ToolCallError::UnknownTool { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn decided(
        &self,
        waiting: &WaitingApproval,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> ApprovalDecided {
        // Not when it is given: the same answer, given once more, is the same entry of an inbox.
        let now = self.parts.engine.clock.now();
        let given_before = waiting.request.expires_at.filter(|end| now < *end);
        ApprovalDecided {
            // That of the question: of several answers an inbox keeps one.
            id: InputId::new(format!("answer-{}", waiting.request.effect_id)),
            tool_call_id: waiting.request.tool_call_id.clone(),
            // Bound to what was asked: arguments that changed meanwhile are not allowed by it.
            arguments_hash: waiting.request.arguments_hash,
            decision,
            by,
            code: None,
            given_before,
        }
    }
}

/// Returns a call about which somebody else decided before, and otherwise, according to the log of a run that was just
/// taken up with these decisions.
fn answered_before(
    handle: &RunHandle,
    decided: &[(&WaitingApproval, ApprovalDecided)],
) -> Option<ToolCallId> {
    handle.link.feed.with_records(|records| {
        let mut decided = decided.iter();
        let other = decided.find(|(waiting, given)| !counts(records, waiting, given))?;
        Some(other.1.tool_call_id.clone())
    })
}

/// Tells whether a decision is the one that counts, or none is on record yet.
fn counts(records: &[Arc<Record>], waiting: &WaitingApproval, given: &ApprovalDecided) -> bool {
    answer_to(&waiting.request, records).is_none_or(|answer| {
        // One that came too late is on record as an expiry.
        let is_late = answer.decision == ApprovalDecision::Expired && answer.id == given.id;
        answer.decision == given.decision || is_late
    })
}

/// Refuses to say for the time that nobody decided in time, as what a client sends may.
fn refuse_expiry(
    waiting: &WaitingApproval,
    decision: &ApprovalDecision,
) -> Result<(), ResumeError> {
    match decision {
        ApprovalDecision::Expired => {
            let call = waiting.request.tool_call_id.clone();
            Err(ResumeError::NotADecision(call))
        }
        ApprovalDecision::Approve { .. } | ApprovalDecision::Deny { .. } => Ok(()),
    }
}

/// Returns when a question expired that nobody answered in time, according to the log of its run.
fn expired_at(
    call: &ToolCallId,
    arguments_hash: ContentHash,
    records: &[Arc<Record>],
) -> Option<Timestamp> {
    let mut newest = records.iter().rev();
    let asked = newest.find_map(|record| match &record.body {
        RecordBody::ApprovalRequested(asked)
            if asked.tool_call_id == *call && asked.arguments_hash == arguments_hash =>
        {
            Some(&**asked)
        }
        _ => None,
    })?;
    let answer = answer_to(asked, records)?;
    asked
        .expires_at
        .filter(|_| answer.decision == ApprovalDecision::Expired)
}

/// Returns what was decided about a question, according to the log of its run.
fn answer_to<'a>(
    request: &ApprovalRequested,
    records: &'a [Arc<Record>],
) -> Option<&'a ApprovalDecided> {
    let is_it = |record: &&Arc<Record>| match &record.body {
        RecordBody::ApprovalRequested(asked) => asked.effect_id == request.effect_id,
        _ => false,
    };
    let mut after = records.iter().skip_while(|record| !is_it(record));
    after.find_map(|record| match &record.body {
        RecordBody::ApprovalDecided(decided) if decided.tool_call_id == request.tool_call_id => {
            Some(&**decided)
        }
        _ => None,
    })
}
