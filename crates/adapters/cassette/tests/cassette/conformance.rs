//! Recorder and cassette follow the rules of their port.

use neuraxis_cassette::Speed;
use neuraxis_core::{ModelRequest, Role};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::{Script, ScriptedModel, call_context, reply, request};

use crate::support::{CassetteFile, open, stream};

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
        let (cassette_file, stalled) = (CassetteFile::new(), CassetteFile::new());
        let (_, client) = cassette_file.record(model());
        let (_, waiting) = stalled.record(ScriptedModel::always(Script::hanging()));
        Subject::new(client, requests())
            .with_stalled(waiting)
            .keeping((cassette_file, stalled))
    }

    neuraxis_testkit::llm_client_suite!(subject());
}

mod a_cassette {
    use super::*;

    async fn subject() -> Subject {
        let cassette_file = CassetteFile::new();
        let (recording, client) = cassette_file.record(model());
        for request in requests() {
            client.respond(&request, &call_context()).await.unwrap();
            stream(&client, &request).await.unwrap();
        }
        recording.finish().unwrap();
        Subject::new(cassette_file.open().client(Role::REASONING), requests())
            .with_stalled(stalled().await)
            .keeping(cassette_file)
    }

    /// A recording of a model that took an hour.
    async fn stalled() -> impl LlmClient {
        let cassette_file = CassetteFile::new();
        let (recording, client) = cassette_file.record(model());
        client
            .respond(&request("text"), &call_context())
            .await
            .unwrap();
        recording.finish().unwrap();
        let text = cassette_file.text();
        let (head, rest) = text.split_once(r#"{"reply":{"ms":"#).unwrap();
        let (_, rest) = rest.split_once(',').unwrap();
        let slow = format!(r#"{head}{{"reply":{{"ms":3600000,{rest}"#);
        crate::support::write(&cassette_file.path(), slow);
        let mut config = cassette_file.config();
        config.speed = Speed::Recorded;
        open(&config).client(Role::REASONING)
    }

    neuraxis_testkit::llm_client_suite!(subject().await);
}

mod a_cassette_of_whole_replies {
    use super::*;

    async fn subject() -> Subject {
        let cassette_file = CassetteFile::new();
        let (recording, client) = cassette_file.record(model());
        for request in requests() {
            client.respond(&request, &call_context()).await.unwrap();
        }
        recording.finish().unwrap();
        Subject::new(cassette_file.open().client(Role::REASONING), requests())
            .keeping(cassette_file)
    }

    neuraxis_testkit::llm_client_suite!(subject().await);
}
