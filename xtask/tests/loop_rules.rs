//! The page about the loop rules, `docs/loop-rules.md`: it leaves out no rule, no type of record and no way to end, and
//! each test that it names is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../../docs/loop-rules.md");

/// The files in which a test may be that the page names.
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

#[expect(
    clippy::disallowed_methods,
    reason = "the tests are looked up as they stand in their files"
)]
fn functions() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in FOLDERS {
        rust_files(&crates.join(folder), &mut files);
    }
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let mut names = BTreeSet::new();
    for text in texts {
        let named = text.split("fn ").skip(1);
        names.extend(named.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
    }
    names
}

/// The code on the page that reads as a test: modules and a name, or a sentence of its own.
fn tests_named() -> Vec<&'static str> {
    let code = PAGE.split('`').skip(1).step_by(2);
    let is_test = |code: &&str| {
        let in_module = code.contains("::") && code.starts_with(char::is_lowercase);
        !code.contains(['/', '.']) && (in_module || code.matches('_').count() > 3)
    };
    code.filter(is_test)
        .map(|code| code.rsplit("::").next().unwrap())
        .collect()
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
    let functions = functions();
    let named = tests_named();
    assert!(named.len() > 100, "{}", named.len());
    for name in named {
        assert!(functions.contains(name), "there is no test {name}");
    }
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
    let finish = include_str!("../../src/finish.rs");
    let reasons = variants(finish, "pub enum FinishReason {");
    let budgets = variants(finish, "pub enum BudgetKind {");
    let statuses = variants(finish, "pub enum RunStatus {");
    assert_eq!(
        (reasons.len(), budgets.len(), statuses.len()),
        (13, 8, 5),
        "the file is read otherwise than it is written"
    );
    let records = include_str!("../../src/record/body.rs");
    let records = records.lines().filter_map(|line| {
        let kind = line.split_once(") = \"")?.1;
        kind.strip_suffix("\";")
    });
    let named = reasons.into_iter().chain(budgets).chain(statuses);
    for name in named.chain(records) {
        let row = format!("\n| `{name}` | ");
        assert!(PAGE.contains(&row), "{name} is not on the page");
    }
}
