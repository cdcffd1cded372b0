//! The dependencies of the workspace, reduced to what the rules need.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use anyhow::Context;
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Node, Package};

/// The crates of the workspace and everything they are built from.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The crates of the workspace.
    pub(super) members: Vec<Member>,
    /// All packages by id: two versions of a crate are two packages.
    pub(super) packages: BTreeMap<String, Linked>,
}

/// A crate of the workspace.
#[derive(Debug)]
pub(super) struct Member {
    /// Its id among the packages.
    pub(super) id: String,
    /// Its name.
    pub(super) name: String,
    /// Its folder, relative to the root of the workspace, with `/` as the separator.
    pub(super) folder: String,
    /// The crates in its manifest, without development dependencies.
    pub(super) dependencies: BTreeSet<String>,
}

/// A package and what is linked into it.
#[derive(Debug)]
pub(super) struct Linked {
    /// The crate's name.
    pub(super) name: String,
    /// The ids of its normal dependencies.
    pub(super) dependencies: Vec<String>,
}

impl Graph {
    /// Queries cargo for the graph of the workspace in a folder.
    pub(super) fn of_workspace(root: &Path) -> anyhow::Result<Self> {
        let mut command = MetadataCommand::new();
        command.current_dir(root).features(CargoOpt::AllFeatures);
        Self::from_metadata(
            &command
                .exec()
                .context("cargo cannot describe the workspace")?,
        )
    }

    fn from_metadata(metadata: &Metadata) -> anyhow::Result<Self> {
        let resolve = metadata
            .resolve
            .as_ref()
            .context("cargo did not resolve the dependencies")?;
        let members = metadata
            .workspace_packages()
            .into_iter()
            .map(|package| member(metadata, package));
        let names: BTreeMap<_, _> = metadata
            .packages
            .iter()
            .map(|package| (&package.id, &package.name))
            .collect();
        let packages = resolve.nodes.iter().map(|node| {
            let name = names
                .get(&node.id)
                .with_context(|| format!("cargo does not describe {}", node.id))?;
            Ok((
                node.id.repr.clone(),
                Linked {
                    name: name.to_string(),
                    dependencies: linked(node),
                },
            ))
        });
        Ok(Self {
            members: members.collect::<anyhow::Result<_>>()?,
            packages: packages.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Returns the names along the shortest path from a member to a package whose name `is_target` accepts.
    pub(super) fn shortest_path(
        &self,
        from: &Member,
        is_target: impl Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, Option<&str>> =
            BTreeMap::from([(from.id.as_str(), None)]);
        let mut queue = VecDeque::from([from.id.as_str()]);
        while let Some(id) = queue.pop_front() {
            let Some(package) = self.packages.get(id) else {
                continue;
            };
            if is_target(&package.name) {
                return Some(self.names_back_from(id, &came_from));
            }
            for next in &package.dependencies {
                if !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, Some(id));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    fn names_back_from(&self, end: &str, came_from: &BTreeMap<&str, Option<&str>>) -> Vec<String> {
        let ids = std::iter::successors(Some(end), |id| came_from.get(id).copied().flatten());
        let mut names: Vec<_> = ids
            .filter_map(|id| self.packages.get(id))
            .map(|it| it.name.clone())
            .collect();
        names.reverse();
        names
    }
}

fn member(metadata: &Metadata, package: &Package) -> anyhow::Result<Member> {
    let folder = package
        .manifest_path
        .parent()
        .and_then(|it| it.strip_prefix(&metadata.workspace_root).ok());
    let folder =
        folder.with_context(|| format!("{} is outside the workspace's folder", package.name))?;
    let parts: Vec<_> = folder.components().map(|part| part.as_str()).collect();
    let named = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind != DependencyKind::Development);
    Ok(Member {
        id: package.id.repr.clone(),
        name: package.name.to_string(),
        folder: parts.join("/"),
        dependencies: named.map(|dependency| dependency.name.clone()).collect(),
    })
}

fn linked(node: &Node) -> Vec<String> {
    let normal = node.deps.iter().filter(|dep| {
        dep.dep_kinds
            .iter()
            .any(|it| it.kind == DependencyKind::Normal)
    });
    normal.map(|dep| dep.pkg.repr.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write_crate(root: &Path, folder: &str, dependencies: &str) {
        let folder = root.join(folder);
        fs::create_dir_all(folder.join("src")).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n{dependencies}");
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.join("src/lib.rs"), "").unwrap();
    }

    #[test]
    fn every_dependency_except_development_ones_is_an_edge() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::write(
            root.join("Cargo.toml"),
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n",
        )
        .unwrap();
        for name in ["normal", "optional", "building", "foreign", "testing"] {
            write_crate(root, &format!("crates/{name}"), "");
        }
        let dependencies = r#"
            [dependencies]
            normal.path = "../normal"
            optional = { path = "../optional", optional = true }
            [build-dependencies]
            building.path = "../building"
            [target.'cfg(target_os = "none")'.dependencies]
            foreign.path = "../foreign"
            [dev-dependencies]
            testing.path = "../testing"
        "#;
        write_crate(root, "crates/engine", dependencies);

        let graph = Graph::of_workspace(root).unwrap();
        let engine = graph
            .members
            .iter()
            .find(|member| member.name == "engine")
            .unwrap();
        assert_eq!(engine.folder, "crates/engine");
        let named: Vec<_> = engine.dependencies.iter().map(String::as_str).collect();
        assert_eq!(named, ["building", "foreign", "normal", "optional"]);
        for (name, is_linked) in [
            ("normal", true),
            ("optional", true),
            ("foreign", true),
            ("testing", false),
        ] {
            assert_eq!(
                graph.shortest_path(engine, |it| it == name).is_some(),
                is_linked,
                "{name}"
            );
        }
    }
}
