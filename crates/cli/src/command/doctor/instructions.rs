//! Checks of the project's own instructions to agents, such as `AGENTS.md`: which apply, and why others do not.

use neuraxis_app::{Environment, InstructionFile, Trust, instruction_files};

use super::check::{Check, Outcome};

/// Reports each file, that of the outermost folder first.
pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    let files = instruction_files(environment);
    files.iter().map(check).collect()
}

fn check(file: &InstructionFile) -> Check {
    let path = file.path.display();
    let check = |outcome, detail: String| Check::here("project", outcome, detail);
    match (&file.fault, file.trust) {
        (Some(fault), _) => check(Outcome::Warning, format!("{path} is ignored: {fault}"))
            .fix("fix or remove it, or shorten it if it is too large"),
        (None, Trust::Trusted) => check(Outcome::Ok, format!("{path} is followed")),
        (None, Trust::Refused) => check(
            Outcome::Ok,
            format!("{path} is ignored, because you declined it"),
        ),
        (None, _) => check(
            Outcome::Warning,
            format!("{path} is not trusted and is ignored"),
        )
        .fix("read it; `neuraxis trust add` trusts it"),
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::core::ContentHash;

    use super::*;

    #[test]
    fn only_instructions_that_are_ignored_unexpectedly_are_warnings() {
        let file = |trust, fault: Option<&str>| InstructionFile {
            path: "/project/AGENTS.md".into(),
            within: "AGENTS.md".into(),
            text: String::new(),
            content: ContentHash::of(b""),
            trust,
            fault: fault.map(str::to_owned),
        };
        for (trust, fault, outcome) in [
            (Trust::Trusted, None, Outcome::Ok),
            (Trust::Refused, None, Outcome::Ok),
            (Trust::Unknown, None, Outcome::Warning),
            (Trust::Trusted, Some("it is in UTF-16"), Outcome::Warning),
        ] {
            let check = check(&file(trust, fault));
            assert_eq!(check.outcome, outcome, "{check:?}");
            assert_eq!(check.fix.is_some(), outcome == Outcome::Warning);
        }
    }
}
