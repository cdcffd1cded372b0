//! Questions to a server about itself, and the formats of its answers.

use std::time::Duration;

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_wire::Endpoint;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// The upper limit on how long a server is waited for, whatever the caller allows.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Questions to one server, which share one time limit.
pub(crate) struct Questions<'a> {
    endpoint: &'a Endpoint,
    until: Instant,
}

impl<'a> Questions<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, within: Duration) -> Self {
        let until = Instant::now() + within.min(LONGEST_WAIT);
        Self { endpoint, until }
    }

    /// Asks a llama-server for its properties. Returns `None` if it withholds them.
    pub(crate) async fn props(&self) -> Result<Option<Props>, LlmError> {
        match self.get("props").await {
            Ok(props) => Ok(Some(props)),
            Err(error) if error.kind == LlmErrorKind::BadRequest => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for the list of models at a path.
    pub(crate) async fn models(&self, path: &str) -> Result<Vec<ListedModel>, LlmError> {
        let list: List = self.get(path).await?;
        Ok(list.data.unwrap_or_default())
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LlmError> {
        let route = self.endpoint.route(path);
        let answer = self.endpoint.get(&route, self.left()).await?;
        read(path, &answer)
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<T, LlmError> {
        let route = self.endpoint.route(path);
        let answer = self.endpoint.post(&route, body, self.left()).await?;
        read(path, &answer)
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

fn read<T: DeserializeOwned>(path: &str, answer: &[u8]) -> Result<T, LlmError> {
    serde_json::from_slice(answer).map_err(|error| {
        // Only the position is reported, not what the unknown server wrote.
        let (line, column) = (error.line(), error.column());
        let said = format!(
            "the answer from /{path} is not that of a model server, at line {line}, column {column}"
        );
        LlmError::new(LlmErrorKind::InvalidResponse, said)
    })
}

/// The properties that a llama-server reports.
#[derive(Deserialize)]
pub(crate) struct Props {
    #[serde(default)]
    default_generation_settings: Option<Meta>,
    #[serde(default)]
    pub(crate) modalities: Option<Modalities>,
    #[serde(default)]
    pub(crate) total_slots: Option<u64>,
    #[serde(default)]
    pub(crate) build_info: Option<String>,
    #[serde(default)]
    pub(crate) chat_template_caps: Option<TemplateCaps>,
}

/// The media for which a llama-server was started with a projector.
#[derive(Deserialize)]
pub(crate) struct Modalities {
    #[serde(default)]
    pub(crate) vision: bool,
    #[serde(default)]
    pub(crate) audio: bool,
}

#[derive(Deserialize)]
pub(crate) struct TemplateCaps {
    #[serde(default)]
    pub(crate) supports_tools: Option<bool>,
    #[serde(default)]
    pub(crate) supports_parallel_tool_calls: Option<bool>,
}

#[derive(Deserialize)]
struct List {
    /// Null if there are no models; but a reply without this field does not come from a model server.
    #[serde(deserialize_with = "Option::deserialize")]
    data: Option<Vec<ListedModel>>,
}

/// A model in a server's list.
#[derive(Deserialize)]
pub(crate) struct ListedModel {
    pub(crate) id: String,
    #[serde(default)]
    meta: Option<Meta>,
    /// vLLM's name for the context size.
    #[serde(default)]
    max_model_len: Option<u64>,
    /// LM Studio's name for the context size of a loaded model.
    #[serde(default)]
    loaded_context_length: Option<u64>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    n_ctx: Option<u64>,
}

impl Props {
    /// Returns the context of a slot. A llama-server that routes among several models has no context of its own and
    /// reports 0.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        let settings = self.default_generation_settings.as_ref();
        settings
            .and_then(|settings| settings.n_ctx)
            .filter(|tokens| *tokens > 0)
    }
}

impl ListedModel {
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        let meta = self.meta.as_ref().and_then(|meta| meta.n_ctx);
        meta.or(self.max_model_len)
            .or(self.loaded_context_length)
            .filter(|tokens| *tokens > 0)
    }
}
