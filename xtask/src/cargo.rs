//! Starts cargo and its extensions in the root of the workspace.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Returns the root of the workspace.
pub(crate) fn workspace_root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Prepares a cargo command for the root of the workspace, using the same cargo that runs this program.
pub(crate) fn cargo(arguments: &str) -> Command {
    command(
        std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        arguments,
    )
}

/// Prepares another program for the root of the workspace.
pub(crate) fn program(name: &str, arguments: &str) -> Command {
    command(name.into(), arguments)
}

fn command(program: OsString, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments.split_whitespace())
        .current_dir(workspace_root());
    command
}

/// Runs a command to its end, inheriting the output streams.
pub(crate) fn run_command(mut command: Command) -> anyhow::Result<()> {
    let line = line(&command);
    println!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Returns whether a command succeeds, without showing its output. Used to check whether a program is installed.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run_command(cargo("no-such-subcommand"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cargo no-such-subcommand` ended with"),
            "{error}"
        );
    }

    #[test]
    fn a_program_that_does_not_exist_does_not_succeed() {
        assert!(!succeeds(program("neuraxis-no-such-program", "--version")));
        assert!(succeeds(cargo("--version")));
    }
}
