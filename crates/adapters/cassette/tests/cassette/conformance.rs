//! Recorder and cassette keep to the rules of their port.

use neuraxis_cassette::Speed;
use neuraxis_core::{ModelRequest, Role};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::{Script, ScriptedModel, call_context, reply, request};

use crate::support::{Tape, open, stream};

fn requests() -> [ModelRequest; 3] {
    [request("text"), request("reasoned"), request("calls")]
}

fn model() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let whole = match request.messages.messages()[0].text().as_str() {
            "text" => reply::text("a text of some words"),
            "reasoned" => reply::reasoned("first a thought", "then a text"),
            _ => reply::text_and_calls(
                "I look.",
                [("look", r#"{"at":1}"#), ("look", r#"{"at":2}"#)],
            ),
        };
        Script::from(whole).split(4)
    })
}

mod a_recorder {
    use super::*;

    fn subject() -> Subject {
        let (tape, stalled) = (Tape::new(), Tape::new());
        let (_, client) = tape.record(model());
        let (_, waiting) = stalled.record(ScriptedModel::always(Script::hanging()));
        Subject::new(client, requests())
            .with_stalled(waiting)
            .keeping((tape, stalled))
    }

    neuraxis_testkit::llm_client_suite!(subject());
}

mod a_cassette {
    use super::*;

    async fn subject() -> Subject {
        let tape = Tape::new();
        let (recording, client) = tape.record(model());
        for request in requests() {
            client.respond(&request, &call_context()).await.unwrap();
            stream(&client, &request).await.unwrap();
        }
        recording.finish().unwrap();
        Subject::new(tape.open().client(Role::REASONING), requests())
            .with_stalled(stalled().await)
            .keeping(tape)
    }

    /// A recording of a model that took an hour.
    async fn stalled() -> impl LlmClient {
        let tape = Tape::new();
        let (recording, client) = tape.record(model());
        client
            .respond(&request("text"), &call_context())
            .await
            .unwrap();
        recording.finish().unwrap();
        let text = tape.text();
        let (head, rest) = text.split_once(r#"{"reply":{"ms":"#).unwrap();
        let (_, rest) = rest.split_once(',').unwrap();
        let slow = format!(r#"{head}{{"reply":{{"ms":3600000,{rest}"#);
        crate::support::write(&tape.path(), slow);
        let mut config = tape.config();
        config.speed = Speed::Recorded;
        open(&config).client(Role::REASONING)
    }

    neuraxis_testkit::llm_client_suite!(subject().await);
}

mod a_cassette_of_whole_replies {
    use super::*;

    async fn subject() -> Subject {
        let tape = Tape::new();
        let (recording, client) = tape.record(model());
        for request in requests() {
            client.respond(&request, &call_context()).await.unwrap();
        }
        recording.finish().unwrap();
        Subject::new(tape.open().client(Role::REASONING), requests()).keeping(tape)
    }

    neuraxis_testkit::llm_client_suite!(subject().await);
}
