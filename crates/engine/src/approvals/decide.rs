//! Decisions about calls that wait for approval.

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
use crate::runs::{Answer, ResumeError, ResumedBy};

/// How long, and how often, the log is checked for a decision that was left to the process that holds the run. That
/// process picks it up immediately or at its next look into the inbox.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

/// The effect of a decision.
#[derive(Debug)]
pub enum Decided {
    /// The run continues in this process.
    Continues(RunHandle),
    /// The decision is stored, and no other decision about the question was known by then. Another process holds the
    /// run, or held it when it died. If that process is alive, it continues the run.
    LeftToHolder,
}

/// Why a run does not continue with a decision.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The tool does not accept the edited arguments. The call still waits.
    #[error(transparent)]
    Arguments(ToolCallError),
    /// The run cannot be resumed. The call still waits, if it did before.
    #[error("the run cannot be resumed")]
    Resume(#[source] ResumeError),
    /// Another process holds the run, and the decision could not be stored for it.
    #[error("the decision could not be stored")]
    NotKept(#[source] StoreError),
    /// The decision was left to the process that held the run, but that process no longer holds it, and the run cannot
    /// be resumed here; or the run ended without reading the decision.
    #[error("the decision is stored, but the run does not continue")]
    StoredOnly(#[source] ResumeError),
}

impl Approvals {
    /// Decides about a call that waits for approval, whichever process its run is in. The decision is stored before
    /// this returns. A parked run then continues. The hash is that of the arguments that the user was shown.
    ///
    /// Returns the number of the run's last record before the decision. [`attach`](crate::Runs::attach) returns what
    /// came after it, and [`result`](crate::Runs::result) the result of the run.
    ///
    /// # Errors
    ///
    /// - [`ResumeError::NotAsked`] if the run asks nothing about such a call with such arguments, or if a different
    ///   answer was given before, whether or not the run has received it.
    /// - [`ResumeError::Arguments`] if the tool does not accept the edited arguments.
    /// - [`ResumeError::ServerAway`] if this call, or a call that was allowed and has not begun, belongs to a server
    ///   that has no tools here now.
    /// - [`ResumeError::NotConfigured`] if the run is in a mode or channel that the policy does not have.
    /// - [`ResumeError::NotADecision`] for [`ApprovalDecision::Expired`].
    /// - [`ResumeError::Expired`] if the time for the decision is over. In this case only the expiry is stored.
    /// - Otherwise the same as [`post`](crate::Runs::post).
    ///
    /// # Cancel safety
    ///
    /// Same as [`post`](crate::Runs::post).
    pub async fn decide(
        &self,
        run_id: RunId,
        call: &ToolCallId,
        arguments_hash: ContentHash,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<Seq, ResumeError> {
        let store = self.store();
        // The errors below reveal facts about the call that only its owner may see.
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
        let Some(waiting) = open.iter().find(|waiting| is_it(waiting)) else {
            let call = call.clone();
            return Err(match expired_at(&call, arguments_hash, &records) {
                Some(at) => ResumeError::Expired { call, at },
                None => ResumeError::NotAsked(call),
            });
        };
        refuse_expiry(waiting, &decision)?;
        // Created before the deadline is checked: a decision that passes the check was then also made in time.
        let decided = self.decided(waiting, decision, by);
        self.check_time(waiting).await?;
        self.check_arguments(waiting, &decided.decision)
            .map_err(|why| {
                let call = call.clone();
                ResumeError::Arguments { call, why }
            })?;
        self.runs()
            .check_folder(run_id, &records, ResumedBy::Engine)?;
        self.runs().check_policy(run_id, &records)?;
        let allows = matches!(decided.decision, ApprovalDecision::Approve { .. });
        let is_allowed = |request: &ApprovalRequested| allows && request.tool_call_id == *call;
        self.runs().check_servers(&records, is_allowed)?;
        let verdict = discriminant(&decided.decision);
        let posted = InboxInput::ApprovalDecided(decided);
        match self.runs().post(run_id, posted).await {
            Err(ResumeError::Store(StoreError::InputReused { .. })) => {
                return Err(ResumeError::NotAsked(call.clone()));
            }
            posted => posted?,
        }
        // Another answer may have been recorded since the questions were read. The log may withhold the text of this
        // one.
        let records = store.records(run_id, Seq(0)).await.unwrap_or_default();
        let answer = answer_to(&waiting.request, &records).map(|answer| &answer.decision);
        let is_other = |answer: &ApprovalDecision| {
            discriminant(answer) != verdict && *answer != ApprovalDecision::Expired
        };
        match answer.is_some_and(is_other) {
            true => Err(ResumeError::NotAsked(call.clone())),
            false => Ok(last),
        }
    }

    /// Refuses a decision that comes too late. If no sweep has done so yet, the run is notified that the question
    /// expired, and continues without the call.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Expired`] if the time for the decision is over. In that case also the errors of
    /// [`post`](crate::Runs::post).
    ///
    /// # Cancel safety
    ///
    /// Same as [`post`](crate::Runs::post).
    pub async fn check_time(&self, waiting: &WaitingApproval) -> Result<(), ResumeError> {
        let Some(at) = self.expired(waiting) else {
            return Ok(());
        };
        // The run is notified of the expiry, without the name of the user.
        let expiry = expiry_of(&waiting.request);
        self.runs().post(waiting.run_id, expiry).await?;
        let call = waiting.request.tool_call_id.clone();
        Err(ResumeError::Expired { call, at })
    }

    /// Decides about a call that waits for approval, and returns the run if it continues in this process, for callers
    /// that want to follow it. If another process holds the run, the decision is left to that process. If several
    /// decisions are made about one question, the first one counts, and the callers of the others get an error. If a
    /// decision comes too late, the run treats it as an expiry and continues without the call; to detect that
    /// beforehand, call [`check_time`](Self::check_time).
    ///
    /// # Errors
    ///
    /// A [`DecideError`]; it contains [`ResumeError::NotAsked`] if a different answer was given before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle does not stop the run. Dropping the future may leave the decision with a run that no process
    /// is driving: [`recover`](crate::Runs::recover) finds it.
    pub async fn decide_and_resume(
        &self,
        waiting: &WaitingApproval,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<Decided, DecideError> {
        self.decide_all_and_resume(vec![(waiting, decision)], by)
            .await
    }

    /// Like [`decide_and_resume`](Self::decide_and_resume), but decides several calls of one run together. The run
    /// continues with all of the decisions.
    ///
    /// # Errors
    ///
    /// Same as [`decide_and_resume`](Self::decide_and_resume), for the first decision that is refused;
    /// [`ResumeError::NothingToDo`] if there are no decisions; [`ResumeError::NotADecision`] for
    /// [`ApprovalDecision::Expired`].
    ///
    /// # Cancel safety
    ///
    /// Same as [`decide_and_resume`](Self::decide_and_resume).
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
            // Another caller may have answered since the open questions were read, and the run may have been parked
            // again.
            Ok(handle) if handle.run_id() == run => match answered_before(&handle, &decided) {
                Some(call) => Err(DecideError::Resume(ResumeError::NotAsked(call))),
                None => Ok(Decided::Continues(handle)),
            },
            // A different run continues in its place, which asked nothing.
            Ok(_) => Err(DecideError::Resume(ResumeError::Ended(run))),
            // The question was answered in another way in the meantime, such as through a handle or by its expiry.
            Err(ResumeError::Refused(
                InputError::NotWaiting(call) | InputError::ApprovalMismatch(call),
            )) => Err(DecideError::Resume(ResumeError::NotAsked(call))),
            // Other processes drive the runs, and another answer is already in the inbox.
            Err(ResumeError::Store(StoreError::InputReused { .. })) => {
                let call = decided.first().map(|(_, it)| it.tool_call_id.clone());
                let why = call.map_or(ResumeError::Ended(run), ResumeError::NotAsked);
                Err(DecideError::Resume(why))
            }
            // The run has a holder, in this process or another, or a holder took it meanwhile.
            Err(
                ResumeError::AtWork(_)
                | ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_)),
            ) => self.leave_to_holder(run, &decided).await,
            Err(error) => Err(DecideError::Resume(error)),
        }
    }

    /// Signs a decision as one that was given through this engine. Required for decisions that are put into a store by
    /// other means than this service, [`resume`](crate::Runs::resume) or [`post`](crate::Runs::post).
    #[must_use]
    pub fn sign(&self, run: RunId, mut decided: ApprovalDecided) -> ApprovalDecided {
        let key = &self.parts.engine.approval_key;
        key.sign(run, &mut decided);
        decided
    }

    /// Leaves decisions to the process that holds the run. If no process holds it by now, the run continues here.
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
            let delivered = self.runs().deliver_unstored(run, &input);
            if delivered.map_err(DecideError::Resume)? {
                is_first.push(true);
                continue;
            }
            let entry = InboxEntry::new(input);
            is_first.push(match self.store().post(run, &entry).await {
                Ok(()) => true,
                // Another answer is already in the inbox; that one does not necessarily count either.
                Err(StoreError::InputReused { .. }) => false,
                Err(error) => return Err(DecideError::NotKept(error)),
            });
        }
        // If the lease expired in the meantime, no process would read the decisions.
        match self.runs().resume(run, Vec::new()).await {
            Ok(handle) if handle.run_id() == run => {
                return match answered_before(&handle, decided) {
                    Some(call) => Err(DecideError::Resume(ResumeError::NotAsked(call))),
                    None => Ok(Decided::Continues(handle)),
                };
            }
            Ok(_) => return Err(DecideError::StoredOnly(ResumeError::Ended(run))),
            Err(
                ResumeError::AtWork(_)
                | ResumeError::Ended(_)
                | ResumeError::NothingToDo
                | ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_)),
            ) => {}
            Err(error) => return Err(DecideError::StoredOnly(error)),
        }
        // The holder may already have had an answer that was not recorded yet, or may have ended the run.
        let until = Instant::now() + TAKEN_WITHIN;
        for ((waiting, decided), is_first) in decided.iter().zip(is_first) {
            let counts = match self.answer_on_record(waiting, decided, until).await {
                Ok(Some(counts)) => counts,
                Ok(None) => is_first,
                Err(error) => return Err(DecideError::StoredOnly(error)),
            };
            if !counts {
                return Err(DecideError::Resume(not_asked(decided)));
            }
        }
        Ok(Decided::LeftToHolder)
    }

    /// Waits briefly for the answer to a question to be recorded. Returns whether it is the given answer; `None` if no
    /// answer is recorded in time.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Ended`] if the run has ended without recording an answer.
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
                // If the log withholds the text of answers, only their kinds are compared.
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

    /// Refuses edited arguments that the tool does not accept: they would use up the approval without effect.
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
            // If this process does not have the tool, the process that has it checks the arguments.
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
        // The time of the answer itself is not included: repeating the same answer must result in the same inbox entry.
        let now = self.parts.engine.clock.now();
        let given_before = waiting.request.expires_at.filter(|end| now < *end);
        ApprovalDecided {
            // The id derives from the question: an inbox keeps only one of several answers.
            id: InputId::new(format!("answer-{}", waiting.request.effect_id)),
            tool_call_id: waiting.request.tool_call_id.clone(),
            // Bound to the arguments that were asked about: the answer does not allow arguments that changed in the
            // meantime.
            arguments_hash: waiting.request.arguments_hash,
            decision,
            by,
            code: None,
            given_before,
        }
    }
}

/// Returns a call that another caller decided before, with a different answer, according to the log of a run that was
/// just resumed with these decisions.
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

/// Returns `true` if a decision is the one that counts, or if no decision is recorded yet.
fn counts(records: &[Arc<Record>], waiting: &WaitingApproval, given: &ApprovalDecided) -> bool {
    answer_to(&waiting.request, records).is_none_or(|answer| {
        // A decision that came too late is recorded as an expiry.
        let is_late = answer.decision == ApprovalDecision::Expired && answer.id == given.id;
        answer.decision == given.decision || is_late
    })
}

/// Refuses a decision of [`ApprovalDecision::Expired`], which a client could send: only the passing of time may expire
/// a question.
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

/// Returns when a question expired that was not answered in time, according to the log of its run.
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

/// Returns the recorded answer to a question, according to the log of its run.
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
