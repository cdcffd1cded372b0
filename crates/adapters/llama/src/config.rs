//! How to reach a server and what is known about it.

use std::path::PathBuf;

use neuraxis_wire::{LateSystem, MaxConcurrent, ReasoningEcho, Secret, Timeouts};
use serde::{Deserialize, Serialize};

use crate::probe::Probe;
use crate::server::Server;
use crate::shape::ReasoningFormat;

/// How to reach a server and what is known about it: a section such as `[models.reasoning]`.
///
/// ```
/// use neuraxis_llama::{LlamaConfig, Server};
///
/// let config: LlamaConfig = toml::from_str(
///     r#"
///     base_url = "http://127.0.0.1:11434"
///     server = "ollama"
///     model = "qwen3:8b"
///     timeouts.first_byte = "10m"
///     "#,
/// )?;
/// assert_eq!(config.server, Server::Ollama);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LlamaConfig {
    /// The server's address, with or without a trailing `/v1`. Default: `http://127.0.0.1:8080`.
    pub base_url: String,
    /// Which program answers there. Default: `llama-server`.
    pub server: Server,
    /// The model's name on the server. A llama-server that serves one model needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The context size in tokens. Default: what the server reports when it is asked before the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Which reasoning of earlier replies is sent back: `always`, `same_turn` or `never`. Default: `same_turn`, which
    /// is the reasoning since the last user message: older reasoning would fill a small context, and the chat templates
    /// of many models drop it.
    pub echo_reasoning: ReasoningEcho,
    /// The role that is sent for a system message that is not the first message: `system`, `user`, or `auto`, which is
    /// `system` until the server's chat template refuses that. Default: `auto`.
    pub late_system: LateSystem,
    /// Where a llama-server puts a model's thinking: `auto`, `none`, `deepseek` or `deepseek-legacy`. Default: as the
    /// server was started. Not sent to other servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_format: Option<ReasoningFormat>,
    /// A grammar in llama.cpp's notation that replies must follow. It is not sent with tools, a combination that the
    /// server refuses, nor when a reply must fit a JSON Schema, nor to other servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<String>,
    /// The maximum number of replies received at the same time. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<MaxConcurrent>,
    /// A PEM file of certificates to trust in addition to the machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The address of a proxy, without a password. Default: what `HTTPS_PROXY` and the related variables name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// How long each part of an exchange may take.
    pub timeouts: Timeouts,
    /// The API key, if the server requires one. Never part of a file: the code that reads the configuration sets it.
    #[serde(skip)]
    pub api_key: Option<Secret>,
}

impl Default for LlamaConfig {
    fn default() -> Self {
        Self {
            base_url: "http://127.0.0.1:8080".to_owned(),
            server: Server::LlamaServer,
            model: None,
            context_tokens: None,
            echo_reasoning: ReasoningEcho::SameTurn,
            late_system: LateSystem::Auto,
            reasoning_format: None,
            grammar: None,
            max_concurrent: None,
            ca_file: None,
            proxy: None,
            timeouts: Timeouts::default(),
            api_key: None,
        }
    }
}

impl LlamaConfig {
    /// Creates a configuration for a llama-server of which only the address is known.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            ..Self::default()
        }
    }

    /// Returns the usual addresses of servers on this machine: llama-server, Ollama and LM Studio.
    #[must_use]
    pub fn usual_places() -> [Self; 3] {
        [
            (8_080, Server::LlamaServer),
            (11_434, Server::Ollama),
            (1_234, Server::LmStudio),
        ]
        .map(|(port, server)| Self {
            base_url: format!("http://127.0.0.1:{port}"),
            server,
            ..Self::default()
        })
    }

    /// Fills in open settings from what a server reported, except the context size: the client asks for that itself,
    /// and asks again if the server may have been restarted.
    #[must_use]
    pub fn informed_by(mut self, probe: &Probe) -> Self {
        self.model = self.model.or_else(|| probe.models.first().cloned());
        if (self.late_system, probe.accepts_late_system) == (LateSystem::Auto, Some(false)) {
            self.late_system = LateSystem::User;
        }
        self
    }

    /// Returns the base address to which routes are appended.
    pub(crate) fn root(&self) -> &str {
        let url = self.base_url.trim().trim_end_matches('/');
        url.strip_suffix("/v1").unwrap_or(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_section_is_the_default() {
        assert_eq!(
            toml::from_str::<LlamaConfig>("").unwrap(),
            LlamaConfig::default()
        );
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = toml::from_str::<LlamaConfig>("base_uri = \"x\"").unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("unknown field `base_uri`") && said.contains("base_url"),
            "{said}"
        );
        let error = toml::from_str::<LlamaConfig>("api_key = \"canary\"").unwrap_err();
        assert!(
            error.message().contains("unknown field `api_key`"),
            "{error}"
        );
    }

    #[test]
    fn the_api_key_is_never_written_out() {
        let mut config = LlamaConfig::new("http://127.0.0.1:1");
        config.api_key = Some(Secret::new("sk-canary"));
        let written = format!("{config:?} {}", toml::to_string(&config).unwrap());
        assert!(!written.contains("canary"), "{written}");
    }

    #[test]
    fn the_base_url_may_end_in_v1() {
        for url in [
            "http://h:1",
            "http://h:1/",
            "http://h:1/v1",
            " http://h:1/v1/ ",
        ] {
            assert_eq!(LlamaConfig::new(url).root(), "http://h:1");
        }
    }

    #[test]
    fn probed_values_fill_only_unset_settings() {
        let mut probe = Probe::new(crate::ServerState::Ready);
        probe.models = vec!["theirs".to_owned()];
        probe.context_tokens = Some(4_096);
        probe.accepts_late_system = Some(false);
        let informed = LlamaConfig::default().informed_by(&probe);
        assert_eq!(informed.model.as_deref(), Some("theirs"));
        assert_eq!(informed.context_tokens, None);
        assert_eq!(informed.late_system, LateSystem::User);

        let config = LlamaConfig {
            model: Some("mine".to_owned()),
            context_tokens: Some(8),
            late_system: LateSystem::System,
            ..LlamaConfig::default()
        };
        assert_eq!(config.clone().informed_by(&probe), config);
    }
}
