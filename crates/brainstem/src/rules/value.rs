//! Patterns of values: globs, and comparisons of numbers such as `"> 100"`.

use std::cmp::Ordering;

use globset::{Glob, GlobSet};

use super::patterns::glob_set;
use crate::error::PolicyError;
use crate::names;

/// Patterns of which a value must match one.
#[derive(Debug, Clone)]
pub(crate) struct ValuePatterns {
    globs: GlobSet,
    comparisons: Vec<Comparison>,
}

/// A number to compare with, and the relation.
#[derive(Debug, Clone, Copy)]
struct Comparison {
    relation: Relation,
    with: Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    More,
    AtLeast,
}

/// The longer of two relations with the same beginning comes first.
const RELATIONS: [(&str, Relation); 4] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::More),
    ("<", Relation::Less),
];

/// A number. Integers are compared as integers, since a floating-point number is inexact for large ones.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(i128),
    Fraction(f64),
}

impl ValuePatterns {
    pub(crate) fn check(at: &str, patterns: &[String]) -> Result<Self, PolicyError> {
        let mut globs = Vec::new();
        let mut comparisons = Vec::new();
        for pattern in patterns {
            match compared(pattern) {
                None => globs.push(pattern.clone()),
                Some(Ok(comparison)) => comparisons.push(comparison),
                Some(Err(reason)) => {
                    return Err(PolicyError::InvalidPattern {
                        at: at.to_owned(),
                        pattern: names::shown(pattern),
                        reason,
                    });
                }
            }
        }
        let globs = glob_set(at, &globs, Glob::new)?;
        Ok(Self { globs, comparisons })
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let by_number = || {
            let number = Number::read(text);
            number.is_some_and(|number| self.comparisons.iter().any(|it| it.holds(number)))
        };
        self.globs.is_match(text) || by_number()
    }

    /// Returns whether a value must be compared but is not a number; the code that runs the call may still read it as
    /// one.
    pub(crate) fn is_unclear(&self, text: &str) -> bool {
        !self.comparisons.is_empty() && Number::read(text).is_none()
    }
}

/// Reads a comparison; `None` if the pattern is not one, and an error if it has no number.
fn compared(pattern: &str) -> Option<Result<Comparison, String>> {
    let pattern = pattern.trim();
    let (relation, number) = RELATIONS
        .into_iter()
        .find_map(|(sign, relation)| Some((relation, pattern.strip_prefix(sign)?)))?;
    let with = Number::read(number.trim());
    let comparison = with.map(|with| Comparison { relation, with });
    Some(comparison.ok_or_else(|| "only numbers can be compared, as in \"> 100\"".to_owned()))
}

impl Comparison {
    fn holds(&self, number: Number) -> bool {
        let order = number.order(self.with);
        match self.relation {
            Relation::Less => order == Some(Ordering::Less),
            Relation::More => order == Some(Ordering::Greater),
            Relation::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Relation::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Number {
    fn read(text: &str) -> Option<Self> {
        let whole = text.parse().ok().map(Self::Whole);
        let fraction = || text.parse().ok().filter(|it: &f64| it.is_finite());
        whole.or_else(|| fraction().map(Self::Fraction))
    }

    fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => Some(one.cmp(&other)),
            (one, other) => one.as_fraction().partial_cmp(&other.as_fraction()),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "beside a fraction nothing more exact is to be had"
    )]
    const fn as_fraction(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Fraction(number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(given: &[&str]) -> Result<ValuePatterns, PolicyError> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        ValuePatterns::check("rules.r.values.amount", &given)
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (pattern, number, matches) in [
            ("> 100", "101", true),
            ("> 100", "100", false),
            (">100", "100.5", true),
            ("> 100", "1e3", true),
            (">= 100", "100", true),
            ("< 0", "-1", true),
            ("<= 0.5", "0.5", true),
            ("<= 0.5", "0.6", false),
            ("> 9007199254740992", "9007199254740993", true),
            ("> 100", "many", false),
            ("1??", "150", true),
        ] {
            let patterns = patterns(&[pattern]).unwrap();
            assert_eq!(patterns.matches(number), matches, "{number} {pattern}");
        }
        let either = patterns(&["> 100", "none"]).unwrap();
        assert!(either.matches("none") && either.matches("200") && !either.matches("2"));
    }

    #[test]
    fn a_value_that_is_not_a_number_cannot_be_compared() {
        let comparing = patterns(&["> 100"]).unwrap();
        for text in ["1,000", "NaN", "inf", "", "EUR 5"] {
            assert!(comparing.is_unclear(text), "{text}");
        }
        assert!(!comparing.is_unclear("5") && !patterns(&["a*"]).unwrap().is_unclear("x"));
        let error = patterns(&["> much"]).unwrap_err().to_string();
        assert!(error.contains("invalid pattern \"> much\""), "{error}");
    }
}
