//! What a server says of itself.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_wire::Endpoint;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::server::Server;

/// How many models of a server are listed, and how long a name may be.
const MAX_MODELS: usize = 1_000;
const MAX_NAME: usize = 300;

/// A short conversation with a system message where some chat templates refuse one.
const LATE_SYSTEM: &str = r#"{"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"},{"role":"system","content":"e"}]}"#;

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// Whether it can answer yet.
    pub state: ServerState,
    /// The names of its models, those that only embed texts last. Empty while it loads, or when it has none.
    pub models: Vec<String>,
    /// The context size of one conversation, in tokens.
    pub context_tokens: Option<u64>,
    /// How many requests it works on at once.
    pub slots: Option<u64>,
    /// The program's version.
    pub build: Option<String>,
    /// Whether its chat template knows tools.
    pub supports_tools: Option<bool>,
    /// Whether its chat template knows several calls in one reply.
    pub supports_parallel_calls: Option<bool>,
    /// Whether its chat template takes a system message that is not the first message.
    pub accepts_late_system: Option<bool>,
}

/// Whether a server can answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerState {
    /// The model is loaded, and requests are served.
    Ready,
    /// It is still loading its model.
    Loading,
}

impl Probe {
    pub(crate) const fn new(state: ServerState) -> Self {
        Self {
            state,
            models: Vec::new(),
            context_tokens: None,
            slots: None,
            build: None,
            supports_tools: None,
            supports_parallel_calls: None,
            accepts_late_system: None,
        }
    }
}

/// The questions to one server, which all together have to be answered in time.
struct Questions<'a> {
    endpoint: &'a Endpoint,
    until: Instant,
}

pub(crate) async fn probe(
    endpoint: &Endpoint,
    server: Server,
    within: Duration,
) -> Result<Probe, LlmError> {
    let questions = Questions {
        endpoint,
        until: Instant::now() + within.min(Duration::from_secs(3_600)),
    };
    let models = match questions.get::<ModelList>("v1/models").await {
        Err(error) if error.kind == LlmErrorKind::Loading => {
            return Ok(Probe::new(ServerState::Loading));
        }
        models => models?,
    };
    let mut probe = Probe::new(ServerState::Ready);
    let models = models.data.unwrap_or_default();
    probe.context_tokens = models.iter().find_map(ModelEntry::context_tokens);
    probe.models = names(models);
    if server == Server::LlamaServer {
        questions.ask_llama_server(&mut probe).await?;
    }
    Ok(probe)
}

impl Questions<'_> {
    /// Asks what only a llama-server tells. One that keeps it to itself is asked no further.
    async fn ask_llama_server(&self, probe: &mut Probe) -> Result<(), LlmError> {
        let props = match self.get::<Props>("props").await {
            Ok(props) => props,
            Err(error) if error.kind == LlmErrorKind::BadRequest => return Ok(()),
            Err(error) => return Err(error),
        };
        let settings = props.default_generation_settings.unwrap_or_default();
        // A llama-server that chooses among models has no context of its own and says 0.
        let context = settings.n_ctx.filter(|tokens| *tokens > 0);
        probe.context_tokens = context.or(probe.context_tokens);
        probe.slots = props.total_slots;
        probe.build = props.build_info.filter(|build| is_plain(build));
        let Some(caps) = props.chat_template_caps else {
            return Ok(());
        };
        probe.supports_tools = caps.supports_tools;
        probe.supports_parallel_calls = caps.supports_parallel_tool_calls;
        probe.accepts_late_system = self.accepts_late_system().await;
        Ok(())
    }

    /// Lets the server write a conversation in its own form, which it refuses if its chat template does.
    async fn accepts_late_system(&self) -> Option<bool> {
        let route = self.endpoint.route("apply-template");
        let answer = self
            .endpoint
            .post(&route, LATE_SYSTEM.into(), self.left())
            .await;
        match answer {
            Ok(_) => Some(true),
            Err(error) if error.message.to_ascii_lowercase().contains("system") => Some(false),
            Err(_) => None,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LlmError> {
        let route = self.endpoint.route(path);
        let body = self.endpoint.get(&route, self.left()).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let said = format!("what stands at /{path} is not what a model server says: {error}");
            LlmError::new(LlmErrorKind::InvalidResponse, said)
        })
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

#[derive(Deserialize)]
struct ModelList {
    /// Null where there is none; but what has no list at all is no model server.
    #[serde(deserialize_with = "Option::deserialize")]
    data: Option<Vec<ModelEntry>>,
}

#[derive(Deserialize)]
struct ModelEntry {
    id: String,
    #[serde(default)]
    meta: Option<ModelMeta>,
    /// What vLLM calls the context size.
    #[serde(default)]
    max_model_len: Option<u64>,
}

#[derive(Deserialize)]
struct ModelMeta {
    #[serde(default)]
    n_ctx: Option<u64>,
}

#[derive(Deserialize)]
struct Props {
    #[serde(default)]
    default_generation_settings: Option<GenerationSettings>,
    #[serde(default)]
    total_slots: Option<u64>,
    #[serde(default)]
    build_info: Option<String>,
    #[serde(default)]
    chat_template_caps: Option<TemplateCaps>,
}

#[derive(Default, Deserialize)]
struct GenerationSettings {
    #[serde(default)]
    n_ctx: Option<u64>,
}

#[derive(Deserialize)]
struct TemplateCaps {
    #[serde(default)]
    supports_tools: Option<bool>,
    #[serde(default)]
    supports_parallel_tool_calls: Option<bool>,
}

impl ModelEntry {
    fn context_tokens(&self) -> Option<u64> {
        let meta = self.meta.as_ref().and_then(|meta| meta.n_ctx);
        meta.or(self.max_model_len).filter(|tokens| *tokens > 0)
    }
}

/// Returns the names of models, those last that by their name are no models to talk to.
fn names(models: Vec<ModelEntry>) -> Vec<String> {
    let names = models.into_iter().map(|model| model.id);
    let mut names: Vec<String> = names
        .filter(|name| is_plain(name))
        .take(MAX_MODELS)
        .collect();
    names.sort_by_key(|name| name.to_ascii_lowercase().contains("embed"));
    names
}

/// Tells whether a text from a server can be shown and sent as it is.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control)
}
