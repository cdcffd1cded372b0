//! The files of this program itself: no tool can access them, wherever they are and by whatever name.

#[cfg(feature = "commands")]
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cap_std::fs::Metadata;

use super::secret::is_spelling;

/// The maximum number of symlinks that are followed on the way to a file, the same as on Linux.
const MAX_SYMLINKS: usize = 40;

/// The files of the program that offers the tools: its keys, its store, its configuration and its recordings.
///
/// Their locations are looked up whenever a tool is used, since a symlink along the path may lead elsewhere by then.
/// Clones share one list: a file that is added to it is also out of reach of tools that were created with the list
/// earlier.
///
/// ```
/// use neuraxis_tools::ProgramFiles;
///
/// let files = ProgramFiles::default()
///     .secret("/etc/app/key")
///     .store("/var/lib/app/sessions.db")
///     .configuration("/etc/app/config.toml");
/// ```
#[derive(Debug, Clone, Default)]
pub struct ProgramFiles(Arc<Mutex<Vec<ProgramFile>>>);

#[derive(Debug)]
struct ProgramFile {
    /// The absolute path as it was given.
    path: PathBuf,
    purpose: FilePurpose,
    /// Where the file is and, as long as something is still there, where it was: a key that was replaced is still a
    /// secret. Absolute, and free of symlinks except for the last part.
    places: Vec<(PathBuf, FilePurpose)>,
}

/// The purpose of a file of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePurpose {
    /// A secret. Must not be read or written.
    Secret,
    /// Sessions, and what else the program knows about its user. Must not be read or written.
    Store,
    /// Decides what may run. Must not be written.
    Configuration,
    /// A recording that answers instead of models, or that is being written. File tools cannot read it, and neither
    /// file tools nor commands can write it. Its folder stays open to commands, so that the tool descriptions that
    /// models get do not depend on where the recording is: otherwise it would not answer.
    Recording,
    /// A symlink on the way to a secret. File tools cannot redirect it. To commands it is an ordinary file: protecting
    /// it from them would close its folder.
    LinkToSecret,
}

impl ProgramFiles {
    /// Adds a file that holds a secret, or a folder of such files.
    #[must_use]
    pub fn secret(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), FilePurpose::Secret)
    }

    /// Adds a file or folder in which the program stores what it knows.
    #[must_use]
    pub fn store(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), FilePurpose::Store)
    }

    /// Adds a file that decides what may run: the program's configuration.
    #[must_use]
    pub fn configuration(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), FilePurpose::Configuration)
    }

    /// Adds a file that holds a recording of models, or to which one is written.
    #[must_use]
    pub fn recording(self, path: impl AsRef<Path>) -> Self {
        self.with(path.as_ref(), FilePurpose::Recording)
    }

    fn with(self, path: &Path, purpose: FilePurpose) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut files = self.locked();
        if !files
            .iter()
            .any(|own| own.path == path && own.purpose == purpose)
        {
            let places = places(&path, purpose);
            files.push(ProgramFile {
                path,
                purpose,
                places,
            });
        }
        drop(files);
        self
    }

    /// Returns the same files as they are now found below a project's folder, given the paths by which the folder is
    /// known.
    pub(super) fn in_project(&self, known_as: &[PathBuf]) -> ProgramFilesInProject {
        let all = self.found();
        let inside = all.iter().filter_map(|(place, purpose)| {
            let mut folders = known_as.iter();
            let path = folders.find_map(|folder| place.strip_prefix(folder).ok())?;
            // A project that is entirely one of these files would be useless: what is not named itself belongs to the
            // project.
            let is_project = path.as_os_str().is_empty();
            (!is_project).then(|| (path.to_owned(), *purpose))
        });
        ProgramFilesInProject {
            inside: inside.collect(),
            all,
            identities: OnceLock::new(),
        }
    }

    /// Looks up where the files are now.
    fn found(&self) -> Vec<(PathBuf, FilePurpose)> {
        let mut found = Vec::new();
        for own in self.locked().iter_mut() {
            let now = places(&own.path, own.purpose);
            let is_left = |place: &Path| place.symlink_metadata().is_ok();
            own.places
                .retain(|place| !now.contains(place) && is_left(&place.0));
            own.places.extend(now);
            found.extend(own.places.iter().cloned());
        }
        found
    }

    fn locked(&self) -> MutexGuard<'_, Vec<ProgramFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns where a file is: the path by which it is named and, if that is a symlink, the path it leads to. For a
/// secret, also the symlinks along the path: redirecting one of them would choose which keys are used.
pub(super) fn places(path: &Path, purpose: FilePurpose) -> Vec<(PathBuf, FilePurpose)> {
    let named = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => resolved(folder).join(name),
        _ => path.to_owned(),
    };
    let mut places = vec![(named, purpose)];
    let links = match purpose {
        FilePurpose::Secret => symlinks(path),
        _ => Vec::new(),
    };
    let links = links
        .into_iter()
        .map(|link| (link, FilePurpose::LinkToSecret));
    for place in links.chain([(resolved(path), purpose)]) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Returns the symlinks through which an absolute path leads to its target.
fn symlinks(path: &Path) -> Vec<PathBuf> {
    let parts = |path: &Path| -> Vec<PathBuf> {
        let parts = path.components().rev();
        parts.map(|part| PathBuf::from(part.as_os_str())).collect()
    };
    let (mut place, mut ahead) = (PathBuf::new(), parts(path));
    let mut found = Vec::new();
    while let Some(part) = ahead.pop() {
        match part.components().next() {
            Some(Component::CurDir) => continue,
            Some(Component::ParentDir) => {
                place.pop();
                continue;
            }
            _ => {}
        }
        let next = place.join(part);
        match next.read_link() {
            Ok(target) if found.len() < MAX_SYMLINKS => {
                ahead.extend(parts(&target));
                found.push(next);
            }
            _ => place = next,
        }
    }
    found
}

/// Resolves the existing part of a path.
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

/// The program's own files, as seen from a project.
#[derive(Debug)]
pub(super) struct ProgramFilesInProject {
    /// The files in the project, by their paths from its root.
    inside: Vec<(PathBuf, FilePurpose)>,
    /// All files, by absolute path.
    all: Vec<(PathBuf, FilePurpose)>,
    /// Their file system identities, looked up once: a search of the project asks about each file.
    identities: OnceLock<Vec<(DeviceAndInode, FilePurpose)>>,
}

impl ProgramFilesInProject {
    /// Returns whether this program withholds a file from tools, given its symlink-free path and its metadata.
    pub(super) fn is_withheld(&self, path: &Path, file: &Metadata) -> bool {
        let own = self.by_path(path).or_else(|| self.by_identity(file));
        own.is_some_and(|own| own != FilePurpose::Configuration)
    }

    /// Returns what a project path means to this program. The path must be free of symlinks and `..`.
    pub(super) fn by_path(&self, path: &Path) -> Option<FilePurpose> {
        let inside = self.inside.iter();
        strictest(inside.filter(|(own, _)| leads_to(path, own)))
    }

    /// Returns what a file means to this program, even if it has another name, or only just became that file.
    pub(super) fn by_identity(&self, file: &Metadata) -> Option<FilePurpose> {
        let file = identity(file)?;
        let identities = self.identities.get_or_init(|| {
            let all = self.all.iter();
            let there = all.filter_map(|(place, own)| Some((identity_at(place)?, *own)));
            there.collect()
        });
        strictest(identities.iter().filter(|(known, _)| *known == file))
    }

    /// Returns the absolute paths of all files that commands must not read.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(super) fn unreadable(&self) -> Vec<PathBuf> {
        let all = self.all.iter();
        let kept = all.filter(|(_, purpose)| {
            !matches!(
                purpose,
                FilePurpose::Configuration | FilePurpose::LinkToSecret
            )
        });
        kept.map(|(place, _)| place.clone()).collect()
    }

    /// Returns the paths, from the project root, of files in the project that commands must neither read nor change.
    #[cfg(feature = "commands")]
    pub(super) fn unreachable(&self) -> impl Iterator<Item = &Path> {
        let inside = self.inside.iter();
        let kept = inside
            .filter(|(_, purpose)| matches!(purpose, FilePurpose::Secret | FilePurpose::Store));
        kept.map(|(path, _)| path.as_path())
    }

    /// Returns the paths, from the project root, of files in the project that commands must not change although their
    /// folders are open.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(super) fn read_only(&self) -> impl Iterator<Item = &Path> {
        let inside = self.inside.iter();
        let read_only = inside.filter(|(_, purpose)| {
            matches!(purpose, FilePurpose::Configuration | FilePurpose::Recording)
        });
        read_only.map(|(path, _)| path.as_path())
    }

    /// Returns the folders of the project that commands cannot change because of files in them or below.
    #[cfg(feature = "commands")]
    pub(super) fn closed_folders(&self) -> BTreeSet<&Path> {
        let above = self.unreachable().flat_map(|path| path.ancestors().skip(1));
        above.collect()
    }
}

/// Returns whether a path leads to a file or below it.
pub(super) fn leads_to(path: &Path, file: &Path) -> bool {
    // On other systems, file systems may accept other spellings of a name.
    path.starts_with(file) || (cfg!(not(target_os = "linux")) && is_spelled_to(path, file))
}

/// Returns whether a path leads to a file or below it on a file system that accepts other spellings of a name.
fn is_spelled_to(path: &Path, file: &Path) -> bool {
    let name = |part: Component<'_>| part.as_os_str().to_string_lossy().into_owned();
    let mut names = path.components().map(name);
    file.components()
        .map(name)
        .all(|known| names.next().is_some_and(|name| is_spelling(&name, &known)))
}

/// Returns the strictest of several purposes of a file: a file that must not be written may also be one that must not
/// be read.
fn strictest<'a, T: 'a>(found: impl Iterator<Item = &'a (T, FilePurpose)>) -> Option<FilePurpose> {
    let purposes = found.map(|(_, purpose)| *purpose);
    purposes.min_by_key(|purpose| match purpose {
        FilePurpose::Secret | FilePurpose::Store => 0,
        FilePurpose::Recording | FilePurpose::LinkToSecret => 1,
        FilePurpose::Configuration => 2,
    })
}

/// A file system's id and the file's inode number.
type DeviceAndInode = (u64, u64);

#[cfg(unix)]
fn identity(file: &Metadata) -> Option<DeviceAndInode> {
    use cap_std::fs::MetadataExt;
    Some((file.dev(), file.ino()))
}

#[cfg(unix)]
fn identity_at(path: &Path) -> Option<DeviceAndInode> {
    use std::os::unix::fs::MetadataExt;
    let file = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
const fn identity(_: &Metadata) -> Option<DeviceAndInode> {
    None
}

#[cfg(not(unix))]
const fn identity_at(_: &Path) -> Option<DeviceAndInode> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_files_are_found_by_their_path_and_through_symlinks() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::fs::write(top.join("real/key"), "k").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("real/key", top.join("key")).unwrap();
        let own = ProgramFiles::default()
            .secret(top.join("key"))
            .store(top.join("logs"))
            .configuration(top.join("real/../own.toml"));
        let own = own.in_project(&[top]);
        #[cfg(unix)]
        assert_eq!(
            own.by_path(Path::new("real/key")),
            Some(FilePurpose::Secret)
        );
        for (path, purpose) in [
            ("key", Some(FilePurpose::Secret)),
            ("logs/a/b", Some(FilePurpose::Store)),
            ("own.toml", Some(FilePurpose::Configuration)),
            ("logs.txt", None),
            ("real/other", None),
        ] {
            assert_eq!(own.by_path(Path::new(path)), purpose, "{path}");
        }
    }

    #[cfg(feature = "commands")]
    #[test]
    fn a_recording_is_protected_without_closing_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let recording = top.join("recorded/it.cassette");
        let own = ProgramFiles::default().recording(recording);
        let own = own.in_project(&[top]);
        let path = Path::new("recorded/it.cassette");
        assert_eq!(own.by_path(path), Some(FilePurpose::Recording));
        assert!(own.closed_folders().is_empty());
        #[cfg(target_os = "linux")]
        assert_eq!(own.read_only().collect::<Vec<_>>(), [path]);
    }

    #[cfg(all(unix, feature = "commands"))]
    #[test]
    fn a_symlink_on_the_path_to_a_secret_is_protected_without_closing_its_folder() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("key"), "k").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(outside.path(), top.join("secrets")).unwrap();
        let own = ProgramFiles::default().secret(top.join("secrets/key"));
        let own = own.in_project(&[top]);
        assert_eq!(
            own.by_path(Path::new("secrets")),
            Some(FilePurpose::LinkToSecret)
        );
        assert!(own.closed_folders().is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn program_files_are_resolved_at_each_query_and_previous_targets_stay_protected() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        // Like a mounted Kubernetes secret.
        for version in ["..1", "..2"] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("key"), version).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/key", at("key")).unwrap();
        let files = ProgramFiles::default().secret(at("key"));
        let known_as = [top.clone()];
        let own = || files.in_project(&known_as);
        assert_eq!(own().by_path(Path::new("..2/key")), None);
        // Redirecting it would choose the key.
        assert_eq!(
            own().by_path(Path::new("..data")),
            Some(FilePurpose::LinkToSecret)
        );

        symlink("..2", at("..new")).unwrap();
        std::fs::rename(at("..new"), at("..data")).unwrap();
        for path in ["key", "..1/key", "..2/key"] {
            assert_eq!(
                own().by_path(Path::new(path)),
                Some(FilePurpose::Secret),
                "{path}"
            );
        }
        std::fs::remove_dir_all(at("..1")).unwrap();
        assert_eq!(own().by_path(Path::new("..1/key")), None);
        assert_eq!(own().by_path(Path::new("..2/other")), None);
    }

    #[test]
    fn files_added_to_a_clone_belong_to_the_same_list() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let before = ProgramFiles::default().configuration(top.join("both"));
        let after = before.clone().secret(top.join("new"));
        let _same = after.secret(top.join("both"));
        let own = before.in_project(&[top]);
        assert_eq!(own.by_path(Path::new("new")), Some(FilePurpose::Secret));
        assert_eq!(own.by_path(Path::new("both")), Some(FilePurpose::Secret));
    }

    #[cfg(unix)]
    #[test]
    fn circular_symlinks_are_not_followed_forever() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("b", top.join("a")).unwrap();
        std::os::unix::fs::symlink("a", top.join("b")).unwrap();
        let own = ProgramFiles::default()
            .secret(top.join("a"))
            .in_project(&[top]);
        assert_eq!(own.by_path(Path::new("a")), Some(FilePurpose::Secret));
        assert_eq!(own.by_path(Path::new("b")), Some(FilePurpose::LinkToSecret));
    }

    #[test]
    fn a_program_file_is_recognized_in_other_spellings() {
        let is_spelled = |path: &str, own: &str| is_spelled_to(Path::new(path), Path::new(own));
        assert!(is_spelled("Keys/SERVER.txt", "keys/server.txt"));
        assert!(is_spelled("Logs/a/b", "logs"));
        assert!(!is_spelled("keys", "keys/server.txt"));
        assert!(!is_spelled("logs.txt", "logs"));
    }
}
