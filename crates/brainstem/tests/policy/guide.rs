//! The guide's examples are what it says they are.

use neuraxis_brainstem::{CaseFile, LayerKind, Policy, PolicyConfig};

const GUIDE: &str = include_str!("../../../../docs/policy.md");

/// Returns the blocks of the guide that are marked with a word, with the line on which each begins.
fn blocks(mark: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = GUIDE.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == format!("```{mark}") {
            let block = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```");
            found.push((number + 2, block.collect::<Vec<_>>().join("\n")));
        }
    }
    found
}

#[test]
fn every_policy_in_the_guide_is_one_and_its_cases_pass() {
    let blocks = blocks("toml");
    assert!(blocks.len() >= 8, "{}", blocks.len());
    for (line, text) in blocks {
        let file = CaseFile::from_toml("docs/policy.md", &text);
        let report = file.and_then(|file| file.run(&PolicyConfig::built_in(), None));
        let report = report.unwrap_or_else(|error| panic!("line {line}: {error}"));
        assert!(
            report.failures.is_empty(),
            "line {line}: {:?}",
            report.failures
        );
    }
}

#[test]
fn every_layer_in_the_guide_tightens_and_every_refused_one_does_not() {
    for (mark, expected) in [("toml layer", true), ("toml refused", false)] {
        let blocks = blocks(mark);
        assert!(!blocks.is_empty(), "{mark}");
        for (line, text) in blocks {
            let layer = PolicyConfig::from_toml(&text).unwrap();
            let tightened = Policy::built_in().tightened(LayerKind::Key, layer);
            assert_eq!(tightened.is_ok(), expected, "line {line}: {tightened:?}");
        }
    }
}
