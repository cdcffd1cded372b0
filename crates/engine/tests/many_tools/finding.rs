//! How well the right tool is found among 500, and how much that saves: the figures in docs/performance.md.
//!
//! The questions were written before any ranking was tried. `cargo test -p neuraxis-engine --test many_tools --
//! --ignored --nocapture` prints the tables.

use std::time::Instant;

use neuraxis_core::{AgentSpec, Profile, Role, ToolSpec};
use neuraxis_engine::rank_tools;

use crate::services::{Question, definitions, questions};
use crate::support::World;

/// Returns the percentage of questions whose tool is among the first `among` results.
fn recall(tools: &[ToolSpec], among: usize, asked: impl Fn(&Question) -> &'static str) -> usize {
    let questions = questions();
    let is_found = |question: &&Question| {
        let found = rank_tools(tools, asked(question));
        let mut first = found.iter().take(among);
        first.any(|tool| question.tools.contains(&tool.name.as_str()))
    };
    questions.iter().filter(is_found).count() * 100 / questions.len()
}

#[test]
fn there_are_500_tools_and_more_than_100_questions_about_them() {
    let tools = definitions();
    let questions = questions();
    assert_eq!(tools.len(), 500);
    assert!(questions.len() > 100);
    for name in questions.iter().flat_map(|question| &question.tools) {
        assert!(
            tools.iter().any(|tool| tool.name.as_str() == *name),
            "{name}"
        );
    }
}

#[test]
fn most_search_queries_find_their_tool_first_or_among_the_first_five() {
    let tools = definitions();
    let recall = |among| recall(&tools, among, |question| question.looked_for);
    assert!(recall(1) >= 70, "{}", recall(1));
    assert!(recall(5) >= 92, "{}", recall(5));
    assert!(recall(10) >= 96, "{}", recall(10));
}

#[test]
fn more_than_half_of_free_form_messages_find_their_tool_in_the_first_ten() {
    let tools = definitions();
    let recall = |among| recall(&tools, among, |question| question.said);
    assert!(recall(5) >= 40, "{}", recall(5));
    assert!(recall(10) >= 52, "{}", recall(10));
}

#[test]
fn tool_ranking_is_deterministic() {
    let tools = definitions();
    for question in questions().iter().take(20) {
        assert_eq!(
            rank_tools(&tools, question.said),
            rank_tools(&tools, question.said)
        );
    }
}

#[tokio::test]
async fn a_first_request_uses_less_than_a_twentieth_of_the_tool_tokens() {
    let mut with = Vec::new();
    let world = World::new();
    world.run("Close the blinds in the bedroom", &[]).await;
    with.extend(world.model.requests().pop().unwrap().tools.iter().cloned());
    assert!(
        tokens(&with) * 20 < tokens(&definitions()),
        "{}",
        tokens(&with)
    );
}

/// Returns the estimated tokens of tool definitions, by the estimate that is also used to measure requests.
fn tokens(tools: &[ToolSpec]) -> u64 {
    let mut agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
    agent.tools = tools.into();
    agent.request_size(&[]).tools
}

#[tokio::test]
#[ignore = "prints figures for docs/performance.md, and measures time"]
async fn figures() {
    let tools = definitions();
    println!("all {} definitions: {} tokens", tools.len(), tokens(&tools));
    let (mut first, mut searched) = (Vec::new(), Vec::new());
    for question in questions() {
        let world = World::new();
        let query = serde_json::json!({ "query": question.looked_for }).to_string();
        world
            .run(question.said, &[&[("find_tools", query.as_str())]])
            .await;
        let requests = world.model.requests();
        first.push(tokens(&requests[0].tools));
        searched.push(tokens(&requests[1].tools));
    }
    first.sort_unstable();
    searched.sort_unstable();
    let middle = first.len() / 2;
    println!(
        "first request: median {} tokens, most {}",
        first[middle],
        first[first.len() - 1]
    );
    println!(
        "after a search: median {} tokens, most {}",
        searched[middle],
        searched[first.len() - 1]
    );
    for (name, asked) in [
        (
            "as a person says it",
            (|question| question.said) as fn(&Question) -> &'static str,
        ),
        ("as a model looks for it", |question| question.looked_for),
    ] {
        let of = |among| recall(&tools, among, asked);
        println!(
            "{name}: {} % first, {} % in 5, {} % in 10",
            of(1),
            of(5),
            of(10)
        );
    }
    let started = Instant::now();
    for question in questions() {
        rank_tools(&tools, question.looked_for);
    }
    println!(
        "one ranking: {:?}",
        started.elapsed() / u32::try_from(questions().len()).unwrap()
    );
}
