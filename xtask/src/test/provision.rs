//! What the tests need beside the repository: installed on first use, found there afterwards.
//!
//! Everything goes into `target/test-env`, so that deleting that folder is all it takes to begin anew.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo::workspace_root;

/// Something that tests need.
struct Provision {
    /// What it is, for people.
    name: &'static str,
    /// Tells whether it is in the given folder, ready for use.
    is_ready: fn(&Path) -> bool,
    /// Puts it into the given folder.
    install: fn(&Path) -> anyhow::Result<()>,
}

/// In the order in which they are installed; a later one may use what an earlier one brought.
const PROVISIONS: &[Provision] = &[Provision {
    name: "the folder target/test-env",
    is_ready: Path::is_dir,
    install: |folder| fs::create_dir_all(folder).context("the folder cannot be made"),
}];

/// Makes sure that everything is there.
pub(crate) fn all() -> anyhow::Result<()> {
    provide(PROVISIONS, &workspace_root().join("target/test-env"))
}

fn provide(provisions: &[Provision], folder: &Path) -> anyhow::Result<()> {
    for Provision {
        name,
        is_ready,
        install,
    } in provisions
    {
        if is_ready(folder) {
            println!("{name}: ready");
            continue;
        }
        println!("{name}: installing");
        install(folder).with_context(|| format!("{name} cannot be installed"))?;
        anyhow::ensure!(
            is_ready(folder),
            "{name} was installed and still is not ready for use"
        );
        println!("{name}: installed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ready_is_not_installed_again() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("deep/test-env");
        provide(PROVISIONS, &folder).unwrap();
        assert!(folder.is_dir());
        let again = Provision {
            name: "it",
            is_ready: Path::is_dir,
            install: |_| anyhow::bail!("installed twice"),
        };
        provide(&[again], &folder).unwrap();
    }

    #[test]
    fn an_installation_that_brings_nothing_is_an_error_that_names_it() {
        let nothing = Provision {
            name: "a model server",
            is_ready: |_| false,
            install: |_| Ok(()),
        };
        let error = provide(&[nothing], Path::new("unused"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "a model server was installed and still is not ready for use"
        );
    }
}
