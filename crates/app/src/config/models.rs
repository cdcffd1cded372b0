//! `[models.ROLE]`: which model serves a role. Each provider's adapter owns the keys of its sections, except three that
//! all sections share.

mod providers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use figment::error::Kind;
use figment::providers::Serialized;
use figment::{Error, Figment};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub(super) use providers::Providers;

use crate::providers::{Provider, ProviderConfig};

/// The keys that every section has, whatever its provider.
pub(super) const OUR_KEYS: [&str; 3] = ["provider", "api_key_env", "api_key_file"];

/// A key that no section has.
const NO_KEY: &str = "\u{0}";

/// `[models.ROLE]`: which model serves a role.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The keys of the provider.
    pub provider: ProviderConfig,
    /// The name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that contains the key. No other user may be able to read it. A relative path counts from the
    /// configuration file that sets it, or else from the working directory.
    pub api_key_file: Option<PathBuf>,
}

/// The shared keys, in a section that also has others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SharedKeys {
    provider: Option<Provider>,
    api_key_env: Option<String>,
    api_key_file: Option<PathBuf>,
}

/// A parsed value, or what is wrong with it.
pub(crate) type Checked<T> = Result<T, Box<Error>>;

/// Checks one source's section for a role, given its provider in that source. Other sources may set what is missing.
pub(super) fn check(role: &str, table: &Table, provider: Option<Provider>) -> Checked<()> {
    read::<SharedKeys>(role, table)?;
    let theirs = without_shared_keys(table);
    let checked = match provider {
        Some(provider) => provider.read(role, &theirs).map(drop),
        None => check_known_to_any(role, &theirs),
    };
    match checked {
        Err(error) if is_about_missing(&error) => Ok(()),
        checked => checked,
    }
}

/// Parses the section of a role, which must be complete.
pub(super) fn section(role: &str, table: &Table, provider: Provider) -> Checked<ModelConfig> {
    let shared: SharedKeys = read(role, table)?;
    Ok(ModelConfig {
        provider: provider.read(role, &without_shared_keys(table))?,
        api_key_env: shared.api_key_env,
        api_key_file: shared.api_key_file,
    })
}

fn without_shared_keys(table: &Table) -> Table {
    let is_ours = |key: &str| OUR_KEYS.contains(&key);
    let theirs = table.iter().filter(|(key, _)| !is_ours(key));
    theirs
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Parses the keys of a section. The paths in errors start at the root of the configuration.
pub(crate) fn read<S: DeserializeOwned>(role: &str, table: &Table) -> Checked<S> {
    #[derive(Deserialize)]
    struct Root<S> {
        models: BTreeMap<String, S>,
    }
    let section = Table::from_iter([(role.to_owned(), Value::Table(table.clone()))]);
    let root = Table::from_iter([("models".to_owned(), Value::Table(section))]);
    let mut read: Root<S> = Figment::from(Serialized::defaults(&root)).extract()?;
    // Parse again strictly: figment accepts the index of an enum variant instead of its name.
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

/// Rejects keys that no provider has, if the provider is not known yet.
fn check_known_to_any(role: &str, table: &Table) -> Checked<()> {
    let nowhere = |key: &&String| {
        let mut known = Provider::all().flat_map(|provider| {
            let probe = Table::from_iter([(NO_KEY.to_owned(), Value::Boolean(true))]);
            match provider.read(role, &probe).map_err(|error| error.kind) {
                Err(Kind::UnknownField(_, known)) => known,
                _ => &[],
            }
        });
        !known.any(|known| known == key)
    };
    match table.keys().find(nowhere) {
        None => Ok(()),
        Some(key) => {
            let unknown: Error = Kind::UnknownField(key.clone(), &[]).into();
            Err(Box::new(unknown.with_path(&format!("models.{role}.{key}"))))
        }
    }
}
