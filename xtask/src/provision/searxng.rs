//! A search engine of this machine, for the tests of `web_search`: searx, from which SearXNG was forked, and which answers the
//! same question in the same form.
//!
//! It is Debian's package, installed if it is missing; not every release of Debian has it. Tests bring their own settings.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo::{program, succeed};

/// A link to the program.
pub(super) const PROGRAM: &str = "searxng/searx-run";

/// Where Debian puts the program.
const INSTALLED: &str = "/usr/bin/searx-run";

/// Tells whether the program is there.
pub(super) fn is_ready(folder: &Path) -> bool {
    folder.join(PROGRAM).exists()
}

/// Finds or installs the program.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    if !Path::new(INSTALLED).exists() {
        succeed(program("apt-get", "update")).context(NEEDS)?;
        let install = "install --yes --no-install-recommends searx";
        succeed(program("apt-get", install)).context(NEEDS)?;
    }
    let link = folder.join(PROGRAM);
    let home = link.parent().context("the link stands in no folder")?;
    fs::create_dir_all(home).with_context(|| format!("{} cannot be made", home.display()))?;
    // One that leads nowhere any more is in the way.
    if link.is_symlink() {
        fs::remove_file(&link).with_context(|| format!("{} stays", link.display()))?;
    }
    std::os::unix::fs::symlink(INSTALLED, link)?;
    Ok(())
}

const NEEDS: &str = "it takes searx (Debian 12: `apt-get install searx`), and root to install it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_not_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        assert!(!is_ready(folder));
        fs::create_dir_all(folder.join("searxng")).unwrap();
        std::os::unix::fs::symlink(folder.join("gone"), folder.join(PROGRAM)).unwrap();
        assert!(!is_ready(folder));
        fs::write(folder.join("gone"), "").unwrap();
        assert!(is_ready(folder));
    }
}
