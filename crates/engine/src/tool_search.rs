//! Selects the tools that an agent's requests begin with if it has many, and implements the tool that finds the others.
//!
//! Everything that a model reads before it answers costs tokens, and the more tools it reads about, the worse it
//! chooses. So above a certain number of tools, a request contains the permanent ones, those that match the user's
//! message best, and `find_tools`. Nothing here decides what an agent may call: a search covers only the tools that
//! governance allowed.
//!
//! Not for building the requests, which the machine does, nor for ranking, which `rank` does.

mod rank;
mod words;

use std::collections::BTreeSet;

use neuraxis_core::{
    AgentSpec, JsonText, Message, Offer, Opening, Part, READ_OUTPUT, SERVER_SEPARATOR, ToolChoice,
    ToolClass, ToolFailure, ToolName, ToolOutcome, ToolOutput, ToolSearch, ToolSignal, ToolSpec,
    Transcript,
};
use serde::{Deserialize, Serialize};

pub use rank::rank_tools;

/// The number of tools matching the user's message that the requests begin with.
const LIKELY: usize = 10;

/// How many of the best of those must be new to a conversation before they are added: after each addition, the provider
/// must read the whole conversation again.
const BEST: usize = 3;

/// The maximum number of tools that one search finds.
const FOUND: usize = 5;

/// The maximum number of tools that a conversation keeps from one run to the next, in addition to the permanent ones.
const MOST_KEPT: usize = 40;

/// The maximum number of servers that are named to the model.
const MOST_SERVERS: usize = 60;

/// The maximum number of characters of a description that a search shows. The next request contains the whole
/// description.
const SHOWN_CHARS: usize = 300;

/// Lets an agent with more tools than `above` begin with a few of them: those that it must have or names itself, the
/// program's own unless they alone are too many, and those that match the message best. If that leaves nothing to be
/// found, nothing changes.
pub(crate) fn narrow_requests(
    agent: &mut AgentSpec,
    above: usize,
    message: &str,
    is_named: impl Fn(&ToolName) -> bool,
) {
    let profile = &agent.profile;
    let calls_none =
        profile.offer == Offer::Never || matches!(profile.opening, Opening::Gather { .. });
    // The tools that deliver the answer and read long results belong to the engine, so they do not count as offered.
    let is_ours = |tool: &&ToolSpec| {
        agent.is_delivered_by(tool.name.as_str()) || tool.name.as_str() == READ_OUTPUT
    };
    let offered = agent.tools.iter().filter(|tool| !is_ours(tool));
    if offered.clone().count() <= above || calls_none {
        return;
    }
    let own = offered.filter(|tool| server_of(tool).is_none());
    let keeps_own = own.count() <= above;
    let needed = needed(agent);
    let is_always_there = |tool: &ToolSpec| {
        needed.contains(&tool.name)
            || is_ours(&tool)
            || is_named(&tool.name)
            || (keeps_own && server_of(tool).is_none())
    };
    let (always, others): (Vec<&ToolSpec>, Vec<&ToolSpec>) =
        agent.tools.iter().partition(|tool| is_always_there(tool));
    if others.is_empty() {
        return;
    }
    let tool = ToolName::find_tools();
    let found = rank_tools(&others, message);
    let likely = found.into_iter().take(LIKELY);
    let names = always.into_iter().map(|tool| tool.name.clone());
    let offered = names
        .chain([tool.clone()])
        .chain(likely.map(|tool| tool.name.clone()))
        .collect();
    let finding = finding_tool(tool.clone(), &others);
    agent.tools = agent.tools.iter().cloned().chain([finding]).collect();
    agent.search = Some(ToolSearch::new(tool, offered));
}

/// Lets an agent that searches its tools continue with those that the conversation has had so far: the tools in its
/// last request, and the tools that it called. Tools that match the new message are added only if the best of them are
/// all new.
pub(crate) fn carry_over_tools(agent: &mut AgentSpec, earlier: &[ToolName], history: &Transcript) {
    let Some(mut search) = agent.search.take() else {
        return;
    };
    let finding = search.offered.iter().position(|name| *name == search.tool);
    let likely = search
        .offered
        .split_off(finding.map_or(search.offered.len(), |place| place + 1));
    let used = called(history);
    let is_possible = |name: &&ToolName| {
        !search.offered.contains(name) && agent.tools.iter().any(|tool| tool.name == **name)
    };
    let before = earlier.iter().chain(&used).filter(is_possible);
    let mut seen = BTreeSet::new();
    let mut kept: Vec<&ToolName> = before.filter(|name| seen.insert(*name)).collect();
    let is_known = likely.iter().take(BEST).any(|name| kept.contains(&name));
    let new: Vec<&ToolName> = match is_known {
        true => Vec::new(),
        false => likely.iter().filter(|name| !kept.contains(name)).collect(),
    };
    if kept.len() + new.len() > MOST_KEPT {
        kept.retain(|name| used.contains(name));
        let too_many = (kept.len() + new.len()).saturating_sub(MOST_KEPT);
        kept.drain(..too_many.min(kept.len()));
    }
    let joining: Vec<ToolName> = kept.into_iter().chain(new).cloned().collect();
    let known = |name: &ToolName| agent.tools.iter().find(|tool| tool.name == *name);
    let mut offered: Vec<ToolSpec> = search.offered.iter().filter_map(known).cloned().collect();
    for tool in joining.iter().filter_map(known) {
        if agent.has_room_for(&offered, tool) {
            offered.push(tool.clone());
        }
    }
    search.offered = offered.into_iter().map(|tool| tool.name).collect();
    agent.search = Some(search);
}

/// The tools in the first request of an agent, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolOffer {
    /// The tools that the request contains, in order.
    pub at_once: Vec<ToolName>,
    /// The number of other tools that the model can find; 0 if it does not search tools.
    pub found_on_demand: usize,
}

impl ToolOffer {
    pub(crate) fn of(agent: &AgentSpec) -> Self {
        let first = agent.first_tools();
        Self {
            at_once: first.iter().map(|tool| tool.name.clone()).collect(),
            found_on_demand: agent.tools.len() - first.len(),
        }
    }
}

/// The model's query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    query: String,
}

/// The answer to the model.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    found: Vec<Shown<'a>>,
    hint: &'static str,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a ToolName,
    description: String,
}

/// Checks the arguments of a search.
///
/// # Errors
///
/// What is wrong with them, worded for the model.
pub(crate) fn check_query(arguments: &JsonText) -> Result<(), String> {
    query(arguments).map(drop)
}

fn query(arguments: &JsonText) -> Result<String, String> {
    let query: Query = arguments.decode().map_err(|error| error.to_string())?;
    if query.query.trim().is_empty() {
        return Err("at /query: describe in a few words what the tool should do".to_owned());
    }
    Ok(query.query)
}

/// Finds the tools of an agent that match a query best: as many as fit in `most` bytes, but at least one. Tools that
/// are already in its requests are included: the model may have overlooked one.
pub(crate) fn find(agent: &AgentSpec, arguments: &JsonText, most: usize) -> ToolOutcome {
    let query = match query(arguments) {
        Ok(query) => query,
        Err(fault) => {
            return ToolOutcome::failed(ToolFailure::InvalidArguments, &fault);
        }
    };
    let is_found = |tool: &&ToolSpec| {
        !agent.is_searched_by(tool.name.as_str()) && !agent.is_delivered_by(tool.name.as_str())
    };
    let tools: Vec<&ToolSpec> = agent.tools.iter().filter(is_found).collect();
    let mut found = rank_tools(&tools, &query);
    found.truncate(FOUND);
    let mut value = describe_found(&found);
    while found.len() > 1 && value.as_str().len() > most {
        found.pop();
        value = describe_found(&found);
    }
    let mut output = ToolOutput::new(value);
    if !found.is_empty() {
        let tools = found.iter().map(|tool| tool.name.clone()).collect();
        output.signal = Some(ToolSignal::Found { tools });
    }
    ToolOutcome::done(output)
}

/// Returns the text about the tools found, for the model.
fn describe_found(found: &[&ToolSpec]) -> JsonText {
    let hint = match found.is_empty() {
        true => {
            "No tool matches these words. Try other English words, and name the server if you know it."
        }
        false => "You can call these tools from your next turn on.",
    };
    let shown = found.iter().map(|tool| Shown {
        name: &tool.name,
        description: tool.description.chars().take(SHOWN_CHARS).collect(),
    });
    let answer = Answer {
        found: shown.collect(),
        hint,
    };
    // The answer contains only names and strings, so encoding it cannot fail.
    JsonText::encode(&answer).unwrap_or_else(|error| JsonText::error(&error.to_string()))
}

/// Returns the tools that an agent needs for its purpose.
fn needed(agent: &AgentSpec) -> BTreeSet<ToolName> {
    let profile = &agent.profile;
    let choices = profile.results.iter().map(|rule| rule.then.as_ref());
    let choices = choices.chain([agent.tool_choice.as_ref()]).flatten();
    let forced = choices.filter_map(|choice| match choice {
        ToolChoice::Named(name) => Some(name),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => None,
    });
    let delivers = agent.delivering_tool().map(|tool| &tool.name);
    let names = forced.chain(&profile.stop_after).chain(delivers);
    names.cloned().collect()
}

/// Returns the tools that were called in a conversation, in the order of their first calls.
fn called(history: &Transcript) -> Vec<ToolName> {
    let mut names = Vec::new();
    for message in history.messages() {
        let Message::Assistant(reply) = message.as_ref() else {
            continue;
        };
        for part in &reply.parts {
            if let Part::ToolCall(call) = part
                && let Ok(name) = call.name.parse::<ToolName>()
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the server that a tool is named after, if any.
fn server_of(tool: &ToolSpec) -> Option<&str> {
    let (server, _) = tool.name.as_str().split_once(SERVER_SEPARATOR)?;
    Some(server).filter(|server| !server.is_empty())
}

/// Returns the spec of the tool that finds the others. Its text does not depend on the message, so the requests of all
/// conversations begin with the same text.
fn finding_tool(name: ToolName, others: &[&ToolSpec]) -> ToolSpec {
    let servers: BTreeSet<&str> = others.iter().filter_map(|tool| server_of(tool)).collect();
    let servers: Vec<&str> = servers.into_iter().take(MOST_SERVERS).collect();
    let of = match servers.is_empty() {
        true => String::new(),
        false => format!(" They come from: {}.", servers.join(", ")),
    };
    let description = format!(
        "Finds tools that are not listed here; there are {} more.{of} Search before you say that you cannot do something, \
         and before you guess a name. You can call the tools found from your next turn on.",
        others.len()
    );
    let parameters = r#"{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in a few English words, with the server if you know it: \"create ticket jira\"."}},"required":["query"],"additionalProperties":false}"#;
    ToolSpec {
        non_iterative: true,
        ..ToolSpec::new(name, description)
            .parameters(JsonText::from_text(parameters))
            .class(ToolClass::ReadOnly)
    }
}

#[cfg(test)]
mod tests;
