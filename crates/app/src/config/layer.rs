//! One source of configuration: what it sets, checked strictly on its own, and where each key stands in it.

use std::path::PathBuf;

use figment::providers::Serialized;
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Deserialize;
use toml::de::{DeTable, ValueDeserializer};
use toml::{Table, Value};

use super::error::{ConfigError, Fault};
use super::origin::Origin;
use super::place::{Place, Places, place_of};
use super::sections::Sections;
use crate::names::shown;

/// How deep the key of a variable or a flag may lie. No key lies that deep.
const MAX_DEPTH: usize = 16;

/// One source of configuration.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// The source as a whole: of a file, its beginning.
    source: Origin,
    table: Table,
    places: Places,
}

impl Layer {
    /// Reads a file's text.
    pub(super) fn of_file(path: PathBuf, text: &str) -> Result<Self, ConfigError> {
        let source = Origin::File {
            path,
            line: 1,
            column: 1,
        };
        let not_toml = |error: &toml::de::Error| ConfigError::Key {
            at: at(&source, Some(place_of(text, error.span()))),
            fault: Box::new(Fault::NotToml(error.message().to_owned())),
        };
        let spanned = DeTable::parse(text).map_err(|error| not_toml(&error))?;
        let layer = Self {
            places: Places::of(text, spanned.get_ref()),
            table: toml::from_str(text).map_err(|error| not_toml(&error))?,
            source: source.clone(),
        };
        layer.check()?;
        // A second opinion: figment takes the number of a choice for the choice itself.
        let strict = toml::from_str::<Sections>(text);
        strict.map_err(|error| not_toml(&error))?;
        Ok(layer)
    }

    /// Reads the value of a variable or a flag: as text where a text fits the key, otherwise as TOML.
    pub(super) fn of_text(source: &Origin, key: &str, text: &str) -> Result<Self, ConfigError> {
        let names: Vec<&str> = key.split('.').collect();
        if names.len() > MAX_DEPTH || names.contains(&"") {
            return Err(ConfigError::Key {
                at: source.clone(),
                fault: Box::new(Fault::NoKey(shown(key))),
            });
        }
        let layer = |value: Value| Self {
            source: source.clone(),
            table: nested(&names, value),
            places: Places::default(),
        };
        let as_text = layer(Value::String(text.to_owned()));
        let Err(no_text) = as_text.check_strictly() else {
            return Ok(as_text);
        };
        let value = ValueDeserializer::parse(text).and_then(Value::deserialize);
        match value {
            Ok(value) if !value.is_str() => {
                let as_toml = layer(value);
                as_toml.check_strictly().map(|()| as_toml)
            }
            _ => Err(no_text),
        }
    }

    /// Tells whether this layer sets a key, or something below it.
    pub(super) fn sets(&self, key: &str) -> bool {
        let mut names = key.split('.');
        let first = names.next().and_then(|name| self.table.get(name));
        names
            .try_fold(first, |value, name| Some(value?.as_table()?.get(name)))
            .flatten()
            .is_some()
    }

    /// Returns where a key stands in this layer.
    pub(super) fn origin(&self, key: &str) -> Origin {
        at(&self.source, self.places.key(key))
    }

    /// Says what is wrong with this layer.
    pub(super) fn blame(&self, error: &figment::Error) -> ConfigError {
        let path = error.path.join(".");
        let fault = Fault::of(error);
        let place = match fault {
            Fault::UnknownKey { .. } | Fault::SecretKey => self.places.key(&path),
            _ => self.places.value(&path),
        };
        ConfigError::Key {
            at: at(&self.source, place),
            fault: Box::new(fault),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let checked = Figment::from(self).extract::<Sections>();
        checked.map(drop).map_err(|error| self.blame(&error))
    }

    /// Checks a layer that has no text of its own; with the second opinion that files get from their text.
    fn check_strictly(&self) -> Result<(), ConfigError> {
        self.check()?;
        let strict = Sections::deserialize(self.table.clone());
        strict.map(drop).map_err(|error| ConfigError::Key {
            at: self.source.clone(),
            fault: Box::new(Fault::NotToml(error.message().to_owned())),
        })
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

fn at(source: &Origin, place: Option<Place>) -> Origin {
    match (source, place) {
        (Origin::File { path, .. }, Some(Place { line, column })) => Origin::File {
            path: path.clone(),
            line,
            column,
        },
        _ => source.clone(),
    }
}

/// Puts a value into tables by the given names, the outermost first.
fn nested(names: &[&str], value: Value) -> Table {
    let mut names = names.iter().rev();
    let innermost = names.next().copied().unwrap_or_default();
    let table = Table::from_iter([(innermost.to_owned(), value)]);
    names.fold(table, |table, name| {
        Table::from_iter([((*name).to_owned(), Value::Table(table))])
    })
}
