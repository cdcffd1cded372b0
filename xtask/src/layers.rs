//! `cargo xtask layers`: fails on a dependency between crates that the layers forbid.
//!
//! It also fails on a crate in an embedder's build that the chosen features have no need of ([`costs`]).
//!
//! The table it enforces is in `docs/architecture.md`; `adr/0001-hexagonal-layers.md` says why. It looks at normal and
//! build dependencies with all features on. Tests may depend on what they like: which of a crate's test targets uses a
//! development dependency cannot be seen from outside.

mod costs;
mod graph;
mod layer;
mod rules;

use anyhow::bail;

use self::graph::Graph;
use crate::cargo::workspace_root;

/// Checks the workspace and prints what is wrong with it.
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
        "{} crates, every dependency is one that its layer allows; {sets} sets of features, each at its price",
        graph.members.len()
    );
    Ok(())
}
