//! What git is told inside, so that the configuration that came along with a repository runs nothing.
//!
//! Hooks, fsmonitor and the like are switched off for every command (`environment`). Filters, drivers and tools have names
//! that only the repository knows: they are read here, inside of the sandbox, and each is replaced by what git does without
//! it. What the user's own configuration names stays.

use std::env;
use std::process::{Command, Stdio};

/// The most settings that are replaced; beyond them nothing is run at all.
const MAX_SETTINGS: usize = 200;

/// What shows a difference in place of a program of the repository. It gets the path, the old file, its hash and mode, and
/// the same of the new one.
const PLAIN_DIFFERENCE: &str = "sh -c 'diff -u \"$2\" \"$5\"; :' diff";

/// How the names of settings end that name programs, whichever part of git they are for.
const ENDINGS: [&str; 7] = [
    "cmd",
    "command",
    "program",
    "prog",
    "helper",
    "hook",
    "difffilter",
];

/// What takes the place of `core.gitProxy`: of several the first counts, so that a later one replaces none.
const PROXY: (&str, &str) = ("GIT_PROXY_COMMAND", "");

/// How many settings the environment brings along already.
const COUNT: &str = "GIT_CONFIG_COUNT";

/// Returns the variables that replace what the repository of the working directory would run.
pub(super) fn variables() -> Result<Vec<(String, String)>, String> {
    let own = own_settings();
    let replaced: Vec<(&str, &str)> = own.iter().filter_map(|key| replacement(key)).collect();
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
    if own.iter().any(|key| key == "core.gitproxy") {
        let (name, none) = PROXY;
        variables.push((name.to_owned(), none.to_owned()));
    }
    for (number, (key, value)) in (first..).zip(replaced) {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()));
    }
    Ok(variables)
}

/// Returns the names of the settings that the repository itself makes. Where there is no git, or none that can be asked,
/// there are none.
fn own_settings() -> Vec<String> {
    let asked = Command::new("git")
        .args(["config", "--list", "--show-scope", "--null", "--name-only"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(told) = asked else {
        return Vec::new();
    };
    let told = String::from_utf8_lossy(&told.stdout);
    let mut words = told.split('\0');
    let mut own = Vec::new();
    while let (Some(scope), Some(key)) = (words.next(), words.next()) {
        if matches!(scope, "local" | "worktree") {
            own.push(key.to_owned());
        }
    }
    own.sort();
    own.dedup();
    own
}

/// Returns what stands in for a setting that names a program, mostly another value of it; nothing for any other.
fn replacement(key: &str) -> Option<(&str, &'static str)> {
    let lower = key.to_lowercase();
    let (section, name) = (lower.split('.').next()?, lower.rsplit('.').next()?);
    let value = match (section, name) {
        // Of these the first value counts, or all: they cannot be replaced, but what runs them can be switched off.
        ("remote", "uploadpack" | "receivepack") => return Some(("protocol.file.allow", "never")),
        ("gc", "recentobjectshook") => return Some(("gc.auto", "0")),
        ("filter", "clean" | "smudge" | "process") => "",
        ("filter", "required") => "false",
        ("diff", "textconv") => "cat",
        ("diff", "command" | "external") => PLAIN_DIFFERENCE,
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
    fn settings_that_name_programs_are_replaced_and_no_others() {
        for (key, value) in [
            ("filter.LFS.x.clean", ""),
            ("filter.a.required", "false"),
            ("diff.word.textconv", "cat"),
            ("diff.external", PLAIN_DIFFERENCE),
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
