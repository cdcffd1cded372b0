//! Instructions to agents in a project's own files: `AGENTS.md` and the like, from the working directory up to the root
//! of its repository.
//!
//! They may have come with a third-party project, so they are treated like its `neuraxis.toml`: they apply once the
//! user trusts exactly their content. This module reads them and determines which apply; asking the user happens
//! elsewhere.

use std::path::{Path, PathBuf};

use neuraxis_core::ContentHash;

use crate::environment::Environment;
use crate::private_file::{Links, read_regular};
use crate::trust::Trust;

/// The names of such files. In each folder, the first that exists is used.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// What the root of a repository contains.
const REPOSITORY: &str = ".git";

/// The maximum size in bytes of one file, and of all that are used together: they are part of every request.
const MAX_BYTES: u64 = 32 * 1024;
const MAX_BYTES_IN_ALL: usize = 64 * 1024;

/// The maximum number of folders that are searched.
const MAX_FOLDERS: usize = 16;

/// The heading above the files in an agent's instructions.
const HEADING: &str = "The project that you work in says about itself:";

/// A file with instructions for agents that work in its project.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstructionFile {
    /// Its real path, by which the user's decision about it is stored.
    pub path: PathBuf,
    /// Its path from the root of the project, which agents see: the same wherever the project is.
    pub within: PathBuf,
    /// Its text; empty if it cannot be used.
    pub text: String,
    /// The hash of its content.
    pub content: ContentHash,
    /// The user's decision about this content.
    pub trust: Trust,
    /// Why nothing in it can be used, if that is the case.
    pub fault: Option<String>,
}

impl InstructionFile {
    /// Returns whether it applies: the user trusts this content, and it can be used.
    #[must_use]
    pub fn applies(&self) -> bool {
        self.trust == Trust::Trusted && self.fault.is_none()
    }
}

/// Finds the files, that of the outermost folder first. Outside a repository, only the working directory is searched.
/// The user's home folder is never treated as a project.
#[must_use]
pub fn instruction_files(environment: &Environment) -> Vec<InstructionFile> {
    let here = environment.working_dir();
    let here = here.canonicalize().unwrap_or_else(|_| here.to_owned());
    let home = environment.home_dir();
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    let upwards: Vec<&Path> = here.ancestors().take(MAX_FOLDERS).collect();
    let root = upwards
        .iter()
        .position(|folder| folder.join(REPOSITORY).exists());
    let project = upwards.get(..=root.unwrap_or(0)).unwrap_or_default();
    let root = project.last().copied().unwrap_or(&here);
    let project = project.iter().rev();
    let project = project.filter(|folder| home.as_deref() != Some(**folder));
    let mut files: Vec<_> = project
        .filter_map(|folder| in_folder(folder, root, environment))
        .collect();
    let mut room = MAX_BYTES_IN_ALL;
    // The nearest file has priority.
    for file in files.iter_mut().rev() {
        match room.checked_sub(file.text.len()) {
            Some(left) => room = left,
            None => {
                file.text.clear();
                let fault = format!("it brings the total to more than {MAX_BYTES_IN_ALL} bytes");
                file.fault.get_or_insert(fault);
            }
        }
    }
    files
}

/// Combines the files that apply into instructions for an agent; `None` if none apply.
#[must_use]
pub fn instructions_of(files: &[InstructionFile]) -> Option<String> {
    let counting = files.iter().filter(|file| file.applies());
    let texts = counting.map(|file| {
        let path = file.within.display();
        format!("[{path}]\n{}\n[end of {path}]", file.text.trim())
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| {
        let texts = texts.join("\n\n");
        format!("{HEADING}\n\n{texts}")
    })
}

/// Returns whether a system prompt contains the result of [`instructions_of`].
#[must_use]
pub fn holds_instructions(system_prompt: &str) -> bool {
    system_prompt.contains(HEADING)
}

fn in_folder(folder: &Path, root: &Path, environment: &Environment) -> Option<InstructionFile> {
    let mut names = NAMES.iter().map(|name| folder.join(name));
    let path = names.find(|path| path.symlink_metadata().is_ok())?;
    let within = path.strip_prefix(root).unwrap_or(&path).to_owned();
    let mut file = InstructionFile {
        content: ContentHash::of(b""),
        text: String::new(),
        trust: Trust::Unknown,
        fault: None,
        path,
        within,
    };
    // A link could lead to a file outside the project.
    match read_regular(&file.path, Links::Refused, MAX_BYTES) {
        Err(error) => file.fault = Some(error.to_string()),
        Ok(bytes) => {
            file.content = ContentHash::of(&bytes);
            match Trust::of(environment, &file.path, file.content) {
                Ok(trust) => file.trust = trust,
                Err(error) => file.fault = Some(error.to_string()),
            }
            match String::from_utf8(bytes) {
                Ok(text) => file.text = text,
                Err(_) => file.fault = Some("it is not UTF-8 text".to_owned()),
            }
        }
    }
    Some(file).filter(|file| file.fault.is_some() || !file.text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::trust::TrustList;

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("repo/.git")).unwrap();
            fs::create_dir_all(folder.path().join("repo/src/deep")).unwrap();
            Self(folder)
        }

        fn write(&self, name: &str, text: impl AsRef<[u8]>) {
            fs::write(self.0.path().join(name), text).unwrap();
        }

        fn at(&self, folder: &str) -> Environment {
            Environment::new(self.0.path().join(folder)).with_data_dir(self.0.path().join("data"))
        }

        fn trust(&self, files: &[InstructionFile]) {
            let list = TrustList::of(&self.at("repo")).unwrap();
            for file in files {
                list.trust(&file.path, file.content).unwrap();
            }
        }
    }

    fn names(files: &[InstructionFile]) -> Vec<String> {
        let names = files.iter().map(|file| {
            let folder = file.path.parent().unwrap().file_name().unwrap();
            let name = file.path.file_name().unwrap();
            format!("{}/{}", folder.to_string_lossy(), name.to_string_lossy())
        });
        names.collect()
    }

    #[test]
    fn the_first_instruction_file_per_folder_counts_from_the_repository_root_down() {
        let project = Project::new();
        project.write("AGENTS.md", "outside");
        project.write("repo/AGENTS.md", "Use tabs.");
        project.write("repo/CLAUDE.md", "never read");
        project.write("repo/src/deep/CLAUDE.md", "Use spaces.");
        let files = instruction_files(&project.at("repo/src/deep"));
        assert_eq!(names(&files), ["repo/AGENTS.md", "deep/CLAUDE.md"]);
        assert_eq!(instructions_of(&files), None, "nobody trusted them");
        project.trust(&files);
        let files = instruction_files(&project.at("repo/src/deep"));
        let told = instructions_of(&files).unwrap();
        assert!(told.find("Use tabs.") < told.find("Use spaces."), "{told}");
        assert!(holds_instructions(&format!("You help.\n\n{told}")));
        assert!(!holds_instructions("You help."));
    }

    #[test]
    fn instructions_do_not_depend_on_the_location_of_the_project() {
        let told = || {
            let project = Project::new();
            project.write("repo/AGENTS.md", "Use tabs.");
            project.write("repo/src/deep/CLAUDE.md", "Use spaces.");
            project.trust(&instruction_files(&project.at("repo/src/deep")));
            instructions_of(&instruction_files(&project.at("repo/src/deep"))).unwrap()
        };
        let first = told();
        assert_eq!(first, told());
        let deep = Path::new("src").join("deep").join("CLAUDE.md");
        for name in [Path::new("AGENTS.md"), &deep] {
            let begin = format!("\n[{}]\n", name.display());
            assert!(first.contains(&begin), "{first}");
        }
    }

    #[test]
    fn a_changed_instruction_file_is_not_trusted() {
        let project = Project::new();
        project.write("repo/AGENTS.md", "Be kind.");
        project.trust(&instruction_files(&project.at("repo")));
        project.write("repo/AGENTS.md", "Run everything.");
        let files = instruction_files(&project.at("repo"));
        assert_eq!(files[0].trust, Trust::Changed);
        assert_eq!(instructions_of(&files), None);
    }

    #[test]
    fn a_file_that_is_too_large_not_text_or_symlinked_is_a_fault_and_not_used() {
        let project = Project::new();
        project.write("repo/AGENTS.md", vec![b'x'; 32 * 1024 + 1]);
        project.write("repo/src/AGENTS.md", b"\xff\xfe");
        project.trust(&instruction_files(&project.at("repo/src")));
        let files = instruction_files(&project.at("repo/src"));
        assert!(files.iter().all(|file| file.fault.is_some()), "{files:?}");
        assert_eq!(instructions_of(&files), None);
        #[cfg(unix)]
        {
            project.write("secret", "hunter2");
            let link = project.0.path().join("repo/src/deep/AGENTS.md");
            std::os::unix::fs::symlink(project.0.path().join("secret"), link).unwrap();
            let files = instruction_files(&project.at("repo/src/deep"));
            assert!(files.iter().all(|file| file.text.is_empty()), "{files:?}");
        }
    }

    #[test]
    fn without_a_repository_only_the_working_directory_counts_and_never_the_home() {
        let project = Project::new();
        fs::create_dir_all(project.0.path().join("plain/below")).unwrap();
        project.write("plain/AGENTS.md", "above");
        project.write("plain/below/AGENTS.md", "here");
        let environment = project.at("plain/below");
        assert_eq!(names(&instruction_files(&environment)), ["below/AGENTS.md"]);
        let at_home = environment.with_home_dir(project.0.path().join("plain/below"));
        assert_eq!(instruction_files(&at_home), []);
    }
}
