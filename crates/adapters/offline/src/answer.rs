//! Turns a request into an answer: which tools to call, or what to say.

use neuraxis_core::{
    JsonText, LlmError, LlmErrorKind, Message, ModelRequest, Part, RequestedCall, ToolChoice,
    ToolClass, ToolMessage, ToolName, ToolSpec,
};

use crate::question::ParsedMessage;
use crate::rules::{self, Rule};
use crate::{help, introduction, named, report};

/// The maximum number of calls in one answer.
const MAX_CALLS: usize = 8;

/// The maximum number of earlier messages that are searched for the question that a follow-up refers to.
const MAX_MESSAGES_BACK: usize = 16;

/// The reply that accepts the draft of an answer (`SelfCheck::read` in `neuraxis-core`): rules have no objection to it.
const ACCEPT: &str = "ACCEPT";

/// The response to a request.
pub(crate) enum Response {
    /// Text that ends the run.
    Text(String),
    /// No rule matches: what can be asked instead, and how to get a model. Not an answer.
    Help(String),
    /// Calls of offered tools, at most [`MAX_CALLS`].
    Calls(Vec<Call>),
}

/// A call of an offered tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) tool: ToolName,
    pub(crate) arguments: JsonText,
}

impl From<Call> for RequestedCall {
    fn from(call: Call) -> Self {
        Self {
            provider_id: None,
            name: call.tool.shared(),
            arguments: call.arguments,
            state: None,
        }
    }
}

/// Returns whether the loop asks for a check of a draft, rather than a user asking a question.
fn is_asked_to_check(request: &ModelRequest) -> bool {
    let last = request.messages.messages().last().map(AsRef::as_ref);
    matches!(last, Some(Message::System { text }) if text.contains("reply with exactly ACCEPT"))
}

/// Answers a request by its last user message and the results of calls since then.
///
/// # Errors
///
/// [`LlmErrorKind::BadRequest`] if the request demands a call of a tool that it does not offer.
pub(crate) fn answer(request: &ModelRequest) -> Result<Response, LlmError> {
    if is_asked_to_check(request) {
        return Ok(Response::Text(ACCEPT.to_owned()));
    }
    let question = question(request);
    let results = results(request);
    match &request.tool_choice {
        ToolChoice::Named(name) => forced(&question, offered(request, name)?),
        ToolChoice::Required => required(&question, request),
        // Results are reported, and no further tools are called.
        ToolChoice::Auto | ToolChoice::None if !results.is_empty() => {
            Ok(Response::Text(report::report(&results)))
        }
        ToolChoice::None => Ok(said(&question, request)),
        ToolChoice::Auto => Ok(match chosen(&question, request) {
            calls if calls.is_empty() => said(&question, request),
            calls => Response::Calls(calls),
        }),
    }
}

/// Responds without calling a tool: what can be asked is an answer to a message that asks for it, and otherwise only help.
fn said(question: &ParsedMessage, request: &ModelRequest) -> Response {
    // With a file, it is a question about the file.
    let has_files = last_from_user(request).is_some_and(|message| match message {
        Message::User { parts } => parts.len() > 1,
        _ => false,
    });
    match introduction::is_asked_for(question) && !has_files {
        true => Response::Text(introduction::text(&request.tools)),
        false => Response::Help(help::help(question, &request.tools)),
    }
}

fn question(request: &ModelRequest) -> ParsedMessage {
    ParsedMessage::new(last_from_user(request).map(user_text).unwrap_or_default())
}

fn last_from_user(request: &ModelRequest) -> Option<&Message> {
    let mut messages = request.messages.messages().iter().rev();
    let last = messages.find(|message| matches!(***message, Message::User { .. }));
    last.map(|message| &**message)
}

/// Returns the user's own words in a message. Attached files are separate text parts, and ask for nothing.
fn user_text(message: &Message) -> String {
    let Message::User { parts } = message else {
        return message.text();
    };
    let text = parts.iter().find_map(|part| match part {
        Part::Text(text) => Some(text.text.clone()),
        _ => None,
    });
    text.unwrap_or_default()
}

/// Returns the results that came after the last user message.
fn results(request: &ModelRequest) -> Vec<&ToolMessage> {
    let newest = request.messages.messages().iter().rev();
    let since = newest.take_while(|message| !matches!(***message, Message::User { .. }));
    let mut results: Vec<_> = since
        .filter_map(|message| match &**message {
            Message::Tool(result) => Some(result),
            _ => None,
        })
        .collect();
    results.reverse();
    results
}

/// Chooses calls: those of tools that the message names, otherwise those of tools whose rules it matches.
fn chosen(question: &ParsedMessage, request: &ModelRequest) -> Vec<Call> {
    let tools = &request.tools;
    let mut calls: Vec<_> = tools
        .iter()
        .filter_map(|tool| named::call(question, tool))
        .collect();
    if calls.is_empty() {
        let rules = matching_rules(question, request);
        let offered = rules.iter().filter_map(|rule| {
            let tool = tools.iter().find(|tool| tool.name.as_str() == rule.tool)?;
            Some(call(question, tool, Some(rule)))
        });
        calls = offered.collect();
    }
    calls.truncate(MAX_CALLS);
    calls
}

/// Returns the rules that a question matches. A follow-up such as "And in New York?" that matches none uses those of
/// the question it refers to.
fn matching_rules(question: &ParsedMessage, request: &ModelRequest) -> Vec<&'static Rule> {
    let fitting = rules::fitting(question);
    if !fitting.is_empty() || !question.is_follow_up() {
        return fitting;
    }
    let messages = request.messages.messages().iter().rev();
    let user_messages = messages.filter(|message| matches!(***message, Message::User { .. }));
    let earlier = user_messages.skip(1).take(MAX_MESSAGES_BACK);
    let mut rules = earlier.map(|message| rules::on_topic(&ParsedMessage::new(user_text(message))));
    rules.find(|rules| !rules.is_empty()).unwrap_or_default()
}

fn required(question: &ParsedMessage, request: &ModelRequest) -> Result<Response, LlmError> {
    let tools = &request.tools;
    let calls = chosen(question, request);
    if !calls.is_empty() {
        return Ok(Response::Calls(calls));
    }
    // Nothing matches, but a call is required: prefer read-only tools, then those with the fewest required arguments.
    let harm = |tool: &&ToolSpec| {
        (
            tool.class != ToolClass::ReadOnly,
            rules::required(tool).len(),
        )
    };
    match tools.iter().min_by_key(harm) {
        Some(tool) => forced(question, tool),
        None => Err(bad_request("a tool must be called, but none is offered")),
    }
}

fn forced(question: &ParsedMessage, tool: &ToolSpec) -> Result<Response, LlmError> {
    let rule = rules::of(tool.name.as_str());
    let call = named::call(question, tool).unwrap_or_else(|| call(question, tool, rule));
    Ok(Response::Calls(vec![call]))
}

fn call(question: &ParsedMessage, tool: &ToolSpec, rule: Option<&Rule>) -> Call {
    let arguments = rule
        .map(|rule| (rule.arguments)(question))
        .unwrap_or_default();
    Call {
        tool: tool.name.clone(),
        arguments: rules::known_arguments(arguments, tool),
    }
}

fn offered<'a>(request: &'a ModelRequest, name: &ToolName) -> Result<&'a ToolSpec, LlmError> {
    let tool = request.tools.iter().find(|tool| tool.name == *name);
    tool.ok_or_else(|| {
        bad_request(&format!(
            "the tool {name} must be called, but it is not offered"
        ))
    })
}

fn bad_request(message: &str) -> LlmError {
    LlmError::new(LlmErrorKind::BadRequest, message)
}
