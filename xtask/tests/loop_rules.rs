//! The page about the loop rules, `docs/loop-rules.md`: it leaves out no rule, no type of record and no way to end, and
//! each test that it names is there.
//!
//! Here and not beside the loop, because tests of several crates are named.

#![expect(
    clippy::unwrap_used,
    reason = "a page that cannot be read must stop the test at once"
)]

use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../docs/loop-rules.md");

/// The folders in which a test may be that the page names, below `crates`.
const FOLDERS: [&str; 5] = [
    "core/src",
    "core/tests",
    "engine/tests",
    "brainstem/src",
    "brainstem/tests",
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The modules that a file is by its place.
fn modules_of(file: &Path, below: &Path) -> Vec<String> {
    let place = file.strip_prefix(below).unwrap().with_extension("");
    let parts = place.iter().map(|part| part.to_str().unwrap().to_owned());
    parts
        .filter(|part| part != "main" && part != "lib")
        .collect()
}

/// The name behind a word that a line begins with.
fn named<'a>(line: &'a str, word: &str, end: char) -> Option<&'a str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
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
    let mut found = Vec::new();
    for folder in FOLDERS {
        let mut files = Vec::new();
        rust_files(&crates.join(folder), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            add_tests(&text, modules_of(&file, &crates), &mut found);
        }
    }
    found
}

/// The code in a text that reads as a test: modules and a name, or a sentence of its own.
fn tests_named(text: &str) -> Vec<&str> {
    let code = text.split('`').skip(1).step_by(2);
    let is_test = |code: &&str| {
        let in_module = code.contains("::") && code.starts_with(char::is_lowercase);
        !code.contains(['/', '.']) && (in_module || code.matches('_').count() > 3)
    };
    code.filter(is_test).collect()
}

/// The variants of an enum, as they stand in its file.
fn variants(file: &'static str, head: &str) -> Vec<&'static str> {
    let (_, rest) = file.split_once(head).unwrap();
    let (body, _) = rest.split_once("\n}").unwrap();
    let lines = body.lines().map(str::trim);
    let variants = lines.filter(|line| line.starts_with(char::is_uppercase));
    variants
        .map(|line| line.split(['(', ',']).next().unwrap())
        .collect()
}

#[test]
fn each_test_that_the_page_names_is_there() {
    let tests = tests();
    let named = tests_named(PAGE);
    assert!(named.len() > 100, "{}", named.len());
    let is_there = |name: &&str| {
        let ending = format!("::{name}");
        tests.iter().any(|test| test.ends_with(&ending))
    };
    let missing: Vec<_> = named.into_iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "there is no test {missing:#?}");
}

#[test]
fn each_rule_has_its_section_and_was_broken_on_purpose() {
    for rule in 1..=18 {
        assert!(PAGE.contains(&format!("\n## {rule}. ")), "rule {rule}");
        assert!(PAGE.contains(&format!("\n| {rule} | ")), "rule {rule}");
    }
}

#[test]
fn each_way_to_end_and_each_type_of_record_is_on_the_page_with_a_test() {
    let finish = include_str!("../../crates/core/src/finish.rs");
    let reasons = variants(finish, "pub enum FinishReason {");
    let budgets = variants(finish, "pub enum BudgetKind {");
    let statuses = variants(finish, "pub enum RunStatus {");
    assert_eq!(
        (reasons.len(), budgets.len(), statuses.len()),
        (13, 8, 5),
        "the file is read otherwise than it is written"
    );
    let records = include_str!("../../crates/core/src/record/body.rs");
    let records = records.lines().filter_map(|line| {
        let kind = line.split_once(") = \"")?.1;
        kind.strip_suffix("\";")
    });
    let named = reasons.into_iter().chain(budgets).chain(statuses);
    for name in named.chain(records) {
        let beginning = format!("| `{name}` | ");
        let mut rows = PAGE.lines().filter(|line| line.starts_with(&beginning));
        let has_test = rows.any(|row| !tests_named(row).is_empty());
        assert!(has_test, "{name} is not on the page with a test");
    }
}
