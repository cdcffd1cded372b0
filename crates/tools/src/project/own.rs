//! The files of this program itself: no tool gets at them, wherever they are and by whatever name.

#[cfg(feature = "commands")]
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Metadata;

use super::secret::is_spelling;

/// The files of the program that offers the tools: its keys, its store, its configuration and its recordings.
///
/// ```
/// use neuraxis_tools::OwnFiles;
///
/// let own = OwnFiles::default()
///     .secret("/etc/app/key")
///     .store("/var/lib/app/sessions.db")
///     .governing("/etc/app/config.toml");
/// ```
#[derive(Debug, Clone, Default)]
pub struct OwnFiles(Vec<OwnFile>);

#[derive(Debug, Clone)]
struct OwnFile {
    /// Absolute, free of symlinks as far as it is there.
    path: PathBuf,
    kind: Own,
}

/// What a file of the program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// It holds a secret: nobody reads or writes it.
    Secret,
    /// It keeps sessions, and what else the program knows of its user: nobody reads or writes it.
    Store,
    /// It decides what may run: nobody writes it.
    Governing,
    /// It answers in place of models, or is made to do so: no file tool reads it, and nobody writes it. The folder that it is
    /// in stays open to commands, so that models are told the same of them wherever it lies: otherwise it would not answer.
    Recording,
}

impl OwnFiles {
    /// Adds a file that holds a secret, or a folder of such files.
    #[must_use]
    pub fn secret(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), Own::Secret)
    }

    /// Adds a file or folder in which the program keeps what it knows.
    #[must_use]
    pub fn store(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), Own::Store)
    }

    /// Adds a file that decides what may run: its configuration.
    #[must_use]
    pub fn governing(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), Own::Governing)
    }

    /// Adds a file that holds a recording of models, or that one is written to.
    #[must_use]
    pub fn recording(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), Own::Recording)
    }

    fn with(mut self, path: &Path, kind: Own) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // Both what goes by the name and, if that is a symlink, what it leads to.
        let named = match (absolute.parent(), absolute.file_name()) {
            (Some(folder), Some(name)) => resolved(folder).join(name),
            _ => absolute.clone(),
        };
        let meant = resolved(&absolute);
        if meant != named {
            self.0.push(OwnFile { path: meant, kind });
        }
        self.0.push(OwnFile { path: named, kind });
        self
    }

    /// Returns the same files as they are found beneath a project's folder, given the paths by which it goes.
    pub(super) fn beneath(&self, known_as: &[PathBuf]) -> OwnInside {
        let inside = self.0.iter().filter_map(|own| {
            let mut folders = known_as.iter();
            let path = folders.find_map(|folder| own.path.strip_prefix(folder).ok())?;
            // A project that is one of these as a whole would be of no use: what is not named by itself is its own.
            let is_project = path.as_os_str().is_empty();
            (!is_project).then(|| (path.to_owned(), own.kind))
        });
        OwnInside {
            inside: inside.collect(),
            all: self.clone(),
        }
    }
}

/// Resolves what is there of a path.
fn resolved(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|there| {
        let real = there.canonicalize().ok()?;
        Some(match path.strip_prefix(there) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        })
    });
    found.unwrap_or_else(|| path.to_owned())
}

/// The program's own files, seen from a project.
#[derive(Debug)]
pub(super) struct OwnInside {
    /// Those in the project, by their paths from its top.
    inside: Vec<(PathBuf, Own)>,
    all: OwnFiles,
}

impl OwnInside {
    /// Tells what a path of the project is to this program; it is free of symlinks and `..`.
    pub(super) fn by_path(&self, path: &Path) -> Option<Own> {
        let mut inside = self.inside.iter();
        let found = inside.find(|(own, _)| {
            // Elsewhere file systems take other spellings of a name for the same one.
            path.starts_with(own) || (cfg!(not(target_os = "linux")) && is_spelled_to(path, own))
        });
        found.map(|(_, kind)| *kind)
    }

    /// Tells what a file is to this program, though it may go by another name.
    pub(super) fn by_identity(&self, file: &Metadata) -> Option<Own> {
        let identity = other_names(file)?;
        let mut all = self.all.0.iter();
        let found = all.find(|own| identity_of(&own.path) == Some(identity));
        found.map(|own| own.kind)
    }

    /// The files that commands must not read, wherever they are, by their absolute paths.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(super) fn unreadable(&self) -> Vec<PathBuf> {
        let all = self.all.0.iter();
        let kept = all.filter(|own| own.kind != Own::Governing);
        kept.map(|own| own.path.clone()).collect()
    }

    /// The files in the project that commands must neither read nor change, by their paths from its top.
    #[cfg(feature = "commands")]
    pub(super) fn unchangeable(&self) -> impl Iterator<Item = &Path> {
        let inside = self.inside.iter();
        let kept = inside.filter(|(_, kind)| matches!(kind, Own::Secret | Own::Store));
        kept.map(|(path, _)| path.as_path())
    }

    /// The files in the project that commands must not change, by their paths from its top, though their folders are open.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(super) fn sealed(&self) -> impl Iterator<Item = &Path> {
        let inside = self.inside.iter();
        let sealed = inside.filter(|(_, kind)| matches!(kind, Own::Governing | Own::Recording));
        sealed.map(|(path, _)| path.as_path())
    }

    /// The folders of the project that commands cannot change because of what is in them or beneath.
    #[cfg(feature = "commands")]
    pub(super) fn closed_folders(&self) -> BTreeSet<&Path> {
        let above = self
            .unchangeable()
            .flat_map(|path| path.ancestors().skip(1));
        above.collect()
    }
}

/// Tells whether a path leads to a file or beneath it on a file system that takes other spellings of a name for the same.
fn is_spelled_to(path: &Path, file: &Path) -> bool {
    let name = |part: Component<'_>| part.as_os_str().to_string_lossy().into_owned();
    let mut names = path.components().map(name);
    file.components()
        .map(name)
        .all(|known| names.next().is_some_and(|name| is_spelling(&name, &known)))
}

/// Returns the identity of a file, if it has other names.
#[cfg(unix)]
fn other_names(file: &Metadata) -> Option<(u64, u64)> {
    use cap_std::fs::MetadataExt;
    (file.nlink() > 1).then(|| (file.dev(), file.ino()))
}

#[cfg(unix)]
fn identity_of(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let file = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
const fn other_names(_: &Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(not(unix))]
const fn identity_of(_: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_found_by_what_they_are_called_and_by_what_that_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::fs::write(top.join("real/key"), "k").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("real/key", top.join("key")).unwrap();
        let own = OwnFiles::default()
            .secret(top.join("key"))
            .store(top.join("logs"))
            .governing(top.join("real/../own.toml"));
        let own = own.beneath(&[top]);
        #[cfg(unix)]
        assert_eq!(own.by_path(Path::new("real/key")), Some(Own::Secret));
        for (path, kind) in [
            ("key", Some(Own::Secret)),
            ("logs/a/b", Some(Own::Store)),
            ("own.toml", Some(Own::Governing)),
            ("logs.txt", None),
            ("real/other", None),
        ] {
            assert_eq!(own.by_path(Path::new(path)), kind, "{path}");
        }
    }

    #[cfg(feature = "commands")]
    #[test]
    fn a_recording_is_kept_from_tools_and_closes_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let recording = top.join("recorded/it.cassette");
        let own = OwnFiles::default().recording(recording);
        let own = own.beneath(&[top]);
        let path = Path::new("recorded/it.cassette");
        assert_eq!(own.by_path(path), Some(Own::Recording));
        assert!(own.closed_folders().is_empty());
        #[cfg(target_os = "linux")]
        assert_eq!(own.sealed().collect::<Vec<_>>(), [path]);
    }

    #[test]
    fn a_path_to_an_own_file_is_known_in_other_spellings() {
        let is_spelled = |path: &str, own: &str| is_spelled_to(Path::new(path), Path::new(own));
        assert!(is_spelled("Keys/SERVER.txt", "keys/server.txt"));
        assert!(is_spelled("Logs/a/b", "logs"));
        assert!(!is_spelled("keys", "keys/server.txt"));
        assert!(!is_spelled("logs.txt", "logs"));
    }
}
