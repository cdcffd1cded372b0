//! Requests that contain only some of the tools, and how others join them.

use neuraxis_core::{
    Advice, AgentId, Hook, RunSpec, ToolFailure, ToolName, ToolSearch, ToolSignal, Transcript,
    Turn, offered_tools,
};

use crate::support::*;

fn names(names: &[&str]) -> Vec<ToolName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// All tools; the requests begin with one that reads and the one that finds others.
fn searching() -> RunSpec {
    let mut spec = spec();
    spec.root.search = Some(search());
    spec
}

fn search() -> ToolSearch {
    ToolSearch::new(NOTE.parse().unwrap(), names(&[READ, NOTE]))
}

fn found(tools: &[&str]) -> neuraxis_core::ToolOutcome {
    let mut outcome = done("\"found\"");
    outcome.output.signal = Some(ToolSignal::Found {
        tools: names(tools),
    });
    outcome
}

fn sent(run: &Script) -> Vec<&str> {
    let tools = run.model_call().request.tools.iter();
    tools.map(|tool| tool.name.as_str()).collect()
}

fn of_log(run: &Script) -> Vec<String> {
    let tools = offered_tools(run.records.iter().map(AsRef::as_ref));
    tools.iter().map(ToString::to_string).collect()
}

#[test]
fn found_tools_are_appended_once_and_only_if_the_agent_has_them() {
    let mut run = Script::start(searching());
    assert_eq!(sent(&run), [READ, NOTE]);
    run.reply(calls_to(&[NOTE])).allow();
    run.finish(0, found(&[SEND, "gone", READ, SEND, PUT]));
    assert_eq!(sent(&run), [READ, NOTE, SEND, PUT]);
    assert_eq!(of_log(&run), sent(&run));
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
}

#[test]
fn only_the_search_tool_can_add_tools() {
    let mut run = Script::start(searching());
    run.reply(calls_to(&[READ])).allow();
    run.finish(0, found(&[SEND]));
    assert_eq!(sent(&run), [READ, NOTE]);
}

#[test]
fn a_tool_not_in_the_request_can_be_called_and_is_added() {
    let mut run = Script::start(searching());
    run.reply(calls_to(&[PUT])).allow();
    run.finish(0, done("1"));
    assert_eq!(run.result(0).failure, None);
    assert_eq!(sent(&run), [READ, NOTE, PUT]);
    assert_eq!(of_log(&run), sent(&run));
}

#[test]
fn an_unknown_name_adds_nothing_and_its_error_names_the_search_tool() {
    let mut run = Script::start(searching());
    run.reply(calls_to(&["reed_file"])).allow();
    assert_eq!(run.result(0).failure, Some(ToolFailure::UnknownTool));
    insta::assert_snapshot!(run.tool_messages()[0], @r#"{"error":"unknown tool \"reed_file\"; available tools: read_file, take_note; call take_note to find others"}"#);
    assert_eq!(sent(&run), [READ, NOTE]);
}

#[test]
fn a_hook_chooses_among_requested_tools_and_a_tool_it_excluded_is_not_added() {
    let mut spec = searching();
    spec.root.profile.hooks = vec![Hook::ToolsSelected];
    let mut run = Script::start(spec);
    run.advise(Advice::Offer {
        tools: names(&[READ, PUT]),
    });
    assert_eq!(sent(&run), [READ]);
    run.reply(calls_to(&[SEND])).advise(Advice::Continue);
    assert_eq!(sent(&run), [READ, NOTE]);
}

#[test]
fn a_tool_that_does_not_fit_is_not_added_but_can_be_called() {
    let mut spec = searching();
    // Half of it has room for the two existing tools and one more.
    spec.root.context_tokens = Some(180);
    let mut run = Script::start(spec);
    run.reply(calls_to(&[NOTE])).allow();
    run.finish(0, found(&[PUT, SEND]));
    assert_eq!(sent(&run), [READ, NOTE, PUT]);
    run.reply(calls_to(&[SEND])).allow();
    assert_eq!(run.just_started(), [0]);
}

#[test]
fn sub_agents_search_their_own_tools() {
    let mut spec = researching();
    researcher(&mut spec).search = Some(search());
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    assert_eq!(sent(&run), [READ, NOTE]);
    assert_eq!(run.tree.offered_tools(AgentId::ROOT).len(), 6);
    run.reply(calls_to(&[NOTE])).allow();
    run.finish(0, found(&[PUT]));
    assert_eq!(sent(&run), [READ, NOTE, PUT]);
    assert!(
        of_log(&run).is_empty(),
        "the agent that answers searches none"
    );
}

#[test]
fn the_log_shows_which_tools_requests_held_up_to_a_turn() {
    let mut run = Script::start(searching());
    run.reply(calls_to(&[NOTE])).allow();
    run.finish(0, found(&[PUT]));
    run.reply(calls_to(&[SEND])).allow();
    run.finish(0, done("1"));
    let first = run.records.iter().filter(|record| record.turn <= Turn(1));
    assert_eq!(
        offered_tools(first.map(AsRef::as_ref)),
        names(&[READ, NOTE, PUT])
    );
    assert_eq!(of_log(&run), [READ, NOTE, PUT, SEND]);
}
