//! Drives the server's page as a user does: the machine's Chromium, and npm packages that control it and check
//! accessibility.

use std::path::Path;

use anyhow::Context;

use super::npm;
use crate::cargo::{program, run_command, succeeds};

/// Where the packages are, relative to the folder of the provisions.
pub(super) const PACKAGES: &str = "page-driver/node_modules";

/// The browser, which must be installed on the machine: those that packages download are not available with every
/// registry.
pub(super) const CHROMIUM: &str = "/usr/bin/chromium";

const DRIVER: npm::Packages = npm::Packages {
    folder: "page-driver",
    package: include_str!("page_driver/package.json"),
    lock: include_str!("page_driver/package-lock.json"),
};

/// Returns whether the pinned versions and a browser are installed.
pub(super) fn is_ready(folder: &Path) -> bool {
    DRIVER.are_ready(folder) && has_browser()
}

/// Installs the pinned versions, replacing any others.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    if !has_browser() {
        run_command(program("apt-get", "update")).context(NEEDS)?;
        let install = "install --yes --no-install-recommends chromium";
        run_command(program("apt-get", install)).context(NEEDS)?;
    }
    DRIVER.install(folder)
}

const NEEDS: &str = "needs Chromium (Debian: `apt-get install chromium`), and root to install it";

fn has_browser() -> bool {
    succeeds(program(CHROMIUM, "--version"))
}
