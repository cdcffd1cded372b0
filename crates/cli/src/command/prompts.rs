//! Prompts that a user keeps: found by their names, for `ask -p NAME` and `/NAME` in a chat.

use anyhow::anyhow;
use neuraxis_app::Prompts;

use super::chat::nearest;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress::Progress;
use crate::setup::Loaded;

/// Reads the prompts there are, and says which files are none.
pub(super) fn read(loaded: &Loaded) -> Prompts {
    let prompts = Prompts::read(&loaded.config, &loaded.environment);
    for fault in &prompts.faults {
        Progress::new().warn(fault);
    }
    prompts
}

/// Tells whether there is a prompt of this name.
pub(super) fn is_kept(loaded: &Loaded, name: &str) -> bool {
    let prompts = Prompts::read(&loaded.config, &loaded.environment);
    prompts.find(name).is_some()
}

/// Returns the text of a prompt with words in their places.
pub(super) fn filled(
    loaded: &Loaded,
    name: &str,
    words: &[String],
) -> Result<String, CommandError> {
    let prompts = read(loaded);
    match prompts.find(name) {
        Some(prompt) => Ok(prompt.filled(words)),
        None => Err(unknown(loaded, &prompts, name)),
    }
}

/// Lists the prompts, one a line.
pub(super) fn listed(loaded: &Loaded) -> String {
    let prompts = read(loaded);
    let lines: String = prompts
        .list()
        .map(|(name, about)| format!("/{name:<20} {}\n", one_line(&about)))
        .collect();
    match lines.is_empty() {
        true => format!("you keep no prompts; {}\n", how_to_keep(loaded, "NAME")),
        false => lines,
    }
}

/// Splits what follows the name of a prompt into words, as a shell does. What a shell would not take is words all the same.
pub(super) fn words_of(argument: Option<&str>) -> Vec<String> {
    let argument = argument.unwrap_or_default();
    shlex::split(argument)
        .unwrap_or_else(|| argument.split_whitespace().map(str::to_owned).collect())
}

fn unknown(loaded: &Loaded, prompts: &Prompts, name: &str) -> CommandError {
    let meant = nearest(name, prompts.list().map(|(name, _)| name));
    let meant = meant.map(|meant| format!(" (did you mean {meant}?)"));
    let (shown, meant) = (one_line(name), meant.unwrap_or_default());
    let error = anyhow!("there is no prompt {shown:?}{meant}");
    let names: Vec<&str> = prompts.list().map(|(name, _)| name).collect();
    CommandError::usage(error).hint(match names.is_empty() {
        true => how_to_keep(loaded, &shown),
        false => format!("the prompts are {}", names.join(", ")),
    })
}

fn how_to_keep(loaded: &Loaded, name: &str) -> String {
    match loaded.environment.config_dir() {
        Some(folder) => {
            let file = folder.join("prompts").join(format!("{name}.md"));
            format!("the text of {} becomes one", file.display())
        }
        None => format!("a section [prompts.{name}] with a text in neuraxis.toml makes one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_name_is_split_as_a_shell_does_and_an_open_quote_splits_at_blanks() {
        for (argument, words) in [
            (Some("one \"two three\""), &["one", "two three"][..]),
            (Some("it's here"), &["it's", "here"]),
            (None, &[]),
        ] {
            assert_eq!(words_of(argument), words);
        }
    }
}
