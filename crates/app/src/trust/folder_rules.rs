//! Rules that the user allowed for one folder by answering a question, beyond a single session. Each folder has a file
//! with these rules, in the format of a configuration file, next to the file of trusted folders.

use std::path::{Path, PathBuf};

use neuraxis_core::ContentHash;
use toml::{Table, Value};

use super::file;
use super::{Environment, TrustError};

/// The name of the folder in the user's data folder.
const FOLDER_NAME: &str = "rules";

/// The prefix of the names of these rules, which keeps them apart from rules that the user wrote.
const PREFIX: &str = "here-";

/// The number of digits of the path's hash in the name of a folder's file.
const HASH_DIGITS: usize = 16;

/// The maximum number of bytes of a folder's name in the name of its file. Leaves room for the names of its lock and
/// its temporary file: file systems allow 255.
const MAX_NAME_BYTES: usize = 64;

/// The rules that the user allowed for one folder, the folder of the file tools. Each change rereads them and writes
/// them immediately.
///
/// They apply to all further work in that folder until they are revoked, and override no more than any rule that
/// allows. They are found by the folder's real path.
#[derive(Debug, Clone)]
pub struct FolderRules {
    file: PathBuf,
    folder: PathBuf,
}

impl FolderRules {
    /// Returns the rules of a folder; `None` for a user without a data folder, or if the path is not a folder.
    #[must_use]
    pub fn of(folder: &Path, environment: &Environment) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let text = folder.to_str()?;
        let hash = ContentHash::of(text.as_bytes()).to_string();
        let hash = hash.get(..HASH_DIGITS)?;
        let rules = environment.data_dir()?.join(FOLDER_NAME);
        let file = match folder.file_name().and_then(|name| name.to_str()) {
            Some(name) => {
                let end = name.floor_char_boundary(MAX_NAME_BYTES);
                let short = name.get(..end).unwrap_or(name);
                // Earlier versions did not truncate it.
                let whole = rules.join(format!("{name}-{hash}.toml"));
                match whole.symlink_metadata() {
                    Ok(_) => whole,
                    Err(_) => rules.join(format!("{short}-{hash}.toml")),
                }
            }
            None => rules.join(format!("{hash}.toml")),
        };
        Some(Self { file, folder })
    }

    /// Returns the file that contains the rules. It need not exist.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the real path of the folder that they apply to.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file's text; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if the file cannot be read, or another user may have written it.
    pub fn text(&self) -> Result<Option<String>, TrustError> {
        file::read(&self.file)
    }

    /// Adds a rule, given as a table `[rules.NAME]`, under a unique name. A rule that already exists is not added
    /// again.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if the file cannot be read or written, or the text is not such a rule.
    pub fn add(&self, rule: &str) -> Result<(), TrustError> {
        let damaged = || TrustError::Damaged {
            file: self.file.clone(),
        };
        let _lock = file::FileLock::of(&self.file)?;
        let mut text = match file::read(&self.file)? {
            Some(text) => text,
            None => self.heading(),
        };
        let known = rules_of(&text).ok_or_else(damaged)?;
        let added = rules_of(rule).ok_or_else(damaged)?;
        for (name, rule) in added {
            if known.values().any(|known| *known == rule) {
                continue;
            }
            let name = free_name(&name, &known);
            let rules = Table::from_iter([(name, rule)]);
            let section = Table::from_iter([("rules".to_owned(), Value::Table(rules))]);
            let section = toml::to_string(&section).map_err(|_| damaged())?;
            text.push_str(&format!("\n{section}"));
        }
        file::write(&self.file, &text)
    }

    /// Revokes all of them. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// A [`TrustError`] if the file cannot be removed.
    pub fn forget(&self) -> Result<bool, TrustError> {
        match std::fs::remove_file(&self.file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(TrustError::Io {
                doing: "remove",
                file: self.file.clone(),
                source,
            }),
        }
    }

    fn heading(&self) -> String {
        // A path may contain characters that end a comment.
        let folder: String = self
            .folder
            .display()
            .to_string()
            .chars()
            .filter(|letter| !letter.is_control())
            .collect();
        format!(
            "# What you allowed in {folder}.\n# Change or remove rules to be asked again; `neuraxis trust remove` \
             removes all of them.\n"
        )
    }
}

/// Returns the rules in a text; `None` if it is not TOML.
fn rules_of(text: &str) -> Option<Table> {
    let mut table: Table = toml::from_str(text).ok()?;
    match table.remove("rules") {
        None => Some(Table::new()),
        Some(Value::Table(rules)) => Some(rules),
        Some(_) => None,
    }
}

/// Returns a name that no known rule has.
fn free_name(name: &str, known: &Table) -> String {
    let name = format!("{PREFIX}{name}");
    let others = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(others);
    names.find(|name| !known.contains_key(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (tempfile::TempDir, Environment, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let environment = Environment::new(&project).with_data_dir(home.path().join("data"));
        (home, environment, project)
    }

    const CARGO: &str = "[rules.allow-cargo-test]\nanswer = \"allow\"\ntools = [\"run_command\"]\ncommands = [\"cargo test **\"]\n";

    #[test]
    fn a_rule_is_added_once_and_a_different_one_of_its_name_gets_a_suffix() {
        let (_home, environment, project) = here();
        let rules = FolderRules::of(&project, &environment).unwrap();
        assert_eq!(rules.text().unwrap(), None);
        rules.add(CARGO).unwrap();
        rules.add(CARGO).unwrap();
        rules
            .add(&CARGO.replace("cargo test **", "cargo t"))
            .unwrap();
        let text = rules.text().unwrap().unwrap();
        assert_eq!(text.matches("[rules.").count(), 2, "{text}");
        assert!(text.contains("[rules.here-allow-cargo-test-2]"), "{text}");
        assert!(text.starts_with("# What you allowed in /"), "{text}");
        assert!(rules.forget().unwrap());
        assert!(!rules.forget().unwrap());
    }

    #[test]
    fn each_folder_has_its_own_rules_even_if_names_match() {
        let (home, environment, project) = here();
        let other = home.path().join("other/project");
        std::fs::create_dir_all(&other).unwrap();
        let rules = FolderRules::of(&project, &environment).unwrap();
        rules.add(CARGO).unwrap();
        let others = FolderRules::of(&other, &environment).unwrap();
        assert_eq!(others.text().unwrap(), None);
        std::os::unix::fs::symlink(&project, home.path().join("link")).unwrap();
        let linked = FolderRules::of(&home.path().join("link"), &environment).unwrap();
        assert_eq!(linked.file(), rules.file());
    }

    #[test]
    fn a_long_folder_name_is_shortened_and_files_under_its_full_name_still_count() {
        let (home, environment, _project) = here();
        let long = home.path().join("ä".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let rules = FolderRules::of(&long, &environment).unwrap();
        assert_eq!(rules.text().unwrap(), None);
        rules.add(CARGO).unwrap();
        assert!(rules.text().unwrap().is_some());

        let name = "a".repeat(80);
        let folder = home.path().join(&name);
        std::fs::create_dir(&folder).unwrap();
        let rules = FolderRules::of(&folder, &environment).unwrap();
        rules.add(CARGO).unwrap();
        let short = rules.file().file_name().unwrap().to_str().unwrap();
        let (_, ending) = short.split_once('-').unwrap();
        let whole = rules.file().with_file_name(format!("{name}-{ending}"));
        std::fs::rename(rules.file(), &whole).unwrap();
        let found = FolderRules::of(&folder, &environment).unwrap();
        assert_eq!(found.file(), whole);
    }

    #[test]
    fn a_symlinked_rules_file_is_not_read() {
        let (home, environment, project) = here();
        let rules = FolderRules::of(&project, &environment).unwrap();
        rules.add(CARGO).unwrap();
        let elsewhere = home.path().join("elsewhere.toml");
        std::fs::rename(rules.file(), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, rules.file()).unwrap();
        assert!(matches!(rules.text(), Err(TrustError::Foreign { .. })));
    }
}
