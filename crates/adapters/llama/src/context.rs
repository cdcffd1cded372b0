//! The size of a model's context and the media it accepts, as reported by the server. The server is asked when the
//! answer is first needed, and again before a request is refused because of it, since a server may be restarted with
//! more.
//!
//! What counts is how the server was built or started, not what its model was trained for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind, MediaTypes};
use neuraxis_wire::{ChatClient, Endpoint, is_asked_model};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::questions::{ListedModel, Modalities, Questions};
use crate::server::Server;

/// How long a server may take to answer: a caller is waiting.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait before asking a server again that did not answer the question.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// The context of a model, once known.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// In tokens; 0 until it is known.
    tokens: AtomicU64,
    /// Whether the server reports its context size when asked.
    reports_context: AtomicBool,
    /// When the server was last asked without success.
    last_failure: Mutex<Option<Instant>>,
    /// When the server was last asked without success which media the model accepts.
    last_media_failure: Mutex<Option<Instant>>,
}

/// The media types that a llama-server accepts with a projector for images, with one for audio, and with one for both
/// (github.com/ggml-org/llama.cpp/blob/master/docs/multimodal.md). It decodes images with stb_image, which does not
/// support WebP.
const SEES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/bmp"];
const HEARS: &[&str] = &["audio/wav", "audio/x-wav", "audio/mpeg"];
const SEES_AND_HEARS: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/bmp",
    "audio/wav",
    "audio/x-wav",
    "audio/mpeg",
];

impl Context {
    pub(crate) fn known(&self) -> Option<u64> {
        Some(self.tokens.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
    }

    /// Records that a request exceeded the context. A server that reports its context size may have been restarted with
    /// a smaller one, so it is asked again. For any other server, the limit named in the error becomes the known size.
    pub(crate) fn note(&self, error: &LlmError) {
        if let LlmErrorKind::ContextOverflow {
            limit: Some(limit @ 1..),
            ..
        } = error.kind
        {
            let known = match self.reports_context.load(Ordering::Relaxed) {
                true => 0,
                false => limit,
            };
            self.tokens.store(known, Ordering::Relaxed);
        }
    }

    /// Asks the server which media its model accepts besides text, unless it was recently asked without success. Only a
    /// llama-server reports this.
    pub(crate) async fn learn_media(&self, endpoint: &Endpoint, server: Server, chat: &ChatClient) {
        let known = chat.media();
        let mut last_failure = self.last_media_failure.lock().await;
        let failed_recently = last_failure.is_some_and(|at| at.elapsed() < RETRY_AFTER);
        // Another run may have asked in the meantime.
        if failed_recently || chat.media() != known || server != Server::LlamaServer {
            return;
        }
        let answer = of_slot(&Questions::new(endpoint, ANSWER_TIMEOUT), chat).await;
        let is_away = answer.as_ref().is_err_and(|error| {
            matches!(error.kind, LlmErrorKind::Loading | LlmErrorKind::Connection)
        });
        let has_no_answer = answer.is_err() || chat.media() == MediaTypes::Unknown;
        if has_no_answer && !is_away {
            *last_failure = Some(Instant::now());
        }
    }

    /// Asks the server, unless it was recently asked without success.
    pub(crate) async fn learn(&self, endpoint: &Endpoint, server: Server, chat: &ChatClient) {
        let known = self.known();
        let mut last_failure = self.last_failure.lock().await;
        let failed_recently = last_failure.is_some_and(|at| at.elapsed() < RETRY_AFTER);
        // Another run may have asked in the meantime.
        if failed_recently || self.known() != known {
            return;
        }
        let questions = Questions::new(endpoint, ANSWER_TIMEOUT);
        match ask(&questions, server, chat).await {
            Ok(Some(tokens)) => {
                self.tokens.store(tokens, Ordering::Relaxed);
                self.reports_context.store(true, Ordering::Relaxed);
            }
            // It can answer once it is up.
            Err(error)
                if matches!(error.kind, LlmErrorKind::Loading | LlmErrorKind::Connection) => {}
            no_answer => {
                let model = &*chat.model().model;
                tracing::debug!(
                    model,
                    ?no_answer,
                    "the server does not report the context size"
                );
                *last_failure = Some(Instant::now());
            }
        }
    }
}

async fn ask(
    questions: &Questions<'_>,
    server: Server,
    chat: &ChatClient,
) -> Result<Option<u64>, LlmError> {
    let model = &*chat.model().model;
    match server {
        Server::LlamaServer => match of_slot(questions, chat).await? {
            Some(tokens) => Ok(Some(tokens)),
            None => of_list(questions, "v1/models", model).await,
        },
        Server::Vllm => of_list(questions, "v1/models", model).await,
        Server::LmStudio => of_list(questions, "api/v0/models", model).await,
        Server::Ollama => of_loaded(questions, model).await,
    }
}

/// Returns the context of a llama-server's slot. Also stores the media types that the server reports in the same
/// answer.
async fn of_slot(questions: &Questions<'_>, chat: &ChatClient) -> Result<Option<u64>, LlmError> {
    let Some(props) = questions.props().await? else {
        return Ok(None);
    };
    if let Some(modalities) = &props.modalities {
        chat.learn_media(media_of(modalities));
    }
    Ok(props.context_tokens())
}

/// Returns the context that a list of models gives for this model, or for the only listed one.
async fn of_list(
    questions: &Questions<'_>,
    path: &str,
    model: &str,
) -> Result<Option<u64>, LlmError> {
    let models = questions.models(path).await?;
    let own = models.iter().find(|listed| listed.id == model);
    let listed = match (own, models.as_slice()) {
        (Some(own), _) => Some(own),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    Ok(listed.and_then(ListedModel::context_tokens))
}

/// Returns the context that Ollama has allocated to a loaded model. Ollama does not report it for other models: it
/// depends on the machine.
async fn of_loaded(questions: &Questions<'_>, model: &str) -> Result<Option<u64>, LlmError> {
    let loaded: Loaded = questions.get("api/ps").await?;
    let mut models = loaded.models.iter();
    let own = models.find(|loaded| is_asked_model(model, &loaded.name));
    let tokens = own.and_then(|own| own.context_length);
    Ok(tokens.filter(|tokens| *tokens > 0))
}

const fn media_of(modalities: &Modalities) -> MediaTypes {
    match (modalities.vision, modalities.audio) {
        (true, true) => MediaTypes::Only(SEES_AND_HEARS),
        (true, false) => MediaTypes::Only(SEES),
        (false, true) => MediaTypes::Only(HEARS),
        (false, false) => MediaTypes::NONE,
    }
}

#[derive(Deserialize)]
struct Loaded {
    #[serde(default)]
    models: Vec<LoadedModel>,
}

#[derive(Deserialize)]
struct LoadedModel {
    name: String,
    #[serde(default)]
    context_length: Option<u64>,
}
