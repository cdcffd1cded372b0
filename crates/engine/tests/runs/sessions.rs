//! What a session's next run knows about earlier runs.

use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{Channel, JsonText, Mode, RunStatus, SessionId, ToolOutput, ToolSignal, Turn};
use neuraxis_engine::{ForkError, ForkOptions, RequestError, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{Session, SessionIndex as _, StoreError};
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, assert_paired, reply, spec};

use crate::support::{builder, request, run_to_end, session};

#[tokio::test]
async fn the_next_run_is_sent_the_messages_of_previous_runs() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::text("one"))
            .then(reply::text("two")),
    );
    let orchestrator = builder(model.clone())
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .build()
        .unwrap();
    orchestrator.handle(request("first")).await.unwrap();
    orchestrator.handle(request("second")).await.unwrap();
    let requests = model.requests();
    let (before, after) = (&requests[1].messages, &requests[2].messages);
    assert_eq!(
        after.messages()[..before.len()],
        *before.messages(),
        "the prefix changed"
    );
    assert_eq!(after.len(), before.len() + 2);
    assert_paired(&after.messages()[1..]);
}

#[tokio::test]
async fn an_unknown_mode_or_channel_is_refused_before_anything_is_recorded() {
    let orchestrator = builder(ScriptedModel::new()).build().unwrap();
    for asked in [
        UserRequest::new(session(), "go").mode(Mode::new("YOLO")),
        UserRequest::new(session(), "go").channel(Channel::new("radio")),
    ] {
        let error = orchestrator.handle(asked).await.unwrap_err().to_string();
        assert!(
            error.contains("moderate") || error.contains("chat"),
            "the known ones are not named: {error}"
        );
    }
}

#[tokio::test]
async fn a_session_id_unusable_in_urls_is_refused_unless_the_session_exists() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = builder(ScriptedModel::always(reply::text("Yes.")))
        .store(store.clone())
        .build()
        .unwrap();
    let runs = orchestrator.runs();
    let first = orchestrator.handle(request("go")).await.unwrap().run_id;
    for id in [".", ".."] {
        let id: SessionId = id.parse().unwrap();
        let asked = || UserRequest::new(id.clone(), "go");
        let refused = orchestrator.handle(asked()).await.unwrap_err();
        assert!(
            matches!(refused, RequestError::Store(StoreError::Invalid { .. })),
            "{refused}"
        );
        let options = ForkOptions::new(id.clone()).message("go");
        let refused = runs.fork(first, Turn(1), options).await.unwrap_err();
        assert!(
            matches!(refused, ForkError::Store(StoreError::Invalid { .. })),
            "{refused}"
        );
        let refused = runs.new_session(Some(id.clone())).await.unwrap_err();
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused}");
        assert!(store.session(&id).await.is_err());
        // As an earlier version created it.
        let kept = Session::new(id.clone(), Timestamp::UNIX_EPOCH);
        store.create_session(&kept).await.unwrap();
        orchestrator.handle(asked()).await.unwrap();
    }
    let other: SessionId = "...".parse().unwrap();
    runs.new_session(Some(other)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_run_is_sent_the_current_plan_until_it_is_finished() {
    let plan = |status: &str| {
        let text = format!(r#"{{"steps":[{{"step":"Book a room","status":"{status}"}}]}}"#);
        let mut output = ToolOutput::new(JsonText::from_text("1"));
        output.signal = Some(ToolSignal::Plan {
            plan: JsonText::from_text(text),
        });
        Act::output(output)
    };
    let planner = ScriptedTool::new(spec("plan").read_only())
        .then(plan("pending"))
        .then(plan("done"));
    let model = Arc::new(ScriptedModel::new());
    let orchestrator = builder(model.clone())
        .tool(Arc::new(planner))
        .build()
        .unwrap();
    let notes = |at: usize| {
        let sent = model.requests().swap_remove(at);
        let messages = sent
            .messages
            .messages()
            .iter()
            .map(|message| message.text());
        let notes: Vec<_> = messages
            .filter(|text| text.starts_with("Your plan from earlier"))
            .collect();
        notes
    };
    for _ in 0..2 {
        model.push(reply::calls([("plan", "{}")]));
        model.push(reply::text("Planned."));
        let finished = run_to_end(&orchestrator, request("Plan it.")).await;
        finished.assert_valid(RunStatus::Done);
    }
    model.push(reply::text("Nothing."));
    run_to_end(&orchestrator, request("What is left?")).await;
    assert!(notes(0).is_empty());
    assert_eq!(notes(2).len(), 1);
    assert!(
        notes(2)[0].ends_with("\n[ ] Book a room"),
        "{}",
        notes(2)[0]
    );
    assert_eq!(notes(4).len(), 1, "nothing new is told once all is done");
}
