//! The official client of AG-UI, from the npm registry.

use std::path::Path;

use super::npm;

/// Where programs find the packages, seen from the folder of the provisions.
pub(super) const PACKAGES: &str = "agui-client/node_modules";

const CLIENT: npm::Packages = npm::Packages {
    folder: "agui-client",
    package: include_str!("agui_client/package.json"),
    lock: include_str!("agui_client/package-lock.json"),
};

/// Tells whether the pinned version is there, and what runs it.
pub(super) fn is_ready(folder: &Path) -> bool {
    CLIENT.are_ready(folder)
}

/// Installs the pinned version, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    CLIENT.install(folder)
}
