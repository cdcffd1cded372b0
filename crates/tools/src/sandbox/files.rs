//! Which files a command can open, and for what (Landlock).
//!
//! Landlock also keeps a command from inspecting processes outside, including this program and its keys, and (since
//! Linux 6.12) from signaling them.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

/// The newest set of rights that is requested; an older kernel enforces those that it knows.
const RIGHTS: ABI = ABI::V6;

/// Devices that may be written to. Nothing written there persists.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];
/// Devices that may be read.
const SOURCES: [&str; 2] = ["/dev/random", "/dev/urandom"];
/// The folder of devices: commands have no business with terminals, disks and the like.
const ALL_DEVICES: &str = "/dev";

/// The maximum number of entries of a folder with something out of reach; further entries are out of reach as well.
const MAX_NEIGHBORS: usize = 10_000;

/// What a command can open.
#[derive(Debug)]
pub(super) struct AccessibleFiles<'a> {
    pub(super) project: &'a Path,
    pub(super) temporary: &'a Path,
    /// Devices that belong to the command.
    pub(super) devices: Vec<&'static str>,
    /// Files that the command must not read, by absolute path.
    pub(super) unreadable: Vec<PathBuf>,
    /// Files in the project that the command must not write, by absolute path.
    pub(super) unchangeable: Vec<PathBuf>,
}

/// Confines this process and everything it starts. Returns the version of Landlock, or 0 if there is none.
pub(super) fn confine(reach: &AccessibleFiles<'_>) -> Result<u32, RulesetError> {
    let (all, read) = (AccessFs::from_all(RIGHTS), AccessFs::from_read(RIGHTS));
    let rules = Ruleset::default()
        .handle_access(all)?
        .scope(Scope::from_all(RIGHTS))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(DEVICES, all))?
        .add_rules(path_beneath_rules(SOURCES, read))?
        .add_rules(path_beneath_rules(&reach.devices, all))?
        .add_rules(path_beneath_rules([reach.temporary], all))?;
    let mut unreadable = reach.unreadable.clone();
    unreadable.push(PathBuf::from(ALL_DEVICES));
    let rules = grant_but(rules, Path::new("/"), &unreadable, read)?;
    let status = grant_but(rules, reach.project, &reach.unchangeable, all)?.restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        _ => 0,
    })
}
/// Grants rights to everything below a folder except some files and folders. A right always covers everything below its
/// path, so along the way to the exceptions the neighbors get it and the folders themselves do not.
fn grant_but(
    rules: RulesetCreated,
    folder: &Path,
    out_of_reach: &[PathBuf],
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let mut granted = Vec::new();
    collect_but(folder, out_of_reach, &mut granted);
    // What has disappeared, or cannot be opened, needs no rights.
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
    // A user who cannot list a folder can still use entries whose names are known.
    let listed = fs::read_dir(place).into_iter().flatten().flatten();
    // Rights to a symlink would be rights to its target.
    let listed = listed.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    neighbors.extend(listed.map(|entry| entry.path()).take(MAX_NEIGHBORS));
    neighbors.sort();
    neighbors.dedup();
    for neighbor in neighbors {
        collect_but(&neighbor, out_of_reach, granted);
    }
}
