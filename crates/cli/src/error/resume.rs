//! Why a run could not be resumed, and what to do next.

use std::path::Path;

use neuraxis::engine::ResumeError;

use super::CommandError;
use crate::harmless::reveal_invisible;
use crate::invocation;

impl From<ResumeError> for CommandError {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Ended(run) => {
                Self::usage(ResumeError::Ended(run)).hint(format!(
                    "`neuraxis runs show {run}` shows its result; `neuraxis runs fork {run} --message TEXT` continues from there"
                ))
            }
            ResumeError::Store(error) => error.into(),
            ResumeError::Alive(run) => Self::failed(error).hint(format!(
                "`neuraxis runs show {run}` shows its progress; `neuraxis runs resume {run} --cancel` ends it"
            )),
            ResumeError::NothingToDo => Self::failed(error)
                .hint("only the program that runs these tools can supply their results"),
            ResumeError::Elsewhere { run, ref folder } => {
                let ends = format!("`neuraxis runs resume {run} --cancel` ends it from any folder");
                let there = match Path::new(&**folder).is_dir() {
                    true => as_root(folder),
                    false => "that folder does not exist here".to_owned(),
                };
                Self::usage(error).hint(there).hint(ends)
            }
            ResumeError::Imported(run) | ResumeError::NoFolder(run) => {
                Self::failed(error).hint(format!(
                    "`neuraxis runs resume {run}` shows its open calls and asks you"
                ))
            }
            ResumeError::ServerAway { ref server, .. } => {
                let why = format!(
                    "`neuraxis mcp test {server}` checks the server; decide again once it works"
                );
                Self::failed(error)
                    .hint(why)
                    .hint("`neuraxis approvals deny` and `runs resume --cancel` do not need the server")
            }
            ResumeError::NotConfigured { .. } => Self::usage(error)
                .hint("use the configuration that the run was started with, for example with --config FILE"),
            ResumeError::Restore(_) => {
                Self::failed(error).hint("`neuraxis runs replay` shows where its records differ")
            }
            error => Self::failed(error),
        }
    }
}

/// Describes how to make a command work in another folder. The folder comes from a record and may contain anything, and
/// the line is meant to be pasted.
fn as_root(folder: &str) -> String {
    let folder = invocation::quoted(&reveal_invisible(folder));
    format!("or name that folder as `tools.root`: --set tools.root={folder}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_folder_is_quoted_as_one_harmless_shell_word() {
        let hint = as_root("/tmp/x\u{7}\u{202e}; rm -rf $(pwd) 'quoted'");
        let word = r"--set tools.root='/tmp/x␇⟨U+202E⟩; rm -rf $(pwd) '\''quoted'\'''";
        assert!(hint.ends_with(word), "{hint}");
    }

    #[test]
    fn the_hint_for_a_run_whose_folder_is_gone_names_how_to_cancel_it() {
        let run = neuraxis::core::RunId(neuraxis::core::uuid::Uuid::nil());
        let folder = tempfile::tempdir().unwrap();
        let name: std::sync::Arc<str> = folder.path().to_str().unwrap().into();
        let told = || {
            let folder = std::sync::Arc::clone(&name);
            let error = CommandError::from(ResumeError::Elsewhere { run, folder });
            anstream::adapter::strip_str(&error.render(None)).to_string()
        };
        let ends = format!("runs resume {run} --cancel");
        let there = told();
        assert!(
            there.contains("tools.root=") && there.contains(&ends),
            "{there}"
        );
        folder.close().unwrap();
        let gone = told();
        assert!(
            !gone.contains("tools.root=") && gone.contains(&ends),
            "{gone}"
        );
    }
}
