//! Decides about interrupts, as `/api/v1/runs/{id}/approvals/{call_id}` does, and resumes their run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis::core::log::RunView;
use neuraxis::core::{ApprovalDecision, JsonText, Record, RunId, Seq, ToolCallId};
use neuraxis::engine::{DecideError, Decided, ToolCallError, WaitingApproval};
use neuraxis::ports::RunSummary;
use neuraxis::{Events, Message, Orchestrator, RunHandle, RunStatus, SessionId};
use serde::Deserialize;

use super::answer::RunFeed;
use super::followers::FollowerGuard;
use super::input::{Input, Resume, ResumeStatus};
use super::mapping::Mapping;
use super::questions::{Questions, not_asked};
use super::stored_messages;
use crate::access::{detached, record_run};
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::{NOT_ASKED, Problem, QUESTION_ALTERED, RUN_ENDED};
use crate::request_body::{invalid, typed};

/// The reason that the model receives if the user left the question unanswered.
const LEFT_UNANSWERED: &str = "the user left the question unanswered";

/// The code of the warning that a run has not used the user's message.
const NOT_TAKEN: &str = "message_not_taken";

/// How many of a session's latest runs are searched for the one that asked. Older questions are rarely answered, and
/// each run must be read as a whole.
const MAX_SEARCHED_RUNS: usize = 16;

/// A session's open questions, by name.
type Open = BTreeMap<String, WaitingApproval>;

/// A decision to be recorded.
type PendingDecision = (WaitingApproval, ApprovalDecision, ResumeStatus);

/// A user's answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    approved: bool,
    edited_args: Option<serde_json::Map<String, serde_json::Value>>,
    reason: Option<String>,
}

/// Answers the interrupts of a session's run. An answer that repeats an earlier one is not recorded again. Returns
/// `None` if nothing is left to answer or report: everything was settled in a run that has ended, and since then either
/// the user sent a message (and the questions were cancelled), or the front end executed the calls with which that run
/// ended, and no run gave an answer based on their results.
pub(super) async fn resume(
    state: &ServerState,
    caller: &Caller,
    input: &Input,
) -> Result<Option<RunFeed>, Problem> {
    let (session, answers) = (&input.session, &input.resume);
    if !answers.iter().all(Resume::is_cancelled) {
        caller.check_may_decide(state)?;
    }
    let orchestrator = state.orchestrator();
    caller.session(orchestrator, session).await?;
    let interrupt_ids = interrupt_ids(answers)?;
    let run = find_asking_run(orchestrator, session, &interrupt_ids).await?;
    record_run(run);
    match answer(state, caller, input, &interrupt_ids, run).await {
        // The question may have been settled since it was read; by now the outcome is on record.
        Err(problem) if problem.is(&NOT_ASKED) || problem.is(&RUN_ENDED) => {
            answer(state, caller, input, &interrupt_ids, run).await
        }
        answered => answered,
    }
}

/// Answers what a run asked, given the current state of its session.
async fn answer(
    state: &ServerState,
    caller: &Caller,
    input: &Input,
    interrupt_ids: &BTreeSet<&str>,
    run: RunId,
) -> Result<Option<RunFeed>, Problem> {
    let (session, answers) = (&input.session, &input.resume);
    let is_cancelled = answers.iter().all(Resume::is_cancelled);
    let orchestrator = state.orchestrator();
    let open = open(orchestrator, session).await?;
    let records = orchestrator.sessions().records(run).await?;
    let questions = Questions::of(run, &records);
    let is_new = is_new(input.conversation.last_user_text(), &records);
    if is_new && !is_cancelled {
        let why = "a resumed run accepts no new message; send it once the run has ended";
        return Err(invalid("messages", why));
    }
    let (decided, earlier) = split_settled(orchestrator, answers, &open, &questions)?;
    let is_settled = decided.is_empty();
    if is_settled && questions.has_run_ended() {
        let stored = stored_messages(orchestrator, caller, session).await?;
        if is_new || input.conversation.answers_calls_of(&stored) {
            return Ok(None);
        }
        if let Some(last) = run_using_results(orchestrator, input, &stored, run).await? {
            return match last.status {
                RunStatus::Failed | RunStatus::Interrupted => Ok(None),
                _ => feed_from_start(state, input, last.run_id).await.map(Some),
            };
        }
    }
    // Other open questions are reported at the end of a run that is reported again.
    if !is_settled {
        caller.check_may_decide(state)?;
        check_all(&open, interrupt_ids)?;
    }
    let newest = records.last().map_or(Seq(0), |record| record.seq);
    // Everything up to this record was sent to the client before.
    let last = earlier.map_or(newest, |first| Seq(first.0.saturating_sub(1)));
    let resumed = match is_settled {
        true => None,
        false => decide_and_resume(state, caller, session, run, decided).await?,
    };
    let (handle, events, guard) = follow_after(state, run, last, resumed).await?;
    let mut mapping = mapping(input, run);
    let past = records.iter().filter(|record| record.seq <= last);
    mapping.recall(past.map(Arc::as_ref));
    if is_cancelled && is_settled {
        mapping.give_up();
    }
    mapping.begin();
    if is_new {
        mapping.warn(
            NOT_TAKEN,
            "a resumed run accepts no new message; send it again",
        );
    }
    Ok(Some(RunFeed {
        orchestrator: orchestrator.clone(),
        mapping,
        run,
        handle,
        events,
        known: Some(newest).filter(|newest| *newest > last),
        guard,
    }))
}

/// Returns the last run of the session, if it used the results with which the thread ends and is not the run that
/// asked.
async fn run_using_results(
    orchestrator: &Orchestrator,
    input: &Input,
    stored: &[Arc<Message>],
    asking_run: RunId,
) -> Result<Option<RunSummary>, Problem> {
    let Some(results) = input.conversation.results_again(stored) else {
        return Ok(None);
    };
    let sessions = orchestrator.sessions();
    let runs = sessions.runs(&input.session).await?.unwrap_or_default();
    let last = runs.into_iter().next_back();
    let Some(last) = last.filter(|last| last.run_id != asking_run) else {
        return Ok(None);
    };
    let records = sessions.records(last.run_id).await?;
    let view = RunView::of(&records);
    let messages = view.spec().map(|spec| spec.messages.as_slice());
    let took: BTreeSet<_> = answered(messages.unwrap_or_default()).collect();
    let is_taker = answered(&results.before).any(|call| took.contains(call));
    Ok(is_taker.then_some(last))
}

/// Returns the calls whose results these messages are.
fn answered(messages: &[Arc<Message>]) -> impl Iterator<Item = &ToolCallId> {
    messages
        .iter()
        .filter_map(|message| match message.as_ref() {
            Message::Tool(result) => Some(&result.tool_call_id),
            _ => None,
        })
}

/// Reports a run again from its start until it ends or asks.
async fn feed_from_start(
    state: &ServerState,
    input: &Input,
    run: RunId,
) -> Result<RunFeed, Problem> {
    let orchestrator = state.orchestrator();
    let records = orchestrator.sessions().records(run).await?;
    let (handle, events, guard) = follow_after(state, run, Seq(0), None).await?;
    let mut mapping = mapping(input, run);
    if input.resume.iter().all(Resume::is_cancelled) {
        mapping.give_up();
    }
    mapping.begin();
    Ok(RunFeed {
        orchestrator: orchestrator.clone(),
        mapping,
        run,
        handle,
        events,
        known: records.last().map(|record| record.seq),
        guard,
    })
}

fn mapping(input: &Input, run: RunId) -> Mapping {
    let (state, messages) = (input.state.clone(), input.messages.clone());
    Mapping::new(input.ids.clone(), run, state, messages)
}

/// Returns the events of a run after a record: with its handle if it resumes here, otherwise from the process that
/// drives it.
async fn follow_after(
    state: &ServerState,
    run: RunId,
    last: Seq,
    resumed: Option<(RunHandle, FollowerGuard)>,
) -> Result<(Option<RunHandle>, Events, FollowerGuard), Problem> {
    if let Some((handle, guard)) = resumed {
        let events = handle.events_after(last);
        return Ok((Some(handle), events, guard));
    }
    let runs = state.orchestrator().runs();
    // Register the follower only now: a client that cannot follow the run must not end it by leaving.
    let events = runs.attach(run, last).await?;
    Ok((None, events, state.followers().add(runs, run)))
}

/// Returns the interrupts that are answered. None may occur twice, because it would be unclear which answer applies.
fn interrupt_ids(answers: &[Resume]) -> Result<BTreeSet<&str>, Problem> {
    let mut interrupt_ids = BTreeSet::new();
    for (at, answer) in answers.iter().enumerate() {
        if !interrupt_ids.insert(answer.interrupt_id.as_str()) {
            let field = format!("resume[{at}].interruptId");
            return Err(invalid(&field, "duplicate answer for this interrupt"));
        }
    }
    Ok(interrupt_ids)
}

/// Returns the open questions of a session.
async fn open(orchestrator: &Orchestrator, session: &SessionId) -> Result<Open, Problem> {
    let open = orchestrator.approvals().of_session(session).await?;
    Ok(open.into_iter().map(|it| (it.question(), it)).collect())
}

/// Returns the run that asked: the one that waits for one of these answers, or the latest recent run that asked one of
/// them.
async fn find_asking_run(
    orchestrator: &Orchestrator,
    session: &SessionId,
    interrupt_ids: &BTreeSet<&str>,
) -> Result<RunId, Problem> {
    let open = open(orchestrator, session).await?;
    if let Some(waiting) = interrupt_ids
        .iter()
        .find_map(|question| open.get(*question))
    {
        return Ok(waiting.run_id);
    }
    let sessions = orchestrator.sessions();
    let runs = sessions.runs(session).await?.unwrap_or_default();
    let lately = runs.into_iter().rev().take(MAX_SEARCHED_RUNS);
    for run in lately.map(|run| run.run_id) {
        let records = sessions.records(run).await?;
        if Questions::of(run, &records).contains_any(interrupt_ids.iter().copied()) {
            return Ok(run);
        }
    }
    Err(not_asked())
}

/// Returns whether the user's last message is not part of the run.
fn is_new(message: Option<String>, records: &[Arc<Record>]) -> bool {
    let view = RunView::of(records);
    let messages = view.spec().map(|spec| spec.messages.as_slice());
    let mut latest_first = messages.unwrap_or_default().iter().rev();
    let last = latest_first.find(|message| matches!(***message, Message::User { .. }));
    message.is_some_and(|message| last.is_none_or(|last| last.text() != message))
}

/// Returns the decisions to be recorded, and the first record that settled one of the other questions.
fn split_settled(
    orchestrator: &Orchestrator,
    answers: &[Resume],
    open: &Open,
    questions: &Questions<'_>,
) -> Result<(Vec<PendingDecision>, Option<Seq>), Problem> {
    let mut decided = Vec::new();
    let mut earlier: Option<Seq> = None;
    for (at, answer) in answers.iter().enumerate() {
        let decision = decision(answer, at)?;
        if let Some(waiting) = open.get(&answer.interrupt_id) {
            check(orchestrator, waiting, &decision, at)?;
            decided.push((waiting.clone(), decision, answer.status));
        } else {
            let before = questions.settled(answer, &decision)?;
            earlier = Some(earlier.map_or(before, |known| known.min(before)));
        }
    }
    Ok((decided, earlier))
}

/// Refuses a request that answers only some of the open questions.
fn check_all(open: &Open, interrupt_ids: &BTreeSet<&str>) -> Result<(), Problem> {
    let left = open.keys().map(String::as_str);
    let left: Vec<&str> = left
        .filter(|question| !interrupt_ids.contains(question))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let left = left.join(", ");
    let why = format!("every open interrupt must be answered; missing: {left}");
    Err(Problem::invalid("resume", why))
}

fn decision(answer: &Resume, at: usize) -> Result<ApprovalDecision, Problem> {
    if answer.is_cancelled() {
        return Ok(ApprovalDecision::Deny {
            reason: Some(LEFT_UNANSWERED.to_owned()),
        });
    }
    let within = format!("resume[{at}].payload");
    let Some(payload) = answer.payload.clone() else {
        let why = "expected an object with the field approved";
        return Err(invalid(&within, why));
    };
    let payload: Payload = typed(payload, &within)?;
    if !payload.approved {
        let reason = payload.reason.filter(|reason| !reason.trim().is_empty());
        return Ok(ApprovalDecision::Deny { reason });
    }
    let arguments = payload.edited_args.map(serde_json::Value::Object);
    Ok(ApprovalDecision::Approve {
        arguments: arguments.map(|arguments| JsonText::from_text(arguments.to_string())),
        remember: None,
    })
}

/// Refuses an approval of a call that could not run as approved.
fn check(
    orchestrator: &Orchestrator,
    waiting: &WaitingApproval,
    decision: &ApprovalDecision,
    at: usize,
) -> Result<(), Problem> {
    let ApprovalDecision::Approve { arguments, .. } = decision else {
        return Ok(());
    };
    if waiting.altered.is_some() {
        let detail = "the stored question is not the one that was asked, so it cannot be approved";
        return Err(Problem::new(&QUESTION_ALTERED, detail));
    }
    let Some(arguments) = arguments else {
        return Ok(());
    };
    match orchestrator.tools().check(&waiting.request.name, arguments) {
        // A tool that this process lacks is checked by the process that has it.
        Ok(_) | Err(ToolCallError::UnknownTool { .. }) => Ok(()),
        Err(error) => {
            let field = format!("resume[{at}].payload.editedArgs");
            Err(invalid(&field, &error.to_string()))
        }
    }
}

/// Resumes the run with the decisions, and returns it if it runs here. If the client disconnects halfway, the run must
/// not be left without a driver.
async fn decide_and_resume(
    state: &ServerState,
    caller: &Caller,
    session: &SessionId,
    run: RunId,
    decided: Vec<PendingDecision>,
) -> Result<Option<(RunHandle, FollowerGuard)>, Problem> {
    let context = caller.resume_context(state, session).await?;
    let orchestrator = state.orchestrator();
    let approvals = orchestrator.approvals().with_context(context);
    let (runs, followers) = (orchestrator.runs(), state.followers().clone());
    let by = caller.name();
    let resumed = detached(async move {
        for (waiting, _, status) in &decided {
            // Cancelling is never too late: the run treats it like the expiry.
            if *status == ResumeStatus::Resolved {
                let in_time = approvals.check_time(waiting).await;
                in_time.map_err(DecideError::Resume)?;
            }
        }
        let decisions = decided.iter();
        let decisions = decisions.map(|(waiting, decision, _)| (waiting, decision.clone()));
        let decided = approvals.decide_all_and_resume(decisions.collect(), by);
        Ok::<_, DecideError>(match decided.await? {
            Decided::Continues(handle) => {
                followers.note_resumed(run);
                Some((handle, followers.add(runs, run)))
            }
            // The process that holds the run applies them.
            Decided::LeftToHolder => None,
        })
    });
    Ok(resumed.await??)
}
