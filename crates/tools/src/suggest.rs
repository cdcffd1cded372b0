//! Finds what may have been meant by a name that does not exist.

/// How similar two names must be, from 0 to 1, to be taken for each other.
const MIN_SIMILARITY: f64 = 0.6;

/// Returns the candidate most similar to the given name, if any is similar enough. Case and surrounding spaces are
/// ignored; of equally good candidates, the first is returned.
pub(crate) fn nearest(
    wanted: &str,
    candidates: impl IntoIterator<Item = String>,
) -> Option<String> {
    let wanted = wanted.trim().to_lowercase();
    let mut best: Option<(f64, String)> = None;
    for candidate in candidates {
        let score =
            strsim::normalized_damerau_levenshtein(&wanted, &candidate.trim().to_lowercase());
        if score >= MIN_SIMILARITY
            && best
                .as_ref()
                .is_none_or(|(best_score, _)| score > *best_score)
        {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    fn of(wanted: &str, candidates: &[&str]) -> Option<String> {
        nearest(wanted, candidates.iter().map(ToString::to_string))
    }

    #[test]
    fn the_candidate_with_the_fewest_typing_errors_is_suggested() {
        assert_eq!(
            of("man.rs", &["lib.rs", "main.rs", "build.rs"]).as_deref(),
            Some("main.rs")
        );
        assert_eq!(
            of("readme.MD ", &["README.md", "README.txt"]).as_deref(),
            Some("README.md")
        );
    }

    #[test]
    fn nothing_is_suggested_if_no_candidate_resembles_the_name() {
        assert_eq!(of("invoice.pdf", &["main.rs", "Cargo.toml"]), None);
        assert_eq!(of("x", &[]), None);
    }
}
