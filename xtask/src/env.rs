//! `cargo xtask env`: the variables through which tests find what was provisioned, for running one of them by hand.

use std::path::Path;
use std::process::ExitCode;

use crate::provision;

/// Runs the subcommand. Only the variables go to the standard output, for a shell to evaluate.
pub(crate) fn run() -> ExitCode {
    let absent = provision::absent();
    if !absent.is_empty() {
        eprintln!(
            "missing: {}; `cargo xtask test` installs what is missing",
            absent.join(", ")
        );
        return ExitCode::FAILURE;
    }
    for (name, path) in provision::variables() {
        println!("{}", export(name, &path));
    }
    ExitCode::SUCCESS
}

/// Returns the line that sets a variable in a POSIX shell.
fn export(name: &str, path: &Path) -> String {
    let quoted = path.to_string_lossy().replace('\'', r"'\''");
    format!("export {name}='{quoted}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_and_quotes_is_one_word_to_the_shell() {
        let line = export("FILE", Path::new("/it's here/model"));
        assert_eq!(line, r"export FILE='/it'\''s here/model'");
    }
}
