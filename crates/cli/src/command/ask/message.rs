//! The question: from the command line or from standard input.

use std::io::{self, IsTerminal, Read};

use anyhow::anyhow;

use crate::error::CommandError;

/// The most bytes that are read from standard input.
const MAX_BYTES: usize = 1024 * 1024;

const HINT: &str = "say what you want: neuraxis ask \"How is this machine?\"";

/// Returns the question.
pub(super) fn read(text: Option<String>) -> Result<String, CommandError> {
    match text {
        Some(text) if text != "-" => Ok(text),
        Some(_) => bounded(io::stdin().lock()),
        None if io::stdin().is_terminal() => {
            Err(CommandError::usage(anyhow!("there is no question")).hint(HINT))
        }
        None => bounded(io::stdin().lock()),
    }
}

fn bounded(input: impl Read) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    let read = input.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        CommandError::usage(anyhow!(error).context("cannot read standard input"))
    })?;
    if bytes.len() > MAX_BYTES {
        let error = anyhow!("the question on standard input has more than {MAX_BYTES} bytes");
        return Err(CommandError::usage(error).hint("cut it, or let a tool read the file"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let error = anyhow!(error).context("the question on standard input is not text");
        CommandError::usage(error).hint("it has to be UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_of_the_largest_size_is_read_and_a_larger_one_is_refused() {
        let largest = "x".repeat(MAX_BYTES);
        assert_eq!(bounded(largest.as_bytes()).unwrap(), largest);
        assert!(bounded(io::repeat(b'x')).is_err());
    }
}
