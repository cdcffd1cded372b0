//! The question: from the command line, from standard input, or from both, in which case the piped data goes with it.

use std::io::{self, IsTerminal};

use anyhow::{Context, anyhow};
use neuraxis::core::Part;
use neuraxis::engine::MAX_MEDIA_BYTES;

use super::attach::part_of;
use crate::command::chat::is_chat_command;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::piped;

/// The maximum size in bytes of a question from standard input.
const MAX_BYTES: usize = 1024 * 1024;

/// The name under which a model sees piped data.
const PIPED: &str = "standard input";

const HINT: &str = "say what you want: neuraxis ask \"How is this machine?\"";

/// A question, and the piped data that goes with it.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) text: String,
    pub(super) piped: Option<Part>,
}

/// Reads the question. Standard input is the question itself, or goes with the question in the arguments.
pub(super) fn read(words: &[String]) -> Result<Question, CommandError> {
    match words {
        [dash] if dash == "-" => from_stdin(),
        [] if io::stdin().is_terminal() => {
            Err(CommandError::usage(anyhow!("no question was given")).hint(HINT))
        }
        [] => from_stdin(),
        words if is_chat_command(&words.join(" ")) => Err(chat_command_error(&words.join(" "))),
        words => Ok(Question {
            text: words.join(" "),
            piped: piped_in()?,
        }),
    }
}

/// Reads what goes with a saved prompt, whose text is known once the configuration is loaded. The words fill the
/// prompt's placeholders; standard input does not.
pub(super) fn read_with_prompt(words: &[String]) -> Result<Question, CommandError> {
    if words == ["-"] {
        let error = anyhow!("- cannot be used with --prompt");
        return Err(CommandError::usage(error)
            .hint("leave it out: piped input goes with the prompt anyway"));
    }
    Ok(Question {
        text: String::new(),
        piped: piped_in()?,
    })
}

fn piped_in() -> Result<Option<Part>, CommandError> {
    match piped::is_piped() {
        true => piped_part(&piped::read(PIPED, MAX_MEDIA_BYTES)?),
        false => Ok(None),
    }
}

fn chat_command_error(text: &str) -> CommandError {
    let text = one_line(text);
    let error = anyhow!("{text} is a chat command, not a question");
    CommandError::usage(error).hint("type it in `neuraxis chat`")
}

fn from_stdin() -> Result<Question, CommandError> {
    let bytes = piped::read("the question on standard input", MAX_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let error = anyhow!(error).context("the question on standard input is not text");
        CommandError::usage(error).hint(
            "it must be UTF-8; to send an image, add a question: neuraxis ask \"What is this?\" < FILE",
        )
    })?;
    Ok(Question { text, piped: None })
}

/// Returns the data that goes with a question, or `None` if nothing was piped in.
fn piped_part(bytes: &[u8]) -> Result<Option<Part>, CommandError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let part = part_of(PIPED, bytes).context("cannot send the piped input");
    part.map(Some)
        .map_err(|error| CommandError::usage(error).hint(super::attach::HINT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_of_the_maximum_size_is_read_and_a_larger_one_is_refused() {
        let largest = "x".repeat(MAX_BYTES);
        let read = |text: &str| piped::bounded(text.as_bytes(), PIPED, MAX_BYTES);
        assert_eq!(read(&largest).unwrap(), largest.as_bytes());
        assert!(piped::bounded(io::repeat(b'x'), PIPED, MAX_BYTES).is_err());
    }

    #[test]
    fn empty_piped_input_adds_nothing_to_the_question() {
        assert_eq!(piped_part(b" \n").unwrap(), None);
        assert!(piped_part(b"a line\n").unwrap().is_some());
        assert!(piped_part(b"PK\x03\x04 an archive\0").is_err());
    }
}
