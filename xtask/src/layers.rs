//! `cargo xtask layers`: fails on a dependency between crates that the layers forbid.
//!
//! It also fails on a crate in an embedder's build that the chosen features do not need ([`costs`]).
//!
//! It enforces the table in `docs/architecture.md`; `adr/0001-hexagonal-layers.md` explains why. It examines normal and
//! build dependencies with all features enabled. Tests may depend on anything: which test target of a crate uses a
//! development dependency cannot be seen from outside.

mod costs;
mod graph;
mod layer;
mod rules;

use anyhow::bail;

use self::graph::Graph;
use crate::cargo::workspace_root;

/// Checks the workspace and prints the violations.
pub(crate) fn check() -> anyhow::Result<()> {
    let graph = Graph::of_workspace(workspace_root())?;
    let violations = rules::violations(&graph);
    for violation in &violations {
        println!("{violation}\n");
    }
    match violations.len() {
        0 => {}
        1 => bail!("1 dependency breaks the layers"),
        count => bail!("{count} dependencies break the layers"),
    }
    let sets = costs::check()?;
    println!(
        "{} crates, all dependencies allowed by their layers; {sets} feature sets, all within their costs",
        graph.members.len()
    );
    Ok(())
}
