//! One source of configuration: what it sets, checked strictly on its own, and where each key stands in it.

use std::path::PathBuf;

use figment::providers::Serialized;
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Deserialize;
use toml::de::{DeTable, ValueDeserializer};
use toml::{Table, Value};

use super::error::{ConfigError, Fault};
use super::key;
use super::models::{self, Providers};
use super::origin::Origin;
use super::position::{Position, Positions, position_of};
use super::sections::Sections;
use crate::names::shown;

/// How deep the key of a variable or a flag may lie. No key lies that deep.
const MAX_DEPTH: usize = 16;

/// A variable or a flag, not yet read.
#[derive(Debug)]
pub(super) struct TextSource {
    pub(super) source: Origin,
    pub(super) rank: usize,
    pub(super) key: String,
    pub(super) text: String,
}

impl TextSource {
    /// Returns what it may say about a provider, before it is known what else it can say.
    pub(super) fn said(&self) -> (usize, Table) {
        let table = names(&self.key).map(|names| {
            let value = ValueDeserializer::parse(&self.text).and_then(Value::deserialize);
            // In quotes, too, which no provider has in its name.
            let said = value.ok().filter(|it| it.is_table() || it.is_str());
            nested(
                &names,
                said.unwrap_or_else(|| Value::String(self.text.clone())),
            )
        });
        (self.rank, table.unwrap_or_default())
    }
}

/// One source of configuration.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// The source as a whole: of a file, its beginning.
    source: Origin,
    /// How strong it is: all variables are as strong as each other, and all flags.
    rank: usize,
    table: Table,
    positions: Positions,
    standing: Standing,
}

/// How far a source is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The user wrote or named it.
    Own,
    /// It was found in the working directory. The user trusted it, or it holds nothing that has to be trusted.
    Found,
    /// It was found in the working directory, and nobody trusted it: it may only tighten the policy, and holds nothing
    /// else.
    Tightens,
}

impl Layer {
    /// Reads a file's text. What it says about models is [checked](Self::check_models) when all providers are known.
    pub(super) fn of_file(path: PathBuf, rank: usize, text: &str) -> Result<Self, ConfigError> {
        let layer = Self::unchecked(path, rank, text)?;
        layer.sections()?;
        // A second opinion: figment takes the number of a choice for the choice itself.
        let strict = toml::from_str::<Sections>(text);
        strict.map_err(|error| not_toml(&layer.source, text, &error))?;
        Ok(layer)
    }

    /// Reads a file's text without a look at what its keys mean.
    pub(super) fn unchecked(path: PathBuf, rank: usize, text: &str) -> Result<Self, ConfigError> {
        let source = Origin::File {
            path,
            line: 1,
            column: 1,
        };
        let wrong = |error| not_toml(&source, text, &error);
        let spanned = DeTable::parse(text).map_err(wrong)?;
        let mut positions = Positions::of(text, spanned.get_ref());
        let mut table: Table = toml::from_str(text).map_err(wrong)?;
        rename_earlier(&mut table, &mut positions);
        Ok(Self {
            positions,
            table,
            rank,
            source: source.clone(),
            standing: Standing::Own,
        })
    }

    /// Reads the value of a variable or a flag: as text where a text fits the key, without the quotes around it if it is one of
    /// TOML, otherwise as TOML.
    pub(super) fn of_text(text: &TextSource, providers: &Providers) -> Result<Self, ConfigError> {
        let TextSource {
            source,
            rank,
            key,
            text,
        } = text;
        let names = names(key).ok_or_else(|| ConfigError::Key {
            at: source.clone(),
            fault: Box::new(Fault::NoKey(shown(key))),
        })?;
        let layer = |value: Value| {
            let (mut table, mut positions) = (nested(&names, value), Positions::default());
            rename_earlier(&mut table, &mut positions);
            Self {
                source: source.clone(),
                rank: *rank,
                table,
                positions,
                standing: Standing::Own,
            }
        };
        let value = ValueDeserializer::parse(text).and_then(Value::deserialize);
        let value = value.ok();
        let in_quotes = value.clone().filter(Value::is_str);
        let as_text = layer(in_quotes.unwrap_or_else(|| Value::String(text.to_owned())));
        let Err(no_text) = as_text.check_all(providers) else {
            return Ok(as_text);
        };
        let Some(value) = value else {
            return Err(no_text);
        };
        let as_toml = layer(value);
        match as_toml.check_all(providers) {
            Ok(()) => Ok(as_toml),
            // The key takes a text: what is wrong with this one is of more use.
            Err(no_toml) if is_of_type(&no_toml) && !is_of_type(&no_text) => Err(no_text),
            Err(no_toml) => Err(no_toml),
        }
    }

    /// Checks what this layer says about models.
    pub(super) fn check_models(&self, providers: &Providers) -> Result<(), ConfigError> {
        let models = self.table.get("models").and_then(Value::as_table);
        for (role, section) in models.into_iter().flatten() {
            let Value::Table(section) = section else {
                continue;
            };
            let provider = providers.at(role, self.rank);
            let checked = models::check(role, section, provider);
            checked.map_err(|error| self.blame(&error))?;
        }
        Ok(())
    }

    /// Forgets what this layer says about models that have another provider by now.
    pub(super) fn drop_superseded(&mut self, providers: &Providers) {
        let models = self.table.get_mut("models").and_then(Value::as_table_mut);
        if let Some(models) = models {
            models.retain(|role, _| self.rank >= providers.begin(role));
        }
    }

    /// Says that this file was found in the working directory, and not named by the user.
    pub(super) const fn found(mut self) -> Self {
        self.standing = Standing::Found;
        self
    }

    /// Tells whether it is from a file that was found in the working directory.
    pub(super) fn is_found(&self) -> bool {
        self.standing != Standing::Own
    }

    /// Tells whether it may tighten the policy and do nothing else.
    pub(super) fn only_tightens(&self) -> bool {
        self.standing == Standing::Tightens
    }

    /// Makes a layer of the same source that only tightens.
    pub(super) fn tightening(&self, table: Table) -> Self {
        Self {
            standing: Standing::Tightens,
            ..self.of_same_file(table)
        }
    }

    /// Makes a layer of the same source with another content.
    pub(super) fn of_same_file(&self, table: Table) -> Self {
        Self {
            table,
            ..self.clone()
        }
    }

    pub(super) fn take_section(&mut self, name: &str) -> Option<(String, Value)> {
        self.table.remove_entry(name)
    }

    pub(super) fn change_table<T>(&mut self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(&mut self.table)
    }

    /// Returns how strong it is, and what it sets.
    pub(super) const fn said(&self) -> (usize, &Table) {
        (self.rank, &self.table)
    }

    /// Tells whether this layer sets a key, or something below it.
    pub(super) fn sets(&self, key: &str) -> bool {
        let names = key::names(key);
        let mut names = names.iter();
        let first = names.next().and_then(|name| self.table.get(name));
        names
            .try_fold(first, |value, name| Some(value?.as_table()?.get(name)))
            .flatten()
            .is_some()
    }

    /// Returns where a key stands in this layer.
    pub(super) fn origin(&self, key: &str) -> Origin {
        at(&self.source, self.positions.key(&key::names(key)))
    }

    /// Says what is wrong with this layer.
    pub(super) fn blame(&self, error: &figment::Error) -> ConfigError {
        let names = &error.path;
        let fault = Fault::of(error);
        let position = match fault {
            Fault::UnknownKey { .. } | Fault::SecretKey => self.positions.key(names),
            _ => self.positions.value(names),
        };
        ConfigError::Key {
            at: at(&self.source, position),
            fault: Box::new(fault),
        }
    }

    /// Reads this layer alone.
    pub(super) fn sections(&self) -> Result<Sections, ConfigError> {
        let sections = Figment::from(self).extract();
        sections.map_err(|error| self.blame(&error))
    }

    /// Checks a layer without its text, but for what it says about models; with the second opinion that files get from
    /// their text.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.sections()?;
        let strict = Sections::deserialize(self.table.clone());
        strict.map(drop).map_err(|error| ConfigError::Key {
            at: self.source.clone(),
            fault: Box::new(Fault::NotToml(error.message().to_owned())),
        })
    }

    /// Checks a layer that has no text of its own.
    fn check_all(&self, providers: &Providers) -> Result<(), ConfigError> {
        self.check()?;
        self.check_models(providers)
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.to_string())
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Serialized::defaults(&self.table).data()
    }
}

fn not_toml(source: &Origin, text: &str, error: &toml::de::Error) -> ConfigError {
    ConfigError::Key {
        at: at(source, Some(position_of(text, error.span()))),
        fault: Box::new(Fault::NotToml(error.message().to_owned())),
    }
}

fn at(source: &Origin, position: Option<Position>) -> Origin {
    match (source, position) {
        (Origin::File { path, .. }, Some(Position { line, column })) => Origin::File {
            path: path.clone(),
            line,
            column,
        },
        _ => source.clone(),
    }
}

/// Gives a key that earlier versions called otherwise the name that it has now, so that it is one key in all sources. Where a source
/// says both, it is refused for that when it is read.
fn rename_earlier(table: &mut Table, positions: &mut Positions) {
    let channels = table.get_mut("channels").and_then(Value::as_table_mut);
    for (name, channel) in channels.into_iter().flatten() {
        let Value::Table(channel) = channel else {
            continue;
        };
        if channel.contains_key("agent") {
            continue;
        }
        if let Some(agent) = channel.remove("profile") {
            channel.insert("agent".to_owned(), agent);
            let path = |key: &str| ["channels", name.as_str(), key].map(str::to_owned);
            positions.rename(&path("profile"), &path("agent"));
        }
    }
}

/// Tells whether a value is refused for its type, whatever it says.
fn is_of_type(error: &ConfigError) -> bool {
    match error {
        ConfigError::Key { fault, .. } => matches!(**fault, Fault::WrongType { .. }),
        _ => false,
    }
}

/// Returns the names on the path of a key, unless no key lies there.
fn names(key: &str) -> Option<Vec<String>> {
    key::parts(key).filter(|names| names.len() <= MAX_DEPTH)
}

/// Puts a value into tables by the given names, the outermost first.
fn nested(names: &[String], value: Value) -> Table {
    let mut names = names.iter().rev();
    let innermost = names.next().cloned().unwrap_or_default();
    let table = Table::from_iter([(innermost, value)]);
    names.fold(table, |table, name| {
        Table::from_iter([(name.clone(), Value::Table(table))])
    })
}
