//! The scripted tool follows its acts and records its calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use neuraxis_core::{JsonText, ProgressSteps};
use neuraxis_ports::{Progress, ProgressSink, Tool};
use neuraxis_testkit::{Act, ScriptedTool, spec, tool_context};

fn arguments() -> JsonText {
    JsonText::from_text("{}")
}

#[tokio::test]
async fn acts_are_played_in_order_and_then_the_tool_fails() {
    let tool = ScriptedTool::new(spec("t"))
        .then(Act::value("1"))
        .then(Act::error("broken"));
    assert_eq!(
        tool.call(arguments(), tool_context())
            .await
            .unwrap()
            .value
            .as_str(),
        "1"
    );
    assert_eq!(
        tool.call(arguments(), tool_context())
            .await
            .unwrap_err()
            .message,
        "broken"
    );
    let error = tool.call(arguments(), tool_context()).await.unwrap_err();
    assert_eq!(error.message, "the test has no act for this call");
    assert_eq!(tool.count(), 3);
    assert_eq!(tool.calls()[0].arguments, arguments());
}

#[tokio::test]
async fn a_panicking_act_panics_and_the_tool_stays_usable() {
    let tool = ScriptedTool::new(spec("t"))
        .then(Act::panicking("boom"))
        .then(Act::value("1"));
    let call = std::panic::AssertUnwindSafe(tool.call(arguments(), tool_context()));
    assert_eq!(
        *call
            .catch_unwind()
            .await
            .unwrap_err()
            .downcast::<String>()
            .unwrap(),
        "boom"
    );
    assert_eq!(tool.open_calls(), 0);
    assert!(tool.call(arguments(), tool_context()).await.is_ok());
}

#[tokio::test]
async fn a_hanging_act_responds_to_cancellation_and_a_stalling_one_does_not() {
    for (act, heeds) in [(Act::hanging(), true), (Act::stalling(), false)] {
        let tool = ScriptedTool::always(spec("t"), act);
        let ctx = tool_context();
        let token = ctx.cancellation.clone();
        let mut call = tool.call(arguments(), ctx);
        assert!((&mut call).now_or_never().is_none());
        token.cancel();
        assert_eq!((&mut call).now_or_never().is_some(), heeds);
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_are_counted() {
    let tool = ScriptedTool::always(spec("t"), Act::value("1").after(Duration::from_secs(1)));
    let call = || tool.call(arguments(), tool_context());
    let _ = tokio::join!(call(), call());
    let _ = call().await;
    assert_eq!((tool.most_open_calls(), tool.count()), (2, 3));
}

#[tokio::test]
async fn reports_arrive_in_the_order_in_which_they_were_scripted() {
    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<String>>);

    impl ProgressSink for Seen {
        fn progress(&self, name: &str, _icon: Option<&str>, steps: Option<ProgressSteps>) {
            self.0
                .lock()
                .unwrap()
                .push(format!("{name} {}", steps.unwrap().done));
        }

        fn output(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    let steps = Some(ProgressSteps {
        done: 1,
        total: None,
    });
    let tool = ScriptedTool::new(spec("t")).then(
        Act::value("1")
            .reporting("digging", steps)
            .printing("a bone"),
    );
    let seen = Arc::new(Seen::default());
    let mut ctx = tool_context();
    ctx.progress = Progress::to(seen.clone());
    tool.call(arguments(), ctx).await.unwrap();
    assert_eq!(*seen.0.lock().unwrap(), ["digging 1", "a bone"]);
}

#[test]
fn a_tool_can_be_available_only_in_some_turns() {
    let tool = ScriptedTool::new(spec("t")).available_when(|turn| turn.turn.0 > 1);
    let mut turn = tool_context().turn;
    assert!(!tool.should_use(&turn));
    turn.turn = turn.turn.next();
    assert!(tool.should_use(&turn));
}
