//! How much context a model has, as its server tells: asked once, when it is first needed.
//!
//! What a server was built or started for counts, not what its model was trained for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
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
}

impl Context {
    pub(crate) fn known(&self) -> Option<u64> {
        Some(self.tokens.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
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
    default_generation_settings: Option<Meta>,
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
