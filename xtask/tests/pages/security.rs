//! The page about security, `docs/security.md`: it has a row for each threat, each row says what is not promised, and
//! each test that it names exists.

use crate::named::{missing, tests_named};

const PAGE: &str = include_str!("../../../docs/security.md");

#[test]
fn each_test_named_by_the_page_exists() {
    assert!(tests_named(PAGE).len() > 50);
    assert_eq!(missing(PAGE), Vec::<&str>::new());
}

#[test]
fn each_threat_has_one_row_that_names_its_limits() {
    let threats: Vec<usize> = PAGE.lines().filter_map(threat_of).collect();
    assert!(threats.len() > 20, "nothing was read: {threats:?}");
    // Without gaps and in order, so each number is used once.
    let numbers: Vec<usize> = (1..=threats.len()).collect();
    assert_eq!(threats, numbers);
    for threat in threats {
        let beginning = format!("| T{threat} | ");
        let row = PAGE.lines().find(|line| line.starts_with(&beginning));
        let row = row.unwrap();
        let columns: Vec<&str> = row.split(" | ").collect();
        assert_eq!(columns.len(), 4, "{row}");
        let is_held = columns
            .get(2)
            .is_some_and(|tests| !tests_named(tests).is_empty());
        let is_said = columns
            .get(1)
            .is_some_and(|promise| promise.starts_with("Not there yet"));
        assert!(is_held || is_said, "T{threat} has no test");
        let limits = columns.get(3).unwrap().trim_end_matches(" |");
        assert!(!limits.trim().is_empty(), "T{threat}: {row}");
    }
}

/// Returns the number of the threat that a row of the page is about.
fn threat_of(line: &str) -> Option<usize> {
    let (number, _) = line.strip_prefix("| T")?.split_once(" | ")?;
    number.parse().ok()
}
