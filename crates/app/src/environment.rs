//! The environment of a process, as data: nothing else in this crate reads the process, so tests can control what it
//! contains.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, fmt, io};

use etcetera::BaseStrategy;

/// The name of this program's folder in the user's configuration and data folders.
const FOLDER: &str = "neuraxis";

/// The name of the file in the user's state folder.
const CHAT_HISTORY: &str = "chat-history";

/// The variables, the working directory and the user's folders of a process.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    working_dir: PathBuf,
    home_dir: Option<PathBuf>,
    config_dir: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    data_folder_access: DataFolderAccess,
    /// The user's configuration folder, if this process may not even look into it.
    locked_config_dir: Option<PathBuf>,
    /// The user's home folder, if it is relative, so that it is not used.
    relative_home: Option<PathBuf>,
}

/// Whether the user's data folder can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum DataFolderAccess {
    #[default]
    Writable,
    /// It cannot be created or written, as in a container with a read-only file system.
    ReadOnly,
}

impl Environment {
    /// Creates an environment without variables and without folders for the user's configuration and data.
    pub fn new(working_dir: impl Into<PathBuf>) -> Self {
        Self {
            working_dir: working_dir.into(),
            ..Self::default()
        }
    }

    /// Reads the environment of this process.
    ///
    /// # Errors
    ///
    /// If the working directory does not exist or may not be read.
    pub fn of_process() -> io::Result<Self> {
        // A user without a home folder has no such folders.
        let environment = match etcetera::choose_base_strategy() {
            Ok(user) => Self::of_user(&user),
            Err(_) => Self::default(),
        };
        Ok(Self {
            variables: env::vars_os().collect(),
            working_dir: env::current_dir()?,
            ..environment
        })
    }

    /// Returns an environment with only the user's folders. A relative folder is left out: it would be inside the
    /// working directory, and what a third-party project contains must not count as the user's own.
    fn of_user(user: &impl BaseStrategy) -> Self {
        let absolute = |folder: PathBuf| folder.is_absolute().then_some(folder);
        let home = user.home_dir().to_owned();
        let (relative_home, home_dir) = match home.is_absolute() {
            true => (None, Some(home)),
            false => (Some(home), None),
        };
        let data_dir = absolute(user.data_dir().join(FOLDER));
        let data_folder_access = match data_dir.as_deref().is_some_and(is_read_only) {
            true => DataFolderAccess::ReadOnly,
            false => DataFolderAccess::Writable,
        };
        let config_dir = absolute(user.config_dir().join(FOLDER));
        // For example, a service may have another user's `HOME`: the configuration there is not meant for it.
        let (locked_config_dir, config_dir) = match config_dir.as_deref().is_some_and(is_locked) {
            true => (config_dir, None),
            false => (None, config_dir),
        };
        let state_dir = user.state_dir().unwrap_or_else(|| user.data_dir());
        Self {
            data_folder_access,
            locked_config_dir,
            relative_home,
            home_dir,
            config_dir,
            data_dir,
            state_dir: absolute(state_dir.join(FOLDER)),
            ..Self::default()
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets the folder that may contain the user's own `neuraxis.toml`.
    #[must_use]
    pub fn with_config_dir(mut self, config_dir: impl Into<PathBuf>) -> Self {
        self.config_dir = Some(config_dir.into());
        self
    }

    /// Sets the folder where sessions are kept by default.
    #[must_use]
    pub fn with_data_dir(mut self, data_dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(data_dir.into());
        self
    }

    /// Sets the user's home folder.
    #[must_use]
    pub fn with_home_dir(mut self, home_dir: impl Into<PathBuf>) -> Self {
        self.home_dir = Some(home_dir.into());
        self
    }

    /// Sets the folder for what a program remembers about its use.
    #[must_use]
    pub fn with_state_dir(mut self, state_dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(state_dir.into());
        self
    }

    /// Marks the user's data folder as not writable.
    #[must_use]
    pub const fn with_read_only_data(mut self) -> Self {
        self.data_folder_access = DataFolderAccess::ReadOnly;
        self
    }

    /// Returns the same environment with another working directory.
    #[must_use]
    pub fn with_working_dir(mut self, working_dir: impl Into<PathBuf>) -> Self {
        self.working_dir = working_dir.into();
        self
    }

    /// Returns the value of a variable.
    #[must_use]
    pub fn variable(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Returns the value of a variable; `None` if it is not Unicode.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.variable(name)?.to_str()
    }

    /// Returns the trimmed value of a variable; `None` if it is empty or not Unicode.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        let text = self.text(name)?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// Returns all variables, in alphabetical order.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns the working directory.
    #[must_use]
    pub fn working_dir(&self) -> &Path {
        &self.working_dir
    }

    /// Returns the user's home folder.
    #[must_use]
    pub fn home_dir(&self) -> Option<&Path> {
        self.home_dir.as_deref()
    }

    /// Returns the folder that may contain the user's own `neuraxis.toml`.
    #[must_use]
    pub fn config_dir(&self) -> Option<&Path> {
        self.config_dir.as_deref()
    }

    /// Returns the user's configuration folder if this process may not look into it, so that nothing in it applies.
    #[must_use]
    pub fn locked_config_dir(&self) -> Option<&Path> {
        self.locked_config_dir.as_deref()
    }

    /// Returns the user's home folder if it is a relative path, so that it is not used.
    #[must_use]
    pub fn relative_home(&self) -> Option<&Path> {
        self.relative_home.as_deref()
    }

    /// Returns the folder where sessions are kept by default. It need not exist.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Returns whether the [data folder](Self::data_dir) cannot be written or created.
    #[must_use]
    pub fn is_data_read_only(&self) -> bool {
        self.data_folder_access == DataFolderAccess::ReadOnly
    }

    /// Returns the file with the history of what was typed in conversations. It need not exist.
    #[must_use]
    pub fn chat_history(&self) -> Option<PathBuf> {
        Some(self.state_dir.as_ref()?.join(CHAT_HISTORY))
    }
}

/// Returns whether this process may not even find out whether a folder exists.
fn is_locked(folder: &Path) -> bool {
    // Checks something inside the folder, so that a folder that cannot be entered is also detected.
    let inside = folder.join("neuraxis.toml").symlink_metadata();
    inside.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns whether a folder cannot be written, or cannot be created if it is missing. Creates nothing to find out.
#[cfg(unix)]
fn is_read_only(folder: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};

    let existing = folder.ancestors().find(|folder| folder.exists());
    let may = Access::WRITE_OK | Access::EXEC_OK;
    existing.is_none_or(|existing| accessat(CWD, existing, may, AtFlags::EACCESS).is_err())
}

#[cfg(not(unix))]
fn is_read_only(folder: &Path) -> bool {
    let existing = folder.ancestors().find_map(|folder| folder.metadata().ok());
    existing.is_none_or(|existing| existing.permissions().readonly())
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of variables may be secrets.
        f.debug_struct("Environment")
            .field("variables", &self.variables.len())
            .field("working_dir", &self.working_dir)
            .field("config_dir", &self.config_dir)
            .field("data_dir", &self.data_dir)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_only_if_it_could_not_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("share/neuraxis");
        assert!(!is_read_only(&data));
        assert!(!folder.path().join("share").exists(), "nothing was made");
        std::fs::write(folder.path().join("share"), "a file").unwrap();
        assert!(is_read_only(&data));
    }

    /// A user with this home folder, and perhaps another configuration folder.
    struct User {
        home: PathBuf,
        config: Option<PathBuf>,
    }

    impl BaseStrategy for User {
        fn home_dir(&self) -> &Path {
            &self.home
        }

        fn config_dir(&self) -> PathBuf {
            let usual = || self.home.join(".config");
            self.config.clone().unwrap_or_else(usual)
        }

        fn data_dir(&self) -> PathBuf {
            self.home.join(".local/share")
        }

        fn cache_dir(&self) -> PathBuf {
            self.home.join(".cache")
        }

        fn state_dir(&self) -> Option<PathBuf> {
            Some(self.home.join(".local/state"))
        }

        fn runtime_dir(&self) -> Option<PathBuf> {
            None
        }
    }

    #[test]
    fn a_relative_home_names_no_folder_of_the_user() {
        for home in [".", "home/me", ""] {
            let environment = Environment::of_user(&User {
                home: PathBuf::from(home),
                config: None,
            });
            assert_eq!(environment.config_dir(), None, "{home:?}");
            assert_eq!(environment.locked_config_dir(), None, "{home:?}");
            assert_eq!(environment.data_dir(), None, "{home:?}");
            assert_eq!(environment.home_dir(), None, "{home:?}");
            assert_eq!(environment.chat_history(), None, "{home:?}");
            assert_eq!(environment.relative_home(), Some(Path::new(home)));
        }
    }

    #[test]
    fn a_folder_with_a_path_of_its_own_applies_whatever_the_home_is() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::of_user(&User {
            home: PathBuf::from("."),
            config: Some(folder.path().to_owned()),
        });
        let config_dir = folder.path().join(FOLDER);
        assert_eq!(environment.config_dir(), Some(config_dir.as_path()));
        let usual = Environment::of_user(&User {
            home: folder.path().to_owned(),
            config: None,
        });
        assert_eq!(usual.home_dir(), Some(folder.path()));
        assert!(usual.data_dir().is_some() && usual.chat_history().is_some());
        assert_eq!(usual.relative_home(), None);
    }

    #[test]
    fn debug_output_does_not_show_values_of_variables() {
        let environment = Environment::new("/w").with_variable("KEY", "hunter2");
        assert!(!format!("{environment:?}").contains("hunter2"));
        assert_eq!(environment.variable("KEY"), Some(OsStr::new("hunter2")));
    }
}
