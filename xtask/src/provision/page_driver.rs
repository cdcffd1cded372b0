//! What drives the server's page as a person does: the Chromium of the machine, and from the npm registry what drives it and what
//! looks for barriers to people with disabilities.

use std::path::Path;

use anyhow::Context;

use super::npm;
use crate::cargo::{program, succeed, succeeds};

/// Where programs find the packages, seen from the folder of the provisions.
pub(super) const PACKAGES: &str = "page-driver/node_modules";

/// The browser. It belongs to the machine: of those that packages download there is none for every registry.
pub(super) const CHROMIUM: &str = "/usr/bin/chromium";

const DRIVER: npm::Packages = npm::Packages {
    folder: "page-driver",
    package: include_str!("page_driver/package.json"),
    lock: include_str!("page_driver/package-lock.json"),
};

/// Tells whether the pinned versions and a browser are there.
pub(super) fn is_ready(folder: &Path) -> bool {
    DRIVER.are_ready(folder) && has_browser()
}

/// Installs the pinned versions, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    if !has_browser() {
        succeed(program("apt-get", "update")).context(NEEDS)?;
        let install = "install --yes --no-install-recommends chromium";
        succeed(program("apt-get", install)).context(NEEDS)?;
    }
    DRIVER.install(folder)
}

const NEEDS: &str =
    "it takes Chromium (Debian: `apt-get install chromium`), and root to install it";

fn has_browser() -> bool {
    succeeds(program(CHROMIUM, "--version"))
}
