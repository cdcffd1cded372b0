//! Images and files, attached to messages and returned by tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{
    LlmError, MediaPart, MediaTypes, Message, ModelRef, ModelRequest, Part, Reply, Role, RunStatus,
    ToolOutput, Transcript, Turn,
};
use neuraxis_engine::{
    ClientInput, ForkOptions, Orchestrator, RequestError, RequestPart, attachment, replay,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, SessionIndex as _, async_trait};
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, history, request, run_to_end, session, with_tools};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
const IMAGES: MediaTypes = MediaTypes::Only(&["image/png"]);

fn picture() -> MediaPart {
    let Part::Media(part) = attachment("x.png", PNG).unwrap() else {
        unreachable!("a PNG is media")
    };
    part
}

fn named(name: &str, media: MediaTypes) -> ScriptedModel {
    let model = ScriptedModel::always(reply::text(name));
    model.named(ModelRef::new("test", name)).with_media(media)
}

#[tokio::test(start_paused = true)]
async fn attachments_are_sent_and_stored_as_parts_of_the_message() {
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(named("seer", IMAGES));
    let orchestrator = builder(model.clone()).store(store.clone()).build().unwrap();
    let notes = attachment("notes.txt", b"Buy milk.").unwrap();
    let asked = request("What is it?")
        .attach(picture())
        .attach(notes.clone());
    let finished = run_to_end(&orchestrator, asked).await;
    finished.assert_valid(RunStatus::Done);
    let parts = vec![Part::text("What is it?"), Part::Media(picture()), notes];
    let message = Message::User { parts };
    let sent = model.requests().pop().unwrap();
    assert_eq!(sent.messages.messages().last().unwrap().as_ref(), &message);
    assert_eq!(
        history(store.as_ref()).await.messages()[0].as_ref(),
        &message
    );
    // The log contains all of it: a replay results in the same run.
    replay(&Transcript::default(), &finished.records()).unwrap();
    let run = store.runs(&session()).await.unwrap();
    assert_eq!(
        run[0].log.text.as_deref(),
        Some("What is it?\n\n[file notes.txt]\nBuy milk.\n[end of file notes.txt]")
    );
}

#[tokio::test(start_paused = true)]
async fn a_picture_without_words_is_a_message_of_its_own() {
    let model = Arc::new(named("seer", IMAGES));
    let orchestrator = builder(model.clone()).build().unwrap();
    let alone = Message::User {
        parts: vec![Part::Media(picture())],
    };
    for message in ["", " \n"] {
        // A client that brings nothing else changes nothing about that.
        let asked = request(message).attach(picture());
        let asked = asked.with_client_input(ClientInput::default());
        run_to_end(&orchestrator, asked).await;
        let sent = model.requests().pop().unwrap();
        assert_eq!(sent.messages.messages().last().unwrap().as_ref(), &alone);
    }
    assert!(matches!(
        orchestrator.handle(request(" \n")).await,
        Err(RequestError::EmptyMessage)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_text_only_model_is_not_called_with_media_and_the_error_names_both() {
    let orchestrator = builder(named("reader", MediaTypes::NONE)).build().unwrap();
    let asked = || {
        request("What is it?")
            .attach(Part::text("a"))
            .attach(picture())
    };
    let error = orchestrator.stream(asked()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "attachment 2 (image/png, 16 bytes) cannot be sent: test/reader accepts only text"
    );
    // Every model accepts text.
    let asked = request("What is it?").attach(Part::text("a"));
    run_to_end(&orchestrator, asked)
        .await
        .assert_valid(RunStatus::Done);
}

/// An engine whose policy prefers a model that accepts only text to one that accepts images.
fn that_prefers_a_blind_model() -> (Orchestrator, Arc<ScriptedModel>, Arc<ScriptedModel>) {
    let router = Arc::new(named("router", MediaTypes::NONE));
    let seer = Arc::new(named("seer", IMAGES));
    let routed = "channels.chat.role = 'router'\nchannels.chat.simple_role = 'router'\n";
    let routed = PolicyConfig::from_toml(routed);
    let orchestrator = builder(seer.clone())
        .policy(Policy::layered(routed.unwrap()).unwrap())
        .model(Role::ROUTER, router.clone())
        .build()
        .unwrap();
    (orchestrator, router, seer)
}

#[tokio::test(start_paused = true)]
async fn a_role_whose_model_accepts_the_media_serves_instead() {
    let (orchestrator, router, _) = that_prefers_a_blind_model();
    let finished = run_to_end(&orchestrator, request("What is it?").attach(picture())).await;
    assert_eq!(finished.result.reply, "seer");
    assert!(router.requests().is_empty());
    let finished = run_to_end(&orchestrator, request("And now?")).await;
    assert_eq!(finished.result.reply, "router");
}

#[tokio::test(start_paused = true)]
async fn a_requested_role_whose_model_rejects_the_media_is_named_in_the_error() {
    const TOLD: &str =
        "attachment 1 (image/png, 16 bytes) cannot be sent: test/router accepts only text";
    let (orchestrator, _, _) = that_prefers_a_blind_model();
    let by_router = ClientInput::default().role(Role::ROUTER);
    let asked = request("What is it?")
        .attach(picture())
        .with_client_input(by_router);
    let error = orchestrator.stream(asked).await.unwrap_err();
    assert_eq!(error.to_string(), TOLD);

    let first = run_to_end(&orchestrator, request("And now?")).await.result;
    let mut options = ForkOptions::new("fork".parse().unwrap())
        .message("What is it?")
        .attach(picture());
    options.role = Some(Role::ROUTER);
    let forked = orchestrator
        .runs()
        .fork(first.run_id, Turn(1), options)
        .await;
    assert_eq!(forked.unwrap_err().to_string(), TOLD);
}

#[tokio::test(start_paused = true)]
async fn media_in_answered_client_supplied_messages_excludes_no_model() {
    let parts = vec![Part::text("What is it?"), Part::Media(picture())];
    let asked = || Message::User {
        parts: parts.clone(),
    };
    let answered = |client_input: ClientInput| {
        let said = [asked(), Message::assistant("A cat.")];
        request("And now?").with_client_input(client_input.conversation(said))
    };
    let (orchestrator, _, _) = that_prefers_a_blind_model();
    let finished = run_to_end(&orchestrator, answered(ClientInput::default())).await;
    assert_eq!(
        finished.result.reply, "seer",
        "who takes it all is preferred"
    );
    let mut by_router = answered(ClientInput::default().role(Role::ROUTER));
    by_router.session_id = "other".parse().unwrap();
    let finished = run_to_end(&orchestrator, by_router).await;
    assert_eq!(finished.result.reply, "router");

    let blind = builder(named("reader", MediaTypes::NONE)).build().unwrap();
    let finished = run_to_end(&blind, answered(ClientInput::default())).await;
    assert_eq!(finished.result.reply, "reader");
    let unanswered =
        request("And now?").with_client_input(ClientInput::default().conversation([asked()]));
    let error = blind.stream(unanswered).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "image/png, 16 bytes cannot be sent: test/reader accepts only text"
    );
}

#[tokio::test(start_paused = true)]
async fn attachments_of_a_fork_are_sent_to_a_model_that_accepts_them() {
    let (orchestrator, _, seer) = that_prefers_a_blind_model();
    let first = run_to_end(&orchestrator, request("And now?")).await.result;
    assert_eq!(first.reply, "router");
    let runs = orchestrator.runs();
    let fork = |options| runs.fork(first.run_id, Turn(1), options);
    let options = |id: &str| ForkOptions::new(id.parse().unwrap()).attach(picture());

    let handle = fork(options("fork").message("What is it?")).await.unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "seer");
    let parts = vec![Part::text("What is it?"), Part::Media(picture())];
    let sent = seer.requests().pop().unwrap();
    let last = sent.messages.messages().last().unwrap();
    assert_eq!(last.as_ref(), &Message::User { parts });

    let silent = fork(options("silent")).await.unwrap();
    assert_eq!(silent.result().await.unwrap().reply, "seer");
    let parts = vec![Part::Media(picture())];
    let sent = seer.requests().pop().unwrap();
    let last = sent.messages.messages().last().unwrap();
    assert_eq!(last.as_ref(), &Message::User { parts });
    let broken = MediaPart::embedded("image/png", "PGh0bWw+");
    let broken = ForkOptions::new("broken".parse().unwrap())
        .message("What is it?")
        .attach(broken);
    let refused = fork(broken).await.unwrap_err().to_string();
    assert!(refused.starts_with("attachment 1 (image/png"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn content_that_does_not_match_its_type_starts_no_run() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = builder(named("seer", IMAGES))
        .store(store.clone())
        .build()
        .unwrap();
    let asked = request("What is it?").attach(MediaPart::embedded("image/png", "PGh0bWw+"));
    let error = orchestrator.stream(asked).await.unwrap_err();
    assert!(matches!(error, RequestError::Attachment { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("attachment 1 (image/png, 6 bytes)"),
        "{error}"
    );
    assert!(store.session(&session()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_with_other_attachments_is_not_the_same_request() {
    let orchestrator = builder(named("seer", IMAGES)).build().unwrap();
    let asked = || request("What is it?").idempotency_key("k".parse().unwrap());
    let first = run_to_end(&orchestrator, asked().attach(picture())).await;
    let again = run_to_end(&orchestrator, asked().attach(picture())).await;
    assert_eq!(first.result.run_id, again.result.run_id);
    let error = orchestrator.stream(asked()).await.unwrap_err();
    let RequestError::KeyReused(differences) = error else {
        panic!("{error}")
    };
    assert_eq!(differences.parts(), [RequestPart::Attachments]);
}

/// A tool that returns this picture.
fn camera(picture: MediaPart) -> ScriptedTool {
    ScriptedTool::answering(spec("camera").read_only(), move |_| {
        let value = neuraxis_core::JsonText::string("taken");
        Act::output(ToolOutput::new(value).with_media(picture.clone()))
    })
}

#[tokio::test(start_paused = true)]
async fn a_tool_returns_an_image_to_the_model_next_to_its_value() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("camera", "{}")]))
            .then(reply::text("A cat.")),
    );
    let orchestrator = builder(model.clone())
        .tool(Arc::new(camera(picture())))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("What is there?")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.results()[0].media, [picture()]);
    let sent = model.requests().pop().unwrap();
    let Message::Tool(result) = sent.messages.messages().last().unwrap().as_ref() else {
        panic!("no result")
    };
    assert_eq!(
        (result.content.as_str(), &*result.media),
        ("\"taken\"", &[picture()][..])
    );
    replay(&Transcript::default(), &finished.records()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_returns_an_invalid_image_fails_and_the_run_continues() {
    let model = ScriptedModel::new()
        .then(reply::calls([("camera", "{}")]))
        .then(reply::text("No picture."));
    let page = MediaPart::embedded("image/png", "PGh0bWw+");
    let orchestrator = with_tools(model, vec![Arc::new(camera(page))]);
    let finished = run_to_end(&orchestrator, request("What is there?")).await;
    finished.assert_valid(RunStatus::Done);
    let value = finished.results()[0].value.as_str().to_owned();
    assert!(
        value.contains("it is declared as image/png, but its content is text/html"),
        "{value}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_session_checks_its_media_too() {
    let agent = neuraxis_engine::Orchestrator::builder()
        .model(Role::REASONING, Arc::new(named("reader", MediaTypes::NONE)))
        .build_agent()
        .unwrap();
    let parts = vec![Part::text("What is it?"), Part::Media(picture())];
    let error = agent
        .run(vec![Message::User { parts }], None)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "image/png, 16 bytes cannot be sent: test/reader accepts only text"
    );
}

#[tokio::test(start_paused = true)]
async fn every_model_serving_a_turn_must_accept_a_standalone_agent_s_media() {
    for (setting, is_taken) in [
        ("after_calls_role = 'router'", false),
        ("first_role = 'router'", false),
        ("digest_after = 2", true),
    ] {
        let written = format!("[agents.main_thread]\n{setting}");
        let agent = neuraxis_engine::Orchestrator::builder()
            .model(Role::REASONING, Arc::new(named("seer", IMAGES)))
            .model(Role::ROUTER, Arc::new(named("reader", MediaTypes::NONE)))
            .policy(crate::support::policy(&written))
            .build_agent()
            .unwrap();
        let parts = vec![Part::text("What is it?"), Part::Media(picture())];
        let ran = agent.run(vec![Message::User { parts }], None).await;
        match ran {
            Ok(done) => assert!(is_taken, "{setting}: {}", done.content),
            Err(error) => {
                assert!(!is_taken, "{setting}");
                assert!(error.to_string().contains("test/reader"), "{error}");
            }
        }
    }
}

/// A model whose server was restarted with more context and with vision, which it reports when asked.
#[derive(Debug)]
struct StartedAnew {
    model: ScriptedModel,
    tells_context: AtomicBool,
    tells_media: AtomicBool,
}

#[async_trait]
impl LlmClient for StartedAnew {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        self.model.respond(request, ctx).await
    }

    fn info(&self) -> ModelInfo {
        let mut info = self.model.info();
        if self.tells_context.load(Ordering::SeqCst) {
            info.context_tokens = Some(16_000);
        }
        if self.tells_media.load(Ordering::SeqCst) {
            info.media = IMAGES;
        }
        info
    }

    async fn learn_context(&self) {
        self.tells_context.store(true, Ordering::SeqCst);
    }

    async fn learn_media(&self) {
        self.tells_media.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_is_queried_again_before_a_request_is_refused() {
    let long = "word ".repeat(4_000);
    for is_alone in [false, true] {
        let model = Arc::new(StartedAnew {
            model: named("seer", MediaTypes::NONE).with_context(1_000),
            tells_context: AtomicBool::new(false),
            tells_media: AtomicBool::new(false),
        });
        let parts = vec![Part::text(long.as_str()), Part::Media(picture())];
        if is_alone {
            let builder = Orchestrator::builder().model(Role::REASONING, model);
            let agent = builder.build_agent().unwrap();
            let done = agent.run(vec![Message::User { parts }], None).await;
            assert_eq!(done.unwrap().content, "seer");
        } else {
            let builder = builder(ScriptedModel::new()).model(Role::REASONING, model);
            let orchestrator = builder.build().unwrap();
            let asked = request(&long).attach(picture());
            let finished = run_to_end(&orchestrator, asked).await;
            finished.assert_valid(RunStatus::Done);
        }
    }
}
