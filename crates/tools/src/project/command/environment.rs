//! The variables that a command gets.

use std::ffi::OsString;
use std::path::Path;

/// The variables that are handed on to commands, if they are set: no other one is, since any may hold a secret. A `*` at
/// the end stands for anything.
pub const COMMAND_ENVIRONMENT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
];

/// What commands are told, so that they neither paint nor ask nor page.
const SET: [(&str, &str); 6] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Makes the environment of a command from that of this program. Temporary files and caches go to `temporary`.
pub(super) fn environment(
    ours: impl Iterator<Item = (OsString, OsString)>,
    temporary: &Path,
) -> Vec<(OsString, OsString)> {
    let set = SET.map(|(name, value)| (name.into(), value.into()));
    let folders = ["TMPDIR", "XDG_CACHE_HOME"].map(|name| (name.into(), temporary.into()));
    ours.filter(|(name, _)| name.to_str().is_some_and(is_handed_on))
        .chain(set)
        .chain(folders)
        .collect()
}

fn is_handed_on(name: &str) -> bool {
    COMMAND_ENVIRONMENT
        .iter()
        .any(|known| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *known,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_be_harmless_is_handed_on() {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("OPENAI_API_KEY", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("LD_PRELOAD", "/evil.so"),
            ("PATHS", "secret"),
            ("path", "secret"),
        ];
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        let made = environment(ours.into_iter(), Path::new("/tmp/x"));
        let made: Vec<_> = made
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            made,
            [
                "PATH=/bin",
                "LC_ALL=C",
                "TERM=dumb",
                "NO_COLOR=1",
                "PAGER=cat",
                "GIT_PAGER=cat",
                "GIT_TERMINAL_PROMPT=0",
                "DEBIAN_FRONTEND=noninteractive",
                "TMPDIR=/tmp/x",
                "XDG_CACHE_HOME=/tmp/x",
            ]
        );
    }
}
