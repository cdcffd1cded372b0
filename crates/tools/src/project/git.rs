//! What the configuration of a git repository names in a project: hooks, programs, and other files of configuration. Git
//! runs what they say for whoever works there, outside of any sandbox, so that only people change them.
//!
//! Programs that are named without a folder, or by a path that begins with `~`, are not looked for.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::own::{Own, places};

/// The most bytes that are read of a `.git` that is a file.
const MAX_LINK_BYTES: u64 = 4096;

/// The most bytes that are read of a file of configuration. That of a repository with thousands of branches has some hundred KiB, and
/// what is set last stands at its end.
const MAX_CONFIGURATION_BYTES: u64 = 4 << 20;

/// How deep files of configuration are followed that name others: as deep as git follows them.
const MAX_INCLUDE_DEPTH: usize = 10;

/// The most files of configuration that are read for one working tree: two that each name both would be read a thousand times.
const MAX_INCLUDED: usize = 100;

/// Returns what the repository of a working tree has git read or run in a project, by paths from the project's top; nothing
/// where the folder is no working tree. What is named need not be there. Both paths are absolute, the top free of symlinks.
pub(crate) fn named_by(top: &Path, work_tree: &Path) -> BTreeSet<PathBuf> {
    let mut named = BTreeSet::new();
    let Some(repository) = repository_in(work_tree) else {
        return named;
    };
    let of_work_tree = repository.join("config.worktree");
    let common = shared(repository.clone());
    let mut add = |path: &Path| {
        for (place, _) in places(path, Own::Governing) {
            // With the working tree as a whole, or all of the repository, nothing could be worked on.
            let holds_all = work_tree.starts_with(&place) || repository.starts_with(&place);
            let is_name = |part| matches!(part, Component::Normal(_));
            let inside = place.strip_prefix(top).ok().filter(|inside| {
                let mut parts = inside.components();
                !holds_all && parts.clone().next().is_some() && parts.all(is_name)
            });
            named.extend(inside.map(Path::to_owned));
        }
    };
    let mut open = vec![(common.join("config"), 0), (of_work_tree, 0)];
    let mut read = 0;
    while let Some((file, depth)) = open.pop() {
        read += 1;
        if depth > MAX_INCLUDE_DEPTH || read > MAX_INCLUDED {
            continue;
        }
        let text = beginning(&file, MAX_CONFIGURATION_BYTES);
        for setting in settings(&text).filter(|setting| !setting.value.is_empty()) {
            let (section, value) = (setting.section.as_str(), &setting.value);
            match (section, setting.name.as_str()) {
                // Whether a condition holds changes from one moment to the next.
                ("include" | "includeif", "path") => {
                    let included = file.parent().unwrap_or(work_tree).join(value);
                    add(&included);
                    open.push((included, depth + 1));
                }
                ("core", "hookspath") => {
                    let hooks = work_tree.join(value);
                    // Those of husky, all the same, run what lies in the folder above.
                    let is_of_husky = hooks.file_name().is_some_and(|name| name == "_");
                    if let Some(above) = hooks.parent().filter(|_| is_of_husky) {
                        add(above);
                    }
                    add(&hooks);
                }
                ("core", "fsmonitor" | "sshcommand") | ("diff", "external") => {
                    let program = value.split_whitespace().next().unwrap_or_default();
                    if program.contains('/') {
                        add(&work_tree.join(program));
                    }
                }
                _ => {}
            }
        }
    }
    named
}

/// A setting of git, with section and name in small letters.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    section: String,
    name: String,
    value: String,
}

/// Reads what a file of configuration sets. Subsections are left out.
fn settings(text: &str) -> impl Iterator<Item = Setting> + use<> {
    let (mut found, mut section) = (Vec::new(), String::new());
    let mut letters = text.trim_start_matches('\u{feff}').chars();
    while let Some(first) = letters.next() {
        match first {
            '#' | ';' => skip_line(&mut letters),
            '[' => section = section_in(&mut letters),
            _ if first.is_whitespace() => {}
            _ => {
                let (mut name, mut value) = (String::from(first), String::new());
                while let Some(letter) = letters.next() {
                    match letter {
                        '=' => {
                            value = value_in(&mut letters);
                            break;
                        }
                        '\n' => break,
                        _ => name.push(letter),
                    }
                }
                found.push(Setting {
                    section: section.clone(),
                    name: name.trim().to_lowercase(),
                    value,
                });
            }
        }
    }
    found.into_iter()
}

fn skip_line(letters: &mut impl Iterator<Item = char>) {
    let _end = letters.find(|letter| *letter == '\n');
}

/// Reads the name of a section, behind its bracket, and goes on behind it.
fn section_in(letters: &mut impl Iterator<Item = char>) -> String {
    let (mut header, mut is_quoted) = (String::new(), false);
    for letter in letters {
        match letter {
            ']' if !is_quoted => break,
            '\n' => break,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        header.push(letter);
    }
    let name = header.split([' ', '\t', '"', '.']).next();
    name.unwrap_or_default().to_lowercase()
}

/// Reads a value, behind its equals sign, to the end of its line or the last of its lines.
fn value_in(letters: &mut impl Iterator<Item = char>) -> String {
    let (mut value, mut is_quoted) = (String::new(), false);
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => break,
            '#' | ';' if !is_quoted => {
                skip_line(letters);
                break;
            }
            '"' => is_quoted = !is_quoted,
            '\\' => match letters.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                // The line goes on behind its end, which may be of two letters.
                Some('\r') => skip_line(letters),
                Some('\n') | None => {}
                Some(other) => value.push(other),
            },
            _ => value.push(letter),
        }
    }
    value.trim().to_owned()
}

/// Returns the repository of a folder.
#[cfg(feature = "commands")]
pub(super) fn nearest(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find_map(repository_in)
}

/// Returns the repository that a folder is the working tree of.
fn repository_in(folder: &Path) -> Option<PathBuf> {
    let place = folder.join(".git");
    let found = fs::symlink_metadata(&place).ok()?;
    if found.is_file() {
        return linked(&place);
    }
    place.join("HEAD").is_file().then_some(place)
}

/// Returns the repository that a `.git` names which is a file.
fn linked(link: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    let file = File::open(link).ok()?;
    file.take(MAX_LINK_BYTES).read_to_string(&mut text).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    link.parent()?.join(named).canonicalize().ok()
}

/// Returns the folder that a repository shares with its linked working trees, where its hooks and its configuration are.
pub(super) fn shared(repository: PathBuf) -> PathBuf {
    let named = beginning(&repository.join("commondir"), MAX_LINK_BYTES);
    match named.trim() {
        "" => repository,
        named => repository.join(named),
    }
}

/// Returns the configuration of a repository, without what it includes.
#[cfg(feature = "commands")]
pub(super) fn configuration(repository: &Path) -> String {
    beginning(&repository.join("config"), MAX_CONFIGURATION_BYTES)
}

/// Returns the first bytes of a file; nothing of what is none.
fn beginning(path: &Path, most: u64) -> String {
    let mut bytes = Vec::new();
    if fs::metadata(path).is_ok_and(|found| found.is_file())
        && let Ok(file) = File::open(path)
    {
        // What was read counts.
        let _ended = file.take(most).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a project's repository names that has this configuration, as a list of paths.
    fn named(files: &[(&str, &str)], work_tree: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap().join("project");
        for (path, text) in files {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = text.replace("TOP", &top.display().to_string().replace('\\', r"\\"));
            fs::write(path, text).unwrap();
        }
        let named = named_by(&top, &top.join(work_tree));
        let shown = |path: &PathBuf| path.display().to_string().replace('\\', "/");
        named.iter().map(shown).collect()
    }

    fn named_with(configuration: &str) -> Vec<String> {
        named(&[(".git/HEAD", ""), (".git/config", configuration)], "")
    }

    #[test]
    fn what_a_configuration_names_in_the_project_is_found_there_or_not() {
        for (configuration, expected) in [
            ("[core]\n\thooksPath = .githooks\n", &[".githooks"][..]),
            ("\u{feff}[CORE] HOOKSPATH=.githooks # ours", &[".githooks"]),
            ("[core]\n hooksPath = .husky/_\n", &[".husky", ".husky/_"]),
            ("[core]\r\n\thooksPath = \"a \\\r\nb#\"\r\n", &["a b#"]),
            ("[core] hookspath = TOP/dev/hooks\n", &["dev/hooks"]),
            ("[core]\n# hooksPath = a\n;[x\nhooksPath = b", &["b"]),
            ("[include]\n\tpath = ../shared/x\n", &["shared/x"]),
            ("[includeIf \"gitdir:[x]\"]\n path = ../y\n", &["y"]),
            ("[core] fsmonitor = dev/watch -x\n", &["dev/watch"]),
            ("[diff]\nexternal = ./dev/diff\n", &["dev/diff"]),
            ("[core]\n\tsshCommand = ssh -i ./key\n", &[]),
            (
                "[core]\n\thooksPath = /elsewhere\n\tfsmonitor = true\n",
                &[],
            ),
            ("[core]\n\thooksPath = .\n[include]\n\tpath =\n", &[]),
            ("[core]\n\thooksPath = .git\n\thooksPath = ..\n", &[]),
            ("[other]\n\thooksPath = a\n[core \"x\"]\nbare", &[]),
        ] {
            assert_eq!(named_with(configuration), expected, "{configuration}");
        }
    }

    #[test]
    fn what_included_files_name_counts_too_and_they_may_name_each_other() {
        let files = [
            (".git/HEAD", ""),
            (".git/config", "[include]\n\tpath = ../a/one\n"),
            ("a/one", "[include]\npath = two\npath = one\n"),
            (
                "a/two",
                "[include]\npath = one\n[core]\nhooksPath = hooks\n",
            ),
        ];
        assert_eq!(named(&files, ""), ["a/one", "a/two", "hooks"]);
    }

    #[test]
    fn a_submodule_and_a_linked_working_tree_name_by_their_own_configuration() {
        let files = [
            (".git/modules/sub/HEAD", ""),
            (".git/modules/sub/config", "[core]\nhooksPath = .githooks\n"),
            ("sub/.git", "gitdir: ../.git/modules/sub\n"),
            (".git/worktrees/tree/HEAD", ""),
            (".git/worktrees/tree/commondir", "../..\n"),
            (
                ".git/worktrees/tree/config.worktree",
                "[core]\nhooksPath = here\n",
            ),
            (".git/config", "[core]\nhooksPath = both\n"),
            ("tree/.git", "gitdir: ../.git/worktrees/tree\n"),
        ];
        assert_eq!(named(&files, "sub"), ["sub/.githooks"]);
        assert_eq!(named(&files, "tree"), ["tree/both", "tree/here"]);
        assert_eq!(named(&files, "none"), Vec::<String>::new());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_named_by_a_symlink_is_closed_by_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join(".git")).unwrap();
        fs::create_dir_all(top.join("dev/hooks")).unwrap();
        fs::write(top.join(".git/HEAD"), "").unwrap();
        fs::write(top.join(".git/config"), "[core]\nhooksPath = hooks\n").unwrap();
        std::os::unix::fs::symlink("dev/hooks", top.join("hooks")).unwrap();
        let named = named_by(&top, &top);
        assert_eq!(
            named,
            BTreeSet::from(["dev/hooks", "hooks"].map(PathBuf::from))
        );
    }
}
