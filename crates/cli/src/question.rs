//! `neuraxis "What time is it?"`: a question without a command is treated as `ask`.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use neuraxis::brainstem::nearest;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::unknown::with_suggestion;

/// The command that answers a question.
pub(crate) const ASK: &str = "ask";

/// How similar a word and a command must be for the word to be treated as a typo instead of a question.
const LIKENESS: f64 = 0.9;

/// Parses the arguments. Without a command, they are those of `ask`.
pub(crate) fn parse(given: &[OsString]) -> Result<Arguments, clap::Error> {
    let error = match Arguments::try_parse_from(given) {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    let may_be_question = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument | ErrorKind::MissingSubcommand
    );
    let words_given = given.get(1..).unwrap_or_default();
    if !may_be_question || words_given.is_empty() {
        return Err(error);
    }
    if let Some(arguments) = with_options_behind(given) {
        return Ok(arguments);
    }
    let command = Arguments::command();
    let names: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    if begins_with_slip(words_given, &names) || named_command(given).is_some() {
        return Err(error);
    }
    let program = given.iter().take(1).cloned();
    let ask = program
        .chain([OsString::from(ASK)])
        .chain(words_given.iter().cloned());
    Arguments::try_parse_from(ask)
}

/// Parses arguments in which a command's options come before the command, as in `neuraxis -q ask hello`.
fn with_options_behind(given: &[OsString]) -> Option<Arguments> {
    let command = Arguments::command();
    let names_it = |word: &OsString| {
        let mut names = command.get_subcommands().map(clap::Command::get_name);
        word.to_str()
            .is_some_and(|word| names.any(|name| name == word))
    };
    let (program, arguments) = given.split_first()?;
    let is_option = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with('-'));
    if !arguments.first().is_some_and(is_option) {
        return None;
    }
    let place = arguments.iter().position(names_it)?;
    let (before, rest) = arguments.split_at_checked(place)?;
    let (name, behind) = rest.split_first()?;
    let words = [program, name].into_iter().chain(before).chain(behind);
    Arguments::try_parse_from(words).ok()
}

/// Returns whether the first word is a command or was most likely meant as one.
fn begins_with_slip(arguments: &[OsString], names: &[&str]) -> bool {
    let first = first_word(arguments);
    first.is_some_and(|word| names.iter().any(|name| is_slip(word, name)))
}

/// Returns the first word that is not an option of the configuration or its value.
fn first_word(arguments: &[OsString]) -> Option<&str> {
    let mut words = arguments.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        if matches!(word, "--set" | "--config") {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// Returns the error to report instead of the parser's, if the latter is about an unknown command.
pub(crate) fn unknown_command(error: &clap::Error, given: &[OsString]) -> Option<CommandError> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let mut command = Arguments::command();
    command.build();
    let mut command = &command;
    let words = given.iter().skip(1).map_while(|word| word.to_str());
    for word in words.take_while(|word| *word != name.as_str()) {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let names: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let slip = names.iter().copied().find(|known| is_slip(name, known));
    let meant = slip.or_else(|| nearest(name, names.iter().copied()));
    let path = command.get_bin_name().unwrap_or("neuraxis");
    let error = with_suggestion("command", name, meant);
    Some(match named_command(given) {
        Some(word) => error.hint(format!(
            "to ask a question with '{word}' in it, put it in quotes"
        )),
        None => error.hint(format!("`{path} --help` lists the commands")),
    })
}

/// Returns the command that the words of a question name, if they do not begin with a command or a misspelled one.
fn named_command(given: &[OsString]) -> Option<&str> {
    let command = Arguments::command();
    let names: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let words_given = given.get(1..).unwrap_or_default();
    if begins_with_slip(words_given, &names) {
        return None;
    }
    let mut words = words_given.iter().filter_map(|word| word.to_str());
    words.find(|word| names.contains(word))
}

/// Returns whether a word was most likely meant as this name: nearly the same, or the same letters in another order.
/// Quoted words, or words with a question or exclamation mark, are a question; a common beginning would make them look
/// similar.
fn is_slip(word: &str, name: &str) -> bool {
    if word.contains(|letter: char| letter.is_whitespace() || "?!".contains(letter)) {
        return false;
    }
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    strsim::jaro_winkler(name, word) >= LIKENESS || letters(word) == letters(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Arguments, ErrorKind> {
        let given = std::iter::once("neuraxis").chain(line.iter().copied());
        let given: Vec<_> = given.map(OsString::from).collect();
        parse(&given).map_err(|error| error.kind())
    }

    #[test]
    fn words_without_a_command_are_a_question_and_a_misspelled_command_is_not() {
        for line in [
            &["What time is it?"][..],
            &["what", "time", "is", "it"],
            &["-m", "gpt-4o", "What time is it?"],
            &["--set", "a.b=c", "--channel", "code_task", "Fix it"],
            &["-c", "And now?"],
            &["-f", "notes.md"],
            &["-q", "ask", "hello"],
            &["-m", "gpt", "chat"],
            &["help me"],
            &["doctor who"],
            &["-q", "models?"],
            &["help!"],
        ] {
            assert!(parsed(line).is_ok(), "{line:?}");
        }
        for (line, kind) in [
            (&["sesions", "list"][..], ErrorKind::InvalidSubcommand),
            (&["doctr"], ErrorKind::InvalidSubcommand),
            (&["aks", "Hi"], ErrorKind::InvalidSubcommand),
            (&["Hi", "--chanel", "code"], ErrorKind::UnknownArgument),
            (&["-m", "gpt", "models"], ErrorKind::UnknownArgument),
            (&["Hi", "-q", "chat"], ErrorKind::InvalidSubcommand),
            (&["-m", "", "Hi"], ErrorKind::ValueValidation),
            (&["chat", "-m", " "], ErrorKind::ValueValidation),
        ] {
            assert_eq!(parsed(line).unwrap_err(), kind, "{line:?}");
        }
    }

    fn told(line: &str) -> String {
        let given = std::iter::once("neuraxis").chain(line.split(' '));
        let given: Vec<_> = given.map(OsString::from).collect();
        let error = unknown_command(&parse(&given).unwrap_err(), &given);
        let error = error.map_or_else(String::new, |error| error.render(None));
        anstream::adapter::strip_str(&error).to_string()
    }

    #[test]
    fn a_question_containing_a_command_name_gets_a_tip_to_quote_it() {
        let hint = "hint: to ask a question with 'models' in it, put it in quotes";
        let asked = told("How do models work");
        assert!(asked.contains(hint), "{asked}");
        for line in ["doctr", "sesions list", "-m gpt models", "runs shw"] {
            let told = told(line);
            assert!(!told.contains("quotes"), "{told}");
        }
    }

    #[test]
    fn a_misspelled_command_is_told_which_one_was_meant_and_where_all_are_listed() {
        for (line, expected) in [
            (
                "chatt",
                "unknown command \"chatt\" (did you mean chat?)\nhint: `neuraxis --help` lists the commands\n",
            ),
            (
                "aks Hi",
                "unknown command \"aks\" (did you mean ask?)\nhint: `neuraxis --help` lists the commands\n",
            ),
            (
                "--set store.url=memory: chatt",
                "unknown command \"chatt\" (did you mean chat?)\nhint: `neuraxis --help` lists the commands\n",
            ),
            (
                "--config runs.toml runs shw last",
                "unknown command \"shw\" (did you mean show?)\nhint: `neuraxis runs --help` lists the commands\n",
            ),
        ] {
            assert_eq!(
                told(line),
                format!("error: wrong usage: {expected}"),
                "{line}"
            );
        }
        assert_eq!(told("ask --loud Hi"), "", "an option is no command");
    }
}
