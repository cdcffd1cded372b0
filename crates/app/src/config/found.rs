//! The `neuraxis.toml` in the working directory. It may have come with a third-party project, so it is opened with
//! care, and few of its settings apply until the user trusts exactly this content.

use std::error::Error;
use std::io;
use std::path::{Component, Path, PathBuf};

use neuraxis_core::{ContentHash, escaped, utf8_text};
use toml::Table;

use super::change::Change;
use super::error::ConfigError;
use super::prices;
use super::read::{FILE_NAME, MAX_FILE_BYTES};
use crate::environment::Environment;
use crate::private_file::{Links, read_regular};
use crate::trust::Trust;

/// Why a price list is only read from the folder of the file that names it.
const LIST_ELSEWHERE: &str = "the file in the working directory can only name a list in its own folder: copy the list \
                              there, or name it in your own configuration";

/// The maximum number of keys that a notice names.
const MAX_NAMED: usize = 6;

/// The maximum number of characters of a fault in a notice.
const MAX_FAULT_CHARS: usize = 300;

/// The `neuraxis.toml` that was found in the working directory, and how much of it applies.
#[derive(Debug, Clone)]
pub struct FoundFile {
    path: PathBuf,
    folder: PathBuf,
    content: Option<ContentHash>,
    trust: Trust,
    changes: Vec<Change>,
    fault: Option<String>,
    /// Why the user's list of trusted files cannot be read, if so.
    trust_list_fault: Option<String>,
    /// The price list that it names, as it was when the file was read, or why it could not be read.
    prices: Option<Result<String, (io::ErrorKind, String)>>,
    price_list_fault: Option<String>,
}

impl FoundFile {
    /// Returns the file, relative to the working directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the real path of the folder that contains it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the SHA-256 of what was read, or a hash of that and of [the price list](Self::covers_prices) that it
    /// names; `None` if it could not be read.
    #[must_use]
    pub const fn content(&self) -> Option<ContentHash> {
        self.content
    }

    /// Returns whether the [content](Self::content) covers the price list that `price_list.file` names. That list may
    /// also have come with the project, and determines how budgets are counted. It is covered if it can be read.
    #[must_use]
    pub const fn covers_prices(&self) -> bool {
        matches!(self.prices, Some(Ok(_)))
    }

    /// Returns the user's decision about it.
    #[must_use]
    pub const fn trust(&self) -> Trust {
        self.trust
    }

    /// Returns what it would change if it were trusted, the most dangerous changes first. For a trusted file, this is
    /// only known if it was read [as if it were untrusted](super::Sources::without_trust).
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns why nothing in it can be used, if that is the case.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns why the price list that it names cannot be used, if that is the case. For a trusted file, that is an
    /// error.
    #[must_use]
    pub fn price_list_fault(&self) -> Option<&str> {
        self.price_list_fault.as_deref()
    }

    /// Returns a one-line notice about the ignored parts; `None` if nothing is ignored.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let mut notice = format!("./{} is not trusted", self.path.display());
        if self.trust == Trust::Changed {
            let prices = match self.prices {
                Some(_) => " or its list of prices",
                None => "",
            };
            notice = format!(
                "./{}{prices} was changed since it was trusted",
                self.path.display()
            );
        }
        if let Some(fault) = &self.fault {
            notice.push_str(&format!(
                "; it cannot be read and is ignored, with all its restrictions: {}",
                in_short(fault)
            ));
        } else if self.changes.is_empty() {
            return None;
        } else {
            notice.push_str("; ignored: ");
            let named = self.changes.iter().take(MAX_NAMED);
            let named: Vec<&str> = named.map(|change| change.key.as_str()).collect();
            notice.push_str(&named.join(", "));
            let more = self.changes.len().saturating_sub(MAX_NAMED);
            if more > 0 {
                notice.push_str(&format!(" and {more} more"));
            }
        }
        notice.push_str(" (neuraxis trust show)");
        if let Some(fault) = &self.trust_list_fault {
            notice.push_str(&format!("; {fault}"));
        }
        Some(notice)
    }

    /// Returns the price list that it names, as it was when the file was read.
    pub(super) fn prices(&self) -> Option<io::Result<&str>> {
        let read = self.prices.as_ref()?;
        let unread = |(kind, why): &(io::ErrorKind, String)| io::Error::new(*kind, why.clone());
        Some(read.as_deref().map_err(unread))
    }

    pub(super) fn add_fault(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// Adds parts that are ignored.
    pub(super) fn add_changes(&mut self, changes: Vec<Change>) {
        self.changes.extend(changes);
        let mut changes = self.changes.iter_mut();
        if let Some(fault) = &self.price_list_fault
            && let Some(change) = changes.find(|change| change.key == "price_list.file")
        {
            change.refuse(fault);
        }
        self.changes.sort();
    }
}

/// Looks for the file and reads it. Never blocks: a file that is not regular, or too large, is reported as a fault.
pub(super) fn read_found_file(environment: &Environment) -> Option<(FoundFile, String)> {
    let working_dir = environment.working_dir();
    let path = working_dir.join(FILE_NAME);
    let read = match read_regular(&path, Links::Followed, MAX_FILE_BYTES) {
        Err(error) if is_absent(&error) => return None,
        read => read,
    };
    let mut found = FoundFile {
        path: PathBuf::from(FILE_NAME),
        folder: working_dir
            .canonicalize()
            .unwrap_or_else(|_| working_dir.to_owned()),
        content: None,
        trust: Trust::Unknown,
        changes: Vec::new(),
        fault: None,
        trust_list_fault: None,
        prices: None,
        price_list_fault: None,
    };
    let mut text = String::new();
    match read {
        Err(error) => found.fault = Some(error.to_string()),
        Ok(bytes) => {
            let mut content = ContentHash::of(&bytes);
            match utf8_text(bytes) {
                Ok(read) => text = read,
                Err(error) => found.fault = Some(format!("{error}; save it as UTF-8")),
            }
            if let Some(file) = price_list(&text) {
                let read = text_of(working_dir, &file);
                if let Ok(prices) = &read {
                    content = content.chain(ContentHash::of(prices.as_bytes()));
                }
                found.prices = Some(read.map_err(|error| (error.kind(), error.to_string())));
                let path = working_dir.join(file);
                let list = found.prices().map(|read| prices::list_of(&path, read));
                let fault = list.and_then(Result::err);
                found.price_list_fault = fault.as_ref().map(with_causes);
            }
            found.content = Some(content);
            match Trust::of(environment, &found.folder, content) {
                Ok(trust) => found.trust = trust,
                Err(error) => found.trust_list_fault = Some(error.to_string()),
            }
        }
    }
    Some((found, text))
}

/// Returns why a file cannot be read, for a notice of one line: the file may repeat itself in the parser's message.
fn in_short(fault: &str) -> String {
    let mut text = escaped(fault.chars().take(MAX_FAULT_CHARS), &[]);
    if fault.chars().nth(MAX_FAULT_CHARS).is_some() {
        text.push('…');
    }
    text
}

/// Returns the price list that the text of a configuration names.
fn price_list(text: &str) -> Option<PathBuf> {
    let table: Table = toml::from_str(text).ok()?;
    let file = table.get("price_list")?.get("file")?.as_str()?;
    Some(PathBuf::from(file))
}

/// Returns the error message with its causes.
fn with_causes(error: &ConfigError) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    message
}

/// Reads an untrusted price list. Never blocks.
fn text_of(folder: &Path, file: &Path) -> io::Result<String> {
    let mut path = folder.to_owned();
    let leads_away = file.components().any(|part| {
        path.push(part);
        path.is_symlink()
    });
    if !stays_within(file) || leads_away {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, LIST_ELSEWHERE));
    }
    let bytes = read_regular(&path, Links::Refused, MAX_FILE_BYTES)?;
    utf8_text(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns whether a path leads only into the folder that it is relative to. Merely opening another path may access
/// another machine, or wait for one.
fn stays_within(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Returns whether an error means that the file does not exist.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
