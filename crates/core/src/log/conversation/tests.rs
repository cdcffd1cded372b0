//! Tests how a conversation changes, rule by rule. The loop's property tests check that machine and view agree.

use uuid::Uuid;

use super::*;
use crate::ids::{Role, ToolName};
use crate::message::{ModelRef, TextPart};
use crate::outcome::{ToolFailure, ToolOutcome, ToolOutput};
use crate::profile::ResultRule;
use crate::record::Span;
use crate::reply::ReplyFinish;
use crate::usage::Usage;

const TEXTS: &Texts = Texts::of(4);

const SOURCE: ReplySource = ReplySource {
    run: RunId(Uuid::nil()),
    agent: AgentId::ROOT,
    content_index: ContentIndex(0),
};

const fn removing<'a>(removed: &'a [Span], summary: Option<&'a str>) -> Cut<'a> {
    Cut {
        removed,
        shortened: &[],
        without_reasoning: &[],
        summary,
    }
}

fn conversation_after(history: Transcript) -> Conversation {
    let mut agent = AgentSpec::new(Profile::named("plain"), Role::REASONING);
    agent.system_prompt = Some("Be brief.".into());
    let spec = RunSpec::new(
        RunId(Uuid::nil()),
        [Message::user("Compare a and b.")],
        agent,
    );
    Conversation::of_root(&spec, history, TEXTS).0
}

#[test]
fn results_of_handed_over_calls_answer_them_and_are_in_no_other_record() {
    let mut handed_over = conversation_after(Transcript::default());
    let call = RequestedCall {
        provider_id: None,
        name: "pick_color".into(),
        arguments: JsonText::from_text("{}"),
        state: None,
    };
    let message = handed_over.push_reply(SOURCE, &reply(vec![ReplyPart::ToolCall(call)]));
    let id = message.tool_calls().next().unwrap().id.clone();
    let history: Transcript = handed_over.without_prompt().iter().cloned().collect();
    let result = Message::tool_result(id, "pick_color", JsonText::string("blue"));
    let agent = AgentSpec::new(Profile::named("plain"), Role::REASONING);

    let spec = RunSpec::new(
        RunId(Uuid::nil()),
        [result, Message::user("Go on.")],
        agent.clone(),
    );
    let (mut goes_on, repairs) = Conversation::of_root(&spec, history.clone(), TEXTS);
    assert_eq!(repairs, Vec::<String>::new());
    let texts: Vec<_> = goes_on.messages().iter().map(|it| it.text()).collect();
    assert_eq!(texts, ["Compare a and b.", "", "\"blue\"", "Go on."]);
    let unrecorded = goes_on.take_unrecorded();
    assert_eq!(
        (unrecorded.results.len(), unrecorded.messages.len()),
        (0, 0)
    );

    let spec = RunSpec::new(RunId(Uuid::nil()), [Message::user("Never mind.")], agent);
    let (without, repairs) = Conversation::of_root(&spec, history, TEXTS);
    assert_eq!(repairs.len(), 1, "{repairs:?}");
    let texts: Vec<_> = without.messages().iter().map(|it| it.text()).collect();
    assert!(
        texts[2].contains("the result of this call was lost"),
        "{texts:?}"
    );
}

fn reply(parts: Vec<ReplyPart>) -> Reply {
    Reply {
        parts,
        finish: ReplyFinish::Stop,
        usage: Usage::default(),
        model: ModelRef::new("example", "m"),
        advice: None,
    }
}

fn text(text: &str) -> ReplyPart {
    let text = text.to_owned();
    ReplyPart::Text(TextPart { text, state: None })
}

fn call(name: &str) -> ReplyPart {
    ReplyPart::ToolCall(RequestedCall {
        provider_id: None,
        name: name.into(),
        arguments: JsonText::from_text("{}"),
        state: None,
    })
}

fn result(index: u32, value: &str) -> ToolResult {
    let index = CallIndex(index);
    let call = ToolCallId::new(SOURCE.run, SOURCE.agent, SOURCE.content_index, index);
    let output = ToolOutput::new(JsonText::string(value));
    ToolResult::of(call, "read_file", index, ToolOutcome::done(output))
}

/// Lists the speaker and the text of each message.
fn said(conversation: &Conversation) -> Vec<String> {
    let messages = conversation.messages().iter();
    let lines = messages.map(|message| match message.as_ref() {
        Message::System { text } => format!("system: {text}"),
        Message::User { .. } => format!("user: {}", message.text()),
        Message::Assistant(_) => format!("assistant: {}", message.text()),
        Message::Tool(tool) => format!("tool: {}", tool.content.as_text()),
    });
    lines.collect()
}

#[test]
fn the_system_prompt_is_first_unless_the_history_has_one() {
    let new = conversation_after(Transcript::default());
    assert_eq!(said(&new), ["system: Be brief.", "user: Compare a and b."]);
    assert_eq!(new.without_prompt().len(), 1);
    let history: Transcript = [Message::system("Be kind.")].into_iter().collect();
    let continued = conversation_after(history);
    assert_eq!(
        said(&continued),
        ["system: Be kind.", "user: Compare a and b."]
    );
    assert_eq!(continued.without_prompt().len(), 2);
}

#[test]
fn the_start_of_the_run_is_still_known_after_trimming() {
    let before = ["old", "older", "oldest"].map(Message::user);
    let mut goes_on = conversation_after(before.into_iter().collect());
    assert_eq!(goes_on.earlier(), 3);
    goes_on.trim(removing(&[Span { start: 0, end: 2 }], None));
    assert_eq!(goes_on.earlier(), 1);
    goes_on.trim(removing(&[Span { start: 0, end: 1 }], Some("Old things.")));
    assert_eq!(goes_on.earlier(), 1, "the summary");
    assert_eq!(
        said(&goes_on)[1..],
        ["user: Old things.", "user: Compare a and b."]
    );
}

#[test]
fn results_join_in_call_order_regardless_of_arrival() {
    let mut conversation = conversation_after(Transcript::default());
    let reply = reply(vec![
        text("I read both."),
        call("read_file"),
        call("read_file"),
    ]);
    conversation.push_reply(SOURCE, &reply);
    assert_eq!(conversation.open_calls(), 2);
    let profile = Profile::named("plain");
    conversation.settle(&profile, &result(1, "b"), &TEXTS.results);
    conversation.settle(&profile, &result(0, "a"), &TEXTS.results);
    assert_eq!(conversation.open_calls(), 0);
    assert_eq!(conversation.join_results(), 2);
    let expected = ["assistant: I read both.", "tool: a", "tool: b"];
    assert_eq!(said(&conversation)[2..], expected);
    assert_eq!(conversation.text(), "I read both.");
}

#[test]
fn a_result_joins_in_the_form_the_profile_defines_for_the_model() {
    let mut rule = ResultRule::new("read_file".parse::<ToolName>().unwrap());
    (rule.max_chars, rule.keep) = (Some(3), Some(Keep::Summary));
    let mut profile = Profile::named("cutting");
    profile.results = vec![rule];
    let mut conversation = conversation_after(Transcript::default());
    conversation.push_reply(SOURCE, &reply(vec![call("read_file"), call("read_file")]));
    conversation.settle(&profile, &result(0, "a long text"), &TEXTS.results);
    let failed = ToolResult {
        failure: Some(ToolFailure::Error),
        ..result(1, "a long error")
    };
    conversation.settle(&profile, &failed, &TEXTS.results);
    conversation.join_results();
    let joined = &said(&conversation)[3..];
    assert!(joined[0].starts_with("tool: \"a … [cut"), "{joined:?}");
    assert_eq!(joined[1], "tool: a long error", "what failed is read whole");
    let later = conversation.continued();
    let kept: Vec<_> = later.messages().iter().map(|it| it.text()).collect();
    assert!(kept[2].contains("no longer kept"), "{kept:?}");
    assert!(kept[3].contains("a long error"), "{kept:?}");
}

#[test]
fn steered_messages_that_joined_too_early_are_removed_in_order() {
    let mut conversation = conversation_after(Transcript::default());
    conversation.steer(Arc::new(Message::user("one")));
    conversation.steer(Arc::new(Message::user("two")));
    assert_eq!(conversation.join_steered(), 2);
    conversation.unjoin_steered(2);
    assert!(conversation.is_steered());
    conversation.add_system_note("First, sum up.");
    conversation.join_steered();
    let expected = ["system: First, sum up.", "user: one", "user: two"];
    assert_eq!(said(&conversation)[2..], expected);
}

#[test]
fn a_correction_replaces_the_draft_and_its_text() {
    let mut conversation = conversation_after(Transcript::default());
    conversation.push_reply(SOURCE, &reply(vec![text("First.")]));
    conversation.push_reply(SOURCE, &reply(vec![text(" A draft. ")]));
    let before = conversation.prefix();
    conversation.correct("Better.");
    assert_eq!(
        said(&conversation)[2..],
        ["assistant: First.", "assistant: Better."]
    );
    assert_eq!(conversation.text(), "First.\n\nBetter.");
    let prefix = conversation.prefix();
    assert_eq!(prefix, conversation.transcript().digest());
    assert_ne!(prefix, before);
}

#[test]
fn each_sent_message_is_recorded_once() {
    let mut conversation = conversation_after(Transcript::default());
    let first = conversation.take_unrecorded();
    assert_eq!(first.prefix.count, 1, "the prompt stands in the spec");
    assert_eq!(first.messages.len(), 1);
    conversation.push_reply(SOURCE, &reply(vec![call("read_file")]));
    conversation.settle(&Profile::named("plain"), &result(0, "a"), &TEXTS.results);
    conversation.join_results();
    conversation.add_system_note("Go on.");
    let second = conversation.take_unrecorded();
    assert_eq!(second.prefix, conversation.transcript().digest_of_first(3));
    assert_eq!(second.results, [result(0, "a").tool_call_id]);
    assert_eq!(second.messages.len(), 1);
    assert_eq!(conversation.prefix(), conversation.transcript().digest());
}

#[test]
fn a_summary_replaces_trimmed_messages_and_the_rest_stays_recorded() {
    let history: Transcript = ["a", "b", "c"].map(Message::user).into_iter().collect();
    let mut conversation = conversation_after(history);
    let gone = [Span { start: 0, end: 2 }];
    conversation.trim(removing(&gone, Some("of a and b")));
    let expected = [
        "system: Be brief.",
        "user: of a and b",
        "user: c",
        "user: Compare a and b.",
    ];
    assert_eq!(said(&conversation), expected);
    let unrecorded = conversation.take_unrecorded();
    assert_eq!(
        unrecorded.prefix.count, 3,
        "the summary stands in the record of the trimming"
    );
    assert_eq!(unrecorded.messages.len(), 1);
}

#[test]
fn an_opening_gathers_the_calls_of_the_model_or_those_of_the_policy() {
    let opening = Opening::Gather {
        tool: "read_file".parse().unwrap(),
        role: Role::REASONING,
        default_arguments: JsonText::from_text("[]"),
    };
    let mut conversation = conversation_after(Transcript::default());
    let chosen = reply(vec![text("dropped"), call("search"), call("read_file")]);
    let (message, origin) = conversation
        .push_gathered(SOURCE, &opening, Some(&chosen))
        .unwrap();
    let names: Vec<_> = message.tool_calls().map(|call| &*call.name).collect();
    assert_eq!((names, origin), (vec!["search"], Origin::Model));
    assert_eq!(conversation.text(), "");
    let (message, origin) = conversation.push_gathered(SOURCE, &opening, None).unwrap();
    let names: Vec<_> = message
        .tool_calls()
        .map(|call| call.arguments.as_str())
        .collect();
    assert_eq!((names, origin), (vec!["[]"], Origin::Policy));
    assert!(
        conversation
            .push_gathered(SOURCE, &Opening::Direct, None)
            .is_none()
    );
}
