//! The loop as somebody writes it by hand: reqwest, serde, a match on the tool's name. No governance, no validation, no
//! records, no limits but one.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    tools: &'a Value,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
}

#[derive(Serialize, Deserialize, Clone)]
struct Message {
    role: String,
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize, Deserialize, Clone)]
struct Call {
    id: String,
    r#type: String,
    function: Function,
}

#[derive(Serialize, Deserialize, Clone)]
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
    tools: Value,
}

impl ByHand {
    pub(crate) fn new() -> Result<Self> {
        let parameters: Value = serde_json::from_str(crate::by_neuraxis::ADD_SCHEMA)?;
        let function =
            json!({ "name": "add", "description": "Adds two numbers.", "parameters": parameters });
        let tools = json!([{ "type": "function", "function": function }]);
        Ok(Self {
            client: reqwest::Client::builder().no_proxy().build()?,
            tools,
        })
    }

    /// One run: calls the model until it answers.
    pub(crate) async fn run(&self, url: &str) -> Result<String> {
        let mut messages = opening();
        for _ in 0..100 {
            let response = self.post(url, &messages, false).await?;
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
            let calls = message.tool_calls.clone();
            messages.push(message);
            for call in calls {
                let content = match call.function.name.as_str() {
                    "add" => add(&call.function.arguments)?,
                    other => bail!("unknown tool {other}"),
                };
                messages.push(Message {
                    role: "tool".to_owned(),
                    content: Some(content),
                    tool_calls: Vec::new(),
                    tool_call_id: Some(call.id),
                });
            }
        }
        bail!("too many turns")
    }

    /// One streamed answer; returns how many characters were shown.
    pub(crate) async fn stream(&self, url: &str) -> Result<usize> {
        let mut response = self.post(url, &opening(), true).await?;
        let mut pending = Vec::new();
        let (mut text, mut shown) = (String::new(), 0);
        while let Some(bytes) = response.chunk().await? {
            pending.extend_from_slice(&bytes);
            while let Some(end) = pending.windows(2).position(|window| window == b"\n\n") {
                let event: Vec<u8> = pending.drain(..end + 2).collect();
                let Some(data) = event.strip_prefix(b"data: ") else {
                    continue;
                };
                if data.starts_with(b"[DONE]") {
                    continue;
                }
                let chunk: Chunk = serde_json::from_slice(data)?;
                if let Some(more) = chunk
                    .choices
                    .into_iter()
                    .next()
                    .and_then(|choice| choice.delta.content)
                {
                    text.push_str(&more);
                    shown += more.chars().count();
                }
            }
        }
        anyhow::ensure!(text.ends_with("word399"), "the stream was cut");
        Ok(shown)
    }

    async fn post(
        &self,
        url: &str,
        messages: &[Message],
        stream: bool,
    ) -> Result<reqwest::Response> {
        let stream_options = stream.then(|| json!({ "include_usage": true }));
        let body = Body {
            model: "m",
            messages,
            tools: &self.tools,
            stream,
            stream_options,
        };
        let request = self.client.post(format!("{url}/v1/chat/completions"));
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
    vec![
        message("system", crate::by_neuraxis::SYSTEM_PROMPT),
        message("user", crate::by_neuraxis::QUESTION),
    ]
}

fn add(arguments: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Arguments {
        a: u64,
        b: u64,
    }
    let Arguments { a, b } = serde_json::from_str(arguments)?;
    Ok(json!({ "sum": a + b }).to_string())
}
