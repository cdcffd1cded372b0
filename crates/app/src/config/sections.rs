//! The sections of `neuraxis.toml`, as they are written. Those of the policy are defined in `neuraxis-brainstem`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use neuraxis_brainstem::{
    ChannelConfig, HealthConfig, ModeConfig, PlanConfig, PolicyConfig, PriceConfig, RuleConfig,
    TaintConfig, TrustConfig,
};
use neuraxis_core::{Channel, Mode, PlanName, Role};
use neuraxis_llama::{LlamaConfig, Server, Timeouts};
use serde::Deserialize;

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sections {
    pub(super) models: BTreeMap<Role, ModelConfig>,
    pub(super) discovery: DiscoveryConfig,
    pub(super) store: StoreConfig,
    pub(super) tools: ToolsConfig,
    modes: BTreeMap<Mode, ModeConfig>,
    channels: BTreeMap<Channel, ChannelConfig>,
    plans: BTreeMap<PlanName, PlanConfig>,
    rules: BTreeMap<String, RuleConfig>,
    trust: BTreeMap<String, TrustConfig>,
    taint: TaintConfig,
    health: HealthConfig,
    prices: BTreeMap<String, PriceConfig>,
}

impl Sections {
    /// Takes the policy's sections out.
    pub(super) fn take_policy(&mut self) -> PolicyConfig {
        let mut policy = PolicyConfig::default();
        policy.modes = std::mem::take(&mut self.modes);
        policy.channels = std::mem::take(&mut self.channels);
        policy.plans = std::mem::take(&mut self.plans);
        policy.rules = std::mem::take(&mut self.rules);
        policy.trust = std::mem::take(&mut self.trust);
        policy.taint = std::mem::take(&mut self.taint);
        policy.health = std::mem::take(&mut self.health);
        policy.prices = std::mem::take(&mut self.prices);
        policy.extra_roles = self.models.keys().cloned().collect();
        policy
    }
}

/// `[models.ROLE]`: which model serves a role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelConfig {
    /// Who has the model: `llama` or `offline` in this build. Has to be set.
    pub provider: Option<String>,
    /// Which program answers there, for `llama`: `llama-server`, `ollama`, `lm-studio` or `vllm`.
    pub server: Option<Server>,
    /// Where its server answers, if not at the provider's usual address.
    pub base_url: Option<String>,
    /// The model's name at its provider.
    pub model: Option<String>,
    /// The name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key. Nobody else may be able to read it.
    pub api_key_file: Option<PathBuf>,
    /// The context size in tokens.
    pub context_tokens: Option<u64>,
    /// How long each part of an exchange with the server may take.
    pub timeouts: Option<Timeouts>,
}

/// `[discovery]`: what is looked for when no model is configured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DiscoveryConfig {
    /// Whether model servers on this machine are looked for.
    pub local_servers: bool,
}

impl Default for DiscoveryConfig {
    fn default() -> Self {
        Self {
            local_servers: true,
        }
    }
}

impl DiscoveryConfig {
    /// Returns where to look: llama-server, Ollama and LM Studio on their usual ports.
    pub(crate) fn places(&self) -> Vec<LlamaConfig> {
        if self.local_servers {
            LlamaConfig::usual_places().into()
        } else {
            Vec::new()
        }
    }
}

/// `[store]`: where sessions and records are kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StoreConfig {
    /// Which store: `memory:` in this build, which keeps nothing beyond the process.
    pub url: String,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: "memory:".to_owned(),
        }
    }
}

/// `[tools]`: what the built-in tools may see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolsConfig {
    /// The folder that the file tools are confined to. A relative one counts from the file that names it, or else from
    /// the working directory, which it also is by default.
    pub root: Option<PathBuf>,
}
