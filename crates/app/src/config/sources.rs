//! The configuration sources that the caller of this crate chooses.

use std::path::{Path, PathBuf};

/// The sources of configuration, in addition to those that are always read.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    file: Option<PathBuf>,
    missing_file: MissingFile,
    flags: Vec<FlagValue>,
    found: FoundFiles,
    folder_rules: FolderRulesUse,
}

/// Whether rules apply that the user allowed for a folder by answering a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FolderRulesUse {
    /// They do not apply: someone other than the user of this process may be asked here.
    #[default]
    Ignored,
    /// They apply to the folder of the tools: only the user of this process is asked.
    Applied,
}

/// What a named file means that does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum MissingFile {
    /// A mistake.
    #[default]
    Refused,
    /// A file that sets nothing: it is to be written.
    Empty,
}

/// How a file in the working directory is treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FoundFiles {
    /// It applies as far as it is trusted.
    #[default]
    AsTrusted,
    /// It is treated as untrusted.
    Untrusted,
}

/// A key set by a flag.
#[derive(Debug, Clone)]
pub(super) struct FlagValue {
    pub(super) flag: String,
    pub(super) key: String,
    pub(super) value: String,
}

impl Sources {
    /// Reads only this file, instead of those that would be found.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Treats a [named file](Self::with_file) that does not exist as an empty one, for a command that is to write it.
    #[must_use]
    pub const fn with_missing_file(mut self) -> Self {
        self.missing_file = MissingFile::Empty;
        self
    }

    /// Sets a key, given by its dotted path, from a flag. If the same key is set several times, the last value applies.
    #[must_use]
    pub fn with_flag(
        mut self,
        flag: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.flags.push(FlagValue {
            flag: flag.into(),
            key: key.into(),
            value: value.into(),
        });
        self
    }

    /// Reads a file in the working directory as if it were untrusted, which shows what it would change.
    #[must_use]
    pub const fn without_trust(mut self) -> Self {
        self.found = FoundFiles::Untrusted;
        self
    }

    /// Applies the rules that the user of this process [allowed](crate::FolderRules) for the folder of the tools. For a
    /// program that works for no other user. Has no effect together with a [named file](Self::with_file).
    #[must_use]
    pub const fn with_folder_rules(mut self) -> Self {
        self.folder_rules = FolderRulesUse::Applied;
        self
    }

    pub(super) fn uses_folder_rules(&self) -> bool {
        self.folder_rules == FolderRulesUse::Applied && self.file.is_none()
    }

    pub(super) fn trusts_found(&self) -> bool {
        self.found == FoundFiles::AsTrusted
    }

    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(super) fn may_lack_file(&self) -> bool {
        self.missing_file == MissingFile::Empty
    }

    pub(super) fn flags(&self) -> &[FlagValue] {
        &self.flags
    }
}

/// Returns the text of a `neuraxis.toml` that sets nothing and explains everything.
#[must_use]
pub const fn template() -> &'static str {
    include_str!("../template.toml")
}
