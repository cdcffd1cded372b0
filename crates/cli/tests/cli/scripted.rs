//! A model on a separate port that gives scripted replies in order, with the Chat Completions protocol.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::machine::Machine;

/// How the model replies.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Says these pieces.
    Says(&'static [&'static str]),
    /// Says this, and its limit cuts off the rest.
    IsCut(&'static str),
    /// Says this, and the provider withholds the rest.
    IsWithheld(&'static str),
    /// Refuses, in these words.
    Refuses(&'static str),
    /// Thinks, and says something.
    Thinks(&'static str, &'static str),
    /// Calls tools: names and arguments.
    Calls(&'static [(&'static str, &'static str)]),
    /// Its server is still loading it.
    Loads,
    /// Says something and then stalls, as long as the test runs.
    Stalls(&'static str),
}

/// A running model.
pub(crate) struct Scripted {
    port: u16,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Scripted {
    pub(crate) fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::with_detail("", turns)
    }

    /// Same as `start`, but answers requests without a body, such as for its properties, with this JSON.
    pub(crate) fn with_detail(
        properties: &'static str,
        turns: impl IntoIterator<Item = Turn>,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let turns: Mutex<VecDeque<Turn>> = Mutex::new(turns.into_iter().collect());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            let mut stalled = Vec::new();
            for connection in listener.incoming() {
                let connection = connection.unwrap();
                let Some(body) = read(&connection) else {
                    tell(connection, properties);
                    continue;
                };
                let is_streamed = body["stream"] == true;
                log.lock().unwrap().push(body);
                let turn = turns.lock().unwrap().pop_front();
                let turn = turn.unwrap_or(Turn::Says(&["I have nothing more to say.\n"]));
                match turn {
                    Turn::Says(pieces) if !is_streamed => tell(connection, &whole(pieces)),
                    turn => stalled.extend(answer(connection, &turn)),
                }
            }
        });
        Self { port, seen }
    }

    /// Returns a machine with this model.
    pub(crate) fn machine(&self) -> Machine {
        let port = self.port;
        let text = format!(
            "[models.reasoning]\nprovider = 'openai'\napi = 'chat'\nmodel = 'gpt-test'\n\
             base_url = 'http://127.0.0.1:{port}/v1'\napi_key_env = 'MY_KEY'\n"
        );
        Machine::new().with_file("neuraxis.toml", text)
    }

    /// Returns a machine on which this model serves the usual roles.
    pub(crate) fn machine_with_roles(&self) -> Machine {
        let port = self.port;
        let role = |name: &str| {
            format!(
                "[models.{name}]\nprovider = 'openai'\napi = 'chat'\nmodel = 'gpt-test'\n\
                 base_url = 'http://127.0.0.1:{port}/v1'\napi_key_env = 'MY_KEY'\n"
            )
        };
        let text: String = ["reasoning", "coding"].map(role).concat();
        Machine::new().with_file("neuraxis.toml", text)
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the number of requests received.
    pub(crate) fn asked(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Returns the name of the model of the last request.
    pub(crate) fn asked_for(&self) -> String {
        let seen = self.seen.lock().unwrap();
        seen.last().unwrap()["model"].as_str().unwrap().to_owned()
    }

    /// Returns the texts of the user's messages of the last request.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.texts("user")
    }

    /// Returns the texts of the system messages of the last request.
    pub(crate) fn told(&self) -> Vec<String> {
        self.texts("system")
    }

    /// Returns the texts of the model's own messages in the last request.
    pub(crate) fn said(&self) -> Vec<String> {
        self.texts("assistant")
    }

    /// Returns the parts of the last message of the last request.
    pub(crate) fn parts(&self) -> Value {
        let seen = self.seen.lock().unwrap();
        let messages = seen.last().unwrap()["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].clone()
    }

    fn texts(&self, role: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let messages = seen.last().unwrap()["messages"].as_array().unwrap().clone();
        let messages = messages.iter().filter(|message| message["role"] == role);
        messages
            .map(|message| match message["content"].as_str() {
                Some(text) => text.to_owned(),
                None => message["content"].to_string(),
            })
            .collect()
    }

    /// Returns the results of tools in the last request.
    pub(crate) fn results(&self) -> String {
        let seen = self.seen.lock().unwrap();
        let messages = seen.last().unwrap()["messages"].as_array().unwrap().clone();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results
            .map(|message| message["content"].as_str().unwrap())
            .collect()
    }
}

fn tell(mut connection: TcpStream, properties: &str) {
    if !properties.is_empty() {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        let length = properties.len();
        let text = format!("{head}\r\ncontent-length: {length}\r\n\r\n{properties}");
        let _ = connection.write_all(text.as_bytes());
    }
}

fn read(connection: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap_or_default() > 2 {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Returns an answer that does not stream.
fn whole(pieces: &[&str]) -> String {
    let message = json!({"role": "assistant", "content": pieces.concat()});
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-test",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}})
    .to_string()
}

/// Answers; returns the connection if it should stay open.
fn answer(mut connection: TcpStream, turn: &Turn) -> Option<TcpStream> {
    let (deltas, finish) = match turn {
        Turn::Loads => {
            let body =
                r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
            let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json";
            let length = body.len();
            let text =
                format!("{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            let _ = connection.write_all(text.as_bytes());
            return None;
        }
        Turn::Says(pieces) => {
            let pieces = pieces.iter().map(|piece| json!({"content": piece}));
            (pieces.collect(), Some("stop"))
        }
        Turn::IsCut(text) => (vec![json!({"content": text})], Some("length")),
        Turn::IsWithheld(text) => (vec![json!({"content": text})], Some("content_filter")),
        Turn::Refuses(text) => (vec![json!({"refusal": text})], Some("stop")),
        Turn::Thinks(thought, text) => (
            vec![
                json!({"reasoning_content": thought}),
                json!({"content": text}),
            ],
            Some("stop"),
        ),
        Turn::Stalls(text) => (vec![json!({"content": text})], None),
        Turn::Calls(calls) => {
            let calls = calls.iter().enumerate().map(|(index, (name, arguments))| {
                json!({"index": index, "id": format!("theirs_{index}"), "type": "function",
                    "function": {"name": name, "arguments": arguments}})
            });
            let calls: Vec<Value> = calls.collect();
            (vec![json!({"tool_calls": calls})], Some("tool_calls"))
        }
    };
    let deltas: Vec<Value> = deltas;
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": "gpt-test", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let mut text = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    );
    for delta in deltas {
        text += &chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            Value::Null,
        );
    }
    let Some(finish) = finish else {
        let _ = connection.write_all(text.as_bytes());
        return Some(connection);
    };
    text += &chunk(
        json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
        Value::Null,
    );
    text += &chunk(
        json!([]),
        json!({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}),
    );
    text += "data: [DONE]\n\n";
    let _ = connection.write_all(text.as_bytes());
    None
}
