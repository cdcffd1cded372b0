//! Tests of the tools that requests begin with, and of the answers of a search.

use neuraxis_core::{AnswerRule, Profile, Role};
use neuraxis_testkit::messages;

use super::*;

/// Returns two tools of the program, and three of each of two servers.
fn tools() -> Vec<ToolSpec> {
    let described = [
        ("read_file", "Reads a file."),
        ("run_command", "Runs a command."),
        ("chat__post", "Sends a message to a channel."),
        ("chat__search", "Searches messages."),
        ("chat__archive", "Archives a channel."),
        ("tickets__create", "Creates a ticket in a project."),
        ("tickets__close", "Closes a ticket."),
        ("tickets__search", "Searches tickets of a project."),
    ];
    let specs = described.map(|(name, does)| ToolSpec::new(name.parse().unwrap(), does));
    specs.into()
}

fn agent() -> AgentSpec {
    let mut agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
    agent.tools = tools().into();
    agent
}

fn narrowed(above: usize, message: &str) -> AgentSpec {
    let mut agent = agent();
    narrow_requests(&mut agent, above, message, |_| false);
    agent
}

fn first(agent: &AgentSpec) -> Vec<String> {
    let tools = agent.first_tools();
    tools.iter().map(|tool| tool.name.to_string()).collect()
}

fn names(names: &[&str]) -> Vec<ToolName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn few_tools_are_not_searched() {
    assert_eq!(narrowed(8, "close the ticket"), agent());
}

#[test]
fn requests_list_own_tools_then_the_search_then_tools_matching_the_message() {
    let agent = narrowed(7, "close the ticket");
    assert_eq!(
        first(&agent),
        [
            "read_file",
            "run_command",
            "find_tools",
            "tickets__close",
            "tickets__create",
            "tickets__search"
        ]
    );
    // All remain callable.
    assert_eq!(agent.tools.len(), 9);
    let finding = agent.tools.last().unwrap();
    assert!(finding.description.contains("chat, tickets"), "{finding:?}");
    let nothing_said = first(&narrowed(7, "…"));
    assert_eq!(nothing_said, ["read_file", "run_command", "find_tools"]);
}

#[test]
fn own_tools_are_searched_too_when_they_alone_exceed_the_limit() {
    assert_eq!(first(&narrowed(1, "close the ticket"))[0], "find_tools");
}

#[test]
fn required_and_named_tools_are_always_offered() {
    let mut agent = agent();
    agent.profile.stop_after = names(&["chat__archive"]);
    agent.tool_choice = Some(ToolChoice::Named("tickets__create".parse().unwrap()));
    agent.answer = Some(AnswerRule::tool("chat__post".parse().unwrap(), 1));
    narrow_requests(&mut agent, 1, "", |tool| tool.as_str() == "tickets__search");
    let mut offered = first(&agent);
    assert_eq!(offered.pop().as_deref(), Some("find_tools"));
    let always = [
        "chat__post",
        "chat__archive",
        "tickets__create",
        "tickets__search",
    ];
    assert_eq!(offered, always);
}

#[test]
fn an_agent_that_calls_no_tools_has_no_search() {
    let mut agent = agent();
    agent.profile.offer = Offer::Never;
    narrow_requests(&mut agent, 1, "close the ticket", |_| false);
    assert_eq!(agent.search, None);
}

#[test]
fn a_conversation_keeps_its_tools_and_those_it_called() {
    let calls = ["tickets__search", "gone__tool", "read_file"];
    let said = messages::calls(calls.map(|name| ("call_1", name, "{}")));
    let history: Transcript = [said].into_iter().collect();
    // One of the best is already known: the list stays unchanged.
    let mut agent = narrowed(7, "close the ticket");
    carry_over_tools(
        &mut agent,
        &names(&["find_tools", "chat__post", "tickets__close"]),
        &history,
    );
    assert_eq!(
        first(&agent)[3..],
        ["chat__post", "tickets__close", "tickets__search"]
    );
    // None of them is known: they are added at the end.
    let mut agent = narrowed(7, "archive the channel");
    carry_over_tools(&mut agent, &names(&["tickets__create"]), &history);
    assert_eq!(
        first(&agent)[3..],
        [
            "tickets__create",
            "tickets__search",
            "chat__archive",
            "chat__post"
        ]
    );
}

#[test]
fn a_search_lists_the_tools_it_found_and_adds_them() {
    let agent = narrowed(7, "");
    let query = JsonText::from_text(r#"{"query":"create ticket"}"#);
    let outcome = find(&agent, &query, usize::MAX);
    let Some(ToolSignal::Found { tools }) = outcome.output.signal else {
        panic!("nothing was found")
    };
    assert_eq!(tools[0].as_str(), "tickets__create");
    assert!(outcome.output.value.as_str().contains("Creates a ticket"));
    // Neither `find_tools` itself nor an unrelated tool.
    assert!(
        !tools
            .iter()
            .any(|tool| ["find_tools", "read_file"].contains(&tool.as_str()))
    );
    let outcome = find(&agent, &JsonText::from_text(r#"{"query":"zzz"}"#), 0);
    assert_eq!(outcome.output.signal, None);
    assert!(
        outcome
            .output
            .value
            .as_str()
            .contains("other English words")
    );
}

#[test]
fn tools_are_found_by_part_of_a_sentence_without_spaces() {
    let described = [
        ("jp__t00", "天気予報を調べます。"),
        ("jp__t01", "株価を調べます。"),
        ("jp__t02", "病院の予約をします。"),
    ];
    let tools = described.map(|(name, does)| ToolSpec::new(name.parse().unwrap(), does));
    for (query, expected) in [
        ("天気", "jp__t00"),
        ("明日の東京の天気予報を教えて", "jp__t00"),
        ("nihon 株価", "jp__t01"),
        ("病院 予約", "jp__t02"),
    ] {
        let found = rank_tools(&tools, query);
        assert_eq!(found[0].name.as_str(), expected, "{query}");
    }
    assert!(rank_tools(&tools, "為替").is_empty());
}

#[test]
fn a_search_finds_as_many_tools_as_a_result_can_hold_and_at_least_one() {
    let agent = narrowed(7, "");
    let query = JsonText::from_text(r#"{"query":"create or close a ticket"}"#);
    let found = |most| {
        let output = find(&agent, &query, most).output;
        let Some(ToolSignal::Found { tools }) = output.signal else {
            panic!("nothing was found")
        };
        (tools, output.value.as_str().len())
    };
    let (all, length) = found(usize::MAX);
    assert!(all.len() > 1);
    let (fewer, shorter) = found(length - 1);
    assert!(shorter < length);
    assert_eq!(fewer, all[..all.len() - 1]);
    assert_eq!(found(0).0, all[..1]);
}

#[test]
fn an_invalid_query_is_refused_with_a_hint() {
    for (arguments, fault) in [
        (r#"{"query":"  "}"#, "in a few words"),
        (r#"{"words":"x"}"#, "unknown field"),
        ("[]", "expected"),
    ] {
        let error = check_query(&JsonText::from_text(arguments)).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
}
