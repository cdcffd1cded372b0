//! Ends all descendants of this process.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait, waitpid};

/// Ends all descendants of this process, which must be their subreaper, so that orphans become its children.
pub(super) fn end_descendants() {
    // Fails when there are no more children, and therefore no descendants.
    while let Ok(ended) = wait(WaitOptions::NOHANG) {
        if ended.is_some() {
            continue;
        }
        for process in descendants() {
            // It may have ended in the meantime; its id is not reused before it has been waited for.
            let _gone = kill_process(process, Signal::KILL);
        }
        let _ended = wait(WaitOptions::empty());
    }
}

/// Returns whether a child of this process is running. Children that have ended are reaped.
pub(super) fn is_any_running() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Kills one child, and what ends with it.
pub(super) fn end(child: Pid) {
    let _gone = kill_process(child, Signal::KILL);
    let _ended = waitpid(Some(child), WaitOptions::empty());
}

fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && let Some(parent) = parent(pid)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            open.push(child);
        }
    }
    found
}

fn parent(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain anything.
    let (_, after_name) = status.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}
