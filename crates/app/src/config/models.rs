//! `[models.ROLE]`: which model serves a role. Each provider's adapter owns the keys of its sections; three are ours.

mod providers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use figment::error::Kind;
use figment::providers::Serialized;
use figment::{Error, Figment};
use neuraxis_cassette::CassetteConfig;
use neuraxis_deepseek::DeepSeekConfig;
use neuraxis_llama::LlamaConfig;
use neuraxis_openai::OpenAiConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(super) use providers::Providers;

/// The keys that every section has, whoever the provider is.
pub(super) const OUR_KEYS: [&str; 3] = ["provider", "api_key_env", "api_key_file"];

/// A key that no section has.
const NO_KEY: &str = "\u{0}";

/// `[models.ROLE]`: which model serves a role.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The keys of the provider.
    pub provider: ProviderConfig,
    /// The name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key. Nobody else may be able to read it. A relative one counts from the configuration
    /// file that names it, or else from the working directory.
    pub api_key_file: Option<PathBuf>,
}

/// The keys of a provider's section.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderConfig {
    /// OpenAI, or a server that speaks its protocols.
    OpenAi(Box<OpenAiConfig>),
    /// DeepSeek.
    DeepSeek(Box<DeepSeekConfig>),
    /// A llama-server, or one like it.
    Llama(Box<LlamaConfig>),
    /// Rules, without a model.
    Offline,
    /// A recording.
    Cassette(Box<CassetteConfig>),
}

/// Who has a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI, or a server that speaks its protocols.
    OpenAi,
    /// DeepSeek.
    DeepSeek,
    /// A llama-server, or one like it.
    Llama,
    /// Rules, without a model.
    Offline,
    /// A recording.
    Cassette,
}

impl Provider {
    /// All there are.
    pub const ALL: [Self; 5] = [
        Self::OpenAi,
        Self::DeepSeek,
        Self::Llama,
        Self::Offline,
        Self::Cassette,
    ];

    /// Returns its name, as it stands in a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::DeepSeek => "deepseek",
            Self::Llama => "llama",
            Self::Offline => "offline",
            Self::Cassette => "cassette",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|provider| provider.as_str() == name)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ProviderConfig {
    /// Returns who it is.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        match self {
            Self::OpenAi(_) => Provider::OpenAi,
            Self::DeepSeek(_) => Provider::DeepSeek,
            Self::Llama(_) => Provider::Llama,
            Self::Offline => Provider::Offline,
            Self::Cassette(_) => Provider::Cassette,
        }
    }

    /// Returns its keys with their values, those that nobody set included.
    pub(super) fn table(&self) -> Table {
        let table = match self {
            Self::OpenAi(config) => Table::try_from(config),
            Self::DeepSeek(config) => Table::try_from(config),
            Self::Llama(config) => Table::try_from(config),
            Self::Offline => Ok(Table::new()),
            Self::Cassette(config) => Table::try_from(config),
        };
        // What was read from TOML can be written as TOML, but for numbers that it does not have.
        table.unwrap_or_default()
    }

    /// Returns the file that the section names beside that of a key: certificates, or a recording.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::OpenAi(config) => config.ca_file.as_deref(),
            Self::DeepSeek(config) => config.ca_file.as_deref(),
            Self::Llama(config) => config.ca_file.as_deref(),
            Self::Cassette(config) => Some(&config.file),
            Self::Offline => None,
        }
    }

    /// Returns the key that names a file, and the file.
    pub(super) fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        match self {
            Self::OpenAi(config) => ca_file(&mut config.ca_file),
            Self::DeepSeek(config) => ca_file(&mut config.ca_file),
            Self::Llama(config) => ca_file(&mut config.ca_file),
            Self::Cassette(config) => Some(("file", &mut config.file)),
            Self::Offline => None,
        }
    }
}

fn ca_file(file: &mut Option<PathBuf>) -> Option<(&'static str, &mut PathBuf)> {
    file.as_mut().map(|file| ("ca_file", file))
}

/// The keys that are ours, in a section that has others too.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ours {
    provider: Option<Provider>,
    api_key_env: Option<String>,
    api_key_file: Option<PathBuf>,
}

/// The section of rules: they have no keys.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfflineConfig {}

/// What was read, or what is wrong with it.
type Checked<T> = Result<T, Box<Error>>;

/// Checks what one source says about a role, given the provider the role has there. What is missing may stand elsewhere.
pub(super) fn check(role: &str, table: &Table, provider: Option<Provider>) -> Checked<()> {
    read::<Ours>(role, table)?;
    let theirs = without_ours(table);
    let checked = match provider {
        Some(provider) => of_provider(role, &theirs, provider).map(drop),
        None => known_to_any(role, &theirs),
    };
    match checked {
        Err(error) if is_about_missing(&error) => Ok(()),
        checked => checked,
    }
}

/// Reads the section of a role, with nothing missing.
pub(super) fn section(role: &str, table: &Table, provider: Provider) -> Checked<ModelConfig> {
    let ours: Ours = read(role, table)?;
    Ok(ModelConfig {
        provider: of_provider(role, &without_ours(table), provider)?,
        api_key_env: ours.api_key_env,
        api_key_file: ours.api_key_file,
    })
}

fn without_ours(table: &Table) -> Table {
    let is_ours = |key: &str| OUR_KEYS.contains(&key);
    let theirs = table.iter().filter(|(key, _)| !is_ours(key));
    theirs
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn of_provider(role: &str, table: &Table, provider: Provider) -> Checked<ProviderConfig> {
    Ok(match provider {
        Provider::OpenAi => ProviderConfig::OpenAi(read(role, table)?),
        Provider::DeepSeek => ProviderConfig::DeepSeek(read(role, table)?),
        Provider::Llama => ProviderConfig::Llama(read(role, table)?),
        Provider::Offline => {
            read::<OfflineConfig>(role, table)?;
            ProviderConfig::Offline
        }
        Provider::Cassette => ProviderConfig::Cassette(read(role, table)?),
    })
}

/// Reads the keys of a section. The paths in errors begin at the root of the configuration.
fn read<S: DeserializeOwned>(role: &str, table: &Table) -> Checked<S> {
    #[derive(Deserialize)]
    struct Root<S> {
        models: BTreeMap<String, S>,
    }
    let section = Table::from_iter([(role.to_owned(), Value::Table(table.clone()))]);
    let root = Table::from_iter([("models".to_owned(), Value::Table(section))]);
    let mut read: Root<S> = Figment::from(Serialized::defaults(&root)).extract()?;
    // A second opinion: figment takes the number of a choice for the choice itself.
    let strict: Result<S, _> = serde_path_to_error::deserialize(Value::Table(table.clone()));
    if let Err(error) = strict {
        let path = format!("models.{role}.{}", error.path());
        let message = error.into_inner().message().to_owned();
        return Err(Box::new(Error::from(message).with_path(&path)));
    }
    let section = read.models.remove(role);
    section.ok_or_else(|| Box::new(Kind::MissingField("models".into()).into()))
}

fn is_about_missing(error: &Error) -> bool {
    match &error.kind {
        Kind::MissingField(_) => true,
        Kind::Message(message) => message.starts_with("missing field"),
        _ => false,
    }
}

/// Refuses keys that no provider has, where it is not yet known who it is.
fn known_to_any(role: &str, table: &Table) -> Checked<()> {
    let nowhere = |key: &&String| {
        let providers = Provider::ALL.into_iter();
        let known = providers.flat_map(|provider| {
            let probe = Table::from_iter([(NO_KEY.to_owned(), Value::Boolean(true))]);
            match of_provider(role, &probe, provider).map_err(|error| error.kind) {
                Err(Kind::UnknownField(_, known)) => known,
                _ => &[],
            }
        });
        !known.into_iter().any(|known| known == key)
    };
    match table.keys().find(nowhere) {
        None => Ok(()),
        Some(key) => {
            let unknown: Error = Kind::UnknownField(key.clone(), &[]).into();
            Err(Box::new(unknown.with_path(&format!("models.{role}.{key}"))))
        }
    }
}
