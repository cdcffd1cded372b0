//! The features of the facade: each is compiled by the tests and documented where readers look for it.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

/// Returns the names of the features that `Cargo.toml` defines, except `default`.
fn features() -> Vec<&'static str> {
    let manifest = include_str!("../Cargo.toml");
    let section = manifest.split("[features]").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let keys = section.lines().filter_map(|line| line.split_once(" = ["));
    let names = keys.map(|(name, _)| name.trim_matches('"'));
    names.filter(|name| *name != "default").collect()
}

#[test]
fn every_feature_is_listed_in_the_feature_tables() {
    let features = features();
    assert!(features.len() > 20, "{features:?}");
    let pages = [
        ("README.md", include_str!("../../../README.md")),
        (
            "docs/embedding/README.md",
            include_str!("../../../docs/embedding/README.md"),
        ),
    ];
    for (page, text) in pages {
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        for feature in &features {
            let name = format!("`{feature}`");
            assert!(
                rows.iter().any(|row| row.contains(&name)),
                "{page} lacks {name}"
            );
        }
    }
}

#[test]
fn every_feature_is_compiled_with_the_tests() {
    let manifest = include_str!("../Cargo.toml");
    let own = manifest.split("neuraxis = { path").nth(1).unwrap();
    let own = own.split("] }").next().unwrap();
    let default = manifest.split("\ndefault = [").nth(1).unwrap();
    let default = default.split(']').next().unwrap();
    // Some features enable others.
    let enabled_by = [
        ("file-tools", "command-tools"),
        ("postgres", "sql"),
        ("sqlite", "sql"),
    ];
    for feature in features() {
        let by = enabled_by.iter().find(|(name, _)| *name == feature);
        let quoted = format!("\"{}\"", by.map_or(feature, |(_, by)| by));
        assert!(
            own.contains(&quoted) || default.contains(&quoted),
            "{feature}"
        );
    }
}
