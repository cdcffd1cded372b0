//! Checks that the examples in the guides do what the guides say.

use neuraxis_brainstem::{CaseFile, LayerKind, Policy, PolicyConfig};

const GUIDES: [(&str, &str); 2] = [
    ("docs/policy.md", include_str!("../../../../docs/policy.md")),
    ("docs/rules.md", include_str!("../../../../docs/rules.md")),
];

/// Returns the blocks of the guides that are marked with a word, with the file and the line on which each starts.
fn blocks(mark: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (file, text) in GUIDES {
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if line == format!("```{mark}") {
                let block = lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| *line != "```");
                let block = block.collect::<Vec<_>>().join("\n");
                found.push((format!("{file}:{}", number + 2), block));
            }
        }
    }
    found
}

#[test]
fn every_policy_in_the_guides_is_valid_and_its_cases_pass() {
    let blocks = blocks("toml");
    assert!(blocks.len() >= 8, "{}", blocks.len());
    for (place, text) in blocks {
        let file = CaseFile::from_toml("guide", &text);
        let report = file.and_then(|file| file.run(&PolicyConfig::built_in(), None));
        let report = report.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(report.failures.is_empty(), "{place}: {:?}", report.failures);
    }
}

#[test]
fn every_layer_in_the_guides_tightens_and_every_refused_one_does_not() {
    for (mark, expected) in [("toml layer", true), ("toml refused", false)] {
        let blocks = blocks(mark);
        assert!(!blocks.is_empty(), "{mark}");
        for (place, text) in blocks {
            let layer = PolicyConfig::from_toml(&text).unwrap();
            let tightened = Policy::built_in().tightened(LayerKind::Key, layer);
            assert_eq!(tightened.is_ok(), expected, "{place}: {tightened:?}");
        }
    }
}
