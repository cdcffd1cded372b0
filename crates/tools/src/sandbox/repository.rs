//! What git is told inside, so that the configuration that came along with a repository runs nothing.
//!
//! Hooks, fsmonitor and the like are switched off for every command (`environment`). Filters, drivers and tools have names
//! that only the repository knows: they are read here, inside of the sandbox, and each is replaced by what git does without
//! it. What the user's own configuration names stays. So it is with its submodules, which git enters by itself where it is
//! asked for nothing but the status or a difference.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most repositories whose settings are read, that of the folder and its submodules; with more nothing is run at all.
const MAX_REPOSITORIES: usize = 1_000;

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

/// What replaces settings: the names of variables with their values.
type Variables = Vec<(String, String)>;

/// Returns the variables that replace what the repository of the working directory and its submodules would run.
pub(super) fn variables() -> Result<Variables, String> {
    let mut own = BTreeSet::new();
    let mut variables = Variables::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![PathBuf::from(".")];
    while let Some(folder) = open.pop() {
        // None of them is entered twice, by whatever name.
        let known_as = fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
        if !seen.insert(known_as) {
            continue;
        }
        if seen.len() > MAX_REPOSITORIES {
            return Err("the repository has too many submodules".to_owned());
        }
        own.append(&mut own_settings(&folder));
        // Looking for submodules runs nothing of what is known by then.
        variables = replacing(&own)?;
        open.extend(submodules(&folder, &variables));
    }
    Ok(variables)
}

/// Returns the variables that replace these settings.
fn replacing(own: &BTreeSet<String>) -> Result<Variables, String> {
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
    if own.contains("core.gitproxy") {
        let (name, none) = PROXY;
        variables.push((name.to_owned(), none.to_owned()));
    }
    for (number, (key, value)) in (first..).zip(replaced) {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()));
    }
    Ok(variables)
}

/// Returns the names of the settings that the repository of a folder itself makes. Where there is no git, or none that can be
/// asked, there are none.
fn own_settings(folder: &Path) -> BTreeSet<String> {
    let words = ["config", "--list", "--show-scope", "--null", "--name-only"];
    let told = ask(folder, &words, &[]);
    let told = String::from_utf8_lossy(&told);
    let mut words = told.split('\0');
    let mut own = BTreeSet::new();
    while let (Some(scope), Some(key)) = (words.next(), words.next()) {
        if matches!(scope, "local" | "worktree") {
            own.insert(key.to_owned());
        }
    }
    own
}

/// Finds the submodules of the repository of a folder that are checked out.
fn submodules(folder: &Path, variables: &[(String, String)]) -> Vec<PathBuf> {
    const LINK: &[u8] = b"160000 ";
    // All of the repository, by paths from the folder.
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

/// Returns what git says in a folder; nothing where there is no git.
fn ask(folder: &Path, words: &[&str], variables: &[(String, String)]) -> Vec<u8> {
    let told = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(words)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    told.map(|told| told.stdout).unwrap_or_default()
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
        // It enters submodules that are not checked out, too.
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
    fn settings_that_name_programs_are_replaced_and_no_others() {
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
