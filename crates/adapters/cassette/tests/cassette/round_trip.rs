//! A recording returns everything that its client returned.

use std::time::Duration;

use neuraxis_core::{
    BlockIndex, JsonText, LlmError, LlmErrorKind, Message, ModelRef, ModelRequest, ReplyDelta,
    ReplyEnd, ReplyFinish, ReplyFormat, Role, TokenCount, ToolChoice, Usage,
};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{Script, ScriptedModel, call_context, messages, request_of, spec};
use proptest::prelude::*;

use crate::support::{CassetteFile, open, stream};

/// Any text, including those that are hard to write down.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "[a-z\\n\\r\\t \"\\\\{}\u{0}\u{2028}\u{1F600}]{0,12}",
        Just("null".to_owned()),
        Just("{\"a\": [1e999, 1.0,2]}".to_owned()),
        Just("\"one\\nline\"".to_owned()),
    ]
}

fn optional() -> impl Strategy<Value = Option<String>> {
    prop::option::of(text())
}

fn usage() -> impl Strategy<Value = Usage> {
    (any::<u64>(), any::<u32>(), 0..3_u8).prop_map(|(prompt, completion, label)| Usage {
        prompt: TokenCount::measured(prompt),
        completion: TokenCount::estimated(completion.into()),
        total: match label {
            0 => TokenCount::UNKNOWN,
            1 => TokenCount::estimated(1),
            _ => TokenCount::measured(2),
        },
        ..Usage::default()
    })
}

fn delta() -> impl Strategy<Value = ReplyDelta> {
    let block = (0..4_u32).prop_map(BlockIndex);
    let finish = prop::sample::select(vec![
        ReplyFinish::Stop,
        ReplyFinish::ToolCalls,
        ReplyFinish::Length,
        ReplyFinish::ContentFilter,
        ReplyFinish::Refused,
    ]);
    prop_oneof![
        4 => (block.clone(), text()).prop_map(|(block, text)| ReplyDelta::Text { block, text }),
        2 => (block.clone(), text()).prop_map(|(block, text)| ReplyDelta::Reasoning { block, text }),
        2 => (block.clone(), optional(), optional(), text()).prop_map(|(block, provider_id, name, arguments)| {
            ReplyDelta::ToolCall { block, provider_id: provider_id.map(Into::into), name: name.map(Into::into), arguments }
        }),
        1 => (block, optional(), optional(), optional()).prop_map(|(block, id, signature, state)| {
            ReplyDelta::State { block, id, signature, state: state.map(JsonText::from_text) }
        }),
        1 => (finish, usage(), text()).prop_map(|(finish, usage, model)| {
            ReplyDelta::End(Box::new(ReplyEnd { finish, usage, model: ModelRef::new("p", model) }))
        }),
    ]
}

fn error() -> impl Strategy<Value = LlmError> {
    let millis = prop::option::of(any::<u32>().prop_map(|ms| Duration::from_millis(ms.into())));
    let kind = prop_oneof![
        Just(LlmErrorKind::Timeout),
        Just(LlmErrorKind::Connection),
        Just(LlmErrorKind::Incomplete),
        millis
            .clone()
            .prop_map(|retry_after| LlmErrorKind::RateLimited { retry_after }),
        (any::<Option<u16>>(), millis).prop_map(|(status, retry_after)| LlmErrorKind::Server {
            status,
            retry_after
        }),
        any::<(Option<u64>, Option<u64>)>()
            .prop_map(|(limit, needed)| LlmErrorKind::ContextOverflow { limit, needed }),
    ];
    (kind, text(), prop::option::of(usage())).prop_map(|(kind, message, usage)| {
        let error = LlmError::new(kind, message);
        match usage {
            Some(usage) => error.with_usage(usage),
            None => error,
        }
    })
}

/// Any stream: complete, truncated, or failing midway or immediately.
fn script() -> impl Strategy<Value = Script> {
    let deltas = prop::collection::vec(delta(), 0..12);
    (
        deltas,
        prop::option::of((any::<prop::sample::Index>(), error())),
    )
        .prop_map(|(deltas, failure)| {
            let count = deltas.len();
            let script = Script::deltas(deltas);
            match failure {
                Some((at, error)) => script.fail_at(at.index(count + 1), error),
                None => script,
            }
        })
}

fn any_request() -> impl Strategy<Value = ModelRequest> {
    let choice = prop::sample::select(vec![
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
    ]);
    (
        text(),
        text(),
        text(),
        choice,
        any::<Option<u32>>(),
        prop::option::of(-2.0_f32..3.0),
        any::<bool>(),
    )
        .prop_map(
            |(one, two, json, tool_choice, max_output_tokens, temperature, tools)| ModelRequest {
                tool_choice,
                max_output_tokens,
                temperature,
                tools: if tools {
                    [spec("look").read_only().build()].into()
                } else {
                    [].into()
                },
                reply_format: if tools {
                    ReplyFormat::JsonSchema {
                        name: "n".into(),
                        schema: JsonText::from_text(json.as_str()),
                    }
                } else {
                    ReplyFormat::Text
                },
                ..request_of([
                    Message::system(&one),
                    Message::user(&two),
                    messages::calls([("call_1", "look", json.as_str())]),
                    messages::result("call_1", "look", &json),
                ])
            },
        )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_replay_returns_what_was_recorded(
        exchanges in prop::collection::vec((any_request(), script(), any::<bool>()), 1..5),
    ) {
        runtime().block_on(async {
            let cassette_file = CassetteFile::new();
            let model = exchanges.iter().fold(ScriptedModel::new(), |model, (_, script, _)| model.then(script.clone()));
            let (recording, recorder) = cassette_file.record(model);
            let mut recorded = Vec::new();
            for (request, _, whole) in &exchanges {
                recorded.push(ask(&recorder, request, *whole).await);
            }
            let summary = recording.finish().unwrap();
            prop_assert_eq!(summary.bytes, cassette_file.text().len() as u64);

            let cassette = open(&cassette_file.strict());
            let player = cassette.client(Role::REASONING);
            // Exchanges of one request and one mode are played in order, as are all calls made one after the other.
            for ((request, _, whole), recorded) in exchanges.iter().zip(&recorded) {
                prop_assert_eq!(&ask(&player, request, *whole).await, recorded);
            }
            prop_assert!(cassette.finish().is_ok());
            Ok(())
        })?;
    }

    #[test]
    fn a_corrupted_file_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        runtime().block_on(async {
            let cassette_file = CassetteFile::new();
            let (recording, recorder) = cassette_file.record(ScriptedModel::always(neuraxis_testkit::reply::reasoned("a\nb", "c")));
            for text in ["one", "two"] {
                recorder.respond(&neuraxis_testkit::request(text), &call_context()).await.unwrap();
            }
            recording.finish().unwrap();
            let mut text = cassette_file.text().into_bytes();
            let at = at.index(text.len());
            let end = at + cut.index(text.len() - at);
            text.splice(at..end, bytes);
            crate::support::write(&cassette_file.path(), text);
            let _ = neuraxis_cassette::Cassette::open(&cassette_file.config(), neuraxis_cassette::Redactor::default());
        });
    }
}

#[tokio::test]
async fn deeply_nested_arguments_are_recorded_and_replayed() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let cassette_file = CassetteFile::new();
    let calls = neuraxis_testkit::reply::calls([("look", deep.as_str())]);
    let (recording, recorder) = cassette_file.record(ScriptedModel::always(calls));
    let request = request_of([messages::result("call_1", "look", &deep)]);
    let recorded = ask(&recorder, &request, true).await;
    recording.finish().unwrap();
    let player = open(&cassette_file.strict()).client(Role::REASONING);
    assert!(ask(&player, &request, true).await == recorded);
}

/// The result of an exchange as text, to compare all kinds in the same way.
async fn ask(client: &dyn LlmClient, request: &ModelRequest, whole: bool) -> String {
    if whole {
        format!("{:?}", client.respond(request, &call_context()).await)
    } else {
        format!("{:?}", stream(client, request).await)
    }
}
