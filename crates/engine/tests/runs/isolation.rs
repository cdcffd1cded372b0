//! What a misbehaving tool can do to its run, in a separate task and in the run's own task.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::{JsonText, RunStatus, ToolFailure, ToolOutput, ToolSpec};
use neuraxis_engine::{Delivery, Event};
use neuraxis_ports::{Isolation, Tool, ToolContext, ToolError, async_trait};
use neuraxis_testkit::{Act, Script, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{FinishedRun, builder, policy, request, run_to_end, with_tools};

const BOTH: [Isolation; 2] = [Isolation::OwnTask, Isolation::RunTask];

/// A scripted tool with the given isolation.
#[derive(Debug)]
struct Placed(ScriptedTool, Isolation);

#[async_trait]
impl Tool for Placed {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn isolation(&self) -> Isolation {
        self.1
    }

    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.call(arguments, ctx).await
    }
}

#[tokio::test]
async fn a_tool_whose_availability_check_panics_is_not_run() {
    let model = ScriptedModel::new()
        .then(reply::calls([("bad", "{}"), ("good", "{}")]))
        .then(reply::text("went on"));
    let bad = ScriptedTool::echoing(spec("bad").read_only()).available_when(|_| panic!("boom"));
    let bad = Arc::new(bad);
    let good = Arc::new(ScriptedTool::echoing(spec("good").read_only()));
    let finished = run_to_end(&with_tools(model, vec![bad.clone(), good]), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let failures: Vec<_> = finished.results().iter().map(|it| it.failure).collect();
    assert_eq!(failures, [Some(ToolFailure::NotEnabled), None]);
    assert_eq!(bad.count(), 0);
}

#[tokio::test]
async fn a_tool_that_panics_fails_only_its_own_call() {
    for isolation in BOTH {
        let model = ScriptedModel::new()
            .then(reply::calls([("bad", "{}"), ("good", "{}")]))
            .then(reply::text("went on"));
        let bad = ScriptedTool::always(spec("bad").read_only(), Act::panicking("boom"));
        let good = ScriptedTool::always(spec("good").read_only(), Act::value("1"));
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(Placed(bad, isolation)),
            Arc::new(Placed(good, isolation)),
        ];
        let finished = run_to_end(&with_tools(model, tools), request("go")).await;
        finished.assert_valid(RunStatus::Done);
        let mut results = finished.results();
        results.sort_by_key(|result| result.index);
        assert_eq!(
            (results[0].failure, results[1].failure),
            (Some(ToolFailure::Panic), None),
            "{isolation:?}"
        );
        assert_eq!(finished.result.reply, "went on");
    }
}

/// A tool that panics in `dry_run` before it returns a future, like a closure that checks first and returns a ready
/// value.
#[derive(Debug)]
struct Hasty(ToolSpec);

#[async_trait]
impl Tool for Hasty {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn dry_run<'tool, 'arguments, 'call>(
        &'tool self,
        _: &'arguments JsonText,
    ) -> Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'call>>
    where
        'tool: 'call,
        'arguments: 'call,
        Self: 'call,
    {
        unreachable!("boom")
    }

    async fn call(&self, _: JsonText, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new(JsonText::from_text("1")))
    }
}

#[tokio::test]
async fn a_tool_whose_dry_run_panics_needs_approval_as_usual() {
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", "{}")]))
        .then(reply::text("went on"));
    let orchestrator = builder(model)
        .tool(Arc::new(Hasty(spec("pay").build())))
        .approver(Arc::new(ScriptedApprover::new().approve()))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.results()[0].failure, None);
    assert_eq!(finished.result.reply, "went on");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_stopped_at_its_timeout() {
    for isolation in BOTH {
        for act in [Act::hanging(), Act::stalling()] {
            let model = ScriptedModel::new()
                .then(reply::calls([("slow", "{}")]))
                .then(reply::text("went on"));
            let limit = Duration::from_secs(2);
            let tool = ScriptedTool::always(spec("slow").read_only().timeout(limit), act);
            let tool = Arc::new(Placed(tool, isolation));
            let finished = run_to_end(&with_tools(model, vec![tool.clone()]), request("go")).await;
            finished.assert_valid(RunStatus::Done);
            let result = &finished.results()[0];
            assert_eq!(
                result.value.as_str(),
                r#"{"error":"tool execution timed out"}"#
            );
            assert_eq!(result.duration, Some(limit));
            tokio::task::yield_now().await;
            assert_eq!(tool.0.open_calls(), 0, "{isolation:?}");
            let cancellation = &tool.0.calls()[0].context.cancellation;
            assert!(cancellation.is_cancelled(), "{isolation:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_stopped_when_its_run_is_cancelled() {
    for isolation in BOTH {
        let model = ScriptedModel::new().then(reply::calls([("slow", "{}")]));
        let tool = ScriptedTool::always(spec("slow").read_only(), Act::hanging());
        let tool = Arc::new(Placed(tool, isolation));
        let orchestrator = with_tools(model, vec![tool.clone()]);
        let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
        while tool.0.open_calls() == 0 {
            tokio::task::yield_now().await;
        }
        handle.cancel("enough").unwrap();
        handle.result().await.unwrap();
        orchestrator.shutdown().await;
        tokio::task::yield_now().await;
        assert_eq!(tool.0.open_calls(), 0, "{isolation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_call_of_a_run_that_ends_never_starts() {
    let last = Script::from(reply::text("in time")).after(Duration::from_secs(1));
    let model = ScriptedModel::new()
        .then(reply::calls([("slow", "{}"), ("queued", "{}")]))
        .then(last);
    let slow = ScriptedTool::always(spec("slow").read_only(), Act::hanging());
    let queued = ScriptedTool::echoing(spec("queued").read_only());
    let queued = Arc::new(Placed(queued, Isolation::RunTask));
    let orchestrator = builder(model)
        .policy(policy("modes.exploratory.deadline = '20s'\n"))
        .tool(Arc::new(slow))
        .tool(queued.clone())
        .max_parallel_tools(1)
        .build()
        .unwrap();
    let whole = request("go").delivery(Delivery::Whole);
    let finished = run_to_end(&orchestrator, whole).await;
    let failures: Vec<_> = finished.results().iter().map(|it| it.failure).collect();
    assert_eq!(failures, [Some(ToolFailure::Timeout); 2]);
    assert_eq!(queued.0.count(), 0);
    assert_eq!(
        shown(&finished),
        ["tool_start", "tool_result", "tool_result"]
    );
}

/// A tool that blocks its thread until it is told to continue, which no async function should do.
#[derive(Debug)]
struct Blocking {
    spec: ToolSpec,
    isolation: Isolation,
    go_on: Mutex<Receiver<()>>,
}

impl Blocking {
    fn new(isolation: Isolation) -> (Arc<Self>, Sender<()>) {
        let (sender, receiver) = channel();
        let tool = Self {
            spec: spec("block")
                .read_only()
                .timeout(Duration::from_millis(50))
                .build(),
            isolation,
            go_on: Mutex::new(receiver),
        };
        (Arc::new(tool), sender)
    }
}

#[async_trait]
impl Tool for Blocking {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    async fn call(&self, _arguments: JsonText, _ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.go_on.lock().unwrap().recv().unwrap();
        Ok(ToolOutput::new(JsonText::from_text("1")))
    }
}

fn calling_block() -> ScriptedModel {
    ScriptedModel::new()
        .then(reply::calls([("block", "{}")]))
        .then(reply::text("went on"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_in_its_own_task_does_not_stop_the_run_s_clock() {
    let (tool, go_on) = Blocking::new(Isolation::OwnTask);
    let finished = run_to_end(&with_tools(calling_block(), vec![tool]), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.results()[0].failure, Some(ToolFailure::Timeout));
    go_on.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_in_the_run_s_task_delays_only_that_run() {
    let (tool, go_on) = Blocking::new(Isolation::RunTask);
    let blocked = with_tools(calling_block(), vec![tool]);
    let (handle, mut events) = blocked.stream(request("go")).await.unwrap();
    let other = ScriptedModel::new().then(reply::text("here"));
    let other = builder(other).build().unwrap();
    let finished = run_to_end(&other, request("are you there?")).await;
    assert_eq!(finished.result.reply, "here");
    go_on.send(()).unwrap();
    // The time limit was not checked while it blocked, so its result counts, however late it is.
    let result = handle.result().await.unwrap();
    assert_eq!(result.reply, "went on");
    while let Some(event) = events.next().await {
        if let neuraxis_engine::Event::Record(record) = event
            && let neuraxis_core::RecordBody::ToolResult(result) = &record.body
        {
            assert_eq!((result.failure, result.value.as_str()), (None, "1"));
        }
    }
}

/// Returns the names of all live events and the kinds of the records that close a call, in order.
fn shown(finished: &FinishedRun) -> Vec<&'static str> {
    let events = finished.events.iter().filter_map(|event| match event {
        Event::Live(live) => Some(live.body.kind()),
        Event::Record(record) if record.body.kind() == "tool_result" => Some("tool_result"),
        Event::Record(_) => None,
    });
    events.collect()
}

async fn hear_one_call(tool: Arc<dyn Tool>) -> FinishedRun {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("ok"));
    let whole = request("go").delivery(Delivery::Whole);
    run_to_end(&with_tools(model, vec![tool]), whole).await
}

#[tokio::test(start_paused = true)]
async fn a_tool_start_is_shown_only_for_calls_that_take_time_and_before_their_output() {
    let second = Duration::from_secs(1);
    for (act, expected) in [
        (Act::value("1"), vec!["tool_result"]),
        (
            Act::value("1").after(second),
            vec!["tool_start", "tool_result"],
        ),
        (
            Act::value("1").printing("peek").after(second),
            vec!["tool_start", "tool_output", "tool_result"],
        ),
    ] {
        let look = ScriptedTool::always(spec("look").read_only(), act);
        let placed = Placed(look, Isolation::RunTask);
        let finished = hear_one_call(Arc::new(placed)).await;
        assert_eq!(shown(&finished), expected);
    }
}

/// A tool that returns immediately and keeps reporting.
#[derive(Debug)]
struct Chatty(ToolSpec);

#[async_trait]
impl Tool for Chatty {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn isolation(&self) -> Isolation {
        Isolation::RunTask
    }

    async fn call(&self, _: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ctx.progress.output("too late");
        });
        Ok(ToolOutput::new(JsonText::from_text("1")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_of_a_tool_after_its_result_is_ignored() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(Script::from(reply::text("ok")).after(Duration::from_secs(9)));
    let chatty = Arc::new(Chatty(spec("look").read_only().into()));
    let whole = request("go").delivery(Delivery::Whole);
    let finished = run_to_end(&with_tools(model, vec![chatty]), whole).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(shown(&finished), ["tool_result"]);
}
