//! The tests that a page names, and the existing ones.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the tests that a page names but no crate has.
pub(crate) fn missing(page: &str) -> Vec<&str> {
    let tests = tests();
    let is_there = |name: &&str| {
        let ending = format!("::{name}");
        tests.iter().any(|test| test.ends_with(&ending))
    };
    let named = tests_named(page).into_iter();
    named.filter(|name| !is_there(name)).collect()
}

/// Returns the code in a text that looks like a test: modules and a name, or a name that is a sentence.
pub(crate) fn tests_named(text: &str) -> Vec<&str> {
    let code = text.split('`').skip(1).step_by(2);
    let is_test = |code: &&str| {
        let in_module = code.contains("::") && code.starts_with(char::is_lowercase);
        !code.contains(['/', '.']) && (in_module || code.matches('_').count() > 3)
    };
    code.filter(is_test).collect()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // The output of fuzzing contains third-party sources.
            if !path.ends_with("target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Returns the module path of a file, based on its location.
fn modules_of(file: &Path, below: &Path) -> Vec<String> {
    let place = file.strip_prefix(below).unwrap().with_extension("");
    let parts = place.iter().map(|part| part.to_str().unwrap().to_owned());
    parts
        .filter(|part| part != "main" && part != "lib")
        .collect()
}

/// Returns the name after a word at the start of a line.
fn named<'a>(line: &'a str, word: &str, end: char) -> Option<&'a str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let (name, _) = line.strip_prefix(word)?.split_once(end)?;
    Some(name.trim_end())
}

/// Adds the tests of a file, each with its modules: `rules::withheld::a_test`.
fn add_tests(text: &str, mut modules: Vec<String>, found: &mut Vec<String>) {
    let file = modules.len();
    let mut is_test = false;
    for line in text.lines() {
        let attribute = line.trim_start().strip_prefix("#[");
        is_test |=
            attribute.is_some_and(|it| it.starts_with("test") || it.starts_with("tokio::test"));
        // Each rule of a port is a test of every implementation of the port.
        is_test |= modules.iter().any(|module| module == "conformance")
            && line.starts_with("pub async fn ");
        // So is each scenario in a macro's list: `fn what_a_person_does() = "scenario";`.
        is_test |= line.contains("() = \"");
        if let Some(name) = named(line, "mod ", '{') {
            modules.push(name.to_owned());
        } else if line == "}" {
            modules.truncate(file);
        } else if let Some(name) = named(line, "fn ", '(') {
            if is_test {
                found.push(format!("{}::{name}", modules.join("::")));
            }
            is_test = false;
        }
    }
}

fn tests() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let (mut files, mut found) = (Vec::new(), Vec::new());
    rust_files(&crates, &mut files);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        add_tests(&text, modules_of(&file, &crates), &mut found);
    }
    found
}
