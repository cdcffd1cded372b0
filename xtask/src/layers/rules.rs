//! The rules, applied to a graph.

use std::collections::BTreeMap;
use std::fmt;

use super::graph::{Graph, Member};
use super::layer::Layer;

/// Runtimes and crates that do I/O: none may be linked into a pure crate. Crates that generate randomness are
/// deliberately not listed: cargo unifies a package's features across the workspace, so one of the engine's crates that
/// generates ids would make core appear to use randomness.
const IMPURE: [&str; 16] = [
    "async-std",
    "cap-std",
    "curl",
    "fs-err",
    "hyper",
    "isahc",
    "mio",
    "reqwest",
    "rusqlite",
    "smol",
    "socket2",
    "sqlx",
    "tokio",
    "tokio-util",
    "tonic",
    "ureq",
];

/// A dependency that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// A crate is in a folder that belongs to no layer.
    Homeless {
        /// The crate.
        name: String,
        /// Its folder, relative to the root of the workspace.
        folder: String,
    },
    /// A crate depends on a workspace crate that its layer must not know.
    Arrow {
        /// The crate.
        from: String,
        /// The layer of its folder.
        layer: Layer,
        /// The forbidden dependency.
        to: String,
    },
    /// A crate depends on an external crate that its layer must not use.
    External {
        /// The crate.
        from: String,
        /// The layer of its folder.
        layer: Layer,
        /// The forbidden dependency.
        to: String,
    },
    /// Something impure is linked into a pure crate.
    Impure {
        /// The layer of the crate.
        layer: Layer,
        /// The dependency path from the crate to the impure one.
        way: Vec<String>,
    },
}

/// Returns all violations in a graph.
pub(super) fn violations(graph: &Graph) -> Vec<Violation> {
    let layers = graph
        .members
        .iter()
        .map(|member| (member.name.as_str(), Layer::of(&member.folder)))
        .collect();
    graph
        .members
        .iter()
        .flat_map(|member| of_member(graph, &layers, member))
        .collect()
}

fn of_member(
    graph: &Graph,
    layers: &BTreeMap<&str, Option<Layer>>,
    member: &Member,
) -> Vec<Violation> {
    let Some(layer) = Layer::of(&member.folder) else {
        return vec![Violation::Homeless {
            name: member.name.clone(),
            folder: member.folder.clone(),
        }];
    };
    let from = || member.name.clone();
    let mut found: Vec<_> = member
        .dependencies
        .iter()
        .filter_map(|to| match layers.get(to.as_str()) {
            // A crate without a layer is reported separately; no rule applies to dependencies on it.
            Some(None) => None,
            Some(Some(other)) if layer.allowed_layers().contains(other) => None,
            Some(Some(_)) => Some(Violation::Arrow {
                from: from(),
                layer,
                to: to.clone(),
            }),
            None if layer.allows_external(to) => None,
            None => Some(Violation::External {
                from: from(),
                layer,
                to: to.clone(),
            }),
        })
        .collect();
    if layer.is_pure() {
        let way = graph.shortest_path(member, |name| IMPURE.contains(&name));
        found.extend(way.map(|way| Violation::Impure { layer, way }));
    }
    found
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Homeless { name, folder } => write!(
                f,
                "{name} is in {folder}, which belongs to no layer. Move it, or assign that folder to a layer in \
                 docs/architecture.md and in xtask/src/layers/layer.rs."
            ),
            Self::Arrow { from, layer, to } => {
                write!(
                    f,
                    "{from} depends on {to}, but {} may depend on {}",
                    layer.label(),
                    describe_allowed(*layer)
                )?;
                write!(f, ". {}", layer.remedy())
            }
            Self::External { from, layer, to } if to == "anyhow" => write!(
                f,
                "{from} depends on anyhow, but only binaries and xtask may: {} is a library, and its callers must be \
                 able to tell causes apart. Write an error enum with thiserror.",
                layer.label()
            ),
            Self::External { from, layer, to } => write!(
                f,
                "{from} depends on {to}, which is not on the list of crates that {} may use. {} If {to} does no I/O \
                 and {from} cannot do without it, add it to xtask/src/layers/layer.rs and say why in an ADR.",
                layer.label(),
                layer.remedy()
            ),
            Self::Impure { layer, way } => write!(
                f,
                "{} is built from {}: {}. {} must stay free of runtimes and I/O at any depth. {}",
                way.first().map_or("", String::as_str),
                way.last().map_or("", String::as_str),
                way.join(" → "),
                layer.label(),
                layer.remedy()
            ),
        }
    }
}

fn describe_allowed(layer: Layer) -> String {
    let labels: Vec<_> = layer
        .allowed_layers()
        .iter()
        .map(|layer| layer.label())
        .collect();
    match labels.as_slice() {
        [] => "no crate of the workspace".to_owned(),
        [only] => format!("{only} only"),
        [first @ .., last] => format!("{} and {last} only", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
