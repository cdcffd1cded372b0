//! What to do about a failure of the program: the next step, as the command line's hints name it.

use std::io;

use neuraxis::core::with_causes;
use neuraxis::ports::StoreError;
use neuraxis_app::{BuildError, ConfigError, OpenError, names_tilde};

use crate::program::Failure;

/// What to do about a path that begins with `~`.
const TILDE: &str = "`~` is not expanded in settings: write the whole path";

impl Failure {
    /// Returns what to do next, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        if names_tilde(&with_causes(self)) {
            return Some(TILDE);
        }
        match self {
            Self::Config(error) => Some(about_configuration(error)),
            Self::Build(error) => Some(about_build(error)),
            _ => None,
        }
    }
}

fn about_configuration(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::Read { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
            "save it as UTF-8"
        }
        ConfigError::Read { .. } => "check the path",
        ConfigError::BrokenSinceTrusted { .. } => {
            "fix it, or remove it; `neuraxis trust remove` stops trusting this folder"
        }
        ConfigError::KeyElsewhere { .. } | ConfigError::VariablesElsewhere { .. } => {
            "`neuraxis trust show` shows what this folder's file does"
        }
        _ => "`neuraxis config init --config new.toml` writes a file that explains every key",
    }
}

fn about_build(error: &BuildError) -> &'static str {
    match error {
        BuildError::DatabaseBusy {
            source: OpenError::Full { .. },
            ..
        }
        | BuildError::Database {
            source: OpenError::Store(StoreError::Full(_)),
            ..
        } => "free some disk space where the database is",
        BuildError::DatabaseBusy { .. } => {
            "try again in a moment, once the other process has released it"
        }
        BuildError::StoreFolder { .. } => "create the folder, or name another file",
        BuildError::Model { .. } | BuildError::Database { .. } | BuildError::ApprovalKey { .. } => {
            "`neuraxis doctor --offline` says what can be done"
        }
        _ => "`neuraxis config show` says where each value comes from",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use neuraxis_app::Origin;

    use super::*;

    #[test]
    fn a_failure_names_the_next_step() {
        let read = |kind: io::ErrorKind, path: &str| {
            Failure::Config(ConfigError::Read {
                path: PathBuf::from(path),
                source: kind.into(),
            })
        };
        let encoding = read(io::ErrorKind::InvalidData, "n.toml");
        assert_eq!(encoding.hint(), Some("save it as UTF-8"));
        let missing = read(io::ErrorKind::NotFound, "n.toml");
        assert_eq!(missing.hint(), Some("check the path"));
        let full = BuildError::DatabaseBusy {
            at: Origin::Default,
            source: OpenError::Full {
                place: "s.db".to_owned(),
            },
        };
        let hint = Failure::from(full).hint();
        assert!(hint.is_some_and(|hint| hint.contains("free some disk space")));
        let folder = BuildError::StoreFolder {
            at: Origin::Default,
            folder: PathBuf::from("~/data"),
        };
        assert_eq!(Failure::from(folder).hint(), Some(TILDE));
        let other = Failure::System(io::ErrorKind::Other.into());
        assert_eq!(other.hint(), None);
    }
}
