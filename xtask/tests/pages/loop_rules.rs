//! The page about the loop rules, `docs/loop-rules.md`: it leaves out no rule, no type of record and no way to end, and
//! each test that it names is there.
//!
//! Here and not beside the loop, because tests of several crates are named.

use crate::named::{missing, tests_named};

const PAGE: &str = include_str!("../../../docs/loop-rules.md");

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
    assert!(tests_named(PAGE).len() > 100);
    assert_eq!(missing(PAGE), Vec::<&str>::new());
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
    let finish = include_str!("../../../crates/core/src/finish.rs");
    let reasons = variants(finish, "pub enum FinishReason {");
    let budgets = variants(finish, "pub enum BudgetKind {");
    let statuses = variants(finish, "pub enum RunStatus {");
    assert_eq!(
        (reasons.len(), budgets.len(), statuses.len()),
        (15, 8, 5),
        "the file is read otherwise than it is written"
    );
    let records = include_str!("../../../crates/core/src/record/body.rs");
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
