//! The rules applied to small handmade graphs.

use std::collections::BTreeSet;

use super::*;
use crate::layers::graph::Linked;

impl Graph {
    /// Adds a workspace crate whose manifest names the given crates.
    fn member(mut self, name: &str, folder: &str, dependencies: &[&str]) -> Self {
        self.members.push(Member {
            id: name.to_owned(),
            name: name.to_owned(),
            folder: folder.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|it| (*it).to_owned())
                .collect::<BTreeSet<_>>(),
        });
        self.package(name, dependencies)
    }

    /// Adds a package that links the given ones.
    fn package(mut self, name: &str, dependencies: &[&str]) -> Self {
        let dependencies = dependencies.iter().map(|it| (*it).to_owned()).collect();
        self.packages.insert(
            name.to_owned(),
            Linked {
                name: name.to_owned(),
                dependencies,
            },
        );
        self
    }
}

/// A small workspace in which every dependency is allowed.
fn sound() -> Graph {
    Graph::default()
        .member("neuraxis-core", "crates/core", &["serde", "thiserror"])
        .member(
            "neuraxis-brainstem",
            "crates/brainstem",
            &["neuraxis-core", "globset"],
        )
        .member(
            "neuraxis-ports",
            "crates/ports",
            &["neuraxis-core", "tokio-util"],
        )
        .member(
            "neuraxis-engine",
            "crates/engine",
            &[
                "neuraxis-core",
                "neuraxis-ports",
                "neuraxis-brainstem",
                "tokio",
            ],
        )
        .member(
            "neuraxis-wire",
            "crates/adapters/wire",
            &["neuraxis-core", "neuraxis-ports", "reqwest"],
        )
        .member(
            "neuraxis-openai",
            "crates/adapters/openai",
            &["neuraxis-ports", "neuraxis-wire"],
        )
        .member(
            "neuraxis-memory",
            "crates/adapters/memory",
            &["neuraxis-core", "neuraxis-ports"],
        )
        .member(
            "neuraxis-tool-macro",
            "crates/tool-macro",
            &["quote", "syn"],
        )
        .member(
            "neuraxis-tools",
            "crates/tools",
            &["neuraxis-ports", "neuraxis-tool-macro"],
        )
        .member(
            "neuraxis-testkit",
            "crates/testkit",
            &["neuraxis-core", "neuraxis-ports", "mockall"],
        )
        .member(
            "neuraxis",
            "crates/neuraxis",
            &["neuraxis-core", "neuraxis-engine", "neuraxis-memory"],
        )
        .member(
            "neuraxis-app",
            "crates/app",
            &["neuraxis", "neuraxis-engine", "neuraxis-openai"],
        )
        .member("neuraxis-cli", "crates/cli", &["neuraxis-app", "anyhow"])
        .member("xtask", "xtask", &["anyhow", "clap"])
        .package("tokio-util", &["tokio"])
        .package("tokio", &["mio"])
}

/// Returns the violations in the sound workspace with one more crate.
fn broken_by(name: &str, folder: &str, dependencies: &[&str]) -> Vec<Violation> {
    let mut graph = sound();
    graph.members.retain(|member| member.name != name);
    violations(&graph.member(name, folder, dependencies))
}

fn arrow(from: &str, layer: Layer, to: &str) -> Vec<Violation> {
    vec![Violation::Arrow {
        from: from.to_owned(),
        layer,
        to: to.to_owned(),
    }]
}

fn external(from: &str, layer: Layer, to: &str) -> Vec<Violation> {
    vec![Violation::External {
        from: from.to_owned(),
        layer,
        to: to.to_owned(),
    }]
}

#[test]
fn the_dependencies_in_the_table_are_allowed() {
    assert_eq!(violations(&sound()), []);
}

#[test]
fn an_adapter_must_not_name_another_adapter() {
    let found = broken_by(
        "neuraxis-sql",
        "crates/adapters/sql",
        &["neuraxis-core", "neuraxis-memory"],
    );
    assert_eq!(
        found,
        arrow("neuraxis-sql", Layer::Adapter, "neuraxis-memory")
    );
}

#[test]
fn code_shared_by_adapters_must_not_name_an_adapter() {
    let found = broken_by(
        "neuraxis-wire",
        "crates/adapters/wire",
        &["neuraxis-memory"],
    );
    assert_eq!(
        found,
        arrow("neuraxis-wire", Layer::Wire, "neuraxis-memory")
    );
}

#[test]
fn the_engine_must_not_name_an_adapter_and_the_message_gives_advice() {
    let found = broken_by("neuraxis-engine", "crates/engine", &["neuraxis-memory"]);
    assert_eq!(
        found,
        arrow("neuraxis-engine", Layer::Engine, "neuraxis-memory")
    );
    let message = "neuraxis-engine depends on neuraxis-memory, but engine may depend on core, ports and brainstem \
                   only. Put a trait into crates/ports, use it here, and choose its adapter in crates/app.";
    assert_eq!(found[0].to_string(), message);
}

#[test]
fn governance_may_depend_only_on_the_domain() {
    let found = broken_by(
        "neuraxis-brainstem",
        "crates/brainstem",
        &["neuraxis-core", "neuraxis-ports"],
    );
    let arrow = &arrow("neuraxis-brainstem", Layer::Brainstem, "neuraxis-ports")[0];
    assert!(found.contains(arrow), "{found:?}");
}

#[test]
fn the_domain_depends_on_no_crate_of_the_workspace() {
    let found = broken_by("neuraxis-core", "crates/core", &["neuraxis-testkit"]);
    let arrow = &arrow("neuraxis-core", Layer::Core, "neuraxis-testkit")[0];
    assert!(found.contains(arrow), "{found:?}");
    let message = arrow.to_string();
    assert!(
        message.contains("core may depend on no crate of the workspace"),
        "{message}"
    );
}

#[test]
fn test_support_must_not_end_up_in_a_program() {
    let found = broken_by("neuraxis-app", "crates/app", &["neuraxis-testkit"]);
    assert_eq!(found, arrow("neuraxis-app", Layer::App, "neuraxis-testkit"));
}

#[test]
fn a_binary_reaches_the_engine_only_through_the_app_or_the_facade() {
    let found = broken_by(
        "neuraxis-cli",
        "crates/cli",
        &["neuraxis-app", "neuraxis", "neuraxis-engine"],
    );
    assert_eq!(
        found,
        arrow("neuraxis-cli", Layer::Binary, "neuraxis-engine")
    );
}

#[test]
fn the_domain_uses_only_the_crates_on_its_list() {
    let found = broken_by("neuraxis-core", "crates/core", &["serde", "rand"]);
    assert_eq!(found, external("neuraxis-core", Layer::Core, "rand"));
}

#[test]
fn the_ports_may_use_tokio_util_but_not_tokio_itself() {
    let found = broken_by(
        "neuraxis-ports",
        "crates/ports",
        &["neuraxis-core", "tokio-util", "tokio"],
    );
    assert_eq!(found, external("neuraxis-ports", Layer::Ports, "tokio"));
}

#[test]
fn a_library_must_not_hide_its_errors_behind_anyhow() {
    let found = broken_by(
        "neuraxis-tools",
        "crates/tools",
        &["neuraxis-core", "anyhow"],
    );
    assert_eq!(found, external("neuraxis-tools", Layer::Tools, "anyhow"));
}

#[test]
fn tokio_must_not_reach_a_pure_crate_at_any_depth_and_the_message_shows_the_path() {
    let graph = sound()
        .package("globset", &["regex"])
        .package("regex", &["tokio"]);
    let way = ["neuraxis-brainstem", "globset", "regex", "tokio"]
        .map(str::to_owned)
        .to_vec();
    let found = violations(&graph);
    assert_eq!(
        found,
        [Violation::Impure {
            layer: Layer::Brainstem,
            way
        }]
    );
    let message = found[0].to_string();
    assert!(
        message.contains("neuraxis-brainstem → globset → regex → tokio"),
        "{message}"
    );
}

#[test]
fn a_cycle_among_packages_ends_the_search() {
    let graph = sound()
        .package("serde", &["serde_derive"])
        .package("serde_derive", &["serde"]);
    assert_eq!(violations(&graph), []);
}

#[test]
fn a_crate_without_a_layer_is_reported_once() {
    let mut graph = sound().member("neuraxis-helpers", "crates/helpers", &["neuraxis-core"]);
    if let Some(tools) = graph
        .members
        .iter_mut()
        .find(|member| member.name == "neuraxis-engine")
    {
        tools.dependencies.insert("neuraxis-helpers".to_owned());
    }
    let homeless = Violation::Homeless {
        name: "neuraxis-helpers".to_owned(),
        folder: "crates/helpers".to_owned(),
    };
    assert_eq!(violations(&graph), [homeless]);
}

#[test]
fn a_folder_below_an_adapter_is_not_a_layer() {
    assert_eq!(Layer::of("crates/adapters/openai"), Some(Layer::Adapter));
    assert_eq!(Layer::of("crates/adapters/openai/generated"), None);
}
