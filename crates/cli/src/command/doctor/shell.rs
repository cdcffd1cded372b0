//! Checks the shell that runs commands: without it, each command would fail, and the model would try others.

use std::path::{Path, PathBuf};
use std::{env, fs};

use neuraxis_app::{CommandAvailability, Config, command_availability};

use super::check::{Check, Outcome};

/// The shell of commands that are confined.
const CONFINED: &str = "/bin/sh";

/// The name of the shell of commands that are not, which is found in `PATH`.
const UNCONFINED: &str = "sh";

/// Reports a shell that is missing or cannot be executed, if commands are offered.
pub(super) fn check(config: &Config) -> Option<Check> {
    if !config.offers_project_tools() {
        return None;
    }
    let (shell, places) = match command_availability(config) {
        CommandAvailability::Refused { .. } => return None,
        CommandAvailability::Unconfined { .. } => (UNCONFINED, in_path(UNCONFINED)),
        _ => (CONFINED, vec![PathBuf::from(CONFINED)]),
    };
    if places.iter().any(|place| is_executable(place)) {
        return None;
    }
    let detail = format!("there is no {shell} that can be executed, so no command can run");
    let fix =
        "install a POSIX shell, such as dash or bash, or the one that Git for Windows includes";
    Some(Check::here("shell", Outcome::Warning, detail).fix(fix))
}

/// Returns where a program may be found.
fn in_path(name: &str) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).map(|folder| folder.join(name));
    places
        .map(|place| match cfg!(windows) {
            true => place.with_extension("exe"),
            false => place,
        })
        .collect()
}

#[cfg(unix)]
fn is_executable(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    let found = fs::metadata(program);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|found| found.is_file())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_a_file_that_can_be_executed_counts_as_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_executable(&folder.path().join("sh")), "missing");
        assert!(!is_executable(folder.path()), "a folder");
        let shell = folder.path().join("sh");
        fs::write(&shell, "").unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_executable(&shell), "not executable");
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_executable(&shell));
    }
}
