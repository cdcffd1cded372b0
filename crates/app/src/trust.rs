//! What a person said about the `neuraxis.toml` of folders: which content is trusted, and which is not wanted.
//!
//! The answers are kept in the user's data folder, never in a project, by the folder's real path and the SHA-256 of the
//! content: a file that changed, or lies elsewhere, was not answered about.

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

/// How many folders are remembered. Beyond that the oldest answers are forgotten.
const MAX_FOLDERS: usize = 1_000;

/// What a person said about a file that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// This content is trusted in this folder.
    Trusted,
    /// Somebody was asked about this content and did not want it.
    Refused,
    /// Another content of this folder's file was trusted: it changed since.
    Changed,
    /// Nobody said anything.
    Unknown,
}

/// The answers, as they are kept. Each change reads them anew and writes them at once.
#[derive(Debug, Clone)]
pub struct TrustList {
    file: PathBuf,
}

/// The whole file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    #[serde(default)]
    folders: Vec<Answered>,
}

/// What was said about the file of one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    folder: String,
    sha256: ContentHash,
    answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Trusted,
    Refused,
}

impl Trust {
    /// Tells what the user said about this content of a file, or of the file in a folder, given by its real path.
    pub(crate) fn of(
        environment: &Environment,
        path: &Path,
        content: ContentHash,
    ) -> Result<Self, TrustError> {
        match TrustList::of(environment) {
            Ok(list) => list.standing(path, content),
            // Without a place for answers nobody can have given one.
            Err(_) => Ok(Self::Unknown),
        }
    }
}

impl TrustList {
    /// Returns the list of the user.
    ///
    /// # Errors
    ///
    /// [`TrustError::NoDataFolder`], for a user without one: nothing can be remembered then.
    pub fn of(environment: &Environment) -> Result<Self, TrustError> {
        let folder = environment.data_dir().ok_or(TrustError::NoDataFolder)?;
        Ok(Self {
            file: folder.join(FILE_NAME),
        })
    }

    /// Returns where the list is kept. The file need not be there.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Tells what was said about this content of the file in a folder, given by its real path.
    ///
    /// # Errors
    ///
    /// A [`TrustError`], when the list cannot be read.
    pub fn standing(&self, folder: &Path, content: ContentHash) -> Result<Trust, TrustError> {
        let answers = self.read()?;
        let name = folder.to_str();
        let answered = answers
            .folders
            .iter()
            .find(|answered| Some(answered.folder.as_str()) == name);
        Ok(match answered {
            None => Trust::Unknown,
            Some(answered) => match (answered.answer, answered.sha256 == content) {
                (Answer::Trusted, true) => Trust::Trusted,
                (Answer::Trusted, false) => Trust::Changed,
                (Answer::Refused, true) => Trust::Refused,
                (Answer::Refused, false) => Trust::Unknown,
            },
        })
    }

    /// Trusts this content, and no other, of the file in a folder, given by its real path.
    ///
    /// # Errors
    ///
    /// A [`TrustError`], when the list cannot be read or written.
    pub fn trust(&self, folder: &Path, content: ContentHash) -> Result<(), TrustError> {
        self.answer(folder, content, Answer::Trusted)
    }

    /// Remembers that this content of the file in a folder, given by its real path, is not wanted.
    ///
    /// # Errors
    ///
    /// A [`TrustError`], when the list cannot be read or written.
    pub fn refuse(&self, folder: &Path, content: ContentHash) -> Result<(), TrustError> {
        self.answer(folder, content, Answer::Refused)
    }

    /// Forgets what was said about the file in a folder, given by its real path. Tells whether there was anything.
    ///
    /// # Errors
    ///
    /// A [`TrustError`], when the list cannot be read or written.
    pub fn forget(&self, folder: &Path) -> Result<bool, TrustError> {
        let _lock = file::FileLock::of(&self.file)?;
        let mut answers = self.read()?;
        let before = answers.folders.len();
        let name = folder.to_str();
        answers
            .folders
            .retain(|answered| Some(answered.folder.as_str()) != name);
        if answers.folders.len() == before {
            return Ok(false);
        }
        self.write(&answers)?;
        Ok(true)
    }

    fn answer(&self, folder: &Path, sha256: ContentHash, answer: Answer) -> Result<(), TrustError> {
        let Some(name) = folder.to_str() else {
            return Err(TrustError::NotUnicode {
                folder: folder.to_owned(),
            });
        };
        let _lock = file::FileLock::of(&self.file)?;
        let mut answers = self.read()?;
        answers.folders.retain(|answered| answered.folder != name);
        answers.folders.push(Answered {
            folder: name.to_owned(),
            sha256,
            answer,
        });
        let too_many = answers.folders.len().saturating_sub(MAX_FOLDERS);
        answers.folders.drain(..too_many);
        self.write(&answers)
    }

    fn read(&self) -> Result<Answers, TrustError> {
        let Some(text) = file::read(&self.file)? else {
            return Ok(Answers::default());
        };
        toml::from_str(&text).map_err(|_| TrustError::Damaged {
            file: self.file.clone(),
        })
    }

    fn write(&self, answers: &Answers) -> Result<(), TrustError> {
        let text = toml::to_string(answers).map_err(|_| TrustError::Damaged {
            file: self.file.clone(),
        })?;
        file::write(&self.file, &text)
    }
}

#[cfg(test)]
mod tests;
