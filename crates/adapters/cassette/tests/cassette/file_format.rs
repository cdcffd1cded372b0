//! The file as it appears in version control.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind, Message, Role};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{Script, ScriptedModel, call_context, messages, reply, request_of, spec};

use crate::support::{CassetteFile, options, stream};

#[tokio::test(start_paused = true)]
async fn a_cassette_file_matches_its_snapshot() {
    let cassette_file = CassetteFile::new();
    let limited = LlmErrorKind::RateLimited {
        retry_after: Some(Duration::from_secs(2)),
    };
    let pace = Duration::from_millis(20);
    let model = ScriptedModel::new()
        .then(
            Script::from(reply::reasoned("Hm.", "I look."))
                .split(4)
                .paced(pace),
        )
        .then(reply::text_and_calls(
            "Line one.\nLine two.",
            [("look", r#"{"at":"the sky"}"#), ("look", "{broken")],
        ))
        .then(LlmError::new(limited, "slow down"));
    let recording = neuraxis_cassette::Recording::create(cassette_file.path(), options()).unwrap();
    let model: Arc<dyn LlmClient> = Arc::new(model);
    let reasoning = recording.wrap(Role::REASONING, Arc::clone(&model));
    let router = recording.wrap(Role::ROUTER, model);

    let asked = [
        Message::system("You are brief.\nYou are kind.\n\nYou look first."),
        Message::user("What is up?"),
    ];
    let mut request = request_of(asked.clone());
    request.tools = [spec("look").read_only().build()].into();
    request.temperature = Some(0.7);
    stream(&reasoning, &request).await.unwrap();
    reasoning.respond(&request, &call_context()).await.unwrap();
    let more = [
        messages::calls([("call_1", "look", r#"{"at":"the sky"}"#)]),
        messages::result("call_1", "look", r#""blue\nand wide""#),
    ];
    request.messages = asked.into_iter().chain(more).collect();
    stream(&router, &request).await.unwrap_err();
    let summary = recording.finish().unwrap();
    assert_eq!(summary.exchanges, 3);

    insta::assert_snapshot!(cassette_file.text());
}
