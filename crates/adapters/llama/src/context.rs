//! How much context a model has and what it sees and hears, as its server tells: asked once, when it is first needed.
//!
//! What a server was built or started for counts, not what its model was trained for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind, MediaTypes};
use neuraxis_wire::Endpoint;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::server::Server;

/// How long a server may take to tell: somebody waits for an answer.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// How long a server that does not tell is not asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The context of a model, once it is known.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// In tokens; 0 until it is known.
    tokens: AtomicU64,
    /// When the server was asked in vain.
    asked: Mutex<Option<Instant>>,
    /// What it takes besides text, once that is known.
    media: OnceLock<MediaTypes>,
    /// When the server was asked for that in vain.
    asked_media: Mutex<Option<Instant>>,
}

/// What a llama-server takes with a projector that sees, that hears, and with one that does both
/// (github.com/ggml-org/llama.cpp/blob/master/docs/multimodal.md). It reads images with stb_image, which knows no WebP.
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

    pub(crate) fn media(&self) -> Option<MediaTypes> {
        self.media.get().copied()
    }

    /// Asks the server what its model takes besides text, unless it is known already or was asked in vain a moment ago.
    /// Only a llama-server tells.
    pub(crate) async fn learn_media(&self, endpoint: &Endpoint, server: Server) {
        let mut asked = self.asked_media.lock().await;
        let in_vain = asked.is_some_and(|at| at.elapsed() < ASKED_AGAIN_AFTER);
        if in_vain || self.media().is_some() || server != Server::LlamaServer {
            return;
        }
        let questions = Questions {
            endpoint,
            model: "",
            until: Instant::now() + TOLD_WITHIN,
            media: &self.media,
        };
        let told = questions.of_slot().await;
        let is_away = told.as_ref().is_err_and(|error| {
            matches!(error.kind, LlmErrorKind::Loading | LlmErrorKind::Connection)
        });
        if self.media().is_none() && !is_away {
            *asked = Some(Instant::now());
        }
    }

    /// Asks the server, unless it is known already or was asked in vain a moment ago.
    pub(crate) async fn learn(&self, endpoint: &Endpoint, server: Server, model: &str) {
        let mut asked = self.asked.lock().await;
        let in_vain = asked.is_some_and(|at| at.elapsed() < ASKED_AGAIN_AFTER);
        if in_vain || self.known().is_some() {
            return;
        }
        let questions = Questions {
            endpoint,
            model,
            until: Instant::now() + TOLD_WITHIN,
            media: &self.media,
        };
        match questions.ask(server).await {
            Ok(Some(tokens)) => self.tokens.store(tokens, Ordering::Relaxed),
            // It tells when it is there.
            Err(error)
                if matches!(error.kind, LlmErrorKind::Loading | LlmErrorKind::Connection) => {}
            untold => {
                tracing::debug!(model, ?untold, "the server does not tell the context size");
                *asked = Some(Instant::now());
            }
        }
    }
}

/// The questions to one server, which all together have to be answered in time.
struct Questions<'a> {
    endpoint: &'a Endpoint,
    model: &'a str,
    until: Instant,
    /// Where is noted what the server says on the way of what its model takes.
    media: &'a OnceLock<MediaTypes>,
}

impl Questions<'_> {
    async fn ask(&self, server: Server) -> Result<Option<u64>, LlmError> {
        let tokens = match server {
            Server::LlamaServer => match self.of_slot().await? {
                Some(tokens) => Some(tokens),
                None => self.of_list("v1/models").await?,
            },
            Server::Vllm => self.of_list("v1/models").await?,
            Server::LmStudio => self.of_list("api/v0/models").await?,
            Server::Ollama => self.of_loaded().await?,
        };
        Ok(tokens.filter(|tokens| *tokens > 0))
    }

    /// What a slot of a llama-server has. One that chooses among models has none of its own and says 0.
    async fn of_slot(&self) -> Result<Option<u64>, LlmError> {
        match self.get::<Props>("props").await {
            Ok(props) => {
                if let Some(modalities) = &props.modalities {
                    // What was heard first stays.
                    let _ = self.media.set(modalities.types());
                }
                let settings = props.default_generation_settings;
                let tokens = settings.and_then(|settings| settings.n_ctx);
                Ok(tokens.filter(|tokens| *tokens > 0))
            }
            // It keeps this to itself.
            Err(error) if error.kind == LlmErrorKind::BadRequest => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a list of models says of this one, or of the only one.
    async fn of_list(&self, path: &str) -> Result<Option<u64>, LlmError> {
        let models = self.get::<List>(path).await?.data.unwrap_or_default();
        let own = models.iter().find(|listed| listed.id == self.model);
        let listed = match (own, models.as_slice()) {
            (Some(own), _) => Some(own),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        Ok(listed.and_then(|listed| {
            let meta = listed.meta.as_ref().and_then(|meta| meta.n_ctx);
            meta.or(listed.max_model_len)
                .or(listed.loaded_context_length)
        }))
    }

    /// What Ollama gave a model that it has loaded. Of others it does not tell: that depends on the machine.
    async fn of_loaded(&self) -> Result<Option<u64>, LlmError> {
        let loaded = self.get::<Loaded>("api/ps").await?.models;
        let named = |name: &str| {
            name == self.model
                || name
                    .strip_suffix(":latest")
                    .is_some_and(|name| name == self.model)
        };
        let own = loaded.iter().find(|loaded| named(&loaded.name));
        Ok(own.and_then(|own| own.context_length))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LlmError> {
        let left = self.until.saturating_duration_since(Instant::now());
        let body = self.endpoint.get(&self.endpoint.route(path), left).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let said = format!("what stands at /{path} does not tell the context size: {error}");
            LlmError::new(LlmErrorKind::InvalidResponse, said)
        })
    }
}

#[derive(Deserialize)]
struct Props {
    #[serde(default)]
    modalities: Option<Modalities>,
    #[serde(default)]
    default_generation_settings: Option<Meta>,
}

/// What a llama-server was started with a projector for.
#[derive(Deserialize)]
struct Modalities {
    #[serde(default)]
    vision: bool,
    #[serde(default)]
    audio: bool,
}

impl Modalities {
    const fn types(&self) -> MediaTypes {
        match (self.vision, self.audio) {
            (true, true) => MediaTypes::Only(SEES_AND_HEARS),
            (true, false) => MediaTypes::Only(SEES),
            (false, true) => MediaTypes::Only(HEARS),
            (false, false) => MediaTypes::NONE,
        }
    }
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    n_ctx: Option<u64>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    data: Option<Vec<Listed>>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    #[serde(default)]
    meta: Option<Meta>,
    /// What vLLM calls the context size.
    #[serde(default)]
    max_model_len: Option<u64>,
    /// What LM Studio calls it, of a model that is loaded.
    #[serde(default)]
    loaded_context_length: Option<u64>,
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
