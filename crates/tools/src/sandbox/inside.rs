//! The process inside: confines itself, starts the command, and waits for it.
//!
//! In a pid namespace, it is the first process: when it ends, everything that the command started ends as well.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use neuraxis_core::Access;
use nix::sched::{CloneFlags, unshare};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getpid, set_dumpable_behavior,
    set_parent_process_death_signal, wait,
};

use super::channel::Channel;
use super::closed::Closed;
use super::features::{LANDLOCK_WITH_TRUNCATE, SandboxFeature};
use super::files::{self, AccessibleFiles};
use super::mounts::{self, Processes};
use super::order::{Identity, Order, Reply, Run};
use super::{Aftermath, Ended, network, privileges, processes, repository, system_calls};

/// The shell that runs commands. An image may lack it.
pub(super) const SHELL: &str = "/bin/sh";

/// Runs the process and answers the supervisor.
pub(super) fn main() -> ExitCode {
    let answered = set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io::Error::from)
        .and_then(|()| {
            let mut supervisor = Channel::of_this_process()?;
            let Some(order) = supervisor.read::<Order>()? else {
                return Ok(());
            };
            let answer = work(order).unwrap_or_else(Reply::Refused);
            supervisor.write(&answer)
        });
    answered.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn work(order: Order) -> Result<Reply, String> {
    let mut confinement = Confinement {
        wanted: order.features,
        missing: Vec::new(),
        is_trying: order.run.is_none(),
    };
    let temporary = PathBuf::from(order.temporary);
    let Some(run) = order.run else {
        let landlock = confinement.enter(&temporary, &temporary, None)?;
        let missing = confinement.missing;
        return Ok(Reply::Found { landlock, missing });
    };
    let project =
        env::current_dir().map_err(|error| format!("cannot find the project: {error}"))?;
    confinement.enter(&project, &temporary, Some(&run))?;
    Ok(match execute(&run.command, &run.access) {
        Ok(ended) => Reply::Ended(ended),
        // Nothing else that is started, read or set here can be missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Reply::NoShell,
        Err(error) => Reply::Failed(format!("cannot run {SHELL}: {error}")),
    })
}

/// The confinement to establish, step by step.
#[derive(Debug)]
struct Confinement {
    wanted: BTreeSet<SandboxFeature>,
    missing: Vec<(SandboxFeature, String)>,
    /// Whether an unavailable part is recorded; otherwise it is an error.
    is_trying: bool,
}

impl Confinement {
    /// Confines this process. Returns the version of Landlock.
    fn enter(
        &mut self,
        project: &Path,
        temporary: &Path,
        run: Option<&Run>,
    ) -> Result<u32, String> {
        let namespace = |flag| move || unshare(flag).map_err(|error| error.to_string());
        self.enforce(
            SandboxFeature::SharedMemory,
            namespace(CloneFlags::CLONE_NEWIPC),
        )?;
        if run.is_none_or(|run| !run.access.contains(&Access::Network)) {
            self.enforce(SandboxFeature::Network, || {
                unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
                network::bring_up_loopback().map_err(|error| error.to_string())
            })?;
        }
        let mut closed = run.map(Closed::of).unwrap_or_default();
        let mut devices = Vec::new();
        self.enforce(SandboxFeature::Files, || {
            unshare(CloneFlags::CLONE_NEWNS).map_err(|error| error.to_string())?;
            let processes = if getpid() == Pid::INIT {
                Processes::Own
            } else {
                Processes::All
            };
            devices = mounts::close(project, temporary, &closed, processes)
                .map_err(|error| error.to_string())?;
            Ok(())
        })?;
        if self.has(SandboxFeature::Files) {
            closed = Closed::default();
        } else if run.is_some_and(|run| run.access.contains(&Access::Git)) {
            return Err(
                "access to git needs a mount namespace, which this machine does not provide"
                    .to_owned(),
            );
        }
        if let Some(run) = run {
            enter_folder(project, run)?;
        }
        let landlock = files::confine(&accessible_files(project, temporary, devices, closed, run));
        let landlock = landlock.map_err(|error| error.to_string())?;
        self.check_landlock(landlock)?;
        privileges::drop_all().map_err(|error| format!("cannot drop privileges: {error}"))?;
        let access = run.map(|run| run.access.clone()).unwrap_or_default();
        let features = self.wanted.clone();
        self.enforce(SandboxFeature::SystemCalls, || {
            system_calls::close(&features, &access).map_err(|error| error.to_string())
        })?;
        Ok(landlock)
    }

    fn enforce(
        &mut self,
        feature: SandboxFeature,
        confine: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        if !self.wanted.contains(&feature) {
            return Ok(());
        }
        match confine() {
            Err(why) if self.is_trying => {
                self.wanted.remove(&feature);
                self.missing.push((feature, why));
                Ok(())
            }
            result => result.map_err(|why| format!("{feature}: {why}")),
        }
    }

    fn has(&self, feature: SandboxFeature) -> bool {
        self.wanted.contains(&feature)
    }

    fn check_landlock(&self, version: u32) -> Result<(), String> {
        if version == 0 {
            return Err(
                "this kernel has no Landlock, or it is turned off; Linux 5.13 or newer is needed"
                    .to_owned(),
            );
        }
        if version < LANDLOCK_WITH_TRUNCATE && !self.has(SandboxFeature::Files) {
            return Err("without a mount namespace, Linux 6.2 or newer is needed: on older kernels, a command could \
                empty any of the user's files"
                .to_owned());
        }
        Ok(())
    }
}

/// Changes to the command's folder, by the paths as they resolve from here on, if those lead to the intended folders.
fn enter_folder(project: &Path, run: &Run) -> Result<(), String> {
    for (path, intended) in [
        (project, run.project),
        (Path::new(&run.folder), run.folder_identity),
    ] {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let entered = env::set_current_dir(path).and_then(|()| fs::metadata("."));
        match entered {
            Ok(found) if Identity::from(&found) == intended => {}
            Ok(_) => {
                return Err(format!(
                    "the folder {} was replaced in the meantime",
                    path.display()
                ));
            }
            Err(error) => {
                return Err(format!(
                    "the folder {} cannot be entered: {error}",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

fn accessible_files<'a>(
    project: &'a Path,
    temporary: &'a Path,
    devices: Vec<&'static str>,
    closed: Closed,
    run: Option<&Run>,
) -> AccessibleFiles<'a> {
    let unreadable = run.into_iter().flat_map(|run| &run.unreadable);
    let unreachable = run.into_iter().flat_map(|run| &run.unreachable);
    let unreachable = unreachable.map(PathBuf::from).chain(closed.sealed);
    // Without a leading `./`, like the paths found by listing folders.
    let absolute = |path: PathBuf| project.join(path.strip_prefix(".").unwrap_or(&path));
    AccessibleFiles {
        project,
        temporary,
        devices,
        unreadable: unreadable.map(PathBuf::from).collect(),
        unchangeable: unreachable.map(absolute).collect(),
    }
}

/// Runs a command, and reaps orphaned processes in the meantime.
fn execute(command: &str, access: &BTreeSet<Access>) -> io::Result<Ended> {
    // The processes started from here are no longer bound by this setting.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let shell = Command::new(SHELL)
        .args(["-c", command])
        .envs(repository::variables(access).map_err(io::Error::other)?)
        .stdin(Stdio::null())
        .spawn()?;
    loop {
        let ended = wait(WaitOptions::empty())?;
        if let Some((process, status)) = ended
            && process.as_raw_nonzero().get().unsigned_abs() == shell.id()
        {
            return Ok(Ended {
                exit_code: status.exit_status(),
                signal: status.terminating_signal(),
                aftermath: Aftermath::default(),
                left_running: processes::is_any_running(),
            });
        }
    }
}
