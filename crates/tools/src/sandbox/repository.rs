//! Settings that keep git inside the sandbox from running what a repository's configuration names.
//!
//! Hooks, fsmonitor and the like are turned off for every command (`environment`). Filters, drivers and tools have
//! names that only the repository knows: they are read here, inside the sandbox, and each is replaced by what git does
//! without it. What the user's own configuration names stays, even if a repository names the same. The same applies to
//! submodules, which git enters on its own even when it is only asked for the status or a diff.
//!
//! A required filter fails if git can write to the repository, so that content to be encrypted is not committed
//! unencrypted. If git only reads, it works without the filter.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use neuraxis_core::Access;

/// The maximum number of repositories whose settings are read: that of the folder and its submodules. With more,
/// nothing is run at all.
const MAX_REPOSITORIES: usize = 1_000;

/// The maximum number of settings that are replaced. With more, nothing is run at all.
const MAX_SETTINGS: usize = 200;

/// Shows a diff instead of a repository's program. Its arguments are the path, the old file with its hash and mode, and
/// the same for the new file.
const PLAIN_DIFFERENCE: &str = "sh -c 'diff -u \"$2\" \"$5\"; :' diff";

/// The endings of setting names that name programs, in any part of git.
const ENDINGS: [&str; 7] = [
    "cmd",
    "command",
    "program",
    "prog",
    "helper",
    "hook",
    "difffilter",
];

/// Replaces `core.gitProxy`, of which the first value applies, so that a later one would not replace it.
const PROXY: (&str, &str) = ("GIT_PROXY_COMMAND", "");

/// The number of settings that the environment already contains.
const COUNT: &str = "GIT_CONFIG_COUNT";

/// Variables that replace settings, with their values.
type Variables = Vec<(String, String)>;

/// The settings of several repositories.
#[derive(Debug, Default)]
struct Settings {
    /// The names of settings that the repositories themselves make.
    own: BTreeSet<String>,
    /// The settings of the user's and the system's configuration.
    users: BTreeMap<String, String>,
    /// Whether git can write to the repository.
    is_writable: bool,
}

impl Settings {
    /// Adds the settings that git listed in a repository. If the user's settings differ by repository, the first ones
    /// stay.
    fn add(&mut self, listed: &str) {
        let mut words = listed.split('\0');
        let mut users = BTreeMap::new();
        while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
            // A setting without a value is on.
            let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
            match scope {
                "local" | "worktree" => {
                    self.own.insert(key.to_owned());
                }
                "system" | "global" => {
                    users.insert(key.to_owned(), value.to_owned());
                }
                _ => {}
            }
        }
        for (key, value) in users {
            self.users.entry(key).or_insert(value);
        }
    }

    /// Returns the replacement for a setting. Replacements apply to all repositories, so a value from the user's
    /// configuration takes precedence.
    fn instead<'a>(&'a self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let (name, value) = replacement(key)?;
        // Credential helpers accumulate, and are turned off for every command.
        let is_users = name == key && !key.starts_with("credential.");
        match self.users.get(key).filter(|_| is_users) {
            Some(users) => Some((name, users.as_str())),
            None if self.is_writable && is_required(key) => None,
            None => Some((name, value)),
        }
    }
}

/// Returns the variables that replace what the repository in the working directory and its submodules would run, for a
/// command with the given access.
pub(super) fn variables(access: &BTreeSet<Access>) -> Result<Variables, String> {
    let mut settings = Settings {
        is_writable: access.contains(&Access::Git),
        ..Settings::default()
    };
    let mut variables = Variables::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![PathBuf::from(".")];
    while let Some(folder) = open.pop() {
        // No repository is entered twice, whatever its path.
        let known_as = fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
        if !seen.insert(known_as) {
            continue;
        }
        if seen.len() > MAX_REPOSITORIES {
            return Err("the repository has too many submodules".to_owned());
        }
        // Without git, or if it cannot be run, there are no settings.
        let words = ["config", "--list", "--show-scope", "--null"];
        let listed = ask(&folder, &words, &[]);
        settings.add(&String::from_utf8_lossy(&listed));
        // Listing submodules then runs nothing of what is known so far.
        variables = replacing(&settings)?;
        open.extend(submodules(&folder, &variables));
    }
    Ok(variables)
}

/// Returns the variables that replace these settings.
fn replacing(settings: &Settings) -> Result<Variables, String> {
    let own = settings.own.iter();
    let replaced: Vec<(&str, &str)> = own.filter_map(|key| settings.instead(key)).collect();
    if replaced.is_empty() {
        return Ok(Vec::new());
    }
    if replaced.len() > MAX_SETTINGS {
        return Err("the configuration of the repository names too many programs".to_owned());
    }
    let first: usize = env::var(COUNT)
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or_default();
    let mut variables = vec![(COUNT.to_owned(), (first + replaced.len()).to_string())];
    if settings.own.contains("core.gitproxy") {
        let (name, none) = PROXY;
        variables.push((name.to_owned(), none.to_owned()));
    }
    for (number, (key, value)) in (first..).zip(replaced) {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()));
    }
    Ok(variables)
}

/// Finds the checked-out submodules of a folder's repository.
fn submodules(folder: &Path, variables: &[(String, String)]) -> Vec<PathBuf> {
    const LINK: &[u8] = b"160000 ";
    // Lists the whole repository, with paths relative to the folder.
    let words = ["ls-files", "--stage", "-z", "--", ":/"];
    let staged = ask(folder, &words, variables);
    let path_of = |entry: &[u8]| {
        let link = entry.strip_prefix(LINK)?;
        let at = link.iter().position(|byte| *byte == b'\t')?;
        Some(folder.join(OsStr::from_bytes(link.get(at + 1..)?)))
    };
    let links = staged.split(|byte| *byte == 0).filter_map(path_of);
    links.filter(|link| link.join(".git").exists()).collect()
}

/// Returns git's output in a folder; empty if there is no git.
fn ask(folder: &Path, words: &[&str], variables: &[(String, String)]) -> Vec<u8> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(words)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    output.map(|output| output.stdout).unwrap_or_default()
}

/// Returns whether a setting makes git fail if a filter does not run.
fn is_required(key: &str) -> bool {
    let lower = key.to_lowercase();
    lower.starts_with("filter.") && lower.ends_with(".required")
}

/// Returns the replacement for a setting that names a program, usually another value for it; `None` for any other
/// setting.
fn replacement(key: &str) -> Option<(&str, &'static str)> {
    let lower = key.to_lowercase();
    let (section, name) = (lower.split('.').next()?, lower.rsplit('.').next()?);
    let value = match (section, name) {
        // Of these settings, the first value applies, or all: they cannot be replaced, but what runs them can be turned
        // off.
        ("remote", "uploadpack" | "receivepack") => return Some(("protocol.file.allow", "never")),
        ("gc", "recentobjectshook") => return Some(("gc.auto", "0")),
        ("filter", "clean" | "smudge" | "process") => "",
        ("filter", "required") => "false",
        ("diff", "textconv") => "cat",
        ("diff", "command" | "external") => PLAIN_DIFFERENCE,
        // Otherwise, git would also enter submodules that are not checked out.
        ("diff", "submodule") => "short",
        ("merge", "driver") => "git merge-file %A %O %B",
        ("core", "sshcommand") => "ssh",
        ("core", "editor") | ("sequence", "editor") => "true",
        ("core", "pager") | ("pager", _) => "cat",
        ("gpg", "program") => "gpg",
        ("submodule", "update") => "checkout",
        ("sendemail", "smtpserver") => "localhost",
        ("alias", _) | ("core", "gitproxy") | ("imap", "tunnel") | ("instaweb", "httpd") => "",
        ("difftool" | "mergetool" | "man" | "browser", "path") => "",
        _ if ENDINGS.iter().any(|ending| name.ends_with(ending)) => "",
        _ => return None,
    };
    Some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_user_take_precedence_over_the_same_in_a_repository() {
        let mut settings = Settings::default();
        settings.add(
            "system\0filter.x.smudge\ntr a b\0global\0filter.x.clean\none\0global\0filter.x.clean\ntr b\n\0\
             global\0filter.x.required\0global\0credential.helper\nstore\0global\0protocol.file.allow\nalways\0\
             local\0core.bare\nfalse\0command\0core.fsmonitor\nfalse\0",
        );
        // As in a submodule for which the user may name something else.
        settings.add(
            "global\0filter.x.clean\nother\0local\0filter.x.clean\nevil\0local\0filter.x.smudge\nevil\0\
             local\0filter.x.required\nfalse\0local\0filter.y.clean\nevil\0local\0credential.helper\nevil\0\
             local\0remote.up.uploadpack\nevil\0",
        );
        let variables = replacing(&settings).unwrap();
        let values = |part: &str| -> Vec<&str> {
            let found = variables.iter().filter(|(name, _)| name.contains(part));
            found.map(|(_, value)| value.as_str()).collect()
        };
        let replaced: Vec<_> = values("_KEY_").into_iter().zip(values("_VALUE_")).collect();
        assert_eq!(
            replaced,
            [
                ("credential.helper", ""),
                ("filter.x.clean", "tr b\n"),
                ("filter.x.required", "true"),
                ("filter.x.smudge", "tr a b"),
                ("filter.y.clean", ""),
                ("protocol.file.allow", "never"),
            ]
        );
    }

    #[test]
    fn a_required_filter_stays_required_when_the_repository_is_writable() {
        for (is_writable, users, required) in [
            (false, "", Some("false")),
            (true, "", None),
            (true, "global\0filter.x.required\nyes\0", Some("yes")),
        ] {
            let mut settings = Settings {
                is_writable,
                ..Settings::default()
            };
            settings.add(&format!(
                "{users}local\0filter.x.required\ntrue\0local\0filter.x.clean\nevil\0"
            ));
            let instead = settings.instead("filter.x.required");
            assert_eq!(instead.map(|(_, value)| value), required, "{users}");
            let instead = settings.instead("filter.x.clean");
            assert_eq!(instead.map(|(_, value)| value), Some(""));
        }
    }

    #[test]
    fn only_settings_that_name_programs_are_replaced() {
        for (key, value) in [
            ("filter.LFS.x.clean", ""),
            ("filter.a.required", "false"),
            ("diff.word.textconv", "cat"),
            ("diff.external", PLAIN_DIFFERENCE),
            ("diff.submodule", "short"),
            ("merge.a.b.driver", "git merge-file %A %O %B"),
            ("pager.log", "cat"),
            ("alias.x", ""),
            ("trailer.sign.cmd", ""),
            ("credential.https://x.helper", ""),
            ("core.alternateRefsCommand", ""),
            ("gpg.ssh.defaultKeyCommand", ""),
            ("gpg.ssh.program", "gpg"),
            ("interactive.diffFilter", ""),
            ("sendemail.work.sendmailCmd", ""),
            ("sendemail.toCmd", ""),
            ("sendemail.smtpServer", "localhost"),
            ("uploadpack.packObjectsHook", ""),
            ("svn.authors-prog", ""),
            ("imap.tunnel", ""),
            ("difftool.vimdiff.path", ""),
        ] {
            assert_eq!(replacement(key), Some((key, value)), "{key}");
        }
        for (key, instead) in [
            ("remote.origin.uploadpack", ("protocol.file.allow", "never")),
            ("remote.x.receivepack", ("protocol.file.allow", "never")),
            ("gc.recentObjectsHook", ("gc.auto", "0")),
        ] {
            assert_eq!(replacement(key), Some(instead), "{key}");
        }
        for key in [
            "user.name",
            "core.bare",
            "remote.origin.url",
            "diff.algorithm",
            "merge.tool",
            "sendemail.to",
            "gpg.format",
        ] {
            assert_eq!(replacement(key), None, "{key}");
        }
    }
}
