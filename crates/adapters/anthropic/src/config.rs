//! How Anthropic is reached and what is asked of it.

use std::num::NonZeroU32;
use std::path::PathBuf;

use neuraxis_wire::{
    EndpointError, MaxConcurrent, NoKey, Secret, Temperature, Timeouts, key_from_env,
};
use serde::{Deserialize, Serialize};

use crate::model::ModelTraits;

/// The fewest tokens that a model may be allowed to think.
pub(crate) const LEAST_BUDGET: u32 = 1_024;

/// The most tokens of a reply if nothing is said: as much as all but the oldest models can give, thinking included.
const DEFAULT_OUTPUT_TOKENS: NonZeroU32 = match NonZeroU32::new(32_000) {
    Some(tokens) => tokens,
    None => NonZeroU32::MIN,
};

/// How Anthropic is reached and what is asked of it: a section such as `[models.reasoning]`.
///
/// The key comes from where `api_key_env` or `api_key_file` of the section point, which whoever reads the configuration
/// looks up.
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
    /// The address that `/v1/messages` is added to. `https://api.anthropic.com`.
    pub base_url: String,
    /// The model's name, such as `claude-opus-5-5`. There is no default.
    pub model: String,
    /// How the key is sent: `api_key`, in the header `x-api-key`, or `bearer`, as gateways want it. `api_key`.
    pub auth: Auth,
    /// The version of the protocol, a date. `2023-06-01`, the only one that this adapter was made for.
    pub version: String,
    /// Parts of the service that are being tried out and are to be switched on, such as `context-1m-2025-08-07`. The
    /// service refuses a name that it does not know. None.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub betas: Vec<String>,
    /// The most tokens of a reply, thinking included, where a request names no number: the protocol demands one. Never
    /// more than the model can give is asked for, as far as its name tells. Beside a `thinking_budget` half of it is the
    /// answer's at least. 32,000.
    pub max_output_tokens: NonZeroU32,
    /// Whether the model thinks before it answers: `model_default`, `adaptive`, where it decides how much, or `off`.
    /// What a model does not take, by its name, is left out with a warning: `adaptive` before 4.6, `off` on models that
    /// always think. `model_default`: nothing is said, and each model does as the service has it.
    pub thinking: Thinking,
    /// How many tokens a model up to 4.6 may think, 1,024 at least; newer ones do not take the setting, which is left out
    /// with a warning, and take `thinking` and `effort`. It comes on top of the most tokens that a request asks for; where
    /// the model cannot give as much, it is cut, and below 1,024 left out. No thinking of this kind if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_budget: Option<u32>,
    /// How much of its thinking is shown: `summarized`, or `omitted`. Needs `thinking = "adaptive"` or a `thinking_budget`,
    /// with which it is sent. As the model has it if nothing is said, which is `omitted` from 4.7 on. A model that thinks
    /// long and shows nothing needs a longer `timeouts.output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_thinking: Option<ShownThinking>,
    /// How much work the model puts into a reply: `low`, `medium`, `high`, `xhigh` or `max`, as far as the model knows
    /// them. Left out with a warning where its name tells that it takes none: before 4.6, but for Opus 4.5. As the service
    /// has it if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// How long the service keeps the beginning of a prompt that a request marks: `5m`, `1h`, which costs more to write
    /// than the list of public prices says, or `off`. `5m`.
    pub cache: Cache,
    /// Whether several calls in one reply are welcome. They are if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Whether the model takes a demand to call a tool. By its name if nothing is said. One that does not is asked for the
    /// call in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced_tool_choice: Option<bool>,
    /// Whether a temperature is `sent` or `left_out`. By the model's name if nothing is said: models after 4.6, and all that
    /// think, refuse one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// How many replies may come in at the same time. Any number if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<MaxConcurrent>,
    /// A file of certificates in PEM form that are trusted besides the machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The address of a proxy, without a password. What `HTTPS_PROXY` and its kin name if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// How long each part of an exchange may take. While a model thinks and shows nothing, the service sends keep-alive
    /// events: `timeouts.output` is what limits that.
    pub timeouts: Timeouts,
    /// The context size in tokens. If nothing is said, it is known of models on Anthropic's own service by their names, and
    /// of others if their server tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The key. Never part of a file: it is set by whoever reads the configuration.
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
    /// As the service has it when nothing is said.
    #[default]
    ModelDefault,
    /// As much as the model sees fit, between calls of tools, too.
    Adaptive,
    /// Not at all.
    Off,
}

/// How much of a model's thinking is shown. All of it goes back to the model either way.
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
    /// As little as it can.
    Low,
    /// A little.
    Medium,
    /// As most models do by themselves.
    High,
    /// More than that.
    Xhigh,
    /// As much as it can.
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
    /// Not at all: nothing is marked.
    #[serde(rename = "off")]
    Off,
}

/// Why a client cannot be made from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnthropicError {
    /// The server cannot be used as configured.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No model is named.
    #[error("no model is named: set model, such as claude-opus-5-5")]
    NoModel,
    /// A budget for thinking that no model takes.
    #[error("thinking_budget is {0} tokens, and {LEAST_BUDGET} is the least that models take")]
    SmallBudget(u32),
    /// A budget for thinking beside another way to think.
    #[error("thinking_budget is for models that are told how long to think: leave thinking out")]
    BudgetAndThinking,
    /// Thinking is to be shown that is not asked for.
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
    /// Describes a model by its name, on Anthropic's own service.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }

    /// Describes a model by its name, with the key in the environment variable `ANTHROPIC_API_KEY` and, where it is set, the
    /// address in `ANTHROPIC_BASE_URL`.
    ///
    /// # Errors
    ///
    /// [`NoKey`], which names the variable, if it holds no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, NoKey> {
        let mut config = Self::new(model);
        key_from_env::<Self>(&mut config.base_url, &mut config.api_key)?;
        Ok(config)
    }

    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> Result<(), AnthropicError> {
        if self.model.trim().is_empty() {
            return Err(AnthropicError::NoModel);
        }
        let asks = self.thinking != Thinking::ModelDefault;
        match self.thinking_budget {
            Some(budget) if budget < LEAST_BUDGET => Err(AnthropicError::SmallBudget(budget)),
            Some(_) if asks => Err(AnthropicError::BudgetAndThinking),
            None if self.show_thinking.is_some() && self.thinking != Thinking::Adaptive => {
                Err(AnthropicError::NothingToShow)
            }
            _ => Ok(()),
        }
    }

    /// Returns the context size, as far as it is known without asking.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        let known = || ModelTraits::of(&self.model).context_tokens;
        let known = || known().filter(|_| self.is_first_hand());
        self.context_tokens.or_else(known)
    }

    /// Tells whether thinking goes back that is not signed: some models behind gateways do not sign theirs, and want it back
    /// all the same. Those of Anthropic do, and refuse it.
    pub(crate) fn takes_unsigned_thinking(&self) -> bool {
        !self.is_first_hand() && ModelTraits::of(&self.model) == ModelTraits::UNKNOWN
    }

    /// Tells whether the server is Anthropic's own.
    fn is_first_hand(&self) -> bool {
        let url = self.base_url.trim().to_ascii_lowercase();
        let host = url.strip_prefix("https://").unwrap_or_default();
        host.split(['/', ':', '?']).next() == Some("api.anthropic.com")
    }
}

impl ShownThinking {
    /// Returns the word that is sent.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Summarized => "summarized",
            Self::Omitted => "omitted",
        }
    }
}

impl Effort {
    /// Returns the word that is sent.
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
