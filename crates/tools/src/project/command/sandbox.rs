//! What the kernel lets a command do: read and run what the user may, write in a few places only.
//!
//! Landlock, a part of Linux since 5.13, confines the thread that asks for it and everything started from there, for good.
//! It also keeps a confined process from looking into others, this program and its keys included, and (since 6.12) from
//! sending them signals; where this program has the superuser's privileges, the command loses those that would get it
//! around that. It does not keep it from the network.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use neuraxis_ports::ToolError;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::project::root::ProjectRoot;

/// The newest set of rights that is asked for; of these an older kernel grants what it knows.
const RIGHTS: ABI = ABI::V6;

/// Devices that may be written to. Nothing of what is written there lasts.
const DEVICES: [&str; 7] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// The privileges of the superuser that a command keeps: those about files, which are confined anyway. Projects of other
/// users, as containers often have them, could not be worked on without.
const PRIVILEGES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The most names of a folder that holds something out of reach; what is beyond them is out of reach, too.
const MAX_NEIGHBORS: usize = 10_000;

/// Confines the current thread, and what is started from it, to writing beneath two folders, and keeps it from the
/// program's own files.
pub(super) fn confine(project: &ProjectRoot, temporary: &Path) -> Result<(), ToolError> {
    match restrict(project, temporary) {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => drop_privileges(),
        Ok(RulesetStatus::NotEnforced) => Err(ToolError::permanent(
            "no_sandbox: this system cannot confine commands (it takes Linux 5.13 or newer, with Landlock), so none is \
             run; go on without it",
        )),
        Err(error) => Err(ToolError::permanent(format!(
            "no_sandbox: commands cannot be confined: {error}; go on without it"
        ))),
    }
}

/// Gives up what the superuser may beyond files. Confined, nothing that is started gets it back.
fn drop_privileges() -> Result<(), ToolError> {
    let dropped = capabilities(None).and_then(|now| {
        let kept = now.permitted & PRIVILEGES;
        let sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets)
    });
    dropped.map_err(|error| {
        ToolError::permanent(format!(
            "no_sandbox: privileges cannot be given up: {error}; go on without it"
        ))
    })
}

fn restrict(project: &ProjectRoot, temporary: &Path) -> Result<RulesetStatus, RulesetError> {
    let (all, read) = (AccessFs::from_all(RIGHTS), AccessFs::from_read(RIGHTS));
    // The folder by its handle: its path may lead elsewhere by now.
    let top = PathBuf::from(format!("/proc/self/fd/{}", project.dir().as_raw_fd()));
    let unchangeable = project.own().unchangeable().map(|path| top.join(path));
    let unchangeable: Vec<PathBuf> = unchangeable.collect();
    let rules = Ruleset::default()
        .handle_access(all)?
        .scope(Scope::from_all(RIGHTS))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(DEVICES, all))?
        .add_rules(path_beneath_rules([temporary], all))?;
    let rules = grant_but(rules, Path::new("/"), &project.own().secrets(), read)?;
    let status = grant_but(rules, &top, &unchangeable, all)?.restrict_self()?;
    Ok(status.ruleset)
}

/// Grants rights to everything beneath a folder but to some files and folders. Rights always hold for all that is beneath a
/// place, so on the way to those each neighbor gets them and the folders themselves do not.
fn grant_but(
    rules: RulesetCreated,
    folder: &Path,
    out_of_reach: &[PathBuf],
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let mut granted = Vec::new();
    collect_but(folder, out_of_reach, &mut granted);
    // What is gone by now, or cannot be opened, needs no rights.
    rules.add_rules(path_beneath_rules(granted, rights))
}

fn collect_but(place: &Path, out_of_reach: &[PathBuf], granted: &mut Vec<PathBuf>) {
    if !out_of_reach.iter().any(|path| path.starts_with(place)) {
        granted.push(place.to_owned());
        return;
    }
    if out_of_reach.iter().any(|path| path == place) {
        return;
    }
    let on_the_way = out_of_reach.iter().filter_map(|path| {
        let next = path.strip_prefix(place).ok()?.components().next()?;
        Some(place.join(next))
    });
    let mut neighbors: Vec<PathBuf> = on_the_way.collect();
    // Who may not list a folder may still use what he knows to be in it.
    let listed = fs::read_dir(place).into_iter().flatten().flatten();
    // Rights through a symlink would be rights to what it leads to.
    let listed = listed.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    neighbors.extend(listed.map(|entry| entry.path()).take(MAX_NEIGHBORS));
    neighbors.sort();
    neighbors.dedup();
    for neighbor in neighbors {
        collect_but(&neighbor, out_of_reach, granted);
    }
}
