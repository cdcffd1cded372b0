//! The supervisor: ends what a command started, and removes its temporary folder, however the command ends.
//!
//! It stays outside the sandbox, in its own session. It holds one end of a socket whose other end is the program's:
//! when the program closes that end or dies, the supervisor ends everything.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use close_fds::CloseFdsBuilder;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, getpid, set_child_subreaper, setsid};
use tempfile::TempDir;

use super::channel::Channel;
use super::features::SandboxFeature;
use super::guard::Guard;
use super::helper::{INSIDE, PROGRAM};
use super::order::{Order, Reply};
use super::{Aftermath, Ended, privileges, processes};

/// The first descriptor after standard input, output and error.
const FIRST_OTHER: i32 = 3;

/// The variables that name a command's own folder.
const FOLDERS: [&str; 2] = ["TMPDIR", "XDG_CACHE_HOME"];

/// Runs the supervisor and answers the program.
pub(super) fn main() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn supervise() -> io::Result<()> {
    // Fails if this process already leads a session, which is what is wanted.
    let _leads = setsid();
    // The command inherits none of the files that this program, or its parent, had open.
    CloseFdsBuilder::new().cloexecfrom(FIRST_OTHER);
    set_child_subreaper(Some(getpid()))?;
    let mut program = Channel::of_this_process()?;
    let Some(order) = program.read::<Order>()? else {
        return Ok(());
    };
    let answer = serve(&program, order).unwrap_or_else(|error| Reply::Failed(error.to_string()));
    program.write(&answer)
}

fn serve(program: &Channel, mut order: Order) -> io::Result<Reply> {
    let private = Permissions::from_mode(0o700);
    let temporary = tempfile::Builder::new()
        .prefix("neuraxis-")
        .permissions(private)
        .tempdir_in(&order.temporary)
        .map_err(|error| {
            let place = Path::new(&order.temporary).display();
            io::Error::other(format!(
                "cannot create a temporary folder for commands in {place} ({error}): make {place} writable, or set \
                 TMPDIR to another folder"
            ))
        })?;
    let guard = match order.run.as_mut().map(Guard::before).transpose() {
        Ok(guard) => guard,
        Err(why) => return Ok(Reply::Refused(why)),
    };
    let missing = match namespaces(&mut order.features) {
        Err(why) if order.run.is_some() => {
            // No command ran that could have created anything.
            drop(guard.map(Guard::after));
            return Ok(Reply::Refused(format!(
                "{}: {why}",
                SandboxFeature::Processes
            )));
        }
        missing => missing.err(),
    };
    let answer = run(program, order, temporary.path());
    // Without a pid namespace, orphans become the supervisor's children.
    let left_running = processes::is_any_running();
    processes::end_descendants();
    let aftermath = guard.map(Guard::after).unwrap_or_default();
    close(temporary);
    let renamed = aftermath.renamed();
    let answer = answer.map_err(|error| match renamed.is_empty() {
        true => error,
        false => io::Error::other(format!("{error}; renamed: {}", renamed.join(", "))),
    })?;
    Ok(match (answer, missing) {
        (
            Reply::Found {
                landlock,
                missing: mut others,
            },
            Some(why),
        ) => {
            others.insert(0, (SandboxFeature::Processes, why));
            Reply::Found {
                landlock,
                missing: others,
            }
        }
        (Reply::Ended(ended), _) => Reply::Ended(Ended {
            aftermath,
            left_running: ended.left_running || left_running,
            ..ended
        }),
        (answer, _) => answer,
    })
}

/// Enters the namespaces that must be entered outside. An unavailable part is no longer requested.
fn namespaces(features: &mut BTreeSet<SandboxFeature>) -> Result<(), String> {
    if !features.contains(&SandboxFeature::Processes) {
        return Ok(());
    }
    privileges::enter_namespaces().map_err(|error| {
        features.remove(&SandboxFeature::Processes);
        error.to_string()
    })
}

/// Starts the process inside and waits for its answer, or for the program's end.
fn run(program: &Channel, mut order: Order, temporary: &Path) -> io::Result<Reply> {
    let (ours, theirs) = UnixStream::pair()?;
    let folder = temporary.canonicalize()?;
    let child = Command::new(PROGRAM)
        .arg(INSIDE)
        .envs(FOLDERS.map(|name| (name, &folder)))
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .spawn()?;
    order.temporary = folder.into_os_string();
    let mut inside = Channel::new(ours);
    let answer = inside
        .write(&order)
        .and_then(|()| wait(program, &mut inside));
    // The first process of a namespace takes all others with it.
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(child) = child {
        processes::end(child);
    }
    answer
}

fn wait(program: &Channel, inside: &mut Channel) -> io::Result<Reply> {
    let mut sockets = [
        PollFd::new(inside, PollFlags::IN),
        PollFd::new(program, PollFlags::IN),
    ];
    while poll(&mut sockets, None)? == 0 {}
    let [from_inside, _] = &sockets;
    if from_inside.revents().is_empty() {
        // The command must end. What it created is reported anyway.
        return Ok(Reply::Ended(Ended {
            exit_code: None,
            signal: None,
            aftermath: Aftermath::default(),
            left_running: false,
        }));
    }
    inside
        .read()?
        .ok_or_else(|| io::Error::other("the process that runs the command ended"))
}

/// Removes the temporary folder, even if a command removed its own permissions for the contents.
fn close(temporary: TempDir) {
    let path = temporary.path().to_owned();
    if temporary.close().is_err() {
        open_folders(&path);
        let _left = std::fs::remove_dir_all(&path);
    }
}

fn open_folders(folder: &Path) {
    let _not_ours = std::fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}
