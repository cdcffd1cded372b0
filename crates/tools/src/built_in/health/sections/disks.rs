//! The section `disks`.

use serde::Serialize;

use super::percent;
use crate::built_in::health::report::Findings;
use crate::built_in::health::units::size;
use crate::summary::enumerate;

/// The usage above which a disk needs attention.
const DISK_WARNING_PERCENT: f64 = 90.0;

/// The maximum number of disks that are listed.
const MAX_DISKS: usize = 32;
/// The number of disks that the summary names.
const DISKS_IN_SUMMARY: usize = 3;

/// File systems that are not disks, or are always full.
const NOT_DISKS: &[&str] = &[
    "autofs", "devfs", "efivarfs", "erofs", "iso9660", "nullfs", "ramfs", "squashfs", "udf",
];

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::built_in::health) struct Disk {
    mount: String,
    device: String,
    file_system: String,
    total_bytes: u64,
    /// The space that an ordinary user can still write to.
    free_bytes: u64,
    used_percent: f64,
    read_only: bool,
}

impl Disk {
    pub(in crate::built_in::health) fn new(
        mount: String,
        device: String,
        file_system: String,
        total: u64,
        free: u64,
    ) -> Self {
        let used_percent = percent(total.saturating_sub(free), total);
        Self {
            mount,
            device,
            file_system,
            total_bytes: total,
            free_bytes: free,
            used_percent,
            read_only: false,
        }
    }

    /// Marks a disk as read-only, so it cannot fill up.
    pub(in crate::built_in::health) fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    fn is_real(&self) -> bool {
        let system = self.file_system.to_lowercase();
        // User-space file systems show other disks, the network or nothing real, except those that drive a disk.
        let in_user_space =
            system.starts_with("fuse.") && system != "fuse.ntfs-3g" && system != "fuse.exfat";
        self.total_bytes > 0 && !in_user_space && !NOT_DISKS.contains(&system.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(in crate::built_in::health) struct Disks(Vec<Disk>);

impl Disks {
    /// Keeps the real disks, each once: of several mounts of one device, the one closest to the root.
    pub(in crate::built_in::health) fn of_mounts(mut mounts: Vec<Disk>) -> Self {
        mounts.retain(Disk::is_real);
        mounts.sort_by(|left, right| {
            let nearest = |disk: &Disk| (disk.mount.len(), disk.mount.clone());
            nearest(left).cmp(&nearest(right))
        });
        let mut disks: Vec<Disk> = Vec::new();
        for disk in mounts {
            if disks.len() < MAX_DISKS && disks.iter().all(|known| known.device != disk.device) {
                disks.push(disk);
            }
        }
        Self(disks)
    }

    pub(in crate::built_in::health) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Findings for Disks {
    fn summary(&self) -> String {
        let disks = self.0.iter().take(DISKS_IN_SUMMARY).map(|disk| {
            let (free, total) = (size(disk.free_bytes), size(disk.total_bytes));
            format!(
                "{} has {free} of {total} free ({:.0} % used)",
                disk.mount, disk.used_percent
            )
        });
        enumerate(disks, self.0.len() as u64)
    }

    fn warnings(&self) -> Vec<String> {
        let full = self
            .0
            .iter()
            .filter(|disk| !disk.read_only && disk.used_percent > DISK_WARNING_PERCENT);
        let warn = |disk: &Disk| {
            format!(
                "The disk at {} is {:.0} % full; {} are free.",
                disk.mount,
                disk.used_percent,
                size(disk.free_bytes)
            )
        };
        full.map(warn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn disk(mount: &str, device: &str, file_system: &str, total: u64, free: u64) -> Disk {
        Disk::new(
            mount.to_owned(),
            device.to_owned(),
            file_system.to_owned(),
            total * GIB,
            free * GIB,
        )
    }

    #[test]
    fn mounts_that_are_not_disks_are_excluded() {
        let disks = Disks::of_mounts(vec![
            disk("/", "/dev/sda1", "ext4", 100, 50),
            disk("/snap/core/1", "/dev/loop0", "squashfs", 1, 0),
            disk("/run/user/1000/doc", "portal", "fuse.portal", 100, 0),
            disk("/empty", "none", "ext4", 0, 0),
        ]);
        assert_eq!(disks.0.len(), 1);
        assert_eq!(
            disks.summary(),
            "/ has 50.0 GiB of 100.0 GiB free (50 % used)"
        );
    }

    #[test]
    fn a_device_mounted_several_times_is_listed_once_by_its_shortest_path() {
        let disks = Disks::of_mounts(vec![
            disk("/home", "/dev/sda2", "btrfs", 100, 50),
            disk("/", "/dev/sda2", "btrfs", 100, 50),
            disk("/data", "/dev/sdb1", "xfs", 100, 50),
        ]);
        let mounts: Vec<_> = disks.0.iter().map(|disk| disk.mount.as_str()).collect();
        assert_eq!(mounts, ["/", "/data"]);
    }

    #[test]
    fn a_disk_fuller_than_the_limit_gives_a_warning_unless_it_is_read_only() {
        let disks = Disks::of_mounts(vec![
            disk("/", "/dev/sda1", "ext4", 100, 5),
            disk("/edge", "/dev/sdb1", "ext4", 100, 10),
            disk("/media/film", "/dev/sdc1", "ext4", 100, 0).read_only(),
        ]);
        assert_eq!(
            disks.warnings(),
            ["The disk at / is 95 % full; 5.0 GiB are free."]
        );
    }
}
