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
