//! What whoever starts the program says about its configuration.

use std::path::{Path, PathBuf};

/// The sources of configuration beside those that are always looked at.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    file: Option<PathBuf>,
    flags: Vec<FlagValue>,
    found: FoundFiles,
    answers: Answers,
}

/// What becomes of the rules that a person allowed for a folder by an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Answers {
    /// They do not count: somebody else may be asked here.
    #[default]
    Ignored,
    /// They count for the folder of the tools: nobody but the user of this process is asked.
    Counted,
}

/// What becomes of a file that is found in the working directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FoundFiles {
    /// It counts as far as it is trusted.
    #[default]
    AsTrusted,
    /// It counts as one that nobody trusted.
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
    /// Names the one file to be read, in place of those that are found.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Adds the value of a key, given by its dotted path, that a flag sets. Of several for the same key, the last counts.
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

    /// Reads a file that is found in the working directory as if nobody trusted it: then it is known what it would
    /// change.
    #[must_use]
    pub const fn without_trust(mut self) -> Self {
        self.found = FoundFiles::Untrusted;
        self
    }

    /// Counts the rules that the user of this process [allowed](crate::FolderRules) for the folder of the tools, for a
    /// program that works for nobody else. Not beside a [named file](Self::with_file).
    #[must_use]
    pub const fn with_folder_rules(mut self) -> Self {
        self.answers = Answers::Counted;
        self
    }

    pub(super) fn counts_folder_rules(&self) -> bool {
        self.answers == Answers::Counted && self.file.is_none()
    }

    pub(super) fn trusts_found(&self) -> bool {
        self.found == FoundFiles::AsTrusted
    }

    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
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
