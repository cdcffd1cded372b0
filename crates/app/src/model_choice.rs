//! Finds the model that a user means by a name for one command or conversation: `-m NAME`.
//!
//! It only determines what the configuration would need to contain. The policy decides whether the role may serve a
//! request, and no key is read here.

use neuraxis_core::Role;
use neuraxis_ports::{KeyDiscovery, ProviderKind};
use toml::{Table, Value};
use url::Url;

use crate::config::discovery::{address_keys, discoveries};
use crate::config::{Config, ModelConfig};
use crate::discover::{Choice, discover, in_variable};
use crate::environment::Environment;
use crate::names::shown;
use crate::providers::{Provider, ProviderConfig};

/// Prefixes of the names of models that only one provider has. Other models are requested from the provider in use.
const BEGINNINGS: [(&str, &str); 7] = [
    ("claude", "anthropic"),
    ("deepseek", "deepseek"),
    ("gpt", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
];

/// The settings with which a model is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ModelChoice {
    /// The role that serves instead of the one that policy would choose; `None` leaves the choice to policy.
    pub role: Option<Role>,
    /// Keys to set, as dotted paths, with their values.
    pub settings: Vec<(String, String)>,
}

/// Why it is unknown which model is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownModel {
    /// The provider requires a key, and its usual variable is not set.
    #[error("{provider} needs a key: {variable} is not set")]
    NoKey {
        /// The provider.
        provider: Provider,
        /// The variable that usually holds its key.
        variable: &'static str,
    },
    /// The provider has no section, and requires one.
    #[error("no model is configured for {0}")]
    NotConfigured(Provider),
    /// No configured model, key or model server could provide a model with this name.
    #[error("unknown model \"{0}\": no configured provider could have it")]
    NoProvider(String),
}

/// Finds out which model is meant: a role that has one, the name of a configured model, `PROVIDER/MODEL`, or the name
/// of a model of the provider in use.
///
/// # Errors
///
/// [`UnknownModel`].
///
/// # Cancel safety
///
/// Dropping the future closes the connections that look for a local model server.
pub async fn choose_model(
    config: &Config,
    environment: &Environment,
    name: &str,
) -> Result<ModelChoice, UnknownModel> {
    if let Some(role) = role_of(config, name) {
        return Ok(of_role(config, role));
    }
    if let Some((provider, model)) = provider_and_model(name) {
        return prefixed(config, environment, (provider, model), name);
    }
    let owner = owner_of(name);
    if !config.models().is_empty() {
        // If a role has a table for the only provider of such models, that table is meant. The provider itself takes
        // precedence over a server that speaks its protocol.
        let role = match owner {
            Some(owner) => role_where(config, |model| {
                is_of(model, owner) && uses_provider_address(model)
            })
            .or_else(|| role_where(config, |model| is_of(model, owner))),
            None if is_open(name) => role_where(config, is_gateway_or_own_server),
            None => None,
        };
        let role = role.or_else(|| usual_role(config));
        return role
            .map(|role| named(config, role, name))
            .ok_or_else(|| UnknownModel::NoProvider(shown(name)));
    }
    if let Some(provider) = owner
        && let Ok(choice) = of_provider(config, environment, provider, name)
    {
        return Ok(choice);
    }
    match discover(config, environment).await.choice {
        Choice::Key(found) => of_provider(config, environment, found.provider, name),
        Choice::Found(server) => Ok(of_reasoning([
            ("provider", "llama"),
            ("base_url", &server.base_url),
            ("model", name),
        ])),
        Choice::Configured | Choice::Offline { .. } => Err(UnknownModel::NoProvider(shown(name))),
    }
}

/// Returns the only provider of such models.
fn owner_of(name: &str) -> Option<Provider> {
    let begins = |(beginning, _): &&(&str, &str)| name.starts_with(beginning);
    let owner = BEGINNINGS.iter().find(begins).filter(|_| !is_open(name));
    owner.and_then(|(_, provider)| Provider::named(provider))
}

/// Returns whether a model's name indicates open weights: it is one of `gpt-oss`, or has a tag as in Ollama, except for
/// the names of OpenAI's fine-tuned models.
fn is_open(name: &str) -> bool {
    let model = name.rsplit('/').next().unwrap_or(name);
    model.starts_with("gpt-oss") || (model.contains(':') && !model.starts_with("ft:"))
}

/// Returns the role with this name if it has a model, or the role whose model has this name.
fn role_of(config: &Config, name: &str) -> Option<Role> {
    let mut roles = config.models().keys();
    if let Some(role) = roles.find(|role| role.as_str() == name) {
        return Some(role.clone());
    }
    role_where(config, |model| {
        let table = model.provider.table();
        table.get("model").and_then(|model| model.as_str()) == Some(name)
    })
}

/// Returns the role that all others fall back to, if it has a model.
fn usual_role(config: &Config) -> Option<Role> {
    role_where(config, |_| true)
}

/// Returns the first role whose model matches: the usual role first, and last the roles that nothing names, which serve
/// no others.
fn role_where(config: &Config, holds: impl Fn(&ModelConfig) -> bool) -> Option<Role> {
    let configured = |role: &Role| config.models().contains_key(role);
    let usual = Role::BUILT_IN.into_iter().find(configured);
    let policy = config.policy().config();
    let serves = |role: &Role| Role::BUILT_IN.contains(role) || policy.names_role(role);
    let mut models: Vec<(&Role, &ModelConfig)> = config.models().iter().collect();
    models.sort_by_key(|(role, _)| (usual.as_ref() != Some(*role), !serves(role)));
    let found = models.into_iter().find(|(_, model)| holds(model));
    found.map(|(role, _)| role.clone())
}

fn is_of(model: &ModelConfig, provider: Provider) -> bool {
    model.provider.provider() == provider
}

/// Returns whether a gateway or the user's own server is used, which may serve models of several vendors.
fn is_gateway_or_own_server(model: &ModelConfig) -> bool {
    match model.provider.provider().kind() {
        ProviderKind::Service => !uses_provider_address(model),
        ProviderKind::OwnServer => true,
        ProviderKind::StandIn(_) => false,
    }
}

/// Returns whether a model is used at its provider's own address, whatever the path and the region.
fn uses_provider_address(model: &ModelConfig) -> bool {
    let named = Table::from_iter([("model".to_owned(), Value::from("any"))]);
    let usual = model.provider.provider().read("reasoning", &named).ok();
    let (Some(here), Some(home)) = (host(&model.provider), usual.as_ref().and_then(host)) else {
        return false;
    };
    here == home || here.ends_with(&format!(".{home}"))
}

fn host(provider: &ProviderConfig) -> Option<String> {
    let url = Url::parse(provider.base_url()?.trim()).ok()?;
    url.host_str().map(str::to_owned)
}

/// Chooses a role. If it is the only one, it need not be named.
fn of_role(config: &Config, role: Role) -> ModelChoice {
    let is_only_one = config.models().len() == 1 && usual_role(config).as_ref() == Some(&role);
    ModelChoice {
        role: (!is_only_one).then_some(role),
        settings: Vec::new(),
    }
}

fn named(config: &Config, role: Role, model: &str) -> ModelChoice {
    let setting = (format!("models.{role}.model"), model.to_owned());
    ModelChoice {
        settings: vec![setting],
        ..of_role(config, role)
    }
}

fn provider_and_model(name: &str) -> Option<(Provider, &str)> {
    let (provider, model) = name.split_once('/')?;
    let provider = Provider::named(provider)?;
    (!model.is_empty()).then_some((provider, model))
}

/// Finds out what `PROVIDER/MODEL` means. Gateways and the user's own servers also have models with such names. If no
/// role uses that provider at its own address, they receive the whole name, and no unconfigured provider is added.
fn prefixed(
    config: &Config,
    environment: &Environment,
    (provider, model): (Provider, &str),
    name: &str,
) -> Result<ModelChoice, UnknownModel> {
    let is_service = provider.kind() == ProviderKind::Service;
    let asks_it = |model: &ModelConfig| {
        is_of(model, provider) && !(is_service && is_gateway_or_own_server(model))
    };
    let gateway = role_where(config, |model| {
        is_of(model, provider) && is_gateway_or_own_server(model)
    });
    let gateway = gateway.or_else(|| role_where(config, is_gateway_or_own_server));
    match (role_where(config, asks_it), gateway) {
        (Some(_), Some(role)) if is_service && is_open(model) => Ok(named(config, role, name)),
        (Some(role), _) => Ok(named(config, role, model)),
        (None, Some(role)) => Ok(named(config, role, name)),
        (None, None) => of_provider(config, environment, provider, model),
    }
}

/// Uses a provider that has no table, with the key in its usual variable.
fn of_provider(
    config: &Config,
    environment: &Environment,
    provider: Provider,
    model: &str,
) -> Result<ModelChoice, UnknownModel> {
    let usual = discoveries().find(|(known, _)| *known == provider);
    let Some((_, usual)) = usual else {
        return Err(UnknownModel::NotConfigured(provider));
    };
    if in_variable(usual.key, environment).is_none() {
        let variable = usual.key;
        return Err(UnknownModel::NoKey { provider, variable });
    }
    let mut choice = with_key(provider, usual, model, environment);
    if !config.models().is_empty() {
        choice.role = Some(Role::REASONING);
    }
    Ok(choice)
}

/// Returns a table for the role that all others fall back to, with the key in its usual variable.
fn with_key(
    provider: Provider,
    usual: KeyDiscovery,
    model: &str,
    environment: &Environment,
) -> ModelChoice {
    let keys = [
        ("provider", provider.as_str()),
        ("model", model),
        ("api_key_env", usual.key),
    ];
    let address: Vec<_> = address_keys(provider, usual, environment).collect();
    of_reasoning(keys.into_iter().chain(address))
}

fn of_reasoning<'a>(keys: impl IntoIterator<Item = (&'a str, &'a str)>) -> ModelChoice {
    let settings = keys
        .into_iter()
        .map(|(key, value)| (format!("models.reasoning.{key}"), value.to_owned()));
    ModelChoice {
        role: None,
        settings: settings.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    fn environment() -> Environment {
        Environment::new(std::env::temp_dir())
            .with_variable("NEURAXIS_DISCOVERY__LOCAL_SERVERS", "false")
    }

    async fn choose(
        environment: &Environment,
        flags: &[(&str, &str)],
        name: &str,
    ) -> Result<ModelChoice, UnknownModel> {
        let add =
            |sources: Sources, (key, value): &(&str, &str)| sources.with_flag("t", *key, *value);
        let sources = flags.iter().fold(Sources::default(), add);
        let config = Config::load(environment, &sources).unwrap();
        choose_model(&config, environment, name).await
    }

    fn settings(choice: &ModelChoice) -> Vec<String> {
        let settings = choice.settings.iter();
        settings
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    const TWO: [(&str, &str); 5] = [
        ("models.reasoning.provider", "openai"),
        ("models.reasoning.model", "gpt-a"),
        ("models.reasoning.api_key_env", "K"),
        ("models.coding.provider", "llama"),
        ("models.coding.model", "qwen"),
    ];

    #[tokio::test]
    async fn a_role_or_its_model_name_selects_that_role_without_settings() {
        for name in ["coding", "qwen"] {
            let choice = choose(&environment(), &TWO, name).await.unwrap();
            assert_eq!(choice.role, Some(Role::CODING));
            assert!(choice.settings.is_empty(), "{choice:?}");
        }
    }

    #[tokio::test]
    async fn another_model_is_served_by_the_role_with_its_provider() {
        for (name, role, setting) in [
            ("gpt-b", Role::REASONING, "models.reasoning.model=gpt-b"),
            ("llama/phi", Role::CODING, "models.coding.model=phi"),
            ("mine", Role::REASONING, "models.reasoning.model=mine"),
        ] {
            let choice = choose(&environment(), &TWO, name).await.unwrap();
            assert_eq!(choice.role, Some(role));
            assert_eq!(settings(&choice), [setting]);
        }
    }

    #[tokio::test]
    async fn gateways_and_local_servers_receive_the_whole_model_name() {
        let keys = environment()
            .with_variable("OPENAI_API_KEY", "sk-canary")
            .with_variable("ANTHROPIC_API_KEY", "sk-canary");
        let at = |base_url| [&TWO[..3], &[("models.reasoning.base_url", base_url)]].concat();
        let gateway = at("https://openrouter.ai/api/v1");
        for (flags, name, setting) in [
            (
                &gateway[..],
                "openai/gpt-b",
                "models.reasoning.model=openai/gpt-b",
            ),
            (
                &gateway[..],
                "anthropic/claude-x",
                "models.reasoning.model=anthropic/claude-x",
            ),
            (
                &TWO[3..],
                "openai/gpt-b",
                "models.coding.model=openai/gpt-b",
            ),
            (&TWO[3..], "llama/phi", "models.coding.model=phi"),
            (
                &at("https://eu.api.openai.com/v1/")[..],
                "openai/gpt-b",
                "models.reasoning.model=gpt-b",
            ),
        ] {
            let choice = choose(&keys, flags, name).await.unwrap();
            assert_eq!(settings(&choice), [setting]);
        }
        // A service that only has its own models has none of another vendor.
        let choice = choose(&keys, &TWO[..3], "anthropic/claude-x")
            .await
            .unwrap();
        assert_eq!(settings(&choice)[0], "models.reasoning.provider=anthropic");
    }

    #[tokio::test]
    async fn an_open_weights_model_is_served_by_the_local_server_not_its_vendor() {
        for name in [
            "gpt-oss:20b",
            "gpt-oss-120b",
            "deepseek-r1:8b",
            "qwen3:8b",
            "openai/gpt-oss-20b",
        ] {
            let choice = choose(&environment(), &TWO, name).await.unwrap();
            assert_eq!(choice.role, Some(Role::CODING), "{name}");
            assert_eq!(settings(&choice), [format!("models.coding.model={name}")]);
        }
        let tuned = choose(&environment(), &TWO, "ft:gpt-b:me::id")
            .await
            .unwrap();
        assert_eq!(tuned.role, Some(Role::REASONING));
        let tagged = choose(&environment(), &TWO, "llama/qwen3:8b")
            .await
            .unwrap();
        assert_eq!(settings(&tagged), ["models.coding.model=qwen3:8b"]);
    }

    /// Returns tables `[models.ROLE]` with OpenAI's protocol, at the given addresses if any.
    fn of_openai(roles: &[(&str, Option<&str>)]) -> Vec<(String, String)> {
        let table = |(role, address): &(&str, Option<&str>)| {
            let address = address.map(|address| ("base_url", address.to_owned()));
            let keys = [
                ("provider", "openai".to_owned()),
                ("model", format!("gpt-{role}")),
            ];
            let keys = keys.into_iter().chain(address);
            let named = keys.map(|(key, value)| (format!("models.{role}.{key}"), value));
            named.collect::<Vec<_>>()
        };
        roles.iter().flat_map(table).collect()
    }

    #[tokio::test]
    async fn of_several_matching_roles_the_common_fallback_is_chosen() {
        const A: Option<&str> = Some("https://a.example/v1");
        const B: Option<&str> = Some("http://127.0.0.1:9/v1");
        for (roles, role) in [
            ([("coding", None), ("reasoning", None)], Role::REASONING),
            ([("coding", B), ("reasoning", None)], Role::REASONING),
            // A model of the provider itself is used there.
            ([("coding", None), ("reasoning", B)], Role::CODING),
            ([("coding", B), ("reasoning", A)], Role::REASONING),
            ([("archive", B), ("reasoning", A)], Role::REASONING),
            ([("archive", None), ("coding", None)], Role::CODING),
        ] {
            let flags = of_openai(&roles);
            let flags = flags.iter().map(|(key, value)| (&**key, &**value));
            let flags: Vec<(&str, &str)> = flags.collect();
            for name in ["gpt-b", "o3", "openai/gpt-b"] {
                let choice = choose(&environment(), &flags, name).await.unwrap();
                assert_eq!(choice.role.as_ref(), Some(&role), "{roles:?} {name}");
            }
        }
    }

    #[tokio::test]
    async fn the_only_configured_model_is_used_without_naming_a_role() {
        let choice = choose(&environment(), &TWO[..3], "gpt-b").await.unwrap();
        assert_eq!(choice.role, None);
        assert_eq!(settings(&choice), ["models.reasoning.model=gpt-b"]);
    }

    #[tokio::test]
    async fn without_configuration_a_usual_key_variable_is_used_or_named_as_missing() {
        let with_key = environment()
            .with_variable("ANTHROPIC_API_KEY", "sk-canary")
            .with_variable("OPENAI_API_KEY", "sk-canary")
            .with_variable("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
        let choice = choose(&with_key, &[], "claude-x").await.unwrap();
        let expected = [
            "models.reasoning.provider=anthropic",
            "models.reasoning.model=claude-x",
            "models.reasoning.api_key_env=ANTHROPIC_API_KEY",
        ];
        assert_eq!(settings(&choice), expected);
        let choice = choose(&with_key, &[], "some-model").await.unwrap();
        let last = [
            "models.reasoning.api=chat",
            "models.reasoning.base_url=http://127.0.0.1:9/v1",
        ];
        assert!(settings(&choice).ends_with(&last.map(str::to_owned)));
        let missing = choose(&with_key, &[], "deepseek/x").await.unwrap_err();
        assert!(
            missing.to_string().contains("DEEPSEEK_API_KEY"),
            "{missing}"
        );
        let nobody = choose(&environment(), &[], "x").await.unwrap_err();
        assert_eq!(nobody, UnknownModel::NoProvider("x".to_owned()));
    }
}
