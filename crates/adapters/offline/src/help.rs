//! What to say when no rule matches.

use neuraxis_core::ToolSpec;

use crate::question::ParsedMessage;
use crate::{clean, rules};

/// The maximum number of tools that are listed.
const MAX_TOOLS: usize = 40;

pub(crate) const NO_MODEL: &str =
    "No language model is configured: fixed rules can only call tools and report what they return.";

pub(crate) const HOW_TO_CONFIGURE: &str = "For real answers: export OPENAI_API_KEY=… (or DEEPSEEK_API_KEY, or \
    ANTHROPIC_API_KEY), or run `neuraxis setup`.";

/// Says that there is no model, what can be asked instead, and how to get a model.
pub(crate) fn help(question: &ParsedMessage, tools: &[ToolSpec]) -> String {
    let mut paragraphs = vec![NO_MODEL.to_owned()];
    paragraphs.extend(not_offered(question, tools));
    paragraphs.push(list(tools));
    paragraphs.push(HOW_TO_CONFIGURE.to_owned());
    paragraphs.join("\n\n")
}

/// Names the tools that would have matched but are not offered.
fn not_offered(question: &ParsedMessage, tools: &[ToolSpec]) -> Option<String> {
    let offered = |name: &str| tools.iter().any(|tool| tool.name.as_str() == name);
    let missing = rules::fitting(question)
        .into_iter()
        .filter(|rule| !offered(rule.tool));
    let lines: Vec<_> = missing
        .map(|rule| {
            let (tool, channel) = (rule.tool, rule.channel);
            format!(
                "This needs the tool {tool}, which is not offered here; the channel {channel} offers it \
                 (--channel {channel}, or /channel {channel} in a chat)."
            )
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Lists the offered tools.
pub(crate) fn list(tools: &[ToolSpec]) -> String {
    if tools.is_empty() {
        return "No tool is offered for this request.".to_owned();
    }
    let mut lines =
        vec!["Ask for what these tools do, or name one, with its arguments as JSON:".to_owned()];
    lines.extend(tools.iter().take(MAX_TOOLS).map(|tool| {
        let description = clean::line(&tool.description);
        format!("- {}: {}", tool.name, first_sentence(&description))
    }));
    if let Some(more) = tools.len().checked_sub(MAX_TOOLS).filter(|more| *more > 0) {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}

fn first_sentence(text: &str) -> &str {
    text.find(". ")
        .and_then(|end| text.get(..=end))
        .unwrap_or(text)
}
