//! An output file named by the user, which is written whether or not it exists, or only if it does not.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Where text is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A new or existing file, by its path with links resolved. It is replaced as a whole, so readers never see half of
    /// it.
    File(PathBuf),
    /// Anything else, such as a device, a pipe or the file that standard output goes to. It is not replaced; the text
    /// is written into it.
    Other(PathBuf),
}

/// Who may read a newly created file. The permissions of an existing file do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Everyone the umask allows.
    All,
    /// Only its owner.
    Owner,
}

impl Destination {
    /// Resolves a path, including links whose target does not exist yet.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(there) if there.is_file() && own_stream(&there).is_none() => {
                Ok(Self::File(fs::canonicalize(path)?))
            }
            Ok(_) => Ok(Self::Other(path.to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(path) {
                Ok(target) => Self::of(&folder(path).join(target)),
                Err(_) => {
                    let name = path.file_name().ok_or(error)?;
                    Ok(Self::File(fs::canonicalize(folder(path))?.join(name)))
                }
            },
            Err(error) => Err(error),
        }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Other(path) => path,
        }
    }

    /// Checks whether a file can be written here, without changing anything.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self {
            Self::File(path) => NamedTempFile::new_in(folder(path)).map(drop),
            // Opening a pipe that has no reader yet would block.
            Self::Other(_) => Ok(()),
        }
    }

    /// Writes the text.
    pub(crate) fn write(&self, text: &str, readers: Readers) -> io::Result<()> {
        let path = match self {
            Self::File(path) => path,
            Self::Other(path) => {
                let there = fs::metadata(path)?;
                let mut open = match own_stream(&there) {
                    Some(stream) => stream,
                    None => OpenOptions::new().write(true).open(path)?,
                };
                return open.write_all(text.as_bytes());
            }
        };
        let before = fs::metadata(path).ok();
        let mut draft = match before {
            Some(_) => NamedTempFile::new_in(folder(path))?,
            None => readers.draft(folder(path))?,
        };
        draft.write_all(text.as_bytes())?;
        if let Some(before) = before {
            draft.as_file().set_permissions(before.permissions())?;
        }
        draft.as_file().sync_all()?;
        match draft.persist(path) {
            Ok(_) => Ok(()),
            // A file that is a mount point of its own, as in a container, cannot be replaced.
            Err(failed) if failed.error.kind() == ErrorKind::ResourceBusy => fs::write(path, text),
            Err(failed) => Err(failed.error),
        }
    }
}

impl Readers {
    /// Creates a temporary file with the permissions of a new file for these readers.
    fn draft(self, folder: &Path) -> io::Result<NamedTempFile> {
        #[cfg(unix)]
        if self == Self::All {
            use std::os::unix::fs::PermissionsExt;

            // The usual permissions of a new file, from which the umask removes some.
            let all = fs::Permissions::from_mode(0o666);
            let mut builder = tempfile::Builder::new();
            return builder.permissions(all).tempfile_in(folder);
        }
        NamedTempFile::new_in(folder)
    }
}

/// Returns standard output or error if it goes to this file. Writing to the stream appends to what it has written so
/// far; opening the file again by its name would not.
#[cfg(unix)]
fn own_stream(there: &fs::Metadata) -> Option<fs::File> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    let streams = [
        io::stdout().as_fd().try_clone_to_owned(),
        io::stderr().as_fd().try_clone_to_owned(),
    ];
    let mut streams = streams.into_iter().flatten().map(fs::File::from);
    streams.find(|stream| {
        let stream = stream.metadata();
        stream.is_ok_and(|stream| (stream.dev(), stream.ino()) == (there.dev(), there.ino()))
    })
}

#[cfg(not(unix))]
fn own_stream(_there: &fs::Metadata) -> Option<fs::File> {
    None
}

/// Writes a file that must not exist yet, as a whole: if the disk is full, there is no file afterwards.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // Otherwise a folder that cannot be written to would be reported first.
    if fs::symlink_metadata(path).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let mut draft = Readers::All.draft(folder(path))?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    draft.persist_noclobber(path)?;
    Ok(())
}

/// Creates a file that must not exist yet, readable only by its owner.
pub(crate) fn create_new(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the folder of a file.
fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    fn write(path: &Path, text: &str) {
        let destination = Destination::of(path).unwrap();
        destination.check().unwrap();
        destination.write(text, Readers::All).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn writing_through_a_symlink_replaces_its_target_and_keeps_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink("file", &link).unwrap();
        let usual = folder.path().join("usual");
        fs::write(&usual, "").unwrap();
        write(&link, "new");
        assert_eq!(
            (fs::read_to_string(&file).unwrap(), mode(&file)),
            ("new".into(), mode(&usual))
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        write(&link, "again");
        assert_eq!(
            (fs::read_to_string(&file).unwrap(), mode(&file)),
            ("again".into(), 0o600)
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            Destination::of(&file).unwrap(),
            Destination::of(&link).unwrap()
        );
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/dev/null", &link).unwrap();
        write(&link, "nothing");
        let there = fs::metadata(&link).unwrap().file_type();
        assert!(there.is_char_device(), "{there:?}");
    }

    #[test]
    fn a_file_in_a_missing_folder_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let error = Destination::of(&folder.path().join("no/file")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
