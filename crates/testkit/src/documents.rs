//! The code blocks of the documents, for tests that run them as they are. Commands run in one shell, one after the
//! other, as a reader of the page would type them, and each must end with the expected exit code.
//!
//! How to treat blocks that this module does not know, such as those in other languages, is up to the tests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A code block in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// The document, relative to the root of the repository: `docs/policy.md`.
    pub document: String,
    /// The text after the opening fence: `sh`, `toml` or nothing.
    pub language: String,
    /// The line of its opening fence, starting at 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// The result of a command.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommandOutput {
    /// The command, on one line.
    pub command: String,
    /// Its exit code; for a pipe, that of the last program that failed.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Reads the code blocks of `README.md` and of all documents below `docs`, in alphabetical order.
///
/// # Errors
///
/// If a file cannot be read.
pub fn blocks(root: &Path) -> io::Result<Vec<Block>> {
    let mut files = Vec::new();
    markdown_below(&root.join("docs"), &mut files)?;
    files.sort();
    files.insert(0, root.join("README.md"));
    let mut blocks = Vec::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file);
        let name = name.to_string_lossy().replace('\\', "/");
        blocks.extend(blocks_of(&name, &fs::read_to_string(&file)?));
    }
    Ok(blocks)
}

fn markdown_below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            markdown_below(&path, files)?;
        } else if path.extension().is_some_and(|it| it == "md") {
            files.push(path);
        }
    }
    Ok(())
}

fn blocks_of(document: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                blocks.push(Block {
                    document: document.to_owned(),
                    language: language.trim().to_owned(),
                    line: number,
                    text: String::new(),
                });
            }
        } else if is_open && let Some(block) = blocks.last_mut() {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    blocks
}

impl Block {
    /// Returns the commands of a shell block, with continued lines joined; none for other blocks. In a `console` block,
    /// commands follow `$`, and the rest is output.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        let typed: Vec<&str> = match self.language.as_str() {
            "sh" | "bash" => self.text.lines().collect(),
            "console" => {
                let lines = self.text.lines();
                lines.filter_map(|line| line.strip_prefix("$ ")).collect()
            }
            _ => Vec::new(),
        };
        let mut commands = Vec::new();
        let mut begun = String::new();
        for line in typed {
            match line.strip_suffix('\\') {
                Some(more) => begun.push_str(more),
                None => {
                    begun.push_str(line);
                    commands.push(std::mem::take(&mut begun));
                }
            }
        }
        commands.retain(|command| !command.is_empty() && !command.starts_with('#'));
        commands
    }
}

/// Runs commands in one `bash`, so variables set by one are available to the next. `shell` supplies the environment and
/// must have no arguments yet; `prelude` runs first; temporary files go into `folder`, which must exist.
///
/// # Errors
///
/// If the shell cannot be started, or ends before the last command.
pub fn run_all(
    shell: &mut Command,
    prelude: &str,
    commands: &[String],
    folder: &Path,
) -> io::Result<Vec<CommandOutput>> {
    let place = |number: usize, what: &str| folder.join(format!("{number}.{what}"));
    let mut script = format!("{prelude}\nset -o pipefail\n");
    for (number, command) in commands.iter().enumerate() {
        let [out, err, code] =
            ["out", "err", "code"].map(|what| place(number, what).display().to_string());
        script.push_str(&format!(
            "{{ {command}\n}} >'{out}' 2>'{err}' </dev/null\necho $? >'{code}'\n"
        ));
    }
    shell.arg("-c").arg(&script).stdin(Stdio::null());
    let output = shell.output()?;
    let read =
        |number: usize, what: &str| fs::read_to_string(place(number, what)).unwrap_or_default();
    let ran = commands.iter().enumerate().map(|(number, command)| {
        let code: i32 = read(number, "code").trim().parse().map_err(|_| {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            io::Error::other(format!("the shell ended at {command}: {stderr}"))
        })?;
        Ok(CommandOutput {
            command: command.clone(),
            code,
            stdout: read(number, "out"),
            stderr: read(number, "err"),
        })
    });
    ran.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Text\n\n```sh\n# nothing\none \\\n  two   # why\n\nthree\n```\n\n```console\n$ four\nfive\n```\n```toml\na = 1\n```\n";

    #[test]
    fn commands_are_read_from_shell_blocks_and_continue_after_a_backslash() {
        let blocks = blocks_of("page.md", PAGE);
        let commands: Vec<Vec<String>> = blocks.iter().map(Block::commands).collect();
        assert_eq!(commands[0], ["one   two   # why", "three"]);
        assert_eq!(commands[1], ["four"]);
        assert!(commands[2].is_empty());
        assert_eq!((blocks[2].language.as_str(), blocks[2].line), ("toml", 15));
    }

    #[test]
    #[cfg(unix)]
    fn each_command_has_its_own_exit_code_and_shell_state_carries_over() {
        let folder = tempfile::tempdir().unwrap();
        let commands = ["a=3", "echo $a # three", "false | true", "(exit $a)"];
        let commands = commands.map(str::to_owned);
        let ran = run_all(&mut Command::new("bash"), "", &commands, folder.path()).unwrap();
        let codes: Vec<i32> = ran.iter().map(|ran| ran.code).collect();
        assert_eq!(codes, [0, 0, 1, 3]);
        assert_eq!(ran[1].stdout, "3\n");
    }
}
