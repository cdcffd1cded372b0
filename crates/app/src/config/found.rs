//! The `neuraxis.toml` that is found in the working directory. It may have come with a project that somebody else made, so
//! it is opened with care, and what it says counts for little until a person trusted this very content.

use std::error::Error;
use std::io;
use std::path::{Component, Path, PathBuf};

use neuraxis_core::ContentHash;
use toml::Table;

use super::change::Change;
use super::error::ConfigError;
use super::prices;
use super::read::{FILE_NAME, MAX_FILE_BYTES};
use crate::environment::Environment;
use crate::private_file::{Links, read_regular};
use crate::trust::Trust;

/// Why a list of prices is not read that lies elsewhere than in the folder of the file that names it.
const LIST_ELSEWHERE: &str = "the file of the working directory can name a list in its own folder only: \
                              copy the list there, or name it in your own configuration";

/// How many keys a notice names.
const MAX_NAMED: usize = 6;

/// The `neuraxis.toml` that was found in the working directory, and how far it counts.
#[derive(Debug, Clone)]
pub struct FoundFile {
    path: PathBuf,
    folder: PathBuf,
    content: Option<ContentHash>,
    trust: Trust,
    changes: Vec<Change>,
    fault: Option<String>,
    list_fault: Option<String>,
    /// The list of prices that it names, as it was when the file was read, or why it could not be read.
    prices: Option<Result<String, (io::ErrorKind, String)>>,
    price_list_fault: Option<String>,
}

impl FoundFile {
    /// Returns the file, relative to the working directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the real path of the folder it stands in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the SHA-256 of what was read, or a hash of that and of [the list of prices](Self::covers_prices) that it names;
    /// nothing where it could not be read.
    #[must_use]
    pub const fn content(&self) -> Option<ContentHash> {
        self.content
    }

    /// Tells whether the [content](Self::content) has the list of prices in it that `price_list.file` names: that may have come
    /// with the project, too, and says what budgets count. It is so where the list can be read.
    #[must_use]
    pub const fn covers_prices(&self) -> bool {
        matches!(self.prices, Some(Ok(_)))
    }

    /// Returns what a person said about it.
    #[must_use]
    pub const fn trust(&self) -> Trust {
        self.trust
    }

    /// Returns what it would change if it were trusted, the most dangerous first. Of a file that is trusted this is only
    /// known where it was read [as if it were not](super::Sources::without_trust).
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns why nothing of it can be used, if that is so.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns why the list of prices that it names cannot be used, if that is so: with a file that is trusted, that is an error.
    #[must_use]
    pub fn price_list_fault(&self) -> Option<&str> {
        self.price_list_fault.as_deref()
    }

    /// Says on one line what of it is ignored; nothing where nothing is.
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
        if self.fault.is_some() {
            notice.push_str("; it cannot be read and is ignored");
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
        if let Some(fault) = &self.list_fault {
            notice.push_str(&format!("; {fault}"));
        }
        Some(notice)
    }

    /// Returns the list of prices that it names, as it was when the file was read.
    pub(super) fn prices(&self) -> Option<io::Result<&str>> {
        let read = self.prices.as_ref()?;
        let unread = |(kind, why): &(io::ErrorKind, String)| io::Error::new(*kind, why.clone());
        Some(read.as_deref().map_err(unread))
    }

    pub(super) fn add_fault(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// Adds what is ignored of it.
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

/// Looks for the file, and reads it. Never waits: what is no regular file, or too large, is a fault of it.
pub(super) fn look(environment: &Environment) -> Option<(FoundFile, String)> {
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
        list_fault: None,
        prices: None,
        price_list_fault: None,
    };
    let mut text = String::new();
    match read {
        Err(error) => found.fault = Some(error.to_string()),
        Ok(bytes) => {
            let mut content = ContentHash::of(&bytes);
            match String::from_utf8(bytes) {
                Ok(read) => text = read,
                Err(error) => found.fault = Some(error.utf8_error().to_string()),
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
                Err(error) => found.list_fault = Some(error.to_string()),
            }
        }
    }
    Some((found, text))
}

/// Returns the list of prices that the text of a configuration names.
fn price_list(text: &str) -> Option<PathBuf> {
    let table: Table = toml::from_str(text).ok()?;
    let file = table.get("price_list")?.get("file")?.as_str()?;
    Some(PathBuf::from(file))
}

/// Says what is wrong, with its causes.
fn with_causes(error: &ConfigError) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(&format!(": {error}"));
        cause = error.source();
    }
    said
}

/// Reads a list of prices that nobody trusted yet. Never waits.
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
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Tells whether a path leads nowhere else than into the folder from which it counts. To open any other may already reach another
/// machine, or wait for one.
fn stays_within(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Tells whether an error says that there is no such file.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
