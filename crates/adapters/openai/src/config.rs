//! How a server is reached and what is asked of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use neuraxis_wire::{
    EndpointError, LateSystem, MaxConcurrent, NoKey, ReasoningEcho, ReasoningEffort, ReplyForm,
    Secret, ServiceTier, SystemRole, Temperature, Timeouts, key_from_env,
};
use serde::{Deserialize, Serialize};

use crate::dialect::MaxTokensField;
use crate::responses::ReasoningSummary;

/// How the hosts of OpenAI and of Azure end, of whose clouds one is the government's.
const FIRST_HAND: [&str; 7] = [
    ".openai.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
    ".cognitiveservices.azure.com",
    ".openai.azure.us",
    ".services.ai.azure.us",
    ".cognitiveservices.azure.us",
];

/// How a server is reached and what is asked of it: a section such as `[models.reasoning]`.
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
    /// The address that `/responses` or `/chat/completions` is added to. `https://api.openai.com/v1`.
    pub base_url: String,
    /// The protocol: `responses` or `chat`. `responses`.
    pub api: Api,
    /// The model's name.
    pub model: String,
    /// The organization that pays, where the key belongs to several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The project that pays, where the key belongs to several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What else is sent with each request and is no secret: names and values of headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What else is sent and is secret: names of headers, and the environment variables that hold their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers_env: BTreeMap<String, String>,
    /// What is added to each address as its query, such as Azure's `api-version`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// The header that the key is sent in as it is, such as `api-key`. As a bearer token if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// How hard the model is to think: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`, as far as the model
    /// knows them. As it does by itself if nothing is said. One that thinks long and shows no summary needs a longer
    /// `timeouts.output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// How the model is to sum its reasoning up: `auto`, `concise` or `detailed`. Not at all if nothing is said. Only on
    /// the Responses API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_summary: Option<ReasoningSummary>,
    /// Whether the server keeps the replies. Only on the Responses API. `false`.
    pub store: bool,
    /// Whether tools are offered with strict schemas where their schemas allow it. At OpenAI and Azure, and nowhere else,
    /// if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_tools: Option<bool>,
    /// Whether several calls in one reply are welcome. As the server does by itself if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// How fast a request is worked on: `auto`, `default`, `flex`, `scale` or `priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    /// What instructions are called: `developer` or `system`. By the model's name if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_role: Option<SystemRole>,
    /// Whether a temperature is `sent` or `left_out`. By the model's name if nothing is said: models that reason refuse
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// The field that limits the tokens of a reply: `max_tokens` or `max_completion_tokens`. By the server and the model's
    /// name if nothing is said: models that reason refuse the older `max_tokens`. Only on Chat Completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_field: Option<MaxTokensField>,
    /// Whether a stream is asked for its token counts; without, they are unknown where the server does not give them by
    /// itself. `true`. Only on Chat Completions: every server of the other protocol counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_usage: Option<bool>,
    /// How the form of a reply is asked for, where it must have one: `json_schema`, or, of a server that knows no schemas,
    /// `json_object` or `ignored`, where the model is told the schema. `json_schema`. Only on Chat Completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_form: Option<ReplyForm>,
    /// Which reasoning of earlier replies is sent back: `always`, `same_turn` or `never`. `never`. Only on Chat Completions:
    /// the other protocol carries it on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo_reasoning: Option<ReasoningEcho>,
    /// What is sent for a system message that is not the first message: `system`, `user`, or `auto`, which is `system`
    /// until the server refuses that. `auto`. Only on Chat Completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_system: Option<LateSystem>,
    /// How many replies may come in at the same time. Any number if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<MaxConcurrent>,
    /// A file of certificates in PEM form that are trusted besides the machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The address of a proxy, without a password. What `HTTPS_PROXY` and its kin name if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// How long each part of an exchange may take.
    pub timeouts: Timeouts,
    /// The context size in tokens. No server of this protocol tells it: if nothing is said, it is known of OpenAI's models,
    /// on its own service and Azure's, whose names tell, and of no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The key. Never part of a file: it is set by whoever reads the configuration.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// The headers that [`headers_env`](Self::headers_env) names, with their values. Never part of a file:
    /// [`read_secret_headers`](Self::read_secret_headers) sets them.
    #[serde(skip)]
    pub secret_headers: Vec<(String, Secret)>,
}

/// A protocol of OpenAI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// The newer one, which carries the model's reasoning on between turns.
    #[default]
    Responses,
    /// The older one, which more servers know.
    Chat,
}

/// Why a client cannot be made from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenAiError {
    /// The server cannot be used as configured.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No model is named.
    #[error("no model is named: set model")]
    NoModel,
    /// Something is asked for that only the Responses API has.
    #[error("{setting} is not part of Chat Completions: leave it out, or set api = \"responses\"")]
    OnlyResponses {
        /// What is asked for.
        setting: &'static str,
    },
    /// Something is asked for that only Chat Completions has.
    #[error("{setting} is part of Chat Completions alone: leave it out, or set api = \"chat\"")]
    OnlyChat {
        /// What is asked for.
        setting: &'static str,
    },
    /// A variable that is to hold a secret is not set.
    #[error(
        "the environment variable {variable}, which is to hold the header {header}, is not set"
    )]
    NoVariable {
        /// The variable.
        variable: String,
        /// The header.
        header: String,
    },
    /// A secret header is named but was never read.
    #[error("the secret header {header} was not read from its environment variable")]
    UnreadHeader {
        /// The header.
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
    /// Describes a model of OpenAI.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }

    /// Describes a model by its name, with the key in the environment variable `OPENAI_API_KEY` and, where it is set, the
    /// address in `OPENAI_BASE_URL`.
    ///
    /// # Errors
    ///
    /// [`NoKey`], which names the variable, if it holds no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, NoKey> {
        let mut config = Self::new(model);
        key_from_env::<Self>(&mut config.base_url, &mut config.api_key)?;
        Ok(config)
    }

    /// Reads the secret headers by looking their variables up.
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

    /// Refuses what contradicts itself.
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

    /// Refuses secret headers that were never read.
    pub(crate) fn check_headers(&self) -> Result<(), OpenAiError> {
        let is_read = |header: &String| self.secret_headers.iter().any(|(name, _)| name == header);
        match self.headers_env.keys().find(|header| !is_read(header)) {
            Some(header) => Err(OpenAiError::UnreadHeader {
                header: header.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Tells whether the server is OpenAI's own, or Azure's, which know all that the protocols have.
    #[must_use]
    pub fn is_first_hand(&self) -> bool {
        let url = self.base_url.trim().to_ascii_lowercase();
        let host = url.split_once("://").map_or(&*url, |(_, rest)| rest);
        let host = host.split(['/', ':', '?']).next().unwrap_or_default();
        host == "openai.com" || FIRST_HAND.iter().any(|known| host.ends_with(known))
    }
}

/// Returns the first of some settings that is set.
fn first_set(settings: &[(&'static str, bool)]) -> Option<&'static str> {
    let is_set = settings.iter().find(|(_, is_set)| *is_set);
    is_set.map(|(setting, _)| *setting)
}

#[cfg(test)]
mod tests;
