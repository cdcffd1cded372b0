//! The page about security, `docs/security.md`: it has a row for each threat, each row says what is not promised, and
//! each test that it names exists.

use crate::named::{missing, tests_named};

const PAGE: &str = include_str!("../../../docs/security.md");

/// The number of threats: T1 to T24.
const THREATS: usize = 24;

#[test]
fn each_test_that_the_page_names_is_there() {
    assert!(tests_named(PAGE).len() > 50);
    assert_eq!(missing(PAGE), Vec::<&str>::new());
}

#[test]
fn each_threat_has_one_row_that_says_what_is_not_promised() {
    for threat in 1..=THREATS {
        let beginning = format!("| T{threat} | ");
        let mut rows = PAGE.lines().filter(|line| line.starts_with(&beginning));
        let row = rows.next().unwrap();
        assert!(rows.next().is_none(), "T{threat} has two rows");
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
