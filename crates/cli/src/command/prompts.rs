//! The user's saved prompts, selected by name with `ask -p NAME` and with `/NAME` in a chat.

use anyhow::anyhow;
use neuraxis::core::escaped;
use neuraxis_app::Prompts;

use super::chat::nearest;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress;
use crate::setup::Loaded;
use crate::wrap::usual_width;

/// Reads the prompts, and reports files that are not valid.
pub(super) fn read(loaded: &Loaded) -> Prompts {
    let prompts = Prompts::read(&loaded.config, &loaded.environment);
    for fault in &prompts.faults {
        progress::warn(fault);
    }
    prompts
}

/// Returns whether there is a prompt of this name.
pub(super) fn exists(loaded: &Loaded, name: &str) -> bool {
    let prompts = Prompts::read(&loaded.config, &loaded.environment);
    prompts.find(name).is_some()
}

/// Returns the text of a prompt with its placeholders filled by the given text and its words.
pub(super) fn filled(
    loaded: &Loaded,
    name: &str,
    all: &str,
    words: &[String],
) -> Result<String, CommandError> {
    let prompts = read(loaded);
    match prompts.find(name) {
        Some(prompt) => Ok(prompt.filled(all, words)),
        None => Err(unknown(loaded, &prompts, name)),
    }
}

/// Lists the prompts, one per line.
pub(super) fn listed(loaded: &Loaded) -> String {
    let prompts = read(loaded);
    let lines: String = prompts
        .list()
        .map(|(name, about)| {
            let blanks = " ".repeat(20_usize.saturating_sub(usual_width(name)));
            format!("/{name}{blanks} {}\n", one_line(&about))
        })
        .collect();
    match lines.is_empty() {
        true => format!("you have no prompts; {}\n", how_to_save(loaded, "NAME")),
        false => lines,
    }
}

/// Splits the text after a prompt's name into words at blanks. Quoted words count as one; inside quotes, no character
/// is special.
pub(super) fn words_of(argument: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = argument.trim_start();
    while !rest.is_empty() {
        let plain = || rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (word, after) = quoted(rest).unwrap_or_else(plain);
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// Splits a quoted string off the beginning of a text. The closing quote must be followed by a blank, so an apostrophe
/// does not end it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|it| matches!(it, '"' | '\''))?;
    let within = text.strip_prefix(quote)?;
    within.match_indices(quote).find_map(|(end, _)| {
        let (word, after) = within.split_at_checked(end)?;
        let after = after.strip_prefix(quote)?;
        let is_end = after.is_empty() || after.starts_with(char::is_whitespace);
        is_end.then_some((word, after))
    })
}

fn unknown(loaded: &Loaded, prompts: &Prompts, name: &str) -> CommandError {
    let meant = nearest(name, prompts.list().map(|(name, _)| name));
    let meant = meant.map(|meant| format!(" (did you mean {meant}?)"));
    let meant = meant.unwrap_or_default();
    let shown = one_line(&escaped(name.chars(), &['\'']));
    let error = anyhow!("unknown prompt \"{shown}\"{meant}");
    let names: Vec<&str> = prompts.list().map(|(name, _)| name).collect();
    CommandError::usage(error).hint(match names.is_empty() {
        _ if !Prompts::is_valid_name(name) => {
            "a prompt's name consists of letters, digits, _ and -".to_owned()
        }
        true => how_to_save(loaded, &shown),
        false => format!("the prompts are {}", names.join(", ")),
    })
}

fn how_to_save(loaded: &Loaded, name: &str) -> String {
    match loaded.environment.config_dir() {
        Some(folder) => {
            let file = folder.join("prompts").join(format!("{name}.md"));
            format!("to add one, write its text to {}", file.display())
        }
        None => {
            format!("to add one, write a section [prompts.{name}] with a text in neuraxis.toml")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_after_a_name_are_split_at_blanks_outside_quotes_without_loss() {
        for (argument, words) in [
            (
                "one \"two three\"\n'four five'",
                &["one", "two three", "four five"][..],
            ),
            ("it's what's here", &["it's", "what's", "here"]),
            ("'that's it' \"open", &["that's it", "\"open"]),
            ("fix #12 in C:\\src", &["fix", "#12", "in", "C:\\src"]),
            ("\"\" b", &["", "b"]),
            (" ", &[]),
        ] {
            assert_eq!(words_of(argument), words);
        }
    }
}
