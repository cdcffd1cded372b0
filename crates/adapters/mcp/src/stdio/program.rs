//! Finds a program, starts it, and has it end with this process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A program of util-linux that has another one stopped when the process that started it ends, in whatever way.
#[cfg(target_os = "linux")]
const SETPRIV: &str = "/usr/bin/setpriv";

/// Tells whether a program is named with a folder, so that no other is looked into.
pub(super) fn names_folder(command: &str) -> bool {
    Path::new(command.trim()).components().count() > 1
}

/// Looks for a program in the folders of a `PATH`, unless it is named with a folder.
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

/// Prepares the start of a program that ends when this process does, however hard it ends, where the machine can do that.
/// Elsewhere it is left to notice that its input is closed.
#[cfg(target_os = "linux")]
pub(super) fn dying_with_us(program: &Path) -> Command {
    // Another program of that name, such as that of busybox, may lack what is needed.
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

/// A program that was started. Whoever drops it without a word wants it gone, with all it started.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) child: Child,
    /// Its number, which is that of its group, too.
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

    /// Signals the program and all it started.
    #[cfg(unix)]
    pub(super) fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        let number = self.number.and_then(|number| i32::try_from(number).ok());
        if let Some(group) = number.and_then(rustix::process::Pid::from_raw) {
            // It may have ended just now.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    #[cfg(not(unix))]
    pub(super) fn signal(&mut self, signal: Signal) {
        if matches!(signal, Signal::Kill) {
            // It may have ended just now.
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The number of one that is known to have ended may be another's.
        if self.child.id().is_some() {
            self.signal(Signal::Kill);
        }
    }
}

/// Keeps the thread that started a program; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Parent {
    _keep: mpsc::Sender<()>,
}

/// Starts a program from a thread that lives as long as what is returned with it: the kernel takes the end of the thread
/// that started a program for the end of its process, and threads of a runtime come and go.
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
            // Nobody waits for it any more: dropped, it is stopped.
            if started.send(spawned).is_ok() {
                // Until the sender is dropped: nothing is ever sent.
                let _ = kept.recv();
            }
        })?;
    let program = program
        .await
        .map_err(|_| io::Error::other("the thread that starts it crashed"))??;
    Ok((program, Parent { _keep: keep }))
}
