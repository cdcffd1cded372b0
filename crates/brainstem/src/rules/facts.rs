//! What rules ask about one call, computed once, and only when a rule asks.

use std::borrow::Cow;
use std::cell::OnceCell;

use neuraxis_core::{Access, JsonText};

use super::arguments::{Arguments, Names};
use super::command::{self, Folder, Part};
use super::function::{RuleCall, RuleFunctions};
use super::host::host_of;
use super::path::{PathTarget, beginning, in_patch, lead};

/// The arguments that contain paths, unless a rule says otherwise.
pub(crate) const PATHS: [&str; 19] = [
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "filename",
    "directory",
    "dir",
    "folder",
    "cwd",
    "workdir",
    "working_dir",
    "working_directory",
    "source",
    "destination",
    "old_path",
    "new_path",
    "from_path",
    "to_path",
];

/// The arguments that contain the working folder, which other paths may be relative to.
const FOLDERS: [&str; 7] = [
    "cwd",
    "workdir",
    "working_dir",
    "working_directory",
    "directory",
    "dir",
    "folder",
];

/// If a command changes to this many folders, its working folder is no longer tracked.
const MAX_FOLDERS: usize = 64;

/// The arguments that contain a patch, which itself names files.
pub(crate) const PATCHES: [&str; 2] = ["patch", "diff"];

/// The arguments that contain globs, which tell a tool that reads whole folders what to read there.
pub(crate) const GLOBS: [&str; 2] = ["glob", "globs"];

/// The arguments that contain URLs, unless a rule says otherwise.
pub(crate) const URLS: [&str; 7] = ["url", "urls", "uri", "href", "link", "endpoint", "base_url"];

/// The arguments that contain commands, unless a rule says otherwise.
pub(crate) const COMMANDS: [&str; 3] = ["command", "cmd", "script"];

/// The arguments that contain more words of a command that is in another argument.
const BESIDE_COMMANDS: [&str; 3] = ["args", "argv", "arguments"];

/// The arguments that contain variables for a command in another argument: a table or list, or strings such as
/// `NAME=value`.
const VARIABLES: [&str; 8] = [
    "env",
    "environment",
    "env_vars",
    "env_variables",
    "environment_vars",
    "environment_variables",
    "variables",
    "vars",
];

/// What is known about a call: its arguments, and who makes it.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    text: &'a JsonText,
    root: Option<&'a str>,
    owner: Option<&'a str>,
    functions: Functions<'a>,
    arguments: OnceCell<Arguments>,
    parts: OnceCell<Option<Vec<Part>>>,
    paths: OnceCell<Named<PathTarget>>,
    narrowed: OnceCell<Vec<PathTarget>>,
    hosts: OnceCell<Named<String>>,
    folders: OnceCell<Named<PathTarget>>,
    access: OnceCell<Named<Access>>,
}

/// The functions of the program that rules name.
#[derive(Debug, Clone, Copy)]
enum Functions<'a> {
    /// The registered functions.
    These(&'a RuleFunctions),
    /// None: each function answers yes, for an example in a file.
    Assumed,
}

/// Items of one kind that a call names, such as its paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named<T> {
    pub(crate) items: Vec<T>,
    pub(crate) is_unclear: bool,
}

impl<'a> Facts<'a> {
    /// Sets the owner of the session.
    pub(crate) const fn owned_by(mut self, owner: Option<&'a str>) -> Self {
        self.owner = owner;
        self
    }

    /// Sets the registered functions. Without it, each function answers yes.
    pub(crate) const fn with_functions(mut self, functions: &'a RuleFunctions) -> Self {
        self.functions = Functions::These(functions);
        self
    }

    /// Returns the answer of a program's function about the call; `None` if it has no answer, or is not registered.
    pub(crate) fn answer_of(&self, function: &str) -> Option<bool> {
        match self.functions {
            Functions::Assumed => Some(true),
            Functions::These(functions) => {
                let call = RuleCall::new(self.text, self.owner);
                functions.get(function)?.holds(&call)
            }
        }
    }

    pub(crate) const fn owner(&self) -> Option<&'a str> {
        self.owner
    }

    pub(crate) fn new(text: &'a JsonText, root: Option<&'a str>) -> Self {
        Self {
            text,
            root,
            owner: None,
            functions: Functions::Assumed,
            arguments: OnceCell::new(),
            parts: OnceCell::new(),
            paths: OnceCell::new(),
            narrowed: OnceCell::new(),
            hosts: OnceCell::new(),
            folders: OnceCell::new(),
            access: OnceCell::new(),
        }
    }

    pub(crate) fn arguments(&self) -> &Arguments {
        self.arguments.get_or_init(|| Arguments::read(self.text))
    }

    /// Returns where the call's paths lead. A path is relative to the root and, if the call names a working folder,
    /// also to that folder.
    pub(crate) fn paths(&self, names: Option<&[String]>) -> Cow<'_, Named<PathTarget>> {
        match names {
            Some(_) => Cow::Owned(self.find_paths(names)),
            None => Cow::Borrowed(self.paths.get_or_init(|| self.find_paths(None))),
        }
    }

    /// Returns the hosts of the call's URLs.
    pub(crate) fn hosts(&self, names: Option<&[String]>) -> Cow<'_, Named<String>> {
        match names {
            Some(_) => Cow::Owned(self.find_hosts(names)),
            None => Cow::Borrowed(self.hosts.get_or_init(|| self.find_hosts(None))),
        }
    }

    fn find_paths(&self, names: Option<&[String]>) -> Named<PathTarget> {
        let arguments = self.arguments();
        let texts = arguments.texts(names.map_or(Names::Usual(&PATHS), Names::These));
        let mut found = Named {
            items: Vec::new(),
            is_unclear: texts.is_unclear,
        };
        let patches = match names {
            Some(_) => arguments.texts(Names::These(&[])),
            None => arguments.texts(Names::Usual(&PATCHES)),
        };
        let in_patches = patches.found.iter().flat_map(|patch| in_patch(patch));
        let folders = arguments.texts(Names::Usual(&FOLDERS));
        for path in texts.found.iter().copied().chain(in_patches) {
            found.items.push(lead(path, "", self.root));
            if path.starts_with('/') {
                continue;
            }
            // A rule that lists its arguments does not list a folder, but the folder still changes where the paths
            // lead.
            found.is_unclear |= folders.is_unclear;
            for folder in folders.found.iter().filter(|folder| **folder != path) {
                found.items.push(match lead(folder, "", self.root) {
                    PathTarget::Inside(base) => lead(path, &base, self.root),
                    elsewhere => elsewhere,
                });
            }
        }
        found.is_unclear |= found.items.contains(&PathTarget::Unclear);
        found
    }

    /// Returns where the call's globs lead, up to their first wildcard: from the root, and from each of its paths.
    pub(crate) fn narrowed_to(&self) -> &[PathTarget] {
        self.narrowed.get_or_init(|| {
            let globs = self.arguments().texts(Names::Usual(&GLOBS)).found;
            let paths = self.paths(None);
            let mut found = Vec::new();
            for named in globs.into_iter().filter_map(beginning) {
                found.push(lead(named, "", self.root));
                // The built-in tools treat a leading slash as the root of the project.
                let named = named.trim_start_matches('/');
                found.push(lead(named, "", self.root));
                for led in &paths.items {
                    if let PathTarget::Inside(base) = led {
                        found.push(lead(named, base, self.root));
                    }
                }
            }
            found
        })
    }

    fn find_hosts(&self, names: Option<&[String]>) -> Named<String> {
        let names = names.map_or(Names::Usual(&URLS), Names::These);
        let texts = self.arguments().texts(names);
        let mut found = Named {
            items: Vec::new(),
            is_unclear: texts.is_unclear,
        };
        for url in texts.found {
            match host_of(url) {
                Some(host) => found.items.push(host),
                None => found.is_unclear = true,
            }
        }
        found
    }

    /// Returns the parts of the command in the usual arguments; `None` if there is no command.
    pub(crate) fn parts(&self) -> Option<&[Part]> {
        let usual = Names::Usual(&COMMANDS);
        let parts = self.parts.get_or_init(|| self.parts_in(usual));
        parts.as_deref()
    }

    /// Returns the parts of all commands in the given arguments.
    pub(crate) fn parts_in(&self, names: Names<'_>) -> Option<Vec<Part>> {
        let arguments = self.arguments();
        let (lists, texts) = arguments.lists_and_texts(names);
        if lists.is_empty() && texts.found.is_empty() && !texts.is_unclear {
            return None;
        }
        let of_texts = texts.found.iter().flat_map(|text| command::parts(text));
        let of_lists = lists.iter().map(|words| command::of_words(words));
        let mut parts: Vec<Part> = of_texts.chain(of_lists).collect();
        let (more, beside) = arguments.lists_and_texts(Names::Usual(&BESIDE_COMMANDS));
        match (parts.as_mut_slice(), more.as_slice()) {
            (_, []) if beside.found.is_empty() && !beside.is_unclear => {}
            ([only], [more])
                if lists.is_empty()
                    && beside.found.is_empty()
                    && only.unclear.is_none()
                    && texts.found.iter().all(|text| takes_words(text)) =>
            {
                let words = only.words.iter().map(String::as_str);
                *only = command::of_words(&words.chain(more.iter().copied()).collect::<Vec<_>>());
            }
            (all, _) => {
                for part in all {
                    part.mark("its arguments are given separately");
                    for text in more.iter().flatten().chain(&beside.found) {
                        part.add_roughly(text);
                    }
                }
            }
        }
        if texts.is_unclear || parts.is_empty() {
            parts.push(Part::unclear(
                "its arguments can be read in more than one way",
            ));
        } else if self.sets_variables() {
            parts
                .iter_mut()
                .for_each(|part| part.mark("its variables are given separately"));
        }
        Some(parts)
    }

    /// Returns whether the call sets variables for a command: some determine what runs, as they do in front of it.
    fn sets_variables(&self) -> bool {
        let variables = self.arguments().texts(Names::Usual(&VARIABLES));
        // A string may contain the JSON of a table or a list, which a tool reads as one.
        let sets = |text: &str| text.contains('=') || text.trim_start().starts_with(['{', '[']);
        let in_text = variables.found.iter().copied().any(sets);
        variables.is_unclear || variables.has_list || in_text
    }

    /// Returns the folders that the call runs in (by default, the root), and those that its command changes to.
    pub(crate) fn folders(&self) -> &Named<PathTarget> {
        self.folders.get_or_init(|| {
            let texts = self.arguments().texts(Names::Usual(&FOLDERS));
            let leads = |path: &&str| lead(path, "", self.root);
            let mut items: Vec<PathTarget> = texts.found.iter().map(leads).collect();
            if items.is_empty() {
                items.push(PathTarget::Inside(".".to_owned()));
            }
            if let Some(begin) = items.last().cloned() {
                let parts = self.parts().unwrap_or_default();
                self.add_folders(parts, &begin, &mut items);
            }
            Named {
                is_unclear: texts.is_unclear
                    || items.contains(&PathTarget::Unclear)
                    || items.len() >= MAX_FOLDERS,
                items,
            }
        })
    }

    /// Adds the folders that the parts of a command change to, starting from one folder. A folder change inside a
    /// program's words, as in `sh -c`, does not affect the parts after it.
    fn add_folders(&self, parts: &[Part], begin: &PathTarget, found: &mut Vec<PathTarget>) {
        let mut at = begin.clone();
        // A part without words only sets variables.
        let may_set = |part: &Part| {
            part.words.is_empty() || part.words.iter().any(|word| word.starts_with("CDPATH="))
        };
        let (mut may_be_back, mut is_set) = (false, false);
        for part in parts {
            is_set |= may_set(part);
            self.add_folders(&part.inner, &at, found);
            if let Some(folder) = part.folder_change() {
                if may_be_back {
                    found.push(lead(folder, base_of(begin), self.root));
                }
                at = lead(folder, base_of(&at), self.root);
                found.push(at.clone());
                // A variable may change where the folder is searched, for example.
                found.extend((is_set || part.unclear.is_some()).then_some(PathTarget::Unclear));
            }
            // After parentheses, for example, the folder is the same as before them.
            may_be_back |= part.unclear.is_some();
        }
    }

    /// Returns whether the call certainly runs at the root.
    pub(crate) fn runs_at_root(&self) -> bool {
        let folders = self.folders();
        let is_root = |led: &PathTarget| matches!(led, PathTarget::Inside(path) if path == ".");
        !folders.is_unclear && folders.items.iter().all(is_root)
    }

    /// Returns the folders that paths in the command may be relative to. If there are several, this includes the root,
    /// from which `..` leaves the project first.
    pub(crate) fn command_folders(&self) -> impl Iterator<Item = Folder<'_>> {
        let items = self.folders().items.as_slice();
        let at_root = (items.len() > 1).then_some("");
        let bases = at_root.into_iter().chain(items.iter().map(base_of));
        let bases = bases.take(MAX_FOLDERS);
        bases.map(move |base| Folder {
            base,
            root: self.root,
        })
    }

    /// Returns what the call requests of the sandbox.
    pub(crate) fn access(&self) -> &Named<Access> {
        self.access.get_or_init(|| {
            let names = Names::Usual(&["access"]);
            let texts = self.arguments().texts(names);
            let known = |text: &&str| {
                Access::ALL
                    .into_iter()
                    .find(|access| access.as_str() == *text)
            };
            let items: Vec<Access> = texts.found.iter().filter_map(known).collect();
            Named {
                is_unclear: texts.is_unclear && self.arguments().has_any(names)
                    || items.len() < texts.found.len(),
                items,
            }
        })
    }
}

/// Returns the base of paths in a folder; the root, if the folder is not inside it.
fn base_of(folder: &PathTarget) -> &str {
    match folder {
        PathTarget::Inside(path) => path,
        PathTarget::Outside | PathTarget::Unclear => "",
    }
}

/// Returns whether words next to a command's text certainly belong to it: after a redirection, a comment or an
/// operator, they may be another command.
fn takes_words(text: &str) -> bool {
    !text.contains([';', '&', '|', '<', '>', '#', '\n'])
}
