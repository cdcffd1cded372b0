//! The machine's Postgres server, and an empty cluster that tests copy.
//!
//! The programs are those of Debian's package, installed if missing. They refuse to run as root; in that case the
//! cluster belongs to the user `postgres`, whom the package creates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::cargo::{program, run_command, succeeds};

/// A link to the folder of the programs.
pub(super) const PROGRAMS: &str = "postgres/bin";

/// The cluster.
pub(super) const TEMPLATE: &str = "postgres/template";

/// Where Debian installs the programs, with a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The user that runs the programs if we are root.
const USER: &str = "postgres";

/// Returns whether programs and cluster are installed.
pub(super) fn is_ready(folder: &Path) -> bool {
    let mut version = Command::new(folder.join(PROGRAMS).join("postgres"));
    version.arg("--version");
    folder.join(TEMPLATE).join("PG_VERSION").exists() && succeeds(version)
}

/// Finds or installs the programs, and creates the cluster.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    let programs = match programs() {
        Some(programs) => programs,
        None => {
            run_command(program("apt-get", "update")).context(NEEDS)?;
            run_command(program("apt-get", "install --yes postgresql")).context(NEEDS)?;
            programs().context(NEEDS)?
        }
    };
    let home = folder.join("postgres");
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot remove {}", home.display()))?;
    }
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    std::os::unix::fs::symlink(&programs, folder.join(PROGRAMS))?;
    make_cluster(&programs, &folder.join(TEMPLATE))
}

const NEEDS: &str =
    "needs PostgreSQL (Debian: `apt-get install postgresql`), and root to install it";

/// Returns the folder of the newest installed version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.filter_map(Result::ok);
    let programs = versions.map(|version| version.path().join("bin"));
    programs.filter(|it| it.join("initdb").exists()).max()
}

/// Creates a cluster where the user may write, and moves it into place as a whole.
fn make_cluster(programs: &Path, place: &Path) -> anyhow::Result<()> {
    let scratch = tempfile_name();
    let mut initdb = as_user(&programs.join("initdb"));
    initdb
        .arg("--pgdata")
        .arg(&scratch)
        .args("--username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8".split(' '))
        .args(["--wal-segsize=1", "--no-sync"]);
    run_command(initdb)?;
    let mut copy = Command::new("cp");
    copy.args(["--archive", "--no-target-directory"])
        .arg(&scratch)
        .arg(place);
    let copied = run_command(copy);
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    copied
}

/// Prepares a program to run as the user, if we are root.
fn as_user(path: &Path) -> Command {
    let mut whoami = Command::new("id");
    whoami.arg("-u");
    let id = whoami.output().map(|it| it.stdout).unwrap_or_default();
    if id.trim_ascii() != b"0" {
        return Command::new(path);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", USER, "--"]).arg(path).current_dir("/");
    command
}

fn tempfile_name() -> PathBuf {
    std::env::temp_dir().join(format!("neuraxis-cluster-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs PostgreSQL: run by cargo xtask test"]
    fn an_installation_is_ready() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(!is_ready(scratch.path()));
        install(scratch.path()).unwrap();
        assert!(is_ready(scratch.path()));
    }
}
