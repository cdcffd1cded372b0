//! Ends a command with everything it started.
//!
//! A command runs in a process group of its own, which is ended as a whole. What left the group (by `setsid`, or as a
//! daemon) still carries the command's mark in its environment, and is found by it. A process that hides from both has
//! wiped its environment on purpose.
//!
//! Where this program is killed and cannot do that, the group still ends, by itself; what left it goes on.

use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memmem;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The variable that marks the processes of a command.
pub(super) const MARK: &str = "NEURAXIS_COMMAND";

/// The most bytes of a process's environment that are searched. The mark is one of the first variables a shell exports.
const MAX_ENVIRONMENT_BYTES: u64 = 1 << 20;

/// How often processes are looked for: one that is found may have started another meanwhile.
const MAX_ROUNDS: usize = 10;

/// The processes of one command. Dropped, they are ended.
#[derive(Debug)]
pub(super) struct Processes {
    mark: String,
    group: Option<Pid>,
}

impl Processes {
    /// Takes charge of a command that is yet to start.
    pub(super) fn new() -> Self {
        static COMMANDS: AtomicU64 = AtomicU64::new(0);
        let number = COMMANDS.fetch_add(1, Ordering::Relaxed);
        Self {
            mark: format!("{}.{number}", std::process::id()),
            group: None,
        }
    }

    /// The value of [`MARK`].
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Says by which process the group is led.
    pub(super) fn led_by(&mut self, leader: Option<u32>) {
        let leader = leader.and_then(|pid| i32::try_from(pid).ok());
        self.group = leader.and_then(Pid::from_raw);
    }

    /// Ends them all.
    pub(super) fn end(&mut self) {
        let Some(group) = self.group.take() else {
            return;
        };
        // There is none any more if it has ended by itself.
        let _gone = kill_process_group(group, Signal::KILL);
        for _ in 0..MAX_ROUNDS {
            let strays = marked(&self.mark);
            if strays.is_empty() {
                break;
            }
            for stray in strays {
                let _gone = kill_process(stray, Signal::KILL);
            }
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end();
    }
}

/// Finds the living processes that carry a mark.
fn marked(mark: &str) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let wanted = format!("{MARK}={mark}\0");
    let pids = processes.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(pid)
    });
    pids.filter(|pid| carries(*pid, wanted.as_bytes()))
        .collect()
}

/// Tells whether a process has a variable. That of somebody else, or of one that has just ended, cannot be read.
fn carries(pid: Pid, variable: &[u8]) -> bool {
    let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    let mut environment = Vec::new();
    let read = file
        .take(MAX_ENVIRONMENT_BYTES)
        .read_to_end(&mut environment);
    read.is_ok() && memmem::find(&environment, variable).is_some()
}
