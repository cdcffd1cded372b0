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
    use std::fs;

    use super::*;

    #[test]
    fn instructions_that_are_ignored_are_warnings_with_a_fix() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path());
        assert_eq!(checks(&environment), []);
        for (content, expected) in [
            (&b"Be brief."[..], "is not trusted and is ignored"),
            (&b"\xff\xfeB\0"[..], "is ignored: "),
        ] {
            fs::write(folder.path().join("AGENTS.md"), content).unwrap();
            let found = checks(&environment);
            assert_eq!(found.len(), 1, "{found:?}");
            for check in found {
                assert_eq!(check.outcome, Outcome::Warning);
                assert!(check.detail.contains(expected), "{check:?}");
                assert!(check.fix.is_some());
            }
        }
    }
}
