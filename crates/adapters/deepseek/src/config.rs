//! How to reach DeepSeek and what to ask of it.

use std::path::PathBuf;

use neuraxis_core::MediaTypes;
use neuraxis_wire::{MaxConcurrent, NoKey, ReasoningEcho, Secret, Timeouts, key_from_env};
use serde::{Deserialize, Serialize};

use crate::thinking::{ReasoningEffort, Thinking, default_echo};

/// The model that is used if none is named: the only name without a version.
pub(crate) const DEFAULT_MODEL: &str = "deepseek-flash";

/// How to reach DeepSeek and what to ask of it: a section such as `[models.reasoning]`.
///
/// ```
/// use neuraxis_deepseek::{DeepSeekConfig, Thinking};
///
/// let config: DeepSeekConfig = toml::from_str(
///     r#"
///     model = "deepseek-v4-pro"
///     thinking = "on"
///     reasoning_effort = "max"
///     timeouts.output = "10m"
///     "#,
/// )?;
/// assert_eq!(config.thinking, Thinking::On);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DeepSeekConfig {
    /// The service's address, with or without a trailing slash. Default: `https://api.deepseek.com`; with `/beta`
    /// appended, it is the service's test version.
    pub base_url: String,
    /// The model's name at the service. Names change often; `neuraxis models` lists the current ones. Default:
    /// `deepseek-flash`, the only name without a version.
    pub model: String,
    /// The context size in tokens. The service does not report it. Default: 1,000,000 for the current models on
    /// DeepSeek's own service, and unknown elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Whether the model thinks before it answers: `on`, `off` or `model_default`. Default: `model_default`, except for
    /// replies of at most 1,024 tokens, which leave no room for thinking.
    pub thinking: Thinking,
    /// How much the model thinks: `low`, `high` or `max`. Default: the service's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Which reasoning of earlier replies is sent back: `always`, `same_turn` or `never`. Default: what the model
    /// requires, judged by its name: `never` for R1, `same_turn` for V3.2, `always` for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo_reasoning: Option<ReasoningEcho>,
    /// The maximum number of replies received at the same time. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<MaxConcurrent>,
    /// A PEM file of certificates to trust in addition to the machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The address of a proxy, without a password. Default: what `HTTPS_PROXY` and the related variables name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// How long each part of an exchange may take. The service sends keep-alive lines while a request is queued;
    /// `timeouts.output` limits that wait.
    pub timeouts: Timeouts,
    /// The API key. Never part of a file: the code that reads the configuration sets it.
    #[serde(skip)]
    pub api_key: Option<Secret>,
}

impl Default for DeepSeekConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.deepseek.com".to_owned(),
            model: DEFAULT_MODEL.to_owned(),
            context_tokens: None,
            thinking: Thinking::ModelDefault,
            reasoning_effort: None,
            echo_reasoning: None,
            max_concurrent: None,
            ca_file: None,
            proxy: None,
            timeouts: Timeouts::default(),
            api_key: None,
        }
    }
}

impl DeepSeekConfig {
    /// Creates a configuration for the named model on DeepSeek's own service.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }

    /// Creates a configuration for the named model, with the key from the environment variable `DEEPSEEK_API_KEY` and,
    /// if it is set, the address from `DEEPSEEK_BASE_URL`.
    ///
    /// # Errors
    ///
    /// [`NoKey`], which names the variable, if it holds no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, NoKey> {
        let mut config = Self::new(model);
        key_from_env::<Self>(&mut config.base_url, &mut config.api_key)?;
        Ok(config)
    }

    /// Returns the context size if it is known (api-docs.deepseek.com/quick_start/pricing).
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        const OF_TODAY: u64 = 1_000_000;
        let is_of_today = ["deepseek-flash", "deepseek-pro", "deepseek-v4"]
            .iter()
            .any(|name| self.model.starts_with(name));
        let known = is_of_today && self.is_own_service();
        self.context_tokens.or_else(|| known.then_some(OF_TODAY))
    }

    /// Returns the media types the model accepts: the flash models accept images, and the pro models accept only text
    /// (api-docs.deepseek.com/quick_start/pricing).
    pub(crate) fn media_types(&self) -> MediaTypes {
        const SEEN: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];
        let is = |names: [&str; 2]| names.iter().any(|name| self.model.starts_with(name));
        match self.is_own_service() {
            true if is(["deepseek-flash", "deepseek-v4-flash"]) => MediaTypes::Only(SEEN),
            true if is(["deepseek-pro", "deepseek-v4-pro"]) => MediaTypes::NONE,
            _ => MediaTypes::Unknown,
        }
    }

    fn is_own_service(&self) -> bool {
        let address = self.base_url.trim();
        address
            .strip_prefix("https://api.deepseek.com")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns which reasoning is sent back.
    pub(crate) fn echo(&self) -> ReasoningEcho {
        self.echo_reasoning
            .unwrap_or_else(|| default_echo(&self.model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_section_is_the_default() {
        let read = toml::from_str::<DeepSeekConfig>("").unwrap();
        assert_eq!(read, DeepSeekConfig::default());
    }

    #[test]
    fn the_context_size_defaults_to_that_of_current_models_on_their_own_service() {
        let mut config = DeepSeekConfig::default();
        assert_eq!(config.context_tokens(), Some(1_000_000));
        config.base_url = "https://api.deepseek.com.evil.example".to_owned();
        assert_eq!(config.context_tokens(), None);
        config.context_tokens = Some(9);
        assert_eq!(config.context_tokens(), Some(9));
        assert_eq!(DeepSeekConfig::new("deepseek-r1").context_tokens(), None);
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        for (text, key) in [
            ("modle = \"x\"", "modle"),
            ("api_key = \"canary\"", "api_key"),
        ] {
            let error = toml::from_str::<DeepSeekConfig>(text).unwrap_err();
            let expected = format!("unknown field `{key}`");
            assert!(error.message().contains(&expected), "{error}");
        }
    }

    #[test]
    fn an_unknown_thinking_setting_is_refused_with_the_valid_ones() {
        let error = toml::from_str::<DeepSeekConfig>("thinking = \"hard\"").unwrap_err();
        assert!(error.message().contains("`model_default`"), "{error}");
    }

    #[test]
    fn the_api_key_is_never_written_out() {
        let config = DeepSeekConfig {
            api_key: Some(Secret::new("sk-canary")),
            ..DeepSeekConfig::default()
        };
        let written = format!("{config:?} {}", toml::to_string(&config).unwrap());
        assert!(!written.contains("canary"), "{written}");
    }

    #[test]
    fn a_configured_reasoning_echo_overrides_the_models_default() {
        let mut config = DeepSeekConfig::new("deepseek-r1");
        assert_eq!(config.echo(), ReasoningEcho::Never);
        config.echo_reasoning = Some(ReasoningEcho::Always);
        assert_eq!(config.echo(), ReasoningEcho::Always);
    }
}
