//! Programs from Debian packages, installed if missing: each is linked from the folder of the provisions.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo::{program, run_command};

/// A program from a package.
pub(super) struct Packaged {
    /// The path of the link to the program, relative to the folder of the provisions.
    pub(super) link: &'static str,
    /// The path where Debian installs the program.
    installed: &'static str,
    package: &'static str,
}

/// A local search engine for the tests of `web_search`: searx, from which SearXNG was forked, and which gives the same
/// answers in the same format. Not every Debian release has it. Tests supply their own settings.
pub(super) const SEARX: Packaged = Packaged {
    link: "searxng/searx-run",
    installed: "/usr/bin/searx-run",
    package: "searx",
};

/// Checks whether a systemd unit is valid.
pub(super) const SYSTEMD_ANALYZE: Packaged = Packaged {
    link: "systemd/systemd-analyze",
    installed: "/usr/bin/systemd-analyze",
    package: "systemd",
};

/// Makes a program's clock jump, for the tests of processes that share work.
pub(super) const FAKETIME: Packaged = Packaged {
    link: "faketime/libfaketimeMT.so.1",
    installed: "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    package: "libfaketime",
};

impl Packaged {
    /// Returns whether the program is installed.
    pub(super) fn is_ready(&self, folder: &Path) -> bool {
        folder.join(self.link).exists()
    }

    /// Finds or installs the program.
    pub(super) fn install(&self, folder: &Path) -> anyhow::Result<()> {
        if !Path::new(self.installed).exists() {
            let package = self.package;
            let needs = format!(
                "needs {package} (Debian 12: `apt-get install {package}`), and root to install it"
            );
            run_command(program("apt-get", "update")).context(needs.clone())?;
            let install = format!("install --yes --no-install-recommends {package}");
            run_command(program("apt-get", &install)).context(needs)?;
        }
        let link = folder.join(self.link);
        let home = link.parent().context("the link has no parent folder")?;
        fs::create_dir_all(home).with_context(|| format!("cannot create {}", home.display()))?;
        // A dangling link would block the new one.
        if link.is_symlink() {
            fs::remove_file(&link).with_context(|| format!("cannot remove {}", link.display()))?;
        }
        std::os::unix::fs::symlink(self.installed, link)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dangling_link_is_not_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        assert!(!SEARX.is_ready(folder));
        fs::create_dir_all(folder.join("searxng")).unwrap();
        std::os::unix::fs::symlink(folder.join("gone"), folder.join(SEARX.link)).unwrap();
        assert!(!SEARX.is_ready(folder));
        fs::write(folder.join("gone"), "").unwrap();
        assert!(SEARX.is_ready(folder));
    }
}
