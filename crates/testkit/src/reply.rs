//! Model replies.

use neuraxis_core::{
    BlockIndex, JsonText, ModelRef, ReasoningPart, Reply, ReplyFinish, ReplyPart, RequestedCall,
    TokenCount, Usage,
};

/// Creates a reply of one text.
pub fn text(text: impl Into<String>) -> Reply {
    of([ReplyPart::text(text)], ReplyFinish::Stop)
}

/// Creates a reply whose text was cut at the output limit.
pub fn cut(text: impl Into<String>) -> Reply {
    of([ReplyPart::text(text)], ReplyFinish::Length)
}

/// Creates a reply with reasoning before its text.
pub fn reasoned(reasoning: impl Into<String>, text: impl Into<String>) -> Reply {
    let reasoning = ReasoningPart {
        index: BlockIndex(0),
        text: reasoning.into(),
        ..ReasoningPart::default()
    };
    of(
        [ReplyPart::Reasoning(reasoning), ReplyPart::text(text)],
        ReplyFinish::Stop,
    )
}

/// Creates a reply of tool calls, each with name and arguments as JSON.
pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str)>) -> Reply {
    of(calls.into_iter().map(call_part), ReplyFinish::ToolCalls)
}

/// Creates a reply of a text followed by tool calls.
pub fn text_and_calls<'a>(
    text: impl Into<String>,
    calls: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Reply {
    of(
        std::iter::once(ReplyPart::text(text)).chain(calls.into_iter().map(call_part)),
        ReplyFinish::ToolCalls,
    )
}

/// Adds usage to a reply, as measured by the provider.
#[must_use]
pub fn using(reply: Reply, prompt: u64, completion: u64) -> Reply {
    let usage = Usage {
        prompt: TokenCount::measured(prompt),
        completion: TokenCount::measured(completion),
        total: TokenCount::measured(prompt + completion),
        ..Usage::default()
    };
    Reply { usage, ..reply }
}

/// Creates an empty reply.
#[must_use]
pub fn empty() -> Reply {
    of([], ReplyFinish::Stop)
}

/// Creates a reply of the given parts, from a test model and without usage.
pub fn of(parts: impl IntoIterator<Item = ReplyPart>, finish: ReplyFinish) -> Reply {
    let model = ModelRef::new("testkit", "scripted");
    Reply {
        parts: parts.into_iter().collect(),
        finish,
        usage: Usage::default(),
        model,
        advice: None,
    }
}

fn call_part((name, arguments): (&str, &str)) -> ReplyPart {
    let (name, arguments) = (name.to_owned(), JsonText::from_text(arguments));
    ReplyPart::ToolCall(RequestedCall {
        provider_id: None,
        name: name.into(),
        arguments,
        state: None,
    })
}
