//! The page about the loop rules, `docs/loop-rules.md`: it covers every rule, every type of record and every ending,
//! and each test that it names exists.
//!
//! These checks are here and not next to the loop, because the page names tests of several crates.

use crate::named::{missing, tests_named};

const PAGE: &str = include_str!("../../../docs/loop-rules.md");

/// Returns the variants of an enum in a file, by their names in the serialized form.
fn variants(file: &str, head: &str) -> Vec<String> {
    let (_, rest) = file.split_once(head).unwrap();
    let (body, _) = rest.split_once("\n}").unwrap();
    let lines = body.lines().map(str::trim);
    let variants = lines.filter(|line| line.starts_with(char::is_uppercase));
    variants
        .map(|line| in_snake_case(line.split(['(', ',']).next().unwrap()))
        .collect()
}

fn in_snake_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// Fails unless the table with this head has a row with a test for each name.
fn assert_table(head: &str, names: &[String]) {
    let (_, table) = PAGE.split_once(head).unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    for name in names {
        let beginning = format!("| `{name}` | ");
        let mut rows = table.lines().filter(|line| line.starts_with(&beginning));
        let has_test = rows.any(|row| !tests_named(row).is_empty());
        assert!(has_test, "{name} is not on the page with a test");
    }
}

#[test]
fn each_test_named_by_the_page_exists() {
    assert!(tests_named(PAGE).len() > 100);
    assert_eq!(missing(PAGE), Vec::<&str>::new());
}

#[test]
fn each_rule_has_a_section_and_a_row_in_the_table_of_broken_rules() {
    for rule in 1..=18 {
        assert!(PAGE.contains(&format!("\n## {rule}. ")), "rule {rule}");
        assert!(PAGE.contains(&format!("\n| {rule} | ")), "rule {rule}");
    }
}

#[test]
fn each_finish_reason_budget_status_and_record_type_has_a_row_with_a_test() {
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
        kind.strip_suffix("\";").map(str::to_owned)
    });
    let reasons_head = "\n| [`finish_reason`](server.md#why-a-run-ended) | status | test |\n";
    assert_table(reasons_head, &reasons);
    assert_table("\n| budget | test |\n", &budgets);
    assert_table("\n| status | test |\n", &statuses);
    assert_table("\n| type | test |\n", &records.collect::<Vec<_>>());
}
