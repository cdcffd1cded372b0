//! How to reach a server and what to ask of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use neuraxis_wire::{
    EndpointError, LateSystem, MaxConcurrent, NoKey, ReasoningEcho, ReasoningEffort, ReplyForm,
    Secret, ServiceTier, SystemRole, Temperature, Timeouts, key_from_env,
};
use serde::{Deserialize, Serialize};

use crate::dialect::MaxTokensField;
use crate::responses::ReasoningSummary;

/// Suffixes of the hosts of OpenAI and of Azure, including Azure's government cloud.
const FIRST_HAND: [&str; 7] = [
    ".openai.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
    ".cognitiveservices.azure.com",
    ".openai.azure.us",
    ".services.ai.azure.us",
    ".cognitiveservices.azure.us",
];

/// How to reach a server and what to ask of it: a section such as `[models.reasoning]`.
///
/// ```
/// use neuraxis_openai::{Api, OpenAiConfig};
///
/// let config: OpenAiConfig = toml::from_str(
///     r#"
///     base_url = "https://example.openai.azure.com/openai/deployments/mine"
///     api = "chat"
///     model = "gpt-4.1"
///     key_header = "api-key"
///     query = { api-version = "2026-01-01" }
///     headers_env = { "x-gateway-token" = "GATEWAY_TOKEN" }
///     "#,
/// )?;
/// assert_eq!(config.api, Api::Chat);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiConfig {
    /// The address to which `/responses` or `/chat/completions` is appended. Default: `https://api.openai.com/v1`.
    pub base_url: String,
    /// The protocol: `responses` or `chat`. Default: `responses`.
    pub api: Api,
    /// The model's name.
    pub model: String,
    /// The organization to bill, if the key belongs to several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The project to bill, if the key belongs to several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Additional headers, by name, that are sent with every request and are not secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Additional secret headers: header names, and the environment variables that hold their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers_env: BTreeMap<String, String>,
    /// Query parameters that are added to every address, such as Azure's `api-version`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// The header in which the key is sent without a prefix, such as `api-key`. Default: the key is sent as a bearer
    /// token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// How much the model thinks: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`, as far as the model
    /// supports them. Default: the model's own. A model that thinks for long and shows no summary needs a longer
    /// `timeouts.output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// How the model summarizes its reasoning: `auto`, `concise` or `detailed`. Default: no summary. Only on the
    /// Responses API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_summary: Option<ReasoningSummary>,
    /// Whether the server stores the replies. Only on the Responses API. Default: `false`.
    pub store: bool,
    /// Whether tools are offered with strict schemas if their schemas allow it. Default: only at OpenAI and Azure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_tools: Option<bool>,
    /// Whether the model may make several calls in one reply. Default: the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The priority with which requests are processed: `auto`, `default`, `flex`, `scale` or `priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    /// The role of instructions: `developer` or `system`. Default: chosen by the model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_role: Option<SystemRole>,
    /// Whether a temperature is `sent` or `left_out`. Default: chosen by the model's name, since models that reason
    /// refuse a temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// The field that limits the tokens of a reply: `max_tokens` or `max_completion_tokens`. Default: chosen by the
    /// server and the model's name, since models that reason refuse the older `max_tokens`. Only on Chat Completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_field: Option<MaxTokensField>,
    /// Whether streams are asked to include token counts; without them, the counts are unknown unless the server sends
    /// them anyway. Default: `true`. Only on Chat Completions: every server of the other protocol sends counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_usage: Option<bool>,
    /// How a required reply format is requested: `json_schema`, or, from a server that does not support schemas,
    /// `json_object` or `ignored`, in which case the model is told the schema. Default: `json_schema`. Only on Chat
    /// Completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_form: Option<ReplyForm>,
    /// Which reasoning of earlier replies is sent back: `always`, `same_turn` or `never`. Default: `never`. Only on
    /// Chat Completions: the other protocol carries reasoning automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo_reasoning: Option<ReasoningEcho>,
    /// The role that is sent for a system message that is not the first message: `system`, `user`, or `auto`, which is
    /// `system` until the server refuses that. Default: `auto`. Only on Chat Completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_system: Option<LateSystem>,
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
    /// The context size in tokens. No server of this protocol reports it. Default: known for OpenAI's models by their
    /// names, on OpenAI's own service and Azure's; unknown for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The API key. Never part of a file: the code that reads the configuration sets it.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// The headers named by [`headers_env`](Self::headers_env), with their values. Never part of a file:
    /// [`read_secret_headers`](Self::read_secret_headers) sets them.
    #[serde(skip)]
    pub secret_headers: Vec<(String, Secret)>,
}

/// One of OpenAI's protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// The newer protocol, which carries the model's reasoning from turn to turn.
    #[default]
    Responses,
    /// The older protocol, which more servers support.
    Chat,
}

/// Why a client cannot be created from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenAiError {
    /// The server cannot be used as configured.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No model is named.
    #[error("no model is named: set model")]
    NoModel,
    /// The configuration uses a setting that only the Responses API has.
    #[error("{setting} is not part of Chat Completions: omit it, or set api = \"responses\"")]
    OnlyResponses {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The configuration uses a setting that only Chat Completions has.
    #[error("{setting} is only part of Chat Completions: omit it, or set api = \"chat\"")]
    OnlyChat {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The environment variable for a secret header is not set.
    #[error("the environment variable {variable}, which must hold the header {header}, is not set")]
    NoVariable {
        /// The name of the variable.
        variable: String,
        /// The name of the header.
        header: String,
    },
    /// A secret header is named, but its value was never read.
    #[error("the secret header {header} was not read from its environment variable")]
    UnreadHeader {
        /// The name of the header.
        header: String,
    },
}

impl Default for OpenAiConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.openai.com/v1".to_owned(),
            api: Api::Responses,
            model: String::new(),
            organization: None,
            project: None,
            headers: BTreeMap::new(),
            headers_env: BTreeMap::new(),
            query: BTreeMap::new(),
            key_header: None,
            reasoning_effort: None,
            reasoning_summary: None,
            store: false,
            strict_tools: None,
            parallel_tool_calls: None,
            service_tier: None,
            system_role: None,
            temperature: None,
            max_tokens_field: None,
            stream_usage: None,
            reply_form: None,
            echo_reasoning: None,
            late_system: None,
            max_concurrent: None,
            ca_file: None,
            proxy: None,
            timeouts: Timeouts::default(),
            context_tokens: None,
            api_key: None,
            secret_headers: Vec::new(),
        }
    }
}

impl OpenAiConfig {
    /// Creates a configuration for the named model at OpenAI.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }

    /// Creates a configuration for the named model, with the key from the environment variable `OPENAI_API_KEY` and, if
    /// it is set, the address from `OPENAI_BASE_URL`.
    ///
    /// # Errors
    ///
    /// [`NoKey`], which names the variable, if it holds no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, NoKey> {
        let mut config = Self::new(model);
        key_from_env::<Self>(&mut config.base_url, &mut config.api_key)?;
        Ok(config)
    }

    /// Reads the values of the secret headers from their variables.
    ///
    /// # Errors
    ///
    /// [`OpenAiError::NoVariable`] for a variable that is not set.
    pub fn read_secret_headers(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), OpenAiError> {
        let read = self.headers_env.iter().map(|(header, name)| {
            let missing = || OpenAiError::NoVariable {
                variable: name.clone(),
                header: header.clone(),
            };
            let value = variable(name).ok_or_else(missing)?;
            Ok((header.clone(), Secret::new(&value)))
        });
        self.secret_headers = read.collect::<Result<_, OpenAiError>>()?;
        Ok(())
    }

    /// Returns an error if the configuration contradicts itself.
    pub(crate) fn check(&self) -> Result<(), OpenAiError> {
        if self.model.trim().is_empty() {
            return Err(OpenAiError::NoModel);
        }
        let only_responses = [
            ("store", self.store),
            ("reasoning_summary", self.reasoning_summary.is_some()),
        ];
        let only_chat = [
            ("max_tokens_field", self.max_tokens_field.is_some()),
            ("stream_usage", self.stream_usage.is_some()),
            ("reply_form", self.reply_form.is_some()),
            ("echo_reasoning", self.echo_reasoning.is_some()),
            ("late_system", self.late_system.is_some()),
        ];
        match self.api {
            Api::Chat => {
                if let Some(setting) = first_set(&only_responses) {
                    return Err(OpenAiError::OnlyResponses { setting });
                }
            }
            Api::Responses => {
                if let Some(setting) = first_set(&only_chat) {
                    return Err(OpenAiError::OnlyChat { setting });
                }
            }
        }
        self.check_headers()
    }

    /// Returns an error if secret headers are named but were never read.
    pub(crate) fn check_headers(&self) -> Result<(), OpenAiError> {
        let is_read = |header: &String| self.secret_headers.iter().any(|(name, _)| name == header);
        match self.headers_env.keys().find(|header| !is_read(header)) {
            Some(header) => Err(OpenAiError::UnreadHeader {
                header: header.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Returns whether the server is OpenAI's own or Azure's; those support everything that the protocols have.
    #[must_use]
    pub fn is_first_hand(&self) -> bool {
        let url = self.base_url.trim().to_ascii_lowercase();
        let host = url.split_once("://").map_or(&*url, |(_, rest)| rest);
        let host = host.split(['/', ':', '?']).next().unwrap_or_default();
        host == "openai.com" || FIRST_HAND.iter().any(|known| host.ends_with(known))
    }
}

/// Returns the name of the first setting that is set.
fn first_set(settings: &[(&'static str, bool)]) -> Option<&'static str> {
    let is_set = settings.iter().find(|(_, is_set)| *is_set);
    is_set.map(|(setting, _)| *setting)
}

#[cfg(test)]
mod tests;
