//! Finds a program, starts it, and makes it end with this process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A program of util-linux that makes the kernel kill another program when the process that started it ends, in any
/// way.
#[cfg(target_os = "linux")]
const SETPRIV: &str = "/usr/bin/setpriv";

/// Returns whether a program is given with a folder, so that no other folder is searched.
pub(super) fn names_folder(command: &str) -> bool {
    Path::new(command.trim()).components().count() > 1
}

/// Finds a program in the folders of a `PATH`, unless it is given with a folder.
pub(super) fn find(command: &str, path: Option<&str>, folder: Option<&Path>) -> Option<PathBuf> {
    let has_folder = names_folder(command);
    let command = Path::new(command.trim());
    if has_folder {
        let program = folder.map_or_else(|| command.to_owned(), |folder| folder.join(command));
        return program.is_file().then_some(program);
    }
    let folders = std::env::split_paths(path.unwrap_or_default());
    let mut found = folders.map(|folder| folder.join(command));
    found.find(|program| is_program(program))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path);
    metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Prepares a command whose program is killed when this process ends, even abruptly, if the machine supports that.
/// Otherwise the program must notice that its input is closed.
#[cfg(target_os = "linux")]
pub(super) fn dying_with_us(program: &Path) -> Command {
    // Another program of that name, such as busybox's, may lack the needed option.
    let is_there = std::fs::symlink_metadata(SETPRIV).is_ok_and(|it| it.is_file());
    if !is_there {
        return Command::new(program);
    }
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

#[cfg(not(target_os = "linux"))]
pub(super) fn dying_with_us(program: &Path) -> Command {
    Command::new(program)
}

/// A started program. Dropping it kills the program with everything it started.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) child: Child,
    /// Its process id, which is also its process group id.
    number: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Signal {
    Term,
    Kill,
}

impl Program {
    fn new(child: Child) -> Self {
        Self {
            number: child.id(),
            child,
        }
    }

    /// Signals the program and everything it started.
    #[cfg(unix)]
    pub(super) fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        let number = self.number.and_then(|number| i32::try_from(number).ok());
        if let Some(group) = number.and_then(rustix::process::Pid::from_raw) {
            // It may have ended in the meantime.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    #[cfg(not(unix))]
    pub(super) fn signal(&mut self, signal: Signal) {
        if matches!(signal, Signal::Kill) {
            // It may have ended in the meantime.
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The id of a program that is known to have ended may belong to another.
        if self.child.id().is_some() {
            self.signal(Signal::Kill);
        }
    }
}

/// Keeps the thread that started a program alive; the thread ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Parent {
    _keep: mpsc::Sender<()>,
}

/// Starts a program from a thread that lives as long as the returned [`Parent`]: the kernel treats the end of the
/// thread that started a program as the end of its process, and the runtime's threads come and go.
pub(super) async fn start(mut command: Command) -> io::Result<(Program, Parent)> {
    let runtime = Handle::current();
    let (started, program) = oneshot::channel();
    let (keep, kept) = mpsc::channel();
    thread::Builder::new()
        .name("mcp-server".to_owned())
        .spawn(move || {
            let spawned = {
                let _runtime = runtime.enter();
                command.spawn().map(Program::new)
            };
            // If sending fails, the caller has gone: the program is dropped and thereby killed.
            if started.send(spawned).is_ok() {
                // Blocks until the sender is dropped: nothing is ever sent.
                let _ = kept.recv();
            }
        })?;
    let program = program
        .await
        .map_err(|_| io::Error::other("the thread that starts it crashed"))??;
    Ok((program, Parent { _keep: keep }))
}
