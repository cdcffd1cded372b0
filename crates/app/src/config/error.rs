//! What can be wrong with a configuration. Messages name the location and the key, and never repeat a potential secret.

use std::io;
use std::path::PathBuf;

use figment::error::{Actual, Kind};
use neuraxis_brainstem::PolicyError;

use super::models::OUR_KEYS;
use super::origin::Origin;
use super::secret::may_be_key;
use crate::names::{Choices, shown};
use crate::providers::Provider;

/// The sections whose values may be shown because they contain no secrets.
const OPEN_SECTIONS: [&str; 9] = POLICY_SECTIONS;

/// The sections that form the policy, in display order.
pub(super) const POLICY_SECTIONS: [&str; 9] = [
    "modes", "channels", "agents", "plans", "rules", "trust", "taint", "health", "prices",
];

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// A file is too large to be a configuration.
    #[error("the configuration file {} has more than {most} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The maximum size in bytes.
        most: u64,
    },
    /// The file of the working directory was trusted, and cannot be read since it was changed. It is not ignored, since
    /// what it restricted would no longer apply.
    #[error(
        "./{} was changed since it was trusted and cannot be read, so its restrictions cannot apply: {fault}",
        path.display()
    )]
    BrokenSinceTrusted {
        /// The file, relative to the working directory.
        path: PathBuf,
        /// Why it cannot be read, with line and column.
        fault: String,
    },
    /// The value of a variable is not Unicode.
    #[error("{name}: the value of the variable is not Unicode")]
    NotUnicode {
        /// The variable.
        name: String,
    },
    /// A variable sets no key, but would set one with two underscores instead of one.
    #[error(
        "{name}: unknown key; did you mean {meant}? Two underscores separate the names of nested keys"
    )]
    NoSeparator {
        /// The variable.
        name: String,
        /// The variable that was most likely meant.
        meant: String,
    },
    /// A key or value is wrong.
    #[error("{at:#}: {fault}")]
    Key {
        /// The file with line and column, or the variable or flag.
        at: Origin,
        /// What is wrong with the key or its value.
        fault: Box<Fault>,
    },
    /// A key would be sent to an address that a less trusted source names.
    #[error(
        "{at:#}: {address} is set by the file in the working directory and would receive the key that {key} names \
         ({key_at}); name the key in that file too, or set the address in your own configuration"
    )]
    KeyElsewhere {
        /// Where the address is set.
        at: Origin,
        /// The dotted path of the address.
        address: String,
        /// The dotted path of the setting that names the key.
        key: String,
        /// The origin of that key.
        key_at: Box<Origin>,
    },
    /// Variables would be passed to a program that a more trusted source names, or passes something to.
    #[error(
        "{at:#}: {variables} is set by the file in the working directory, and variables can make a program do \
         anything, but {key} is set elsewhere ({key_at}); set both in that file, or both in your own configuration"
    )]
    VariablesElsewhere {
        /// Where the variables are set.
        at: Origin,
        /// The dotted path of the variables.
        variables: String,
        /// The dotted path of the setting that names the program, or something that is passed to it.
        key: String,
        /// The origin of that key.
        key_at: Box<Origin>,
    },
    /// The file that `price_list.file` names cannot be read.
    #[error("cannot read the price list {} that price_list.file names", path.display())]
    PriceListUnread {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// The file that `price_list.file` names is not a price list.
    #[error("cannot use the price list {}", path.display())]
    PriceList {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the location.
        #[source]
        source: Box<PolicyError>,
    },
    /// The values are well-formed, but not a valid policy.
    #[error("{at:#}: wrong policy")]
    Policy {
        /// The origin of the invalid key.
        at: Origin,
        /// The complaint of governance, which names the key.
        #[source]
        source: Box<PolicyError>,
    },
}

/// What is wrong with a key or value. Strings from the configuration are truncated and escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The text is not TOML, or a value is invalid in a way that only the TOML parser can describe.
    #[error("{0}")]
    NotToml(String),
    /// The name of a variable or flag does not refer to a key.
    #[error("\"{0}\" is not a valid key, such as models.reasoning.provider")]
    NoKey(String),
    /// No such key exists.
    #[error("unknown key \"{given}\"{}{}", within(table), Choices { given, known })]
    UnknownKey {
        /// The key.
        given: String,
        /// The table that contains it; empty for the file itself.
        table: String,
        /// The existing keys.
        known: Vec<&'static str>,
    },
    /// A provider's key where only the location of the key is allowed.
    #[error(
        "the configuration must not contain a key: name the variable that holds it in api_key_env, or its file in \
         api_key_file"
    )]
    SecretKey,
    /// A value has the wrong type.
    #[error("{key}: expected {expected}, found {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The expected type.
        expected: String,
        /// The kind of value that was given; the value itself if it cannot be a secret.
        found: String,
    },
    /// A value is not one of the possible values.
    #[error("{key}: unknown value \"{given}\"{}", Choices { given, known })]
    UnknownValue {
        /// The key.
        key: String,
        /// The value.
        given: String,
        /// The possible values.
        known: &'static [&'static str],
    },
    /// A table lacks a key.
    #[error("{table}: the key \"{missing}\" is missing")]
    MissingKey {
        /// The table.
        table: String,
        /// The key that is missing.
        missing: String,
    },
    /// A model has no provider.
    #[error("the key \"provider\" is missing in [models.{role}]; known: {}", Provider::names().join(", "))]
    NoProvider {
        /// The role.
        role: String,
    },
    /// A value is invalid in another way.
    #[error("{key}: {message}")]
    Invalid {
        /// The key.
        key: String,
        /// The error message of the type that rejected it.
        message: String,
    },
}

impl Fault {
    /// Returns whether no such key exists.
    pub(super) const fn is_unknown_key(&self) -> bool {
        matches!(self, Self::UnknownKey { .. })
    }

    /// Returns whether the key takes a string or a number, and the given one is invalid.
    pub(super) fn is_about_value(&self) -> bool {
        match self {
            Self::WrongType { expected, .. } => expected != "a table",
            Self::UnknownValue { .. } | Self::Invalid { .. } => true,
            _ => false,
        }
    }

    pub(super) fn of(error: &figment::Error) -> Self {
        let key = shown_path(&error.path);
        match &error.kind {
            Kind::UnknownField(given, known) => unknown_key(given, known, &error.path),
            Kind::InvalidType(found, expected) => Self::WrongType {
                key,
                expected: plainly(expected),
                found: kind(found).to_owned(),
            },
            Kind::InvalidValue(found, expected) => Self::WrongType {
                key,
                expected: plainly(expected),
                found: value(found, &error.path),
            },
            Kind::UnknownVariant(given, known) => Self::UnknownValue {
                key,
                given: shown(given),
                known,
            },
            Kind::MissingField(missing) => Self::MissingKey {
                table: key,
                missing: missing.to_string(),
            },
            other => Self::Invalid {
                key,
                message: other.to_string(),
            },
        }
    }
}

fn unknown_key(given: &str, known: &'static [&'static str], path: &[String]) -> Fault {
    let [above @ .., _] = path else {
        return unknown(given, String::new(), known.to_vec());
    };
    let in_models = above.first().is_some_and(|section| section == "models");
    let has_key = in_models || above.first().is_some_and(|section| section == "web");
    let is_of_key = ["api_key", "apikey", "key", "token"].contains(&given);
    if has_key && (is_of_key || may_be_key(given)) {
        return Fault::SecretKey;
    }
    let mut all = Vec::new();
    if in_models && above.len() == 2 {
        all.extend(OUR_KEYS);
    }
    all.extend(known);
    unknown(given, shown_path(above), all)
}

fn unknown(given: &str, table: String, known: Vec<&'static str>) -> Fault {
    Fault::UnknownKey {
        given: shown(given),
        table,
        known,
    }
}

fn shown_path(path: &[String]) -> String {
    let names: Vec<String> = path.iter().map(|name| shown(name)).collect();
    names.join(".")
}

fn within(table: &str) -> String {
    if table.is_empty() {
        String::new()
    } else {
        format!(" in [{table}]")
    }
}

/// Describes in plain words what serde expects.
fn plainly(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "a nonzero u32" | "a nonzero usize" => "a whole number, 1 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "str" | "path string" => "a string",
        "a map" | "newtype variant" => "a table",
        "a sequence" => "a list",
        other if other.starts_with("struct ") => "a table",
        other if other.starts_with("enum ") => "a word in quotes",
        other => other,
    }
    .to_owned()
}

const fn kind(found: &Actual) -> &'static str {
    match found {
        Actual::Bool(_) => "a boolean",
        Actual::Unsigned(_) | Actual::Signed(_) => "a whole number",
        Actual::Float(_) => "a number",
        Actual::Char(_) | Actual::Str(_) | Actual::UnitVariant => "a string",
        Actual::Seq => "a list",
        Actual::Map => "a table",
        _ => "something else",
    }
}

/// Describes the value that was found, if it cannot be a secret.
fn value(found: &Actual, path: &[String]) -> String {
    let open = path
        .first()
        .is_some_and(|section| OPEN_SECTIONS.contains(&section.as_str()));
    match found {
        Actual::Unsigned(0) | Actual::Signed(0) => "0".to_owned(),
        Actual::Str(text) if open => format!("\"{}\"", shown(text)),
        Actual::Unsigned(number) if open => number.to_string(),
        Actual::Signed(number) if open => number.to_string(),
        Actual::Float(number) if open => number.to_string(),
        other => kind(other).to_owned(),
    }
}
