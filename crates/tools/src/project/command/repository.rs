//! Where the git repository of a folder is, since commands cannot write to one outside the project, whatever access
//! they have. Also which of its programs git does not run in commands.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use super::running::Confinement;
use crate::project::git::{configuration, nearest, shared};

/// Returns the repository of a project folder if it is outside the project: the project is then a linked working tree,
/// a submodule or a part of the repository's working tree.
pub(super) fn outside(root: &Path, folder: &Path) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    let repository = nearest(&root.join(folder))?;
    (!repository.starts_with(&root)).then_some(repository)
}

/// Returns which programs of the repository of a project folder git does not run in commands, as far as its files tell:
/// hooks and filters. Files that its configuration includes are not examined.
pub(super) fn not_run(
    confinement: Confinement,
    root: &Path,
    folder: &Path,
) -> Option<&'static str> {
    let repository = nearest(&root.join(folder))?;
    let shared = shared(repository);
    let configuration = configuration(&shared).to_ascii_lowercase();
    let hooks = configuration.contains("hookspath") || has_hooks(&shared.join("hooks"));
    // If nothing confines commands, filters run.
    let filters = confinement == Confinement::Sandbox && has_filters(&configuration);
    match (hooks, filters) {
        (true, true) => Some("hooks and filters"),
        (true, false) => Some("hooks"),
        (false, true) => Some("filters"),
        (false, false) => None,
    }
}

/// Returns whether a lower-case configuration has a filter.
fn has_filters(configuration: &str) -> bool {
    let mut sections = configuration.split('[');
    sections.any(|section| section.starts_with("filter "))
}

/// Returns whether a folder has hooks other than git's samples.
fn has_hooks(folder: &Path) -> bool {
    let hooks = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut hooks = hooks.map(|hook| hook.path());
    hooks.any(|hook| {
        let is_sample = hook.extension().is_some_and(|it| it == "sample");
        !is_sample && fs::metadata(&hook).is_ok_and(|found| is_executable(&found))
    })
}

#[cfg(unix)]
fn is_executable(file: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;

    file.is_file() && file.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(file: &Metadata) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_of_the_nearest_folder_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let root = top.join("repository/project");
        fs::create_dir_all(top.join("repository/.git")).unwrap();
        fs::write(top.join("repository/.git/HEAD"), "").unwrap();
        fs::create_dir_all(root.join("own/.git")).unwrap();
        fs::write(root.join("own/.git/HEAD"), "").unwrap();
        fs::create_dir_all(root.join("linked")).unwrap();
        fs::write(root.join("linked/.git"), "gitdir: ../../.git\n").unwrap();
        let above = Some(top.join("repository/.git"));
        assert_eq!(outside(&root, Path::new("")), above);
        assert_eq!(outside(&root, Path::new("linked")), above);
        assert_eq!(outside(&root, Path::new("own")), None);
    }

    #[cfg(unix)]
    #[test]
    fn hooks_and_filters_that_do_not_run_are_detected() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = root.join(".git");
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::create_dir_all(git.join("worktrees/x")).unwrap();
        fs::create_dir_all(root.join("x")).unwrap();
        fs::write(git.join("HEAD"), "").unwrap();
        fs::write(root.join("x/.git"), "gitdir: ../.git/worktrees/x\n").unwrap();
        fs::write(git.join("worktrees/x/commondir"), "../..\n").unwrap();
        let found = |confinement| {
            let found = not_run(confinement, root, Path::new(""));
            assert_eq!(not_run(confinement, root, Path::new("x")), found);
            found
        };
        for name in ["pre-commit.sample", "pre-push"] {
            fs::write(git.join("hooks").join(name), "").unwrap();
        }
        let runs = fs::Permissions::from_mode(0o755);
        fs::set_permissions(git.join("hooks/pre-commit.sample"), runs.clone()).unwrap();
        let none = "[core]\n\tbare = false\n";
        fs::write(git.join("config"), none).unwrap();
        assert_eq!(found(Confinement::Sandbox), None);
        let filter = format!("{none}[Filter \"b\"]\n\tclean = x\n\trequired = true\n");
        fs::write(git.join("config"), &filter).unwrap();
        assert_eq!(found(Confinement::Sandbox), Some("filters"));
        assert_eq!(found(Confinement::None), None);
        fs::set_permissions(git.join("hooks/pre-push"), runs).unwrap();
        assert_eq!(found(Confinement::Sandbox), Some("hooks and filters"));
        fs::remove_dir_all(git.join("hooks")).unwrap();
        fs::write(git.join("config"), "[core]\n\thooksPath = .husky/_\n").unwrap();
        assert_eq!(found(Confinement::None), Some("hooks"));
    }
}
