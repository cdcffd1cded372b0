//! What the kernel lets a command do: read and run what the user may, write in a few places only.
//!
//! Landlock, a part of Linux since 5.13, confines the thread that asks for it and everything started from there, for good.
//! It also keeps a confined process from looking into others, this program and its keys included, and (since 6.12) from
//! sending them signals; where this program has the superuser's privileges, the command loses those that would get it
//! around that. It does not keep it from the network.

use std::os::fd::AsFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use neuraxis_ports::ToolError;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

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

/// Confines the current thread, and what is started from it, to writing beneath two folders.
pub(super) fn confine(project: impl AsFd, temporary: &Path) -> Result<(), ToolError> {
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

fn restrict(project: impl AsFd, temporary: &Path) -> Result<RulesetStatus, RulesetError> {
    let (all, read) = (AccessFs::from_all(RIGHTS), AccessFs::from_read(RIGHTS));
    let status = Ruleset::default()
        .handle_access(all)?
        .scope(Scope::from_all(RIGHTS))?
        .create()?
        .add_rules(path_beneath_rules(["/"], read))?
        .add_rules(path_beneath_rules(DEVICES, all))?
        .add_rules(path_beneath_rules([temporary], all))?
        .add_rule(PathBeneath::new(project, all))?
        .restrict_self()?;
    Ok(status.ruleset)
}
