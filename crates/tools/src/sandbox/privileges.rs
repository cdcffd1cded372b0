//! Namespaces require privileges; commands get almost none.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

/// The privileges that a superuser's command keeps: opening any file, which Landlock and the mounts confine. Without
/// them, it could not work on projects of other users, which are common in containers.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// Enters a new pid namespace and, if that requires it, a user namespace in which this process has all privileges.
/// Everything started from here on is in it.
pub(super) fn enter_namespaces() -> io::Result<()> {
    let now = capabilities(None)?;
    if now.effective.contains(CapabilitySet::SYS_ADMIN) {
        unshare(CloneFlags::CLONE_NEWPID)?;
        return Ok(());
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)?;
    // The user is the same inside as outside.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    hand_on()
}

/// Passes the privileges on to started processes, although their user is not the superuser.
fn hand_on() -> io::Result<()> {
    let all = capabilities(None)?.permitted;
    let sets = CapabilitySets {
        effective: all,
        permitted: all,
        inheritable: all,
    };
    set_capabilities(None, sets)?;
    for one in all.iter() {
        configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}

/// Drops all privileges except [`KEPT`]. Started processes cannot regain them.
pub(super) fn drop_all() -> io::Result<()> {
    let now = capabilities(None)?;
    let kept = if geteuid().is_root() {
        now.permitted & KEPT
    } else {
        CapabilitySet::empty()
    };
    clear_ambient_capability_set()?;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for one in CapabilitySet::all()
            .iter()
            .filter(|one| !kept.contains(*one))
        {
            // The kernel may know fewer.
            let _unknown = remove_capability_from_bounding_set(one);
        }
    }
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)?;
    Ok(())
}
