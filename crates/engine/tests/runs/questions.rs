//! Questions that tools ask during a call, answered by a client that follows the run.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    AskApproval, Field, FieldKind, FinishReason, JsonText, LiveBody, OpenQuestion, QuestionId,
    QuestionOutcome, RunId, RunStatus, Seq, ToolFailure, ToolOutput, ToolSpec,
};
use neuraxis_engine::{AnswerQuestionError, Event, Events, Orchestrator, OrchestratorBuilder};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    Approver, ApproverReply, Question, QuestionReply, Tool, ToolContext, ToolError, TurnContext,
    async_trait,
};
use neuraxis_testkit::{
    AskingTool, Script, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec,
};
use tokio::sync::mpsc;

use crate::support::{builder, policy, request, run_to_end};

const MINUTE: Duration = Duration::from_secs(60);

fn which() -> Question {
    let size = FieldKind::Integer {
        min: Some(1),
        max: Some(9),
    };
    let mut size = Field::new("size", size);
    size.required = true.into();
    Question::new("shop", "Which size?").field(size)
}

fn buying() -> Arc<AskingTool> {
    Arc::new(AskingTool::new(spec("buy").read_only(), which()))
}

fn model() -> ScriptedModel {
    ScriptedModel::new()
        .then(reply::calls([("buy", "{}")]))
        .then(reply::text("Done."))
}

fn asking(tool: Arc<dyn Tool>) -> OrchestratorBuilder {
    builder(model()).tool(tool).questions_open_for(MINUTE)
}

fn answer(text: &str) -> QuestionReply {
    QuestionReply::Answered(JsonText::from_text(text))
}

/// Waits for the next question.
async fn next(events: &mut Events) -> Arc<OpenQuestion> {
    while let Some(event) = events.next().await {
        if let Event::Live(live) = event
            && let LiveBody::Question(question) = live.body
        {
            return question;
        }
    }
    unreachable!("nothing was asked");
}

/// Waits for the end, and returns the outcomes of the questions, each of which came before its call's result.
async fn settled(mut events: Events) -> Vec<QuestionOutcome> {
    let mut outcomes = Vec::new();
    let mut is_over = false;
    while let Some(event) = events.next().await {
        match event {
            Event::Live(live) => {
                if let LiveBody::QuestionSettled { outcome, .. } = live.body {
                    assert!(!is_over, "its call was over before");
                    outcomes.push(outcome);
                }
            }
            Event::Record(record) => is_over |= record.body.kind() == "tool_result",
        }
    }
    outcomes
}

#[tokio::test(start_paused = true)]
async fn a_question_is_shown_to_followers_and_its_tool_receives_the_answer() {
    for (reply, outcome) in [
        (answer(r#"{"size":7}"#), QuestionOutcome::Answered),
        (QuestionReply::Declined, QuestionOutcome::Declined),
        (QuestionReply::Cancelled, QuestionOutcome::Cancelled),
    ] {
        let tool = buying();
        let orchestrator = asking(tool.clone()).build().unwrap();
        let (handle, mut events) = orchestrator.stream(request("Buy.")).await.unwrap();
        let (runs, run) = (orchestrator.runs(), handle.run_id());
        let open = next(&mut events).await;
        assert_eq!(open.question, which());
        assert_eq!(open.tool_call_id.run(), Some(run));
        assert_eq!(runs.questions(run).unwrap(), std::slice::from_ref(&open));
        runs.answer_question(run, &open.question_id, reply.clone())
            .unwrap();
        assert_eq!(settled(events).await, [outcome]);
        assert_eq!(tool.replies(), [reply]);
        assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_is_refused_and_the_question_stays_open() {
    let tool = buying();
    let orchestrator = asking(tool.clone()).build().unwrap();
    let (handle, mut events) = orchestrator.stream(request("Buy.")).await.unwrap();
    let (runs, run) = (orchestrator.runs(), handle.run_id());
    let open = next(&mut events).await;
    let say = |text: &str| runs.answer_question(run, &open.question_id, answer(text));
    for wrong in ["7", "{}", r#"{"size":10}"#, r#"{"size":7,"gift":true}"#] {
        let refused = say(wrong);
        assert!(
            matches!(refused, Err(AnswerQuestionError::Invalid(_))),
            "{wrong}: {refused:?}"
        );
        assert_eq!(runs.questions(run).unwrap().len(), 1, "{wrong}");
    }
    let other = QuestionId::from_text("other");
    let not_open = |question: &QuestionId| {
        let question = question.clone();
        Err(AnswerQuestionError::NotOpen { run, question })
    };
    let refused = runs.answer_question(run, &other, QuestionReply::Declined);
    assert_eq!(refused, not_open(&other));
    say(r#"{"size":7}"#).unwrap();
    // The first answer counts, even before the tool has received it.
    assert_eq!(say(r#"{"size":8}"#), not_open(&open.question_id));
    assert!(runs.questions(run).unwrap().is_empty());
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    assert_eq!(tool.replies(), [answer(r#"{"size":7}"#)]);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_question_expires_without_using_up_tool_or_run_time() {
    let tool = buying();
    // Questions stay open for a minute: twice the tool's own time limit, and longer than the run's deadline.
    let own =
        policy("modes.exploratory.tool_timeout = '30s'\nmodes.exploratory.deadline = '40s'\n");
    let orchestrator = asking(tool.clone()).policy(own).build().unwrap();
    let finished = run_to_end(&orchestrator, request("Buy.")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(tool.replies(), [QuestionReply::Cancelled]);
    let events = finished.events.into_iter();
    let outcomes = events.filter_map(|event| match event {
        Event::Live(live) => match live.body {
            LiveBody::QuestionSettled { outcome, .. } => Some(outcome),
            _ => None,
        },
        Event::Record(_) => None,
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), [QuestionOutcome::Expired]);
}

/// Asks in the given way.
#[derive(Debug)]
struct Asking(ToolSpec, How);

#[derive(Debug)]
enum How {
    /// It waits only briefly.
    Impatiently,
    /// It asks this many questions at the same time.
    Often(usize),
    /// It asks a question that is too long.
    AtLength,
    /// It asks in a separate task and does not wait for the reply, which is sent here.
    Aside(mpsc::UnboundedSender<QuestionReply>),
}

#[async_trait]
impl Tool for Asking {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        let question = which();
        let said = match &self.1 {
            How::Impatiently => {
                let asked = tokio::time::timeout(MINUTE / 2, ctx.questions.ask(&question)).await;
                format!("{asked:?}")
            }
            How::Often(count) => {
                let asked = (0..*count).map(|_| ctx.questions.ask(&question));
                let replies = futures_util::future::join_all(asked).await;
                let is_declined = |reply: &&QuestionReply| **reply == QuestionReply::Declined;
                replies.iter().filter(is_declined).count().to_string()
            }
            How::AtLength => {
                let question = Question::new("shop", "x".repeat(64 * 1024));
                format!("{:?}", ctx.questions.ask(&question).await)
            }
            How::Aside(replies) => {
                let (questions, replies) = (ctx.questions.clone(), replies.clone());
                tokio::spawn(async move { replies.send(questions.ask(&question).await) });
                tokio::time::sleep(Duration::from_secs(1)).await;
                "done".to_owned()
            }
        };
        Ok(ToolOutput::new(JsonText::string(&said)))
    }
}

fn asks(how: How) -> Orchestrator {
    let tool = Asking(spec("buy").read_only().into(), how);
    asking(Arc::new(tool)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_question_that_its_tool_stops_waiting_for_is_withdrawn() {
    let orchestrator = asks(How::Impatiently);
    let (handle, mut events) = orchestrator.stream(request("Buy.")).await.unwrap();
    let (runs, run) = (orchestrator.runs(), handle.run_id());
    let open = next(&mut events).await;
    assert_eq!(settled(events).await, [QuestionOutcome::Withdrawn]);
    let late = runs.answer_question(run, &open.question_id, QuestionReply::Declined);
    assert_eq!(late, Err(AnswerQuestionError::NotHere(run)));
}

#[tokio::test(start_paused = true)]
async fn questions_end_with_their_run() {
    let tool = buying();
    let orchestrator = asking(tool.clone()).build().unwrap();
    let (handle, mut events) = orchestrator.stream(request("Buy.")).await.unwrap();
    let (runs, run) = (orchestrator.runs(), handle.run_id());
    let open = next(&mut events).await;
    handle.cancel("not needed any more").unwrap();
    assert_eq!(
        handle.result().await.unwrap().status,
        RunStatus::Interrupted
    );
    assert_eq!(runs.questions(run), None);
    let late = runs.answer_question(run, &open.question_id, QuestionReply::Declined);
    assert_eq!(late, Err(AnswerQuestionError::NotHere(run)));
    assert!(tool.replies().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_asks_too_many_or_too_long_questions_is_declined() {
    for (how, asked, declined) in [
        (How::Often(20), 20, "0"),
        (How::Often(25), 20, "5"),
        (How::AtLength, 0, "Declined"),
    ] {
        let orchestrator = asks(how);
        let finished = run_to_end(&orchestrator, request("Buy.")).await;
        let questions = finished
            .events
            .iter()
            .filter(|event| matches!(event, Event::Live(live) if live.body.kind() == "question"));
        assert_eq!(questions.count(), asked);
        assert_eq!(finished.results()[0].value, JsonText::string(declined));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_follower_sees_open_questions_too() {
    let orchestrator = asking(buying()).build().unwrap();
    let (handle, mut events) = orchestrator.stream(request("Buy.")).await.unwrap();
    let (runs, run) = (orchestrator.runs(), handle.run_id());
    let open = next(&mut events).await;
    let last = handle.records().last().unwrap().seq;
    for after in [Seq(0), last] {
        let mut late = runs.attach(run, after).await.unwrap();
        assert_eq!(next(&mut late).await, open);
    }
    runs.answer_question(run, &open.question_id, QuestionReply::Declined)
        .unwrap();
    assert_eq!(settled(events).await, [QuestionOutcome::Declined]);
}

#[tokio::test(start_paused = true)]
async fn a_question_in_a_replaced_engine_can_be_read_and_answered_through_the_next() {
    let (tool, store) = (buying(), Arc::new(MemoryStore::new()));
    let former = asking(tool.clone()).store(store.clone()).build().unwrap();
    let (handle, mut events) = former.stream(request("Buy.")).await.unwrap();
    let open = next(&mut events).await;
    let latest = asking(tool.clone()).store(store).replaces(&former);
    let latest = latest.build().unwrap();
    let (runs, run) = (latest.runs(), handle.run_id());
    assert_eq!(runs.questions(run).unwrap(), std::slice::from_ref(&open));
    let mut late = runs.attach(run, Seq(0)).await.unwrap();
    assert_eq!(next(&mut late).await, open);
    let seven = answer(r#"{"size":7}"#);
    runs.answer_question(run, &open.question_id, seven.clone())
        .unwrap();
    assert_eq!(settled(late).await, [QuestionOutcome::Answered]);
    assert_eq!(tool.replies(), [seven]);
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_call_waiting_for_an_answer_does_not_block_other_tools() {
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let model = ScriptedModel::new()
        .then(reply::calls([("buy", "{}"), ("look", "{}")]))
        .then(reply::text("Done."));
    let orchestrator = builder(model)
        .tool(buying())
        .tool(look.clone())
        .max_parallel_tools(1)
        .questions_open_for(MINUTE);
    let orchestrator = orchestrator.build().unwrap();
    let (handle, mut events) = orchestrator.stream(request("Buy.")).await.unwrap();
    let (runs, run) = (orchestrator.runs(), handle.run_id());
    let open = next(&mut events).await;
    for _ in 0..1_000 {
        if look.count() == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(look.count(), 1, "it waits for the other call");
    let answered = runs.answer_question(run, &open.question_id, answer(r#"{"size":7}"#));
    answered.unwrap();
    assert_eq!(settled(events).await, [QuestionOutcome::Answered]);
}

/// Waits a minute before it answers.
#[derive(Debug)]
struct Slow;

#[async_trait]
impl Approver for Slow {
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        ApproverReply::Nobody
    }

    async fn answer(&self, _: &Question) -> QuestionReply {
        tokio::time::sleep(MINUTE).await;
        answer(r#"{"size":3}"#)
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_to_an_approver_blocks_no_other_tools_and_stops_the_run_s_clock() {
    for is_of_request in [false, true] {
        let (buy, look) = (
            buying(),
            Arc::new(ScriptedTool::echoing(spec("look").read_only())),
        );
        let model = ScriptedModel::new()
            .then(reply::calls([("buy", "{}"), ("look", "{}")]))
            .then(reply::text("Done."));
        let own = policy("modes.exploratory.deadline = '40s'\n");
        let builder = builder(model)
            .policy(own)
            .tool(buy.clone())
            .tool(look.clone())
            .max_parallel_tools(1);
        let (builder, asked) = match is_of_request {
            true => (builder, request("Buy.").approver(Arc::new(Slow))),
            false => (builder.approver(Arc::new(Slow)), request("Buy.")),
        };
        let orchestrator = builder.build().unwrap();
        let (handle, _events) = orchestrator.stream(asked).await.unwrap();
        for _ in 0..1_000 {
            if look.count() == 1 {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(look.count(), 1, "it waits for the other call");
        let result = handle.result().await.unwrap();
        assert_eq!(result.status, RunStatus::Done);
        assert_eq!(buy.replies(), [answer(r#"{"size":3}"#)]);
    }
}

/// Never answers.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Approver for Silent {
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        ApproverReply::Nobody
    }

    async fn answer(&self, _: &Question) -> QuestionReply {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_to_an_approver_ends_with_its_call_and_the_clock_continues() {
    let (replies, mut finished) = mpsc::unbounded_channel();
    let tool = Asking(spec("buy").read_only().into(), How::Aside(replies));
    let model = ScriptedModel::new()
        .then(reply::calls([("buy", "{}")]))
        .then(Script::hanging());
    let orchestrator = builder(model)
        .policy(policy("modes.exploratory.deadline = '10s'\n"))
        .tool(Arc::new(tool))
        .approver(Arc::new(Silent))
        .build()
        .unwrap();
    let (handle, _events) = orchestrator.stream(request("Buy.")).await.unwrap();
    let reply = tokio::time::timeout(MINUTE, finished.recv()).await;
    assert_eq!(reply, Ok(Some(QuestionReply::Cancelled)));
    let result = tokio::time::timeout(MINUTE, handle.result()).await;
    let result = result.expect("its time stands still").unwrap();
    assert_eq!(result.finish_reason, Some(FinishReason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn the_request_s_approver_is_asked_first_and_without_one_a_question_is_declined() {
    let tool = buying();
    let orchestrator = asking(tool.clone()).build().unwrap();
    let reply = answer(r#"{"size":3}"#);
    let approver = Arc::new(ScriptedApprover::new().answering(reply.clone()));
    let finished = run_to_end(&orchestrator, request("Buy.").approver(approver)).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(tool.replies(), [reply]);

    let tool = buying();
    let orchestrator = builder(model()).tool(tool.clone()).build().unwrap();
    let finished = run_to_end(&orchestrator, request("Buy.")).await;
    assert_eq!(tool.replies(), [QuestionReply::Declined]);
    assert_eq!(finished.results()[0].failure, Some(ToolFailure::Permanent));
    let unknown = RunId(neuraxis_core::uuid::Uuid::nil());
    assert_eq!(orchestrator.runs().questions(unknown), None);
}
