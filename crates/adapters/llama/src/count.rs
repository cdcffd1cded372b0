//! Counts the tokens of a request by asking the server.

use std::time::Duration;

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, Message, ModelRequest, Part, TokenCount};
use neuraxis_wire::Endpoint;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::server::Server;

/// The questions of one count, which all together have to be answered in time.
struct Questions<'a> {
    endpoint: &'a Endpoint,
    until: Instant,
}

/// Counts the tokens of a request, which is encoded in `body`.
pub(crate) async fn count(
    endpoint: &Endpoint,
    server: Server,
    request: &ModelRequest,
    body: Bytes,
    within: Duration,
) -> Result<TokenCount, LlmError> {
    let until = Instant::now() + within.min(Duration::from_secs(3_600));
    let questions = Questions { endpoint, until };
    match server {
        Server::LlamaServer => questions.ask_llama_server(request, body).await,
        Server::Vllm => {
            let counted: Counted = questions.post("tokenize", body).await?;
            Ok(TokenCount::measured(counted.count))
        }
        Server::Ollama | Server::LmStudio => Ok(TokenCount::UNKNOWN),
    }
}

impl Questions<'_> {
    /// Lets the server write the conversation as its model reads it, and then count that.
    async fn ask_llama_server(
        &self,
        request: &ModelRequest,
        body: Bytes,
    ) -> Result<TokenCount, LlmError> {
        let prompt = match self.post::<Prompt>("apply-template", body.clone()).await {
            Ok(answer) => answer.prompt,
            Err(error) if is_no_template(&error) => {
                // The request itself is a little more than the prompt that is made of it.
                let text = String::from_utf8_lossy(&body);
                return Ok(TokenCount::estimated(self.tokens(&text).await?));
            }
            Err(error) => return Err(error),
        };
        let tokens = self.tokens(&prompt).await?;
        // An image is a short mark in the prompt, and many tokens to the model.
        Ok(match has_media(request) {
            true => TokenCount::estimated(tokens),
            false => TokenCount::measured(tokens),
        })
    }

    async fn tokens(&self, content: &str) -> Result<u64, LlmError> {
        let text = Text {
            content,
            add_special: true,
            parse_special: true,
        };
        let body = serde_json::to_vec(&text).map_err(|error| {
            let said = format!("the prompt cannot be sent to be counted: {error}");
            LlmError::new(LlmErrorKind::BadRequest, said)
        })?;
        let answer: Tokens = self.post("tokenize", body.into()).await?;
        Ok(answer.tokens.len() as u64)
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: Bytes) -> Result<T, LlmError> {
        let left = self.until.saturating_duration_since(Instant::now());
        let route = self.endpoint.route(path);
        let answer = self.endpoint.post(&route, body, left).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            let said = format!("what stands at /{path} is not what a model server says: {error}");
            LlmError::new(LlmErrorKind::InvalidResponse, said)
        })
    }
}

/// Tells whether a server has no such route, or a template that does not take the conversation.
const fn is_no_template(error: &LlmError) -> bool {
    matches!(
        error.kind,
        LlmErrorKind::BadRequest | LlmErrorKind::Server { .. }
    )
}

fn has_media(request: &ModelRequest) -> bool {
    let messages = request.messages.messages().iter();
    let mut users = messages.filter_map(|message| match &**message {
        Message::User { parts } => Some(parts),
        _ => None,
    });
    users.any(|parts| parts.iter().any(|part| matches!(part, Part::Media(_))))
}

#[derive(Serialize)]
struct Text<'a> {
    content: &'a str,
    /// Counts what the server itself puts in front of a prompt.
    add_special: bool,
    /// Takes the marks between messages for what they are.
    parse_special: bool,
}

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
}

#[derive(Deserialize)]
struct Tokens {
    tokens: Vec<IgnoredAny>,
}

/// The reply of vLLM's `/tokenize`: the number of tokens, whose list is not read.
#[derive(Deserialize)]
struct Counted {
    count: u64,
}
