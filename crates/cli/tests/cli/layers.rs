//! The command line only uses the services of the engine, so a server can do everything that it does with sessions,
//! runs and approvals.

use std::fs;
use std::path::{Path, PathBuf};

/// Names that belong to stores, and so to a layer below the services.
const BELOW: [&str; 7] = [
    "SessionStore",
    "SessionIndex",
    "RunLog",
    "MemoryStore",
    "SqlStore",
    "neuraxis_sql",
    "app.store",
];

#[test]
fn no_command_depends_on_a_store() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&sources, &mut files);
    assert!(files.len() > 50, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Tests follow, which set up their own environment.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for name in BELOW {
            assert!(!text.contains(name), "{} names {name}", file.display());
        }
    }
}

/// Collects the source files of a folder, except tests.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}
