//! Counts the tokens of a request by asking the server.

use std::time::Duration;

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, Message, ModelRequest, Part, TokenCount};
use neuraxis_wire::Endpoint;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::questions::Questions;
use crate::server::Server;

/// Counts the tokens of a request whose encoding is `body`.
pub(crate) async fn count(
    endpoint: &Endpoint,
    server: Server,
    request: &ModelRequest,
    body: Bytes,
    within: Duration,
) -> Result<TokenCount, LlmError> {
    let questions = Questions::new(endpoint, within);
    match server {
        Server::LlamaServer => ask_llama_server(&questions, request, body).await,
        Server::Vllm => {
            let counted: TokenizeReply = questions.post("tokenize", body).await?;
            Ok(TokenCount::measured(counted.count))
        }
        Server::Ollama | Server::LmStudio => Ok(TokenCount::UNKNOWN),
    }
}

/// Has the server render the conversation with its model's template, and then count the result.
async fn ask_llama_server(
    questions: &Questions<'_>,
    request: &ModelRequest,
    body: Bytes,
) -> Result<TokenCount, LlmError> {
    let prompt: Prompt = match questions.post("apply-template", body.clone()).await {
        Ok(answer) => answer,
        Err(error) if is_no_template(&error) => {
            // The request itself is slightly longer than the prompt that is built from it.
            let text = String::from_utf8_lossy(&body);
            return Ok(TokenCount::estimated(tokens(questions, &text).await?));
        }
        Err(error) => return Err(error),
    };
    let tokens = tokens(questions, &prompt.prompt).await?;
    // An image is a short marker in the prompt, but many tokens to the model.
    Ok(match has_media(request) {
        true => TokenCount::estimated(tokens),
        false => TokenCount::measured(tokens),
    })
}

async fn tokens(questions: &Questions<'_>, content: &str) -> Result<u64, LlmError> {
    let text = Text {
        content,
        add_special: true,
        parse_special: true,
    };
    let body = serde_json::to_vec(&text).map_err(|error| {
        let said = format!("cannot encode the prompt to count its tokens: {error}");
        LlmError::new(LlmErrorKind::BadRequest, said)
    })?;
    let answer: Tokens = questions.post("tokenize", body.into()).await?;
    Ok(answer.tokens.len() as u64)
}

/// Returns whether a server has no such route, or has a template that does not accept the conversation.
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
    /// Includes what the server itself puts in front of a prompt.
    add_special: bool,
    /// Treats the markers between messages as special tokens.
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

/// The reply of vLLM's `/tokenize`: the number of tokens. The list of tokens is not read.
#[derive(Deserialize)]
struct TokenizeReply {
    count: u64,
}
