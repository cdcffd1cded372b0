//! What rules ask about one call, found out once and only when a rule asks.

use std::borrow::Cow;
use std::cell::OnceCell;

use neuraxis_core::{Access, JsonText};

use super::arguments::{Arguments, Names};
use super::command::{self, Folder, Part};
use super::function::{RuleCall, RuleFunctions};
use super::host::host_of;
use super::path::{PathTarget, beginning, in_patch, lead};

/// The arguments that hold paths, unless a rule says otherwise.
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

/// The arguments that hold the folder in which something runs, and from which other paths may count.
const FOLDERS: [&str; 7] = [
    "cwd",
    "workdir",
    "working_dir",
    "working_directory",
    "directory",
    "dir",
    "folder",
];

/// Of a command that goes to as many folders it is not told any more where it runs.
const MAX_FOLDERS: usize = 64;

/// The arguments that hold a patch, which names files itself.
pub(crate) const PATCHES: [&str; 2] = ["patch", "diff"];

/// The arguments that hold globs, by which a tool that reads whole folders is told what of them to read.
pub(crate) const GLOBS: [&str; 2] = ["glob", "globs"];

/// The arguments that hold URLs, unless a rule says otherwise.
pub(crate) const URLS: [&str; 7] = ["url", "urls", "uri", "href", "link", "endpoint", "base_url"];

/// The arguments that hold commands, unless a rule says otherwise.
pub(crate) const COMMANDS: [&str; 3] = ["command", "cmd", "script"];

/// The arguments that hold more words for a command beside them.
const BESIDE_COMMANDS: [&str; 3] = ["args", "argv", "arguments"];

/// The arguments that hold variables for a command beside them: a table or a list of them, or texts such as `NAME=value`.
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

/// What is known of a call: of its arguments, and who makes it.
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

/// Who answers for the functions of the program that rules name.
#[derive(Debug, Clone, Copy)]
enum Functions<'a> {
    /// Those that there are.
    These(&'a RuleFunctions),
    /// Nobody: each of them says yes, for an example that stands in a file.
    Assumed,
}

/// Some of what a call names, such as its paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named<T> {
    pub(crate) items: Vec<T>,
    pub(crate) is_unclear: bool,
}

impl<'a> Facts<'a> {
    /// Says whose session it is.
    pub(crate) const fn owned_by(mut self, owner: Option<&'a str>) -> Self {
        self.owner = owner;
        self
    }

    /// Says which functions there are. Without it, each says yes.
    pub(crate) const fn with_functions(mut self, functions: &'a RuleFunctions) -> Self {
        self.functions = Functions::These(functions);
        self
    }

    /// Returns what a function of the program says of the call; `None` if it cannot tell, or is not there.
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

    /// Returns where its paths lead. A path counts from the root, and if the call names a folder to run in, from there too.
    pub(crate) fn paths(&self, names: Option<&[String]>) -> Cow<'_, Named<PathTarget>> {
        match names {
            Some(_) => Cow::Owned(self.find_paths(names)),
            None => Cow::Borrowed(self.paths.get_or_init(|| self.find_paths(None))),
        }
    }

    /// Returns the hosts that its URLs lead to.
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
            // Whoever names the arguments of a rule names no folder among them, and yet it leads the paths elsewhere.
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

    /// Returns where its globs lead with what they name before their first wildcard: from the root, and from each of its paths.
    pub(crate) fn narrowed_to(&self) -> &[PathTarget] {
        self.narrowed.get_or_init(|| {
            let globs = self.arguments().texts(Names::Usual(&GLOBS)).found;
            let paths = self.paths(None);
            let mut found = Vec::new();
            for named in globs.into_iter().filter_map(beginning) {
                found.push(lead(named, "", self.root));
                // Our own tools take a slash at the beginning for the root of the project.
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

    /// Returns the parts of the command that stands under the usual names; `None` if there is no command.
    pub(crate) fn parts(&self) -> Option<&[Part]> {
        let usual = Names::Usual(&COMMANDS);
        let parts = self.parts.get_or_init(|| self.parts_in(usual));
        parts.as_deref()
    }

    /// Returns the parts of all commands that stand under the given names.
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
                    part.mark("it has arguments beside it");
                    for text in more.iter().flatten().chain(&beside.found) {
                        part.add_roughly(text);
                    }
                }
            }
        }
        if texts.is_unclear || parts.is_empty() {
            parts.push(Part::unclear(
                "its arguments cannot be read in one way only",
            ));
        } else if self.sets_variables() {
            parts
                .iter_mut()
                .for_each(|part| part.mark("it has variables beside it"));
        }
        Some(parts)
    }

    /// Tells whether variables stand beside a command: some say what runs, as they do before it.
    fn sets_variables(&self) -> bool {
        let variables = self.arguments().texts(Names::Usual(&VARIABLES));
        // A text may be the JSON of a table or a list, which a tool reads as one.
        let sets = |text: &str| text.contains('=') || text.trim_start().starts_with(['{', '[']);
        let in_text = variables.found.iter().copied().any(sets);
        variables.is_unclear || variables.has_list || in_text
    }

    /// Returns the folders that the call is to run in: the root, if it names none, and those that its command goes to.
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

    /// Adds the folders that the parts of a command go to which begins in one. What a program runs by its words, as `sh -c` does,
    /// leads nobody behind it elsewhere.
    fn add_folders(&self, parts: &[Part], begin: &PathTarget, found: &mut Vec<PathTarget>) {
        let mut at = begin.clone();
        // A part without words sets variables alone.
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
                // A variable, for example, may say where it looks for the folder.
                found.extend((is_set || part.unclear.is_some()).then_some(PathTarget::Unclear));
            }
            // Behind parentheses, for example, all is as it was before them.
            may_be_back |= part.unclear.is_some();
        }
    }

    /// Tells whether the call runs at the root for certain.
    pub(crate) fn runs_at_root(&self) -> bool {
        let folders = self.folders();
        let is_root = |led: &PathTarget| matches!(led, PathTarget::Inside(path) if path == ".");
        !folders.is_unclear && folders.items.iter().all(is_root)
    }

    /// Returns the folders that paths in its command may count from: where it runs in several, the root as well, from which `..`
    /// leads out the soonest.
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

    /// Returns what the call asks of the sandbox.
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

/// Returns what paths count from in a folder; the root, where it is not within.
fn base_of(folder: &PathTarget) -> &str {
    match folder {
        PathTarget::Inside(path) => path,
        PathTarget::Outside | PathTarget::Unclear => "",
    }
}

/// Tells whether words beside the text of a command are certainly words of it: behind a redirection, a comment or an operator they
/// may be another command.
fn takes_words(text: &str) -> bool {
    !text.contains([';', '&', '|', '<', '>', '#', '\n'])
}
