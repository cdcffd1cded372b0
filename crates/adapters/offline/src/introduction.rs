//! Greetings and questions about the program itself, which need no tool and no model.

use neuraxis_core::ToolSpec;

use crate::help::{HOW_TO_CONFIGURE, NO_MODEL, list};
use crate::question::ParsedMessage;
use crate::report::CLOSING;

/// Whole messages without files, in lower case and without punctuation, that are answered with what can be asked.
const MESSAGES: [&str; 46] = [
    "hi",
    "hi there",
    "hello",
    "hello there",
    "hello world",
    "hello neuraxis",
    "hi neuraxis",
    "hey",
    "hey there",
    "howdy",
    "good morning",
    "good afternoon",
    "good evening",
    "how are you",
    "how are you doing",
    "how are you today",
    "test",
    "testing",
    "this is a test",
    "ping",
    "help",
    "help me",
    "help me please",
    "help please",
    "please help",
    "please help me",
    "can you help me",
    "can you help",
    "what can you do",
    "what can you do for me",
    "what can i do",
    "what can i do here",
    "what can i ask",
    "what can i ask you",
    "what do you do",
    "how do you work",
    "how do i use this",
    "what tools do you have",
    "which tools do you have",
    "who are you",
    "what are you",
    "what is your name",
    "what's your name",
    "which model are you",
    "what model are you",
    "are you there",
];

/// Examples of questions that the rules answer, with the tool that each of them needs.
const EXAMPLES: [(&str, &str); 6] = [
    ("current_time", "What time is it in Tokyo?"),
    ("calculate", "What is 15% of 80?"),
    ("system_health", "How much disk space is left?"),
    ("list_files", "List the files here."),
    ("read_file", "What's in README.md?"),
    ("search_files", "Find \"main\" in src."),
];

/// Returns whether a message greets, or asks what can be asked or what answers it.
pub(crate) fn is_asked_for(question: &ParsedMessage) -> bool {
    let words = question.words.iter().map(|word| word.lower.as_str());
    let said = words.collect::<Vec<_>>().join(" ").replace('’', "'");
    MESSAGES.contains(&said.as_str())
}

/// Says what answers, what can be asked here, and how to get a model.
pub(crate) fn text(tools: &[ToolSpec]) -> String {
    let is_offered = |name: &str| tools.iter().any(|tool| tool.name.as_str() == name);
    let examples = EXAMPLES.iter().filter(|(tool, _)| is_offered(tool));
    let examples: Vec<_> = examples.map(|(_, ask)| format!("- {ask}")).collect();
    let mut paragraphs = vec![format!("This is Neuraxis. {NO_MODEL}")];
    if !examples.is_empty() {
        paragraphs.push(format!("For example:\n{}", examples.join("\n")));
    }
    paragraphs.extend([list(tools), HOW_TO_CONFIGURE.to_owned(), CLOSING.to_owned()]);
    paragraphs.join("\n\n")
}
