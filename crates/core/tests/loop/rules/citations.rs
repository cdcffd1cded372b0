//! Answers whose citations are checked against the pages that were read.

use neuraxis_core::{
    Audience, Citations, FinishReason, JsonText, Message, ReplyFormat, RunSpec, Source,
    ToolOutcome, Transcript,
};

use crate::support::*;

const MADE_UP: &str = "https://x.example/y";

fn citing() -> RunSpec {
    spec_with_profile(|profile| profile.citations = Citations::Checked)
}

fn read(url: &str, title: &str) -> ToolOutcome {
    let mut outcome = done("\"a page\"");
    outcome.output.sources.push(Source::new(url).titled(title));
    outcome
}

/// A run that read one page and then answers.
fn answered(spec: RunSpec, answer: &str) -> Script {
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow();
    run.finish(0, read("https://a.example/", "A"));
    run.reply(says(answer));
    run
}

const ANSWER: &str = "Yes [a](https://a.example), no https://x.example/y.";
const CHECKED: &str = "Yes a [1], no.\n\n**Sources**\n\n1. [A](https://a.example/)\n\n\
     *1 citation was removed: its page was not read.*";

#[test]
fn an_answer_cites_only_read_pages_in_outcome_and_history() {
    let run = answered(citing(), ANSWER);
    let outcome = run.outcome();
    assert_eq!(outcome.content, CHECKED);
    assert_eq!(
        outcome.sources,
        [Source::new("https://a.example/").titled("A")]
    );
    assert_eq!(run.tree.messages().last().unwrap().text(), CHECKED);
    assert_tells_messages(&run.records, &run.tree, 0);
    assert_eq!(run.kinds()[run.kinds().len() - 2..], ["warning", "final"]);
    run.assert_replays();
}

#[test]
fn an_answer_with_checked_citations_is_not_streamed_to_the_user() {
    assert_eq!(
        Script::start(citing()).model_call().audience,
        Audience::Component
    );
    assert_eq!(
        Script::start(spec()).model_call().audience,
        Audience::Person
    );
}

#[test]
fn without_the_setting_or_with_a_required_format_links_remain() {
    assert_eq!(answered(spec(), ANSWER).outcome().content, ANSWER);
    let mut of_a_form = citing();
    of_a_form.root.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text("{}"),
    };
    let run = answered(of_a_form, ANSWER);
    assert_eq!(
        (&*run.outcome().content, run.outcome().sources.len()),
        (ANSWER, 0)
    );
}

#[test]
fn pages_read_by_sub_agents_may_be_cited_but_not_those_of_failed_calls() {
    let mut spec = researching();
    spec.root.profile.citations = Citations::Checked;
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    run.reply_as(1, calls_to(&[READ])).allow_as(1);
    run.finish_as(1, 0, read("https://a.example/", "A"));
    run.reply_as(1, says("It is so: https://a.example/"));
    assert_eq!(
        run.answer_of(1).content,
        "It is so: https://a.example/",
        "its own profile"
    );
    run.reply(calls_to(&[READ])).allow();
    let mut failing = failed("404");
    failing.output.sources.push(Source::new(MADE_UP));
    run.finish(0, failing);
    run.reply(says(ANSWER));
    assert_eq!(run.outcome().content, CHECKED);
    run.assert_replays();
}

#[test]
fn pages_read_earlier_in_the_session_may_be_cited() {
    let mut spec = citing();
    spec.sources = vec![Source::new("https://a.example/").titled("A")];
    let history = [Message::user("a?"), Message::assistant("A.")];
    let mut run = Script::start_after(spec, Transcript::from_iter(history));
    run.reply(says(ANSWER));
    assert_eq!(run.outcome().content, CHECKED);
}

#[test]
fn citations_of_a_last_answer_are_also_checked() {
    let mut spec = citing();
    spec.root.limits.max_turns = Some(1);
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ])).allow();
    run.finish(0, read("https://a.example/", "A"));
    assert_eq!(run.model_call().audience, Audience::Component);
    run.reply(says(ANSWER));
    assert_eq!(run.outcome().finish_reason, FinishReason::MaxTurns);
    assert_eq!(run.outcome().content, CHECKED);
    assert_eq!(run.tree.messages().last().unwrap().text(), CHECKED);
    assert_tells_messages(&run.records, &run.tree, 0);
    run.assert_replays();
}
