//! What a server reports about itself.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_wire::{Endpoint, is_plain_line};
use serde::de::IgnoredAny;

use crate::questions::{ListedModel, Questions};
use crate::server::Server;

/// The maximum number of a server's models that are listed.
const MAX_MODELS: usize = 1_000;

/// A short conversation with a system message in a place where some chat templates refuse it.
const LATE_SYSTEM: &str = r#"{"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"},{"role":"system","content":"e"}]}"#;

/// What a server reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// Whether the server can answer yet.
    pub state: ServerState,
    /// The names of its models; embedding-only models come last. Empty while the server loads, or if it has none.
    pub models: Vec<String>,
    /// The context size of one conversation, in tokens.
    pub context_tokens: Option<u64>,
    /// The number of requests the server processes at the same time.
    pub slots: Option<u64>,
    /// The program's version.
    pub build: Option<String>,
    /// Whether its chat template supports tools.
    pub supports_tools: Option<bool>,
    /// Whether its chat template supports several calls in one reply.
    pub supports_parallel_calls: Option<bool>,
    /// Whether its chat template accepts a system message that is not the first message.
    pub accepts_late_system: Option<bool>,
}

/// Whether a server can answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerState {
    /// The model is loaded, and requests are served.
    Ready,
    /// The server is still loading its model.
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

pub(crate) async fn probe(
    endpoint: &Endpoint,
    server: Server,
    within: Duration,
) -> Result<Probe, LlmError> {
    let questions = Questions::new(endpoint, within);
    let models = match questions.models("v1/models").await {
        Err(error) if error.kind == LlmErrorKind::Loading => {
            return Ok(Probe::new(ServerState::Loading));
        }
        models => models?,
    };
    let mut probe = Probe::new(ServerState::Ready);
    probe.context_tokens = models.iter().find_map(ListedModel::context_tokens);
    probe.models = names(models);
    if server == Server::LlamaServer {
        ask_llama_server(&questions, &mut probe).await?;
    }
    Ok(probe)
}

/// Asks what only a llama-server reports. If the server withholds its properties, no further questions are asked.
async fn ask_llama_server(questions: &Questions<'_>, probe: &mut Probe) -> Result<(), LlmError> {
    let Some(props) = questions.props().await? else {
        return Ok(());
    };
    probe.context_tokens = props.context_tokens().or(probe.context_tokens);
    probe.slots = props.total_slots;
    probe.build = props.build_info.filter(|build| is_plain_line(build));
    let Some(caps) = props.chat_template_caps else {
        return Ok(());
    };
    probe.supports_tools = caps.supports_tools;
    probe.supports_parallel_calls = caps.supports_parallel_tool_calls;
    probe.accepts_late_system = accepts_late_system(questions).await;
    Ok(())
}

/// Has the server render a conversation with its chat template, which fails if the template refuses the conversation.
async fn accepts_late_system(questions: &Questions<'_>) -> Option<bool> {
    let answer = questions.post::<IgnoredAny>("apply-template", LATE_SYSTEM.into());
    match answer.await {
        Ok(_) => Some(true),
        Err(error) if error.message.to_ascii_lowercase().contains("system") => Some(false),
        Err(_) => None,
    }
}

/// Returns the names of models; those whose names suggest that they are not chat models come last.
fn names(models: Vec<ListedModel>) -> Vec<String> {
    let names = models.into_iter().map(|model| model.id);
    let mut names: Vec<String> = names
        .filter(|name| is_plain_line(name))
        .take(MAX_MODELS)
        .collect();
    names.sort_by_key(|name| name.to_ascii_lowercase().contains("embed"));
    names
}
