//! What a session's next run knows of the runs before.

use std::sync::Arc;

use neuraxis_core::{Channel, Mode};
use neuraxis_engine::UserRequest;
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{assert_paired, builder, request, session};

#[tokio::test]
async fn the_next_run_is_sent_what_the_runs_before_left_behind() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::text("one"))
            .then(reply::text("two")),
    );
    let orchestrator = builder(ScriptedModel::new())
        .model(neuraxis_core::Role::REASONING, model.clone())
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
