//! How runs end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use neuraxis_core::{Channel, FinishReason, Mode, ReplyFinish, RunStatus};
use neuraxis_engine::RequestError;
use neuraxis_memory::MemoryStore;
use neuraxis_ports::SessionIndex as _;
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, assert_paired, reply, spec};

use crate::support::{builder, history, policy, request, run_to_end, session, with_tools};

#[tokio::test]
async fn a_text_ends_the_run_and_joins_the_session_history() {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::new()
        .then(reply::text("one"))
        .then(reply::text("two"));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    let ask = |text: &'static str| orchestrator.handle_user_request_in_moderation(text);
    assert_eq!(ask("first").await, "one");
    assert_eq!(ask("second").await, "two");
    let texts: Vec<_> = history(store.as_ref())
        .await
        .messages()
        .iter()
        .map(|message| message.text())
        .collect();
    assert_eq!(texts, ["first", "one", "second", "two"]);
}

trait Ask {
    async fn handle_user_request_in_moderation(&self, text: &str) -> String;
}

impl Ask for neuraxis_engine::Orchestrator {
    async fn handle_user_request_in_moderation(&self, text: &str) -> String {
        let result = self
            .handle_user_request(&session(), text, Mode::MODERATE, Channel::CHAT)
            .await
            .unwrap();
        assert_eq!(result.finish_reason, Some(FinishReason::Stop));
        assert_eq!((result.notice, result.interruption), (None, None));
        result.reply
    }
}

#[test]
fn without_a_runtime_no_run_starts_that_would_keep_the_session_busy() {
    let model = ScriptedModel::always(reply::text("42")).with_context(16_000);
    let orchestrator = builder(model).build().unwrap();
    let asked = AssertUnwindSafe(|| orchestrator.handle(request("go")).now_or_never());
    assert!(catch_unwind(asked).is_err());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let result = runtime.block_on(orchestrator.handle(request("go")));
    assert_eq!(result.unwrap().reply.as_str(), "42");
}

#[tokio::test]
async fn the_turn_limit_ends_a_run_with_one_more_answer() {
    let model = ScriptedModel::answering(|request| {
        if request.tool_choice == neuraxis_core::ToolChoice::None {
            reply::text("what I have")
        } else {
            reply::calls([("look", "{}")])
        }
    });
    let look = ScriptedTool::echoing(spec("look").read_only());
    let orchestrator = with_tools(model, vec![Arc::new(look)]);
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::CONSERVATIVE)).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.finish_reason, Some(FinishReason::MaxTurns));
    assert_eq!(
        (finished.result.turns, finished.result.reply.as_str()),
        (3, "what I have")
    );
    let kinds = finished.kinds();
    let limit = kinds
        .iter()
        .position(|kind| *kind == "max_turns_reached")
        .unwrap();
    assert_eq!(
        kinds[limit..],
        [
            "max_turns_reached",
            "max_turns_prompt_injected",
            "llm_call",
            "final"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_run_during_a_tool_call_leaves_a_valid_history() {
    let tool = Arc::new(ScriptedTool::always(
        spec("slow").read_only(),
        Act::stalling(),
    ));
    let orchestrator = with_tools(
        ScriptedModel::always(reply::calls([("slow", "{}")])),
        vec![tool.clone()],
    );
    let (handle, mut events) = orchestrator.stream(request("go")).await.unwrap();
    while tool.open_calls() == 0 {
        events.next().await.unwrap();
    }
    handle.cancel("enough").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, &result.finish_reason),
        (RunStatus::Interrupted, &Some(FinishReason::Cancelled))
    );
    orchestrator.shutdown().await;
    tokio::task::yield_now().await;
    assert_eq!(tool.open_calls(), 0, "the tool still runs");
    assert!(handle.cancel("again").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_with_the_text_so_far_and_the_reason() {
    for (reason, expected) in [
        ("enough\u{1b}[2J\nfor now", "answer: enough [2J for now"),
        (" ", "answer."),
    ] {
        let tool = Arc::new(ScriptedTool::always(
            spec("slow").read_only(),
            Act::stalling(),
        ));
        let model = ScriptedModel::always(reply::text_and_calls("Let me look.", [("slow", "{}")]));
        let orchestrator = with_tools(model, vec![tool.clone()]);
        let (handle, mut events) = orchestrator.stream(request("go")).await.unwrap();
        while tool.open_calls() == 0 {
            events.next().await.unwrap();
        }
        handle.cancel(reason).unwrap();
        let result = handle.result().await.unwrap();
        let notice = format!("Cancelled before there was an {expected}");
        assert_eq!(result.reply, format!("Let me look.\n\n{notice}"));
        assert_eq!(result.notice, Some(notice));
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_of_a_request_cancels_its_run() {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::new()
        .then(Script::hanging())
        .then(reply::text("back"));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    let asking = orchestrator.handle(request("first"));
    assert!(
        tokio::time::timeout(Duration::from_secs(1), asking)
            .await
            .is_err()
    );
    // The session is free as soon as the run's end is recorded.
    let second = loop {
        match orchestrator.handle(request("second")).await {
            Err(RequestError::Busy { .. }) => tokio::task::yield_now().await,
            other => break other.unwrap(),
        }
    };
    assert_eq!(second.reply, "back");
    assert_paired(history(store.as_ref()).await.messages());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_handle_and_its_events_leaves_the_run_in_progress() {
    let store = Arc::new(MemoryStore::new());
    let model =
        ScriptedModel::new().then(Script::from(reply::text("done")).after(Duration::from_secs(5)));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    drop(orchestrator.stream(request("go")).await.unwrap());
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(store.history(&session()).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_run_ends_it_with_the_text_so_far() {
    let model = ScriptedModel::new()
        .then(reply::text_and_calls("So far so good.", [("slow", "{}")]))
        .then(Script::hanging());
    let tool = ScriptedTool::always(
        spec("slow").read_only().timeout(Duration::from_secs(3_600)),
        Act::stalling(),
    );
    let orchestrator = with_tools(model, vec![Arc::new(tool)]);
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::CONSERVATIVE)).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Deadline));
    assert_eq!(finished.result.reply, "So far so good.");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_runs_out_of_time_is_stopped_before_the_run_s_deadline() {
    let model = ScriptedModel::new()
        .then(reply::calls([("slow", "{}")]))
        .then(Script::hanging());
    let tool = Arc::new(ScriptedTool::always(
        spec("slow").read_only().timeout(Duration::from_secs(3_600)),
        Act::hanging(),
    ));
    let orchestrator = builder(model)
        .policy(policy("modes.exploratory.deadline = '10s'\n"))
        .tool(tool.clone())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!((tool.count(), tool.open_calls()), (1, 1));
    // Two of its ten seconds are reserved for the last answer.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((tool.count(), tool.open_calls()), (1, 0));
    let result = handle.result().await.unwrap();
    assert_eq!(result.finish_reason, Some(FinishReason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_all_runs_and_refuses_new_ones() {
    let orchestrator = builder(ScriptedModel::always(Script::hanging()))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    orchestrator.shutdown().await;
    assert_eq!(
        handle.result().await.unwrap().status,
        RunStatus::Interrupted
    );
    assert!(matches!(
        orchestrator.stream(request("more")).await,
        Err(RequestError::ShuttingDown)
    ));
}

#[tokio::test]
async fn a_run_whose_replies_were_truncated_names_the_setting_to_raise() {
    let mut cut = reply::calls([("read", "{\"page\":1}")]);
    cut.finish = ReplyFinish::Length;
    let read = ScriptedTool::always(spec("read").read_only(), Act::value("1"));
    let orchestrator = with_tools(ScriptedModel::always(cut), vec![Arc::new(read)]);
    let finished = run_to_end(&orchestrator, request("Read it.")).await;
    finished.assert_valid(RunStatus::Done);
    let reply = &finished.result.reply;
    assert!(reply.starts_with("I reached "), "{reply}");
    assert!(reply.contains("max_output_tokens of the mode"), "{reply}");
}

#[tokio::test]
async fn a_truncation_a_run_recovered_from_is_not_mentioned_at_its_end() {
    let mut cut = reply::calls([("read", "{\"page\":1}")]);
    cut.finish = ReplyFinish::Length;
    let model = ScriptedModel::answering(|request| {
        let page = format!("{{\"page\":{}}}", request.messages.len());
        reply::calls([("read", page.as_str())])
    })
    .then(cut);
    let read = ScriptedTool::always(spec("read").read_only(), Act::value("1"));
    let orchestrator = with_tools(model, vec![Arc::new(read)]);
    let finished = run_to_end(&orchestrator, request("Read it.")).await;
    finished.assert_valid(RunStatus::Done);
    let reply = &finished.result.reply;
    assert!(reply.starts_with("I reached "), "{reply}");
    assert!(!reply.contains("max_output_tokens"), "{reply}");
}
