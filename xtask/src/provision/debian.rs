//! Programs of Debian's packages, installed where they are missing: each is found by a link in the folder of what tests need.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo::{program, succeed};

/// A program of a package.
pub(super) struct Packaged {
    /// Where the link to the program is, from the folder of what tests need.
    pub(super) link: &'static str,
    /// Where Debian puts the program.
    installed: &'static str,
    package: &'static str,
}

/// A search engine of this machine, for the tests of `web_search`: searx, from which SearXNG was forked, and which answers the
/// same question in the same form. Not every release of Debian has it. Tests bring their own settings.
pub(super) const SEARX: Packaged = Packaged {
    link: "searxng/searx-run",
    installed: "/usr/bin/searx-run",
    package: "searx",
};

/// What tells whether a unit of systemd is one.
pub(super) const SYSTEMD_ANALYZE: Packaged = Packaged {
    link: "systemd/systemd-analyze",
    installed: "/usr/bin/systemd-analyze",
    package: "systemd",
};

/// What makes the clock of a program jump, for the tests of those that share work.
pub(super) const FAKETIME: Packaged = Packaged {
    link: "faketime/libfaketimeMT.so.1",
    installed: "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    package: "libfaketime",
};

impl Packaged {
    /// Tells whether the program is there.
    pub(super) fn is_ready(&self, folder: &Path) -> bool {
        folder.join(self.link).exists()
    }

    /// Finds or installs the program.
    pub(super) fn install(&self, folder: &Path) -> anyhow::Result<()> {
        if !Path::new(self.installed).exists() {
            let package = self.package;
            let needs = format!(
                "it takes {package} (Debian 12: `apt-get install {package}`), and root to install it"
            );
            succeed(program("apt-get", "update")).context(needs.clone())?;
            let install = format!("install --yes --no-install-recommends {package}");
            succeed(program("apt-get", &install)).context(needs)?;
        }
        let link = folder.join(self.link);
        let home = link.parent().context("the link stands in no folder")?;
        fs::create_dir_all(home).with_context(|| format!("{} cannot be made", home.display()))?;
        // One that leads nowhere any more is in the way.
        if link.is_symlink() {
            fs::remove_file(&link).with_context(|| format!("{} stays", link.display()))?;
        }
        std::os::unix::fs::symlink(self.installed, link)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_not_ready() {
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
