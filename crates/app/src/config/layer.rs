//! One source of configuration: what it sets, checked strictly on its own, and the position of each key.

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

/// The maximum depth of the key of a variable or a flag. No key is nested that deeply.
const MAX_DEPTH: usize = 16;

/// How the parser's messages about a backslash in a string begin.
const BACKSLASHES: [&str; 2] = ["missing escaped value", "too few unicode value digits"];

/// A variable or a flag that has not been parsed yet.
#[derive(Debug)]
pub(super) struct TextSource {
    pub(super) source: Origin,
    pub(super) rank: usize,
    pub(super) key: String,
    pub(super) text: String,
}

impl TextSource {
    /// Returns what it may say about a provider, before its other keys can be known.
    pub(super) fn ranked_table(&self) -> (usize, Table) {
        let table = names(&self.key).map(|names| {
            let value = ValueDeserializer::parse(&self.text).and_then(Value::deserialize);
            // Also accepted in quotes, which no provider name contains.
            let parsed = value.ok().filter(|it| it.is_table() || it.is_str());
            nested(
                &names,
                parsed.unwrap_or_else(|| Value::String(self.text.clone())),
            )
        });
        (self.rank, table.unwrap_or_default())
    }
}

/// One source of configuration.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// The source as a whole; for a file, its beginning.
    source: Origin,
    /// Its precedence. All variables have the same rank, and so do all flags.
    rank: usize,
    table: Table,
    positions: Positions,
    trust: LayerTrust,
}

/// How far a source is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayerTrust {
    /// The user wrote or named it.
    Own,
    /// It was found in the working directory. The user trusted it, or it contains nothing that requires trust.
    Found,
    /// It was found in the working directory and is untrusted: it may only tighten the policy, and contains nothing
    /// else.
    Tightens,
}

impl Layer {
    /// Reads a file's text. Its models are [checked](Self::check_models) when all providers are known.
    pub(super) fn of_file(path: PathBuf, rank: usize, text: &str) -> Result<Self, ConfigError> {
        let layer = Self::unchecked(path, rank, text)?;
        layer.sections()?;
        // Parse again strictly: figment accepts the index of an enum variant instead of its name.
        let strict = toml::from_str::<Sections>(text);
        strict.map_err(|error| not_toml(&layer.source, text, &error))?;
        Ok(layer)
    }

    /// Reads a file's text without checking the meaning of its keys.
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
            trust: LayerTrust::Own,
        })
    }

    /// Reads the value of a variable or a flag: as a string if the key accepts one (without its quotes if it is a TOML
    /// string), otherwise as TOML.
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
                trust: LayerTrust::Own,
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
            // The key accepts a string, so the error about the string is more useful.
            Err(no_toml) if is_of_type(&no_toml) && !is_of_type(&no_text) => Err(no_text),
            Err(no_toml) => Err(no_toml),
        }
    }

    /// Checks this layer's model sections.
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

    /// Removes this layer's model settings for roles whose provider a stronger source has changed.
    pub(super) fn drop_superseded(&mut self, providers: &Providers) {
        let models = self.table.get_mut("models").and_then(Value::as_table_mut);
        if let Some(models) = models {
            models.retain(|role, _| self.rank >= providers.begin(role));
        }
    }

    /// Marks this file as found in the working directory instead of named by the user.
    pub(super) const fn found(mut self) -> Self {
        self.trust = LayerTrust::Found;
        self
    }

    /// Returns whether it comes from a file that was found in the working directory.
    pub(super) fn is_found(&self) -> bool {
        self.trust != LayerTrust::Own
    }

    /// Returns whether it may tighten the policy and do nothing else.
    pub(super) fn only_tightens(&self) -> bool {
        self.trust == LayerTrust::Tightens
    }

    /// Creates a layer of the same source that only tightens.
    pub(super) fn tightening(&self, table: Table) -> Self {
        Self {
            trust: LayerTrust::Tightens,
            ..self.of_same_file(table)
        }
    }

    /// Creates a layer of the same source with other content.
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

    /// Returns its rank, and what it sets.
    pub(super) const fn ranked_table(&self) -> (usize, &Table) {
        (self.rank, &self.table)
    }

    /// Returns whether this layer sets a key, or something below it.
    pub(super) fn sets(&self, key: &str) -> bool {
        let names = key::names(key);
        let mut names = names.iter();
        let first = names.next().and_then(|name| self.table.get(name));
        names
            .try_fold(first, |value, name| Some(value?.as_table()?.get(name)))
            .flatten()
            .is_some()
    }

    /// Returns where a key is set in this layer.
    pub(super) fn origin(&self, key: &str) -> Origin {
        at(&self.source, self.positions.key(&key::names(key)))
    }

    /// Converts an error in this layer.
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

    /// Parses this layer on its own.
    pub(super) fn sections(&self) -> Result<Sections, ConfigError> {
        let sections = Figment::from(self).extract();
        sections.map_err(|error| self.blame(&error))
    }

    /// Checks a layer from its parsed content, except its model settings. Also applies the strict parsing that files
    /// get from their text.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.sections()?;
        let strict = Sections::deserialize(self.table.clone());
        strict.map(drop).map_err(|error| ConfigError::Key {
            at: self.source.clone(),
            fault: Box::new(Fault::NotToml(error.message().to_owned())),
        })
    }

    /// Checks a layer that was not parsed from the text of a file.
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
    let mut message = error.message().to_owned();
    // As in "C:\Users": the parser's message does not say that the path is the cause.
    if BACKSLASHES.iter().any(|wrong| message.starts_with(wrong)) {
        message.push_str(r"; to write a backslash, use single quotes ('C:\Users')");
    }
    ConfigError::Key {
        at: at(source, Some(position_of(text, error.span()))),
        fault: Box::new(Fault::NotToml(message)),
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

/// Renames a key that earlier versions called differently to its current name, so that it is one key in all sources. A
/// source that uses both names is rejected when it is read.
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

/// Returns whether a value is rejected because of its type.
fn is_of_type(error: &ConfigError) -> bool {
    match error {
        ConfigError::Key { fault, .. } => matches!(**fault, Fault::WrongType { .. }),
        _ => false,
    }
}

/// Returns the names on the path of a key; `None` if no such key can exist.
fn names(key: &str) -> Option<Vec<String>> {
    key::parts(key).filter(|names| names.len() <= MAX_DEPTH)
}

/// Nests a value into tables with the given names, the outermost first.
fn nested(names: &[String], value: Value) -> Table {
    let mut names = names.iter().rev();
    let innermost = names.next().cloned().unwrap_or_default();
    let table = Table::from_iter([(innermost, value)]);
    names.fold(table, |table, name| {
        Table::from_iter([(name.clone(), Value::Table(table))])
    })
}
