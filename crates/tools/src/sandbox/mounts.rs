//! A view of the file system in which only two folders can be changed.
//!
//! Unlike Landlock, a read-only mount also protects permissions, owners, times and attributes, and can close a file
//! without closing its folder.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount,
};

use super::closed::Closed;

const HARMLESS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// The mount flags that remounting must preserve.
const KEPT: [(&str, MountFlags); 4] = [
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
    ("nosymfollow", MountFlags::NOSYMFOLLOW),
];

/// Why the file system could not be closed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}: {source}", path.display())]
pub(super) struct MountError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The processes that are visible in `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Processes {
    Own,
    All,
}

/// Makes everything read-only except two folders, and also the closed entries in the first of them. Returns the devices
/// that belong to the command. Requires a mount namespace; paths are absolute, those of closed entries relative to the
/// project.
pub(super) fn close(
    project: &Path,
    temporary: &Path,
    closed: &Closed,
    processes: Processes,
) -> Result<Vec<&'static str>, MountError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(failed("cannot detach", Path::new("/")))?;
    let held = closed.held.iter().map(|path| project.join(path));
    let mut sealed = Vec::new();
    for path in &closed.sealed {
        // A symlink is replaced by its target.
        let path = project.join(path).canonicalize();
        sealed.extend(path.ok().filter(|path| path.starts_with(project)));
    }
    let bound = [project.to_owned(), temporary.to_owned()]
        .into_iter()
        .chain(held);
    for path in bound.chain(sealed.iter().cloned()) {
        if path != Path::new("/") {
            mount_bind_recursive(&path, &path).map_err(failed("cannot bind", &path))?;
        }
    }
    let is_open = |path: &Path| {
        let is_sealed = sealed.iter().any(|sealed| path.starts_with(sealed));
        !is_sealed && (path.starts_with(project) || path.starts_with(temporary))
    };
    make_read_only(is_open)?;
    Ok(own_devices(processes))
}

fn make_read_only(is_open: impl Fn(&Path) -> bool) -> Result<(), MountError> {
    let mounts = Path::new("/proc/self/mountinfo");
    let mounts = fs::read(mounts).map_err(|error| MountError {
        action: "cannot read",
        path: mounts.to_owned(),
        source: error,
    })?;
    for line in mounts.split(|byte| *byte == b'\n') {
        let Some((path, flags)) = parsed(line) else {
            continue;
        };
        if is_open(&path) {
            continue;
        }
        let read_only = flags | MountFlags::BIND | MountFlags::RDONLY;
        if let Err(error) = mount_remount(&path, read_only, c"") {
            // A mount that is hidden below another one cannot be reached by a command either.
            let is_closed = statvfs(&path).map_or(true, |found| {
                found.f_flag.contains(StatVfsMountFlags::RDONLY)
            });
            if !is_closed {
                return Err(failed("cannot make read-only", &path)(error));
            }
        }
    }
    Ok(())
}

/// Parses a line of `mountinfo`: the mount point, and the flags to preserve.
fn parsed(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = unescaped(fields.nth(4)?);
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let mut flags = MountFlags::empty();
    for option in options.split(',') {
        let known = KEPT.iter().find(|(name, _)| *name == option);
        flags |= known.map_or(MountFlags::empty(), |(_, flag)| *flag);
    }
    // Accessing an automount that is not mounted yet would mount it.
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    (kind != b"autofs").then_some((path, flags))
}

/// Decodes spaces and the like, which are written as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'\\')
            .then(|| behind.split_at_checked(3))
            .flatten();
        let byte = escaped.and_then(|(digits, _)| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        path.push(byte.unwrap_or(*first));
        rest = match (byte, escaped) {
            (Some(_), Some((_, after))) => after,
            _ => behind,
        };
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Mounts the command's own devices and, in its own pid namespace, its own `/proc`. Returns the devices. Those that
/// cannot be mounted stay out of reach.
fn own_devices(processes: Processes) -> Vec<&'static str> {
    if processes == Processes::Own {
        let read_only = HARMLESS | MountFlags::RDONLY;
        // In some containers this fails: then other processes are visible, but cannot be inspected.
        let _seen = mount("proc", "/proc", "proc", read_only, None);
    }
    let mut own = Vec::new();
    let terminals = c"newinstance,ptmxmode=0666,mode=0620";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    if mount("devpts", "/dev/pts", "devpts", flags, Some(terminals)).is_ok() {
        own.extend(["/dev/pts", "/dev/ptmx", "/dev/tty"]);
    }
    let memory = c"mode=1777,size=25%";
    if mount("tmpfs", "/dev/shm", "tmpfs", HARMLESS, Some(memory)).is_ok() {
        own.push("/dev/shm");
    }
    own
}

fn failed<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> MountError {
    let path = path.to_owned();
    move |source| MountError {
        action,
        path,
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_parsed_with_the_flags_that_a_remount_must_keep() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402 rw,nosuid,noatime,nodev master:1 - ext3 /dev/root rw,errors=continue";
        let (path, flags) = parsed(line).unwrap();
        assert_eq!(path, Path::new("/mnt 2"));
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::NODEV);
        let automatic = b"36 35 0:40 / /proc/x rw shared:1 - autofs systemd-1 rw";
        assert!(parsed(automatic).is_none() && parsed(b"").is_none());
        assert_eq!(unescaped(br"a\\b\9"), Path::new(r"a\\b\9"));
    }
}
