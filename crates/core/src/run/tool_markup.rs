//! Recognizes a tool call that a model wrote out as text, which servers leave unparsed when tools may not be called.

/// How such texts begin, by model family.
const OPENINGS: [&str; 8] = [
    "<tool_call",
    "<function_call",
    "<function=",
    "<|tool_call",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "<｜DSML｜",
    "<|DSML|",
];

/// Tells whether a text is, or contains at the start of a line, a tool call written out.
pub(super) fn is_tool_call_markup(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        OPENINGS.iter().any(|opening| line.starts_with(opening))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_calls_written_as_text_are_recognized() {
        for text in [
            "<tool_call>\n{\"name\": \"x\"}\n</tool_call>",
            "Let me look.\n  <tool_call>",
            "[TOOL_CALLS][{}]",
        ] {
            assert!(is_tool_call_markup(text), "{text}");
        }
    }

    #[test]
    fn an_answer_that_merely_speaks_of_tool_calls_is_an_answer() {
        for text in [
            "The model writes <tool_call> around it.",
            "A tool_call is JSON.",
            "",
        ] {
            assert!(!is_tool_call_markup(text), "{text}");
        }
    }
}
