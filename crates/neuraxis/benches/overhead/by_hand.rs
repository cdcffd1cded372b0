//! The loop as an expert would write it by hand: one reqwest client, typed structs, direct tool calls, nothing copied
//! that can be moved. No governance, no validation, no records, and only one limit.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{QUESTION, SYSTEM_PROMPT};

/// The schema of the tool's arguments.
const ADD_SCHEMA: &str = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}"#;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    tools: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize, Deserialize)]
struct Message {
    role: String,
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Call {
    id: String,
    r#type: String,
    function: Function,
}

#[derive(Serialize, Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<Delta>,
}

#[derive(Deserialize)]
struct Delta {
    delta: Content,
}

#[derive(Deserialize)]
struct Content {
    content: Option<String>,
}

/// One client and one tool list for all runs.
pub(crate) struct ByHand {
    client: reqwest::Client,
    url: String,
    tools: Value,
}

impl ByHand {
    pub(crate) fn new(server: &str) -> Result<Self> {
        let parameters: Value = serde_json::from_str(ADD_SCHEMA)?;
        let function =
            json!({ "name": "add", "description": "Adds two numbers.", "parameters": parameters });
        let tools = json!([{ "type": "function", "function": function }]);
        Ok(Self {
            client: reqwest::Client::builder().no_proxy().build()?,
            url: format!("{server}/v1/chat/completions"),
            tools,
        })
    }

    /// One run: calls the model until it answers.
    pub(crate) async fn run(&self) -> Result<String> {
        let mut messages = opening();
        for _ in 0..100 {
            let response = self.post(&messages, false).await?;
            let completion: Completion = serde_json::from_slice(&response.bytes().await?)?;
            let message = completion
                .choices
                .into_iter()
                .next()
                .context("no choice")?
                .message;
            if message.tool_calls.is_empty() {
                return Ok(message.content.unwrap_or_default());
            }
            let mut results = Vec::with_capacity(message.tool_calls.len());
            for call in &message.tool_calls {
                let content = match call.function.name.as_str() {
                    "add" => add(&call.function.arguments)?,
                    other => bail!("unknown tool {other}"),
                };
                results.push(Message {
                    role: "tool".to_owned(),
                    content: Some(content),
                    tool_calls: Vec::new(),
                    tool_call_id: Some(call.id.clone()),
                });
            }
            messages.push(message);
            messages.append(&mut results);
        }
        bail!("too many turns")
    }

    /// One streamed answer. Returns the number of text bytes shown.
    pub(crate) async fn stream(&self) -> Result<usize> {
        let mut response = self.post(&opening(), true).await?;
        let mut pending: Vec<u8> = Vec::new();
        let mut text = String::new();
        while let Some(bytes) = response.chunk().await? {
            pending.extend_from_slice(&bytes);
            let mut rest = pending.as_slice();
            while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let (line, after) = rest.split_at(length);
                rest = after.get(1..).unwrap_or_default();
                let Some(data) = line.strip_prefix(b"data: ") else {
                    continue;
                };
                if data == b"[DONE]" {
                    continue;
                }
                let chunk: Chunk = serde_json::from_slice(data)?;
                for choice in chunk.choices {
                    if let Some(more) = choice.delta.content {
                        text.push_str(&more);
                    }
                }
            }
            let read = pending.len() - rest.len();
            pending.drain(..read);
        }
        anyhow::ensure!(text.ends_with("word399"), "the stream was cut");
        Ok(text.len())
    }

    async fn post(&self, messages: &[Message], stream: bool) -> Result<reqwest::Response> {
        let stream_options = stream.then_some(StreamOptions {
            include_usage: true,
        });
        let body = Body {
            model: "m",
            messages,
            tools: &self.tools,
            stream: stream.then_some(true),
            stream_options,
        };
        let request = self.client.post(&self.url);
        let request = request
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body)?);
        Ok(request.send().await?.error_for_status()?)
    }
}

fn opening() -> Vec<Message> {
    let message = |role: &str, content: &str| Message {
        role: role.to_owned(),
        content: Some(content.to_owned()),
        tool_calls: Vec::new(),
        tool_call_id: None,
    };
    vec![message("system", SYSTEM_PROMPT), message("user", QUESTION)]
}

fn add(arguments: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Arguments {
        a: u64,
        b: u64,
    }
    let Arguments { a, b } = serde_json::from_str(arguments)?;
    Ok(format!(r#"{{"sum":{}}}"#, a + b))
}
