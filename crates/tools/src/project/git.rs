//! What a git repository's configuration names in a project: hooks, programs, and further configuration files. Git runs
//! or reads these for anyone who works there, outside any sandbox, so only users may change them.
//!
//! Two kinds of names are not found: programs in a command line other than its first word, and paths that begin with
//! `~`.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::program_files::{FilePurpose, places};

/// The maximum number of bytes that are read of a `.git` file.
const MAX_LINK_BYTES: u64 = 4096;

/// The maximum number of bytes that are read of a configuration file. The configuration of a repository with thousands
/// of branches has a few hundred KiB, and the latest settings are at its end.
const MAX_CONFIGURATION_BYTES: u64 = 4 << 20;

/// The maximum depth to which included configuration files are followed, the same as git's.
const MAX_INCLUDE_DEPTH: usize = 10;

/// The maximum number of configuration files that are read for one working tree: two files that include each other
/// twice would be read a thousand times.
const MAX_INCLUDED: usize = 100;

/// The maximum number of names that are examined for working trees below the project root whenever a file is written.
const MAX_NAMES: usize = 1_000;

/// The depth below the project root to which working trees are searched.
const MAX_DEPTH: usize = 2;

/// A folder that package managers empty and fill as a whole. Every test of the project runs its contents anyway.
const PACKAGES_FOLDER: &str = "node_modules";

/// What git reads or runs in a project because a configuration names it, as paths relative to the project root.
#[derive(Debug, Default)]
pub(crate) struct NamedByGit {
    /// The named paths, which need not exist.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// The symlinks through which they are found.
    pub(crate) links: BTreeSet<PathBuf>,
}

/// Returns what the repository of a working tree makes git read or run in a project; empty if the folder is not a
/// working tree. Both paths are absolute, and `top` contains no symlinks.
pub(crate) fn named_by_git(top: &Path, work_tree: &Path) -> NamedByGit {
    let mut named = NamedByGit::default();
    let Some(repository) = repository_in(work_tree) else {
        return named;
    };
    let of_work_tree = repository.join("config.worktree");
    let common = shared(repository.clone());
    let mut add = |path: &Path| {
        // As for secrets, the symlinks along the path count as well.
        let places = places(path, FilePurpose::Secret);
        let is_of_packages = |place: &Path| {
            let inside = place.strip_prefix(top);
            inside.is_ok_and(|inside| {
                inside
                    .components()
                    .any(|part| part.as_os_str() == PACKAGES_FOLDER)
            })
        };
        if places.iter().any(|(place, _)| is_of_packages(place)) {
            return;
        }
        for (place, purpose) in places {
            // If the whole working tree or repository were protected, no work would be possible.
            let holds_all = work_tree.starts_with(&place) || repository.starts_with(&place);
            let is_name = |part| matches!(part, Component::Normal(_));
            let inside = place.strip_prefix(top).ok().filter(|inside| {
                let mut parts = inside.components();
                !holds_all && parts.clone().next().is_some() && parts.all(is_name)
            });
            let known = match purpose {
                FilePurpose::LinkToSecret => &mut named.links,
                _ => &mut named.paths,
            };
            known.extend(inside.map(Path::to_owned));
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
                // A condition may hold at one moment and not at the next, so conditional includes are always followed.
                ("include" | "includeif", "path") => {
                    let included = file.parent().unwrap_or(work_tree).join(value);
                    add(&included);
                    open.push((included, depth + 1));
                }
                ("core", "hookspath") => {
                    let hooks = work_tree.join(value);
                    // Hooks of husky run programs in the folder above.
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

/// Returns the folders one and two levels below the project root, each of which may be a working tree, up to a limit
/// that keeps this quick.
pub(super) fn folders_below(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), MAX_NAMES);
    let mut open = VecDeque::from([(top.to_owned(), 1)]);
    while let Some((folder, depth)) = open.pop_front() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.take(left) {
            left -= 1;
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder || name == ".git" || name == PACKAGES_FOLDER {
                continue;
            }
            let path = folder.join(name);
            if depth < MAX_DEPTH {
                open.push_back((path.clone(), depth + 1));
            }
            found.push(path);
        }
    }
    found
}

/// A git setting, with section and name in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    section: String,
    name: String,
    value: String,
}

/// Parses the settings of a configuration file. Subsections are left out.
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

/// Parses the name of a section after its opening bracket, up to the end of the header.
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

/// Parses a value after its equals sign, up to the end of its line or of its last continuation line.
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
                // The value continues after the line ending, which may be two characters.
                Some('\r') => skip_line(letters),
                Some('\n') | None => {}
                Some(other) => value.push(other),
            },
            _ => value.push(letter),
        }
    }
    value.trim().to_owned()
}

/// Returns the repository of a folder, its own or that of a folder above.
#[cfg(feature = "commands")]
pub(super) fn nearest(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find_map(repository_in)
}

/// Returns the repository of which the folder is the working tree.
fn repository_in(folder: &Path) -> Option<PathBuf> {
    let place = folder.join(".git");
    let found = fs::symlink_metadata(&place).ok()?;
    if found.is_file() {
        return linked(&place);
    }
    place.join("HEAD").is_file().then_some(place)
}

/// Returns the repository that a `.git` file names.
fn linked(link: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    let file = File::open(link).ok()?;
    file.take(MAX_LINK_BYTES).read_to_string(&mut text).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    link.parent()?.join(named).canonicalize().ok()
}

/// Returns the folder that a repository shares with its linked working trees, which holds its hooks and configuration.
pub(super) fn shared(repository: PathBuf) -> PathBuf {
    let named = beginning(&repository.join("commondir"), MAX_LINK_BYTES);
    match named.trim() {
        "" => repository,
        named => repository.join(named),
    }
}

/// Returns the configuration of a repository, without included files.
#[cfg(feature = "commands")]
pub(super) fn configuration(repository: &Path) -> String {
    beginning(&repository.join("config"), MAX_CONFIGURATION_BYTES)
}

/// Returns the beginning of a file; empty if it is not a file.
fn beginning(path: &Path, most: u64) -> String {
    let mut bytes = Vec::new();
    if fs::metadata(path).is_ok_and(|found| found.is_file())
        && let Ok(file) = File::open(path)
    {
        // After an error, what has been read is used.
        let _ended = file.take(most).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the repository of a project with this configuration names, as a list of paths.
    fn named(files: &[(&str, &str)], work_tree: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap().join("project");
        for (path, text) in files {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = text.replace("TOP", &top.display().to_string().replace('\\', r"\\"));
            fs::write(path, text).unwrap();
        }
        let named = named_by_git(&top, &top.join(work_tree)).paths;
        let shown = |path: &PathBuf| path.display().to_string().replace('\\', "/");
        named.iter().map(shown).collect()
    }

    fn named_with(configuration: &str) -> Vec<String> {
        named(&[(".git/HEAD", ""), (".git/config", configuration)], "")
    }

    #[test]
    fn paths_in_the_project_named_by_a_git_configuration_are_found() {
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
            ("[core]\n\thooksPath = node_modules/hooks/bin\n", &[]),
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
    fn included_configurations_are_read_even_if_they_include_each_other() {
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
    fn a_submodule_and_a_linked_worktree_use_their_own_configuration() {
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
    fn a_path_named_through_a_symlink_is_found_with_its_target_and_the_symlink() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join(".git")).unwrap();
        fs::create_dir_all(top.join("dev/hooks")).unwrap();
        fs::create_dir_all(top.join("node_modules/x")).unwrap();
        fs::write(top.join(".git/HEAD"), "").unwrap();
        symlink("dev/hooks", top.join("hooks")).unwrap();
        symlink("dev", top.join("way")).unwrap();
        symlink("node_modules/x", top.join("packed")).unwrap();
        for (value, paths, links) in [
            ("hooks", &["dev/hooks", "hooks"][..], &["hooks"][..]),
            ("way/hooks", &["dev/hooks"], &["way"]),
            ("packed", &[], &[]),
        ] {
            let configuration = format!("[core]\nhooksPath = {value}\n");
            fs::write(top.join(".git/config"), configuration).unwrap();
            let named = named_by_git(&top, &top);
            let set =
                |paths: &[&str]| -> BTreeSet<PathBuf> { paths.iter().map(PathBuf::from).collect() };
            assert_eq!(
                (named.paths, named.links),
                (set(paths), set(links)),
                "{value}"
            );
        }
    }
}
