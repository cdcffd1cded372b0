//! Reads a model's key: from a variable or from a file, never from the configuration itself.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use neuraxis_core::utf8_text;
use neuraxis_ports::Secret;

use crate::config::ModelConfig;
use crate::config::secret::shown_variable;
use crate::environment::Environment;

/// The maximum size of a key file in bytes, far above that of any provider's key.
const MAX_BYTES: u64 = 16 * 1024;

/// Why a key is unavailable. Never contains the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Two locations are named.
    #[error("api_key_env and api_key_file are both set; keep one")]
    TwoPlaces,
    /// The variable is not set, or contains nothing that could be a key.
    #[error(
        "the environment variable {variable} that api_key_env names is not set or is empty; export it first"
    )]
    NoVariable {
        /// The variable.
        variable: String,
    },
    /// The value of the variable is not text.
    #[error(
        "the value of the environment variable {variable} that api_key_env names is not UTF-8, so it is no key"
    )]
    NotUtf8 {
        /// The variable.
        variable: String,
    },
    /// The key has characters that no request can carry.
    #[error(
        "the key in {place} has characters that cannot be sent, such as a line break: store it on one line"
    )]
    Unsendable {
        /// The variable or the file.
        place: KeySource,
    },
    /// The file cannot be read.
    #[error("cannot read the key from {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file contains nothing that could be a key.
    #[error("{} holds no key", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than any key.
    #[error("{} has more than {MAX_BYTES} bytes, too many for a key", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The path leads to a folder, a pipe or something else that is not a regular file.
    #[error("{} is not a file", path.display())]
    NoFile {
        /// The folder, pipe or other thing.
        path: PathBuf,
    },
    /// Other users of this machine can read or modify the file.
    #[error("other users can read or change {}; restrict it to its owner: chmod 600", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
}

impl KeyError {
    /// Returns the faulty key of the section.
    pub(super) const fn key(&self) -> &'static str {
        match self {
            Self::TwoPlaces
            | Self::NoVariable { .. }
            | Self::NotUtf8 { .. }
            | Self::Unsendable {
                place: KeySource::Variable(_),
            } => "api_key_env",
            Self::Unsendable { .. }
            | Self::Unreadable { .. }
            | Self::Empty { .. }
            | Self::TooLarge { .. }
            | Self::NoFile { .. }
            | Self::Exposed { .. } => "api_key_file",
        }
    }
}

/// Where a model's key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// No key is sent.
    None,
    /// The environment variable of this name.
    Variable(String),
    /// This file.
    File(PathBuf),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Variable(name) => f.write_str(&crate::names::shown(name)),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Reads the key of a model, if it has one, and returns it with its source.
pub(super) fn of(
    model: &ModelConfig,
    environment: &Environment,
) -> Result<(Option<Secret>, KeySource), KeyError> {
    match (&model.api_key_env, &model.api_key_file) {
        (None, None) => Ok((None, KeySource::None)),
        (Some(_), Some(_)) => Err(KeyError::TwoPlaces),
        (Some(variable), None) => {
            let missing = || {
                let value = environment.variable(variable);
                let is_text = value.is_none_or(|value| value.to_str().is_some());
                let variable = shown_variable(variable).to_owned();
                match is_text {
                    true => KeyError::NoVariable { variable },
                    false => KeyError::NotUtf8 { variable },
                }
            };
            let key = in_variable(variable, environment).ok_or_else(missing)?;
            sendable(key, KeySource::Variable(variable.clone()))
        }
        (None, Some(file)) => {
            let key = from_file(&environment.working_dir().join(file))?;
            sendable(key, KeySource::File(file.clone()))
        }
    }
}

/// Returns a key with its source, unless it has a control character: a header can carry none.
fn sendable(key: Secret, place: KeySource) -> Result<(Option<Secret>, KeySource), KeyError> {
    match key.expose().bytes().any(|byte| byte.is_ascii_control()) {
        true => Err(KeyError::Unsendable { place }),
        false => Ok((Some(key), place)),
    }
}

/// Returns the key in a variable, if it contains something that could be a key.
pub(crate) fn in_variable(variable: &str, environment: &Environment) -> Option<Secret> {
    environment.filled(variable).map(Secret::new)
}

/// Reads a key from a file that only its owner, and possibly a group, can read.
pub(crate) fn from_file(path: &Path) -> Result<Secret, KeyError> {
    let unreadable = |source| KeyError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(KeyError::NoFile {
            path: path.to_owned(),
        });
    }
    if is_exposed(&metadata) {
        return Err(KeyError::Exposed {
            path: path.to_owned(),
        });
    }
    if metadata.len() > MAX_BYTES {
        return Err(KeyError::TooLarge {
            path: path.to_owned(),
        });
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    let text = utf8_text(bytes)
        .map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    // Editors on Windows put a byte order mark first, which is not part of the key.
    match text.trim_start_matches('\u{feff}').trim() {
        "" => Err(KeyError::Empty {
            path: path.to_owned(),
        }),
        key => Ok(Secret::new(key)),
    }
}

/// Returns whether others may read or modify a file. A group may read it, since Kubernetes gives a group access to its
/// secrets (`fsGroup`).
#[cfg(unix)]
fn is_exposed(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o026 != 0
}

#[cfg(not(unix))]
fn is_exposed(_metadata: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use neuraxis_offline::OfflineConfig;

    use super::*;
    use crate::providers::ProviderConfig;

    fn model(variable: Option<&str>, file: Option<&Path>) -> ModelConfig {
        ModelConfig {
            api_key_env: variable.map(str::to_owned),
            api_key_file: file.map(Path::to_owned),
            provider: ProviderConfig::new(OfflineConfig::default()),
        }
    }

    #[test]
    fn a_missing_variable_is_named_and_an_empty_one_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path()).with_variable("EMPTY", " ");
        for name in ["MY_KEY", "EMPTY"] {
            let error = of(&model(Some(name), None), &environment).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        let environment = environment.with_variable("MY_KEY", "sk-canary");
        let (key, source) = of(&model(Some("MY_KEY"), None), &environment).unwrap();
        assert!(!format!("{key:?}").contains("canary"), "{key:?}");
        assert!(key.is_some());
        assert_eq!(source.to_string(), "MY_KEY");
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_is_no_text_is_not_called_missing() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;

        let value = OsStr::from_bytes(b"sk-canary\xff");
        let environment = Environment::new(std::env::temp_dir()).with_variable("MY_KEY", value);
        let error = of(&model(Some("MY_KEY"), None), &environment).unwrap_err();
        assert_eq!(error.key(), "api_key_env");
        let told = error.to_string();
        assert!(
            told.contains("MY_KEY") && told.contains("not UTF-8"),
            "{told}"
        );
        assert!(!format!("{error:?}{told}").contains("canary"), "{told}");
    }

    #[test]
    fn a_key_of_several_lines_is_refused_by_the_name_of_its_variable_or_file() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path()).with_variable("MY_KEY", "sk-ca\nnary\n");
        write_alone(&folder.path().join("my.key"), "sk-ca\r\nnary\n");
        for (model, place, key) in [
            (model(Some("MY_KEY"), None), "MY_KEY", "api_key_env"),
            (
                model(None, Some(Path::new("my.key"))),
                "my.key",
                "api_key_file",
            ),
        ] {
            let error = of(&model, &environment).unwrap_err();
            assert_eq!(error.key(), key);
            let said = error.to_string();
            assert!(
                said.contains(place) && said.contains("line break"),
                "{said}"
            );
            assert!(!format!("{error:?}{said}").contains("nary"), "{said}");
        }
    }

    #[test]
    fn a_key_written_instead_of_its_variable_is_not_echoed() {
        let environment = Environment::new(std::env::temp_dir());
        let error = of(&model(Some("sk-canary"), None), &environment).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }

    #[test]
    fn a_key_has_at_most_one_source() {
        let environment = Environment::new(std::env::temp_dir());
        let both = model(Some("A"), Some(Path::new("b")));
        assert!(matches!(of(&both, &environment), Err(KeyError::TwoPlaces)));
        let none = of(&model(None, None), &environment);
        assert!(matches!(none, Ok((None, KeySource::None))));
    }

    #[test]
    fn a_key_file_is_resolved_from_the_working_directory_and_must_contain_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path());
        let file = folder.path().join("key");
        let read = || of(&model(None, Some(Path::new("key"))), &environment);
        let error = read().unwrap_err();
        let KeyError::Unreadable { source, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(error.to_string().ends_with(&source.to_string()), "{error}");
        write_alone(&file, " \n");
        assert!(matches!(read(), Err(KeyError::Empty { .. })));
        write_alone(&file, &"k".repeat(16 * 1024 + 1));
        let error = read().unwrap_err();
        assert!(error.to_string().contains("16384 bytes"), "{error}");
        write_alone(&file, "\u{feff}\r\n");
        assert!(matches!(read(), Err(KeyError::Empty { .. })));
        for text in ["sk-canary\n", "\u{feff}sk-canary\r\n"] {
            write_alone(&file, text);
            let (key, source) = read().unwrap();
            assert_eq!(key.unwrap().expose(), "sk-canary");
            assert!(matches!(source, KeySource::File(_)));
        }
    }

    fn write_alone(file: &Path, text: &str) {
        fs::write(file, text).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    /// Creates a folder that others may read.
    #[cfg(unix)]
    fn shared_folder(within: &Path) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let folder = within.join("folder");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[cfg(unix)]
    #[test]
    fn a_key_file_others_can_read_is_refused_unless_only_its_group_can() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path());
        let file = folder.path().join("key");
        fs::write(&file, "sk-canary").unwrap();
        let read = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            of(&model(None, Some(Path::new("key"))), &environment)
        };
        for mode in [0o644, 0o604, 0o660] {
            let error = read(mode).unwrap_err();
            assert!(
                matches!(error, KeyError::Exposed { .. }),
                "{mode:o}: {error}"
            );
            assert!(!error.to_string().contains("canary"));
        }
        let in_place = of(
            &model(None, Some(&shared_folder(folder.path()))),
            &environment,
        );
        assert!(matches!(in_place, Err(KeyError::NoFile { .. })));
        // 0o440 is how Kubernetes mounts a secret; and permission to execute a file lets others neither read nor modify
        // it.
        for mode in [0o440, 0o711] {
            assert!(matches!(read(mode), Ok((Some(_), _))), "{mode:o}");
        }
    }
}
