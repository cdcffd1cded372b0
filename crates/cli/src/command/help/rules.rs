//! The built-in policy, which refusals cite by file and line: shown with line numbers.

use neuraxis::brainstem::PolicyConfig;
use neuraxis::core::RuleRef;

/// The name that refusals use.
pub(super) const NAME: &str = "default-policy.toml";

/// A shorter name that is accepted.
const STEM: &str = "default-policy";

/// The number of lines shown before and after the requested one.
const AROUND: usize = 12;

/// Returns the policy, or the lines around one of it if requested, as in `default-policy.toml:239`.
pub(super) fn of(name: &str) -> Option<String> {
    let line = match name
        .strip_prefix(NAME)
        .or_else(|| name.strip_prefix(STEM))?
    {
        "" => None,
        place => Some(place.strip_prefix(':')?.parse::<usize>().ok()?),
    };
    let lines = (1_usize..).zip(PolicyConfig::built_in_text().lines());
    let near = lines.filter(|(number, _)| line.is_none_or(|line| number.abs_diff(line) <= AROUND));
    let shown = near.map(|(number, text)| {
        let mark = if line == Some(number) { '>' } else { ' ' };
        format!("{mark}{number:>4}  {text}\n")
    });
    Some(shown.collect())
}

/// Returns the command that shows a rule, if the rule is in the built-in policy.
pub(in crate::command) fn command_for(rule: &RuleRef) -> Option<String> {
    let is_built_in = *rule.source == *NAME && rule.line > 0;
    let line = rule.line;
    is_built_in.then(|| format!("`neuraxis help {NAME}:{line}` shows the rule"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_named_in_a_refusal_is_shown_with_its_context() {
        let rule = |source: &str, line| RuleRef {
            name: "outside-root".into(),
            source: source.into(),
            line,
        };
        let expected = "`neuraxis help default-policy.toml:20` shows the rule";
        assert_eq!(command_for(&rule(NAME, 20)).unwrap(), expected);
        assert_eq!(command_for(&rule("neuraxis.toml", 8)), None);

        let shown = of("default-policy.toml:20").unwrap();
        let line = PolicyConfig::built_in_text().lines().nth(19).unwrap();
        assert!(shown.contains(&format!(">  20  {line}\n")), "{shown}");
        assert_eq!(shown.lines().count(), 2 * AROUND + 1);
        let whole = of(NAME).unwrap();
        assert_eq!(
            whole.lines().count(),
            PolicyConfig::built_in_text().lines().count()
        );
        assert_eq!(of("default-policy.toml:x"), None);
    }

    #[test]
    fn the_line_named_by_the_page_on_pipes_is_a_rule() {
        let page = include_str!("../../../../../docs/pipes.md");
        let named = page.split_once("`neuraxis help default-policy.toml:");
        let line = named.and_then(|(_, rest)| rest.split_once('`')).unwrap().0;
        let shown = of(&format!("{NAME}:{line}")).unwrap();
        assert!(shown.contains(&format!("> {line}  [rules.")), "{shown}");
    }
}
