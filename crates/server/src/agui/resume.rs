//! Decides what interrupts ask, as `/api/v1/runs/{id}/approvals/{call_id}` does, and lets their run go on.

use std::sync::Arc;

use neuraxis::core::log::RunView;
use neuraxis::core::{ApprovalDecision, JsonText, Record, RecordBody, RunId, Seq};
use neuraxis::engine::{DecideError, Decided, ToolCallError, WaitingApproval};
use neuraxis::{Message, Orchestrator, RunHandle, SessionId};
use serde::Deserialize;

use super::answer::{EndIfLeft, Telling};
use super::input::{Input, Resume, ResumeStatus, invalid, typed};
use super::mapping::Mapping;
use crate::access::detached;
use crate::caller::Caller;
use crate::limits::Limited;
use crate::problem::{NOT_ASKED, Problem, QUESTION_ALTERED, QUESTION_EXPIRED, RUN_ENDED};

/// What the model is told where the person left the question alone.
const LEFT: &str = "the person left the question without an answer";

/// What a person answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    approved: bool,
    edited_args: Option<serde_json::Map<String, serde_json::Value>>,
    reason: Option<String>,
}

/// Answers the interrupts of a session's run. What was answered the same way before is not answered again.
pub(super) async fn resume(
    limited: &Limited,
    caller: &Caller,
    input: &Input,
) -> Result<Telling, Problem> {
    match answer(limited, caller, input).await {
        // Somebody may have answered since it was looked at: by now it stands on record in which way.
        Err(problem) if problem.is(&NOT_ASKED) || problem.is(&RUN_ENDED) => {
            answer(limited, caller, input).await
        }
        answered => answered,
    }
}

async fn answer(limited: &Limited, caller: &Caller, input: &Input) -> Result<Telling, Problem> {
    caller.decides(limited)?;
    let (session, answers) = (&input.session, &input.resume);
    let orchestrator = limited.orchestrator();
    caller.session(orchestrator, session).await?;
    let open = orchestrator.approvals().of_session(session).await?;
    let run = match open.first() {
        Some(waiting) => waiting.run_id,
        None => last_run(orchestrator, session).await?,
    };
    let records = orchestrator.sessions().records(run).await?;
    check_message(input.conversation.said_last(), &records)?;
    let mut decided = Vec::new();
    // The first of the decisions that were taken before.
    let mut earlier: Option<Seq> = None;
    for (at, answer) in answers.iter().enumerate() {
        check_once(answers, at)?;
        let decision = decision(answer, at)?;
        let is_it = |waiting: &&WaitingApproval| waiting.question() == answer.interrupt_id;
        if let Some(waiting) = open.iter().find(is_it) {
            check(orchestrator, waiting, &decision, at)?;
            decided.push((waiting.clone(), decision));
        } else {
            let before = decided_before(&records, run, &answer.interrupt_id, &decision)?;
            earlier = Some(earlier.map_or(before, |known| known.min(before)));
        }
    }
    let left = open.iter().map(WaitingApproval::question);
    let left: Vec<String> = left
        .filter(|question| !answers.iter().any(|it| it.interrupt_id == *question))
        .collect();
    if !left.is_empty() {
        let left = left.join(", ");
        let why = format!("it has to answer all that is open; missing: {left}");
        return Err(Problem::invalid("resume", why));
    }
    let newest = records.last().map_or(Seq(0), |record| record.seq);
    // What the client was told before.
    let last = earlier.map_or(newest, |first| Seq(first.0.saturating_sub(1)));
    let (handle, end) = match decided.is_empty() {
        true => (None, EndIfLeft::new(orchestrator.runs(), run)),
        false => go_on(orchestrator, caller, run, decided).await?,
    };
    let events = match &handle {
        Some(handle) => handle.events_after(last),
        None => orchestrator.runs().attach(run, last).await?,
    };
    let (state, messages) = (input.state.clone(), input.messages.clone());
    let mut mapping = Mapping::new(input.named.clone(), run, state, messages);
    let past = records.iter().filter(|record| record.seq <= last);
    mapping.recall(past.map(Arc::as_ref));
    Ok(Telling {
        orchestrator: orchestrator.clone(),
        mapping,
        run,
        handle,
        events,
        known: Some(newest).filter(|newest| *newest > last),
        end,
    })
}

/// Returns the last run of a session.
async fn last_run(orchestrator: &Orchestrator, session: &SessionId) -> Result<RunId, Problem> {
    let runs = orchestrator.sessions().runs(session).await?;
    let last = runs.unwrap_or_default().into_iter().map(|run| run.run_id);
    last.max().ok_or_else(not_asked)
}

fn not_asked() -> Problem {
    let detail = "resume: no such interrupt of this thread waits for an answer";
    Problem::new(&NOT_ASKED, detail)
}

/// Refuses a message that the run has not taken: it would be lost.
fn check_message(said: Option<String>, records: &[Arc<Record>]) -> Result<(), Problem> {
    let view = RunView::of(records);
    let messages = view.spec().map(|spec| spec.messages.as_slice());
    let mut latest_first = messages.unwrap_or_default().iter().rev();
    let asked = latest_first.find(|message| matches!(***message, Message::User { .. }));
    match said {
        Some(said) if asked.is_none_or(|asked| asked.text() != said) => {
            let complaint =
                "a run that goes on takes no new message: send it once the run has ended";
            Err(invalid("messages", complaint))
        }
        _ => Ok(()),
    }
}

/// Refuses to answer an interrupt twice: which of the two counts would be anybody's guess.
fn check_once(answers: &[Resume], at: usize) -> Result<(), Problem> {
    let mut before = answers.iter().take(at);
    let answer = answers.get(at).map(|answer| &answer.interrupt_id);
    match before.any(|before| Some(&before.interrupt_id) == answer) {
        true => Err(invalid(
            &format!("resume[{at}].interruptId"),
            "the interrupt is answered twice",
        )),
        false => Ok(()),
    }
}

fn decision(answer: &Resume, at: usize) -> Result<ApprovalDecision, Problem> {
    if answer.status == ResumeStatus::Cancelled {
        return Ok(ApprovalDecision::Deny {
            reason: Some(LEFT.to_owned()),
        });
    }
    let within = format!("resume[{at}].payload");
    let Some(payload) = answer.payload.clone() else {
        let complaint = "it must be an object with the field approved";
        return Err(invalid(&within, complaint));
    };
    let payload: Payload = typed(payload, &format!("{within}."))?;
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

/// Refuses to approve what cannot run as it would.
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
        let detail = "what stands in the store is not what was asked: it can only be denied";
        return Err(Problem::new(&QUESTION_ALTERED, detail));
    }
    let Some(arguments) = arguments else {
        return Ok(());
    };
    match orchestrator.tools().check(&waiting.request.name, arguments) {
        // A tool that this process does not have is checked where it is.
        Ok(_) | Err(ToolCallError::UnknownTool { .. }) => Ok(()),
        Err(error) => {
            let field = format!("resume[{at}].payload.editedArgs");
            Err(invalid(&field, &error.to_string()))
        }
    }
}

/// Returns the record of the decision about a question that was decided, if it was decided so.
fn decided_before(
    records: &[Arc<Record>],
    run: RunId,
    question: &str,
    wanted: &ApprovalDecision,
) -> Result<Seq, Problem> {
    let asked = records.iter().find_map(|record| match &record.body {
        RecordBody::ApprovalRequested(asked) if asked.question(run) == question => Some(asked),
        _ => None,
    });
    let asked = asked.ok_or_else(not_asked)?;
    let decided = records.iter().find_map(|record| match &record.body {
        RecordBody::ApprovalDecided(decided) if decided.tool_call_id == asked.tool_call_id => {
            Some((record.seq, &decided.decision))
        }
        _ => None,
    });
    match decided {
        Some((seq, decision)) if decision == wanted => Ok(seq),
        Some((_, ApprovalDecision::Expired)) => {
            let detail = "nobody answered the interrupt in time: the run went on without the call";
            Err(Problem::new(&QUESTION_EXPIRED, detail))
        }
        Some(_) => {
            let detail = "resume: the interrupt was answered in another way before";
            Err(Problem::new(&NOT_ASKED, detail))
        }
        // The run ended while it was asked.
        None => Err(not_asked()),
    }
}

/// Lets the run go on with the decisions, here or where it is. A client that leaves in the middle must not leave a run that nobody
/// drives.
async fn go_on(
    orchestrator: &Orchestrator,
    caller: &Caller,
    run: RunId,
    decided: Vec<(WaitingApproval, ApprovalDecision)>,
) -> Result<(Option<RunHandle>, EndIfLeft), Problem> {
    let approvals = orchestrator.approvals().with_context(caller.seeing());
    let runs = orchestrator.runs();
    let gone_on = detached(async move {
        for (waiting, _) in &decided {
            let in_time = approvals.check_time(waiting).await;
            in_time.map_err(DecideError::Resume)?;
        }
        let decisions = decided.iter();
        let decisions = decisions.map(|(waiting, decision)| (waiting, decision.clone()));
        let decided = approvals.decide_all_and_resume(decisions.collect(), None);
        let handle = match decided.await? {
            Decided::GoesOn(handle) => Some(handle),
            // Whoever has it takes them.
            Decided::LeftToHolder => None,
        };
        Ok::<_, DecideError>((handle, EndIfLeft::new(runs, run)))
    });
    Ok(gone_on.await??)
}
