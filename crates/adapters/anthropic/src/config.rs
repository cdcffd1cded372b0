//! The configuration of Anthropic's service and models.

use std::num::NonZeroU32;
use std::path::PathBuf;

use neuraxis_wire::{
    EndpointError, MaxConcurrent, NoKey, Secret, Temperature, Timeouts, key_from_env,
};
use serde::{Deserialize, Serialize};

use crate::model::ModelTraits;

/// The minimum number of tokens in a thinking budget.
pub(crate) const MIN_THINKING_BUDGET: u32 = 1_024;

/// The default limit on the tokens of a reply: as many as all but the oldest models can generate, including thinking.
const DEFAULT_OUTPUT_TOKENS: NonZeroU32 = match NonZeroU32::new(32_000) {
    Some(tokens) => tokens,
    None => NonZeroU32::MIN,
};

/// The configuration of Anthropic's service and models: a section such as `[models.reasoning]`.
///
/// The key comes from the place that the section's `api_key_env` or `api_key_file` names, and is read by the code that
/// reads the configuration.
///
/// ```
/// use neuraxis_anthropic::{AnthropicConfig, Cache, Effort, Thinking};
///
/// let config: AnthropicConfig = toml::from_str(
///     r#"
///     model = "claude-opus-5-5"
///     thinking = "adaptive"
///     show_thinking = "summarized"
///     effort = "low"
///     cache = "1h"
///     timeouts.output = "10m"
///     "#,
/// )?;
/// assert_eq!((config.thinking, config.effort), (Thinking::Adaptive, Some(Effort::Low)));
/// assert_eq!(config.cache, Cache::OneHour);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AnthropicConfig {
    /// The address to which `/v1/messages` is appended. Default: `https://api.anthropic.com`.
    pub base_url: String,
    /// The model's name, such as `claude-opus-5-5`. Required.
    pub model: String,
    /// How the key is sent: `api_key`, in the header `x-api-key`, or `bearer`, as gateways require. Default: `api_key`.
    pub auth: Auth,
    /// The version of the protocol, a date. Default: `2023-06-01`, the only one that this adapter was written for.
    pub version: String,
    /// Beta features to turn on, such as `context-1m-2025-08-07`. The service refuses names that it does not know.
    /// Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub betas: Vec<String>,
    /// The maximum number of tokens of a reply, including thinking, for requests without a number: the protocol
    /// requires one. A request never asks for more than the model can generate, as far as its name shows. With a
    /// `thinking_budget`, at least half of it is reserved for the answer. Default: 32,000.
    pub max_output_tokens: NonZeroU32,
    /// Whether the model thinks before it answers: `model_default`, `adaptive`, where it decides how much, or `off`. A
    /// value that the model does not accept, by its name, is omitted with a warning: `adaptive` before 4.6, `off` on
    /// models that always think. `model_default` sends nothing, so the service's default for each model applies.
    /// Default: `model_default`.
    pub thinking: Thinking,
    /// How many tokens a model up to 4.6 may think, at least 1,024. Newer models do not accept the setting, which is
    /// then omitted with a warning; for them, use `thinking` and `effort`. The budget is added to the maximum that a
    /// request asks for. If the model cannot generate that many, the budget is reduced, and omitted below 1,024.
    /// Default: no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_budget: Option<u32>,
    /// How much of the thinking is shown: `summarized` or `omitted`. Requires `thinking = "adaptive"` or a
    /// `thinking_budget`, with which it is sent. Default: that of the model, which is `omitted` from 4.7 on. A model
    /// that thinks long and shows nothing needs a longer `timeouts.output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_thinking: Option<ShownThinking>,
    /// How much work the model puts into a reply: `low`, `medium`, `high`, `xhigh` or `max`, as far as the model
    /// supports them. Omitted with a warning if its name shows that it accepts none: before 4.6, except Opus 4.5.
    /// Default: that of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// How long the service keeps the beginning of a prompt that a request marks: `5m`, `1h`, which costs more to write
    /// than the list of public prices states, or `off`. Default: `5m`.
    pub cache: Cache,
    /// Whether several calls in one reply are allowed. Default: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Whether the model can be forced to call a tool. Default: depends on the model's name. A model that cannot is
    /// asked for the call in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced_tool_choice: Option<bool>,
    /// Whether a temperature is `sent` or `left_out`. Default: depends on the model's name. Models after 4.6 refuse a
    /// temperature, and so does any model that is thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// The maximum number of replies received at the same time. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<MaxConcurrent>,
    /// A PEM file of certificates to trust in addition to the machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The address of a proxy, without a password. Default: the one in `HTTPS_PROXY` and related variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The time limit for each part of an exchange. While a model thinks and shows nothing, the service sends
    /// keep-alive events: `timeouts.output` limits that time.
    pub timeouts: Timeouts,
    /// The context size in tokens. Default: known from the name for models on Anthropic's own service; for others, the
    /// size that their server reports, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The key. Never part of a file: the code that reads the configuration sets it.
    #[serde(skip)]
    pub api_key: Option<Secret>,
}

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Auth {
    /// In the header `x-api-key`.
    #[default]
    ApiKey,
    /// As a bearer token.
    Bearer,
}

/// Whether a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Thinking {
    /// The service's default.
    #[default]
    ModelDefault,
    /// As much as the model decides, also between tool calls.
    Adaptive,
    /// No thinking.
    Off,
}

/// How much of a model's thinking is shown. All of it is sent back to the model in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ShownThinking {
    /// A summary.
    Summarized,
    /// Nothing.
    Omitted,
}

/// How much work a model puts into a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effort {
    /// As little as possible.
    Low,
    /// A little.
    Medium,
    /// The default of most models.
    High,
    /// More than high.
    Xhigh,
    /// As much as possible.
    Max,
}

/// How long the service keeps the beginning of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cache {
    /// Five minutes after it was last used.
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
    /// An hour after it was last used. Writing it costs more.
    #[serde(rename = "1h")]
    OneHour,
    /// No caching: nothing is marked.
    #[serde(rename = "off")]
    Off,
}

/// Why a client cannot be created from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnthropicError {
    /// The server cannot be used as configured.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No model is named.
    #[error("no model is named: set model, such as claude-opus-5-5")]
    NoModel,
    /// A thinking budget too small for any model.
    #[error("thinking_budget is {0} tokens, but models accept no less than {MIN_THINKING_BUDGET}")]
    SmallBudget(u32),
    /// A thinking budget combined with another way to think.
    #[error("thinking_budget already says how long the model thinks: omit thinking")]
    BudgetAndThinking,
    /// `show_thinking` is set, but no thinking is requested.
    #[error("show_thinking needs thinking = \"adaptive\" or a thinking_budget")]
    NothingToShow,
}

impl Default for AnthropicConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.anthropic.com".to_owned(),
            model: String::new(),
            auth: Auth::default(),
            version: "2023-06-01".to_owned(),
            betas: Vec::new(),
            max_output_tokens: DEFAULT_OUTPUT_TOKENS,
            thinking: Thinking::default(),
            thinking_budget: None,
            show_thinking: None,
            effort: None,
            cache: Cache::default(),
            parallel_tool_calls: None,
            forced_tool_choice: None,
            temperature: None,
            max_concurrent: None,
            ca_file: None,
            proxy: None,
            timeouts: Timeouts::default(),
            context_tokens: None,
            api_key: None,
        }
    }
}

impl AnthropicConfig {
    /// Creates a configuration for a model by its name, on Anthropic's own service.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }

    /// Creates a configuration for a model by its name, with the key from the environment variable `ANTHROPIC_API_KEY`
    /// and, if it is set, the address from `ANTHROPIC_BASE_URL`.
    ///
    /// # Errors
    ///
    /// [`NoKey`], which names the variable, if it holds no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, NoKey> {
        let mut config = Self::new(model);
        key_from_env::<Self>(&mut config.base_url, &mut config.api_key)?;
        Ok(config)
    }

    /// Refuses contradictory settings.
    pub(crate) fn check(&self) -> Result<(), AnthropicError> {
        if self.model.trim().is_empty() {
            return Err(AnthropicError::NoModel);
        }
        let asks = self.thinking != Thinking::ModelDefault;
        match self.thinking_budget {
            Some(budget) if budget < MIN_THINKING_BUDGET => {
                Err(AnthropicError::SmallBudget(budget))
            }
            Some(_) if asks => Err(AnthropicError::BudgetAndThinking),
            None if self.show_thinking.is_some() && self.thinking != Thinking::Adaptive => {
                Err(AnthropicError::NothingToShow)
            }
            _ => Ok(()),
        }
    }

    /// Returns the context size, as far as it is known without asking the server.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        let known = || ModelTraits::of(&self.model).context_tokens;
        let known = || known().filter(|_| self.is_first_hand());
        self.context_tokens.or_else(known)
    }

    /// Returns whether unsigned thinking is sent back. Some models behind gateways do not sign theirs, and want it back
    /// anyway. Anthropic's models sign theirs, and refuse unsigned thinking.
    pub(crate) fn takes_unsigned_thinking(&self) -> bool {
        !self.is_first_hand() && ModelTraits::of(&self.model) == ModelTraits::UNKNOWN
    }

    /// Returns whether the server is Anthropic's own.
    fn is_first_hand(&self) -> bool {
        let url = self.base_url.trim().to_ascii_lowercase();
        let host = url.strip_prefix("https://").unwrap_or_default();
        host.split(['/', ':', '?']).next() == Some("api.anthropic.com")
    }
}

impl ShownThinking {
    /// Returns the value that is sent.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Summarized => "summarized",
            Self::Omitted => "omitted",
        }
    }
}

impl Effort {
    /// Returns the value that is sent.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

#[cfg(test)]
mod tests;
