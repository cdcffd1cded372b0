//! The user's decisions about the `neuraxis.toml` of folders: which content is trusted, and which is rejected.
//!
//! The decisions are kept in the user's data folder, never in a project, under the folder's real path and the SHA-256
//! of the content. So no decision covers a file that has changed or is in another folder.

mod file;
mod folder_rules;
mod pins;

use std::path::{Path, PathBuf};

use neuraxis_core::ContentHash;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
pub use file::{FileLock, TrustError};
pub use folder_rules::FolderRules;
pub use pins::PinFile;

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "trust.toml";

/// The maximum number of remembered folders. Beyond that, the oldest decisions are forgotten.
const MAX_FOLDERS: usize = 1_000;

/// The user's decision about a file that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// This content is trusted in this folder.
    Trusted,
    /// The user was asked about this content and rejected it.
    Refused,
    /// The folder's file was trusted with other content: it has changed since.
    Changed,
    /// The user has not decided.
    Unknown,
}

/// The stored decisions. Each change rereads them and writes them immediately.
#[derive(Debug, Clone)]
pub struct TrustList {
    file: PathBuf,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDecisions {
    #[serde(default)]
    folders: Vec<FolderDecision>,
}

/// The decision about the file of one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FolderDecision {
    folder: String,
    sha256: ContentHash,
    answer: Answer,
}

/// A decision of the user that was [forgotten](TrustList::forget), whatever the content it was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// The user had trusted the file, even if it changed since.
    Trust,
    /// The user had rejected the file.
    Refusal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Trusted,
    Refused,
}

impl Trust {
    /// Returns the user's decision about this content of a file, or of the file in a folder, given by its real path.
    pub(crate) fn of(
        environment: &Environment,
        path: &Path,
        content: ContentHash,
    ) -> Result<Self, TrustError> {
        match TrustList::of(environment) {
            Ok(list) => list.decision(path, content),
            // Without a place to store decisions, the user cannot have made one.
            Err(_) => Ok(Self::Unknown),
        }
    }
}

impl TrustList {
    /// Returns the list of the user.
    ///
    /// # Errors
    ///
    /// [`TrustError::NoDataFolder`] for a user without a data folder, where nothing can be remembered.
    pub fn of(environment: &Environment) -> Result<Self, TrustError> {
        let folder = environment.data_dir().ok_or(TrustError::NoDataFolder)?;
        Ok(Self {
            file: folder.join(FILE_NAME),
        })
    }

    /// Returns the file that stores the list. It need not exist.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the decision about this content of the file in a folder, given by its real path.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if the list cannot be read.
    pub fn decision(&self, folder: &Path, content: ContentHash) -> Result<Trust, TrustError> {
        let stored = self.read()?;
        let name = folder.to_str();
        let entry = stored
            .folders
            .iter()
            .find(|entry| Some(entry.folder.as_str()) == name);
        Ok(match entry {
            None => Trust::Unknown,
            Some(entry) => match (entry.answer, entry.sha256 == content) {
                (Answer::Trusted, true) => Trust::Trusted,
                (Answer::Trusted, false) => Trust::Changed,
                (Answer::Refused, true) => Trust::Refused,
                (Answer::Refused, false) => Trust::Unknown,
            },
        })
    }

    /// Trusts only this content of the file in a folder, given by its real path.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if the list cannot be read or written.
    pub fn trust(&self, folder: &Path, content: ContentHash) -> Result<(), TrustError> {
        self.answer(folder, content, Answer::Trusted)
    }

    /// Records that the user rejects this content of the file in a folder, given by its real path.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if the list cannot be read or written.
    pub fn refuse(&self, folder: &Path, content: ContentHash) -> Result<(), TrustError> {
        self.answer(folder, content, Answer::Refused)
    }

    /// Forgets the decision about the file in a folder, given by its real path. Returns what it was, if there was one.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if the list cannot be read or written.
    pub fn forget(&self, folder: &Path) -> Result<Option<Forgotten>, TrustError> {
        let _lock = file::FileLock::of(&self.file)?;
        let mut stored = self.read()?;
        let name = folder.to_str();
        let is_about_it = |entry: &mut FolderDecision| Some(entry.folder.as_str()) == name;
        let Some(removed) = stored.folders.extract_if(.., is_about_it).last() else {
            return Ok(None);
        };
        self.write(&stored)?;
        Ok(Some(match removed.answer {
            Answer::Trusted => Forgotten::Trust,
            Answer::Refused => Forgotten::Refusal,
        }))
    }

    fn answer(&self, folder: &Path, sha256: ContentHash, answer: Answer) -> Result<(), TrustError> {
        let Some(name) = folder.to_str() else {
            return Err(TrustError::NotUnicode {
                folder: folder.to_owned(),
            });
        };
        let _lock = file::FileLock::of(&self.file)?;
        let mut stored = self.read()?;
        stored.folders.retain(|entry| entry.folder != name);
        stored.folders.push(FolderDecision {
            folder: name.to_owned(),
            sha256,
            answer,
        });
        let too_many = stored.folders.len().saturating_sub(MAX_FOLDERS);
        stored.folders.drain(..too_many);
        self.write(&stored)
    }

    fn read(&self) -> Result<StoredDecisions, TrustError> {
        let Some(text) = file::read(&self.file)? else {
            return Ok(StoredDecisions::default());
        };
        toml::from_str(&text).map_err(|_| TrustError::Damaged {
            file: self.file.clone(),
        })
    }

    fn write(&self, decisions: &StoredDecisions) -> Result<(), TrustError> {
        let text = toml::to_string(decisions).map_err(|_| TrustError::Damaged {
            file: self.file.clone(),
        })?;
        file::write(&self.file, &text)
    }
}

#[cfg(test)]
mod tests;
