//! How agents may behave, and what they may use.

use std::ops::Range;
use std::time::Duration;

use neuraxis_core::{
    AgentLimits, AgentSpec, AnswerRule, Arguments, Citations, Compaction, Hook, Keep, LimitReached,
    Limits, MicroUsd, NoCalls, Offer, Parallel, Profile, Repeats, ResultRule, Role, ToolChoice,
    ToolErrors, ToolSearch, UnknownTool, UsageScope,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::mostly;
use crate::support::{NOTE, READ, RESEARCH, SEND, tools};

/// An agent with all tools, a number of turns in this range, and sometimes budgets.
pub(super) fn agent(turns: Range<u32>) -> impl Strategy<Value = AgentSpec> {
    let limits = (
        turns,
        seldom((0..8_u32).boxed()),
        seldom(select(vec![0_u64, 60, 150]).boxed()),
        seldom(select(vec![0_u64, 500, 3_000, 20_000]).boxed()),
        seldom((0..200_u64).boxed()),
    )
        .prop_map(|(turns, calls, deadline, tokens, cost)| Limits {
            max_turns: Some(turns),
            max_tool_calls: calls,
            deadline: deadline.map(Duration::from_millis),
            max_tokens: tokens,
            max_cost: cost.map(MicroUsd),
            ..Limits::NONE
        });
    let size = (
        seldom(select(vec![60_u64, 200, 1_000]).boxed()),
        prop::option::of(Just(30_u32)),
    );
    let rest = (
        prop::option::of(Just("Research.")),
        mostly(None, Some(ToolChoice::Required)),
        prop::option::of(Just("topics")),
        seldom(search().boxed()),
        seldom(
            select(vec![
                AnswerRule::text(1),
                AnswerRule::tool(READ.parse().unwrap(), 1),
                AnswerRule::tool(NOTE.parse().unwrap(), 1),
            ])
            .boxed(),
        ),
    );
    (profile(), limits, size, rest).prop_map(|(profile, limits, size, rest)| {
        let (prompt, choice, list, search, answer) = rest;
        let mut agent = AgentSpec::new(profile, Role::REASONING);
        agent.tools = tools().into();
        agent.limits = limits;
        (agent.context_tokens, agent.max_output_tokens) = size;
        agent.system_prompt = prompt.map(Into::into);
        agent.tool_choice = choice;
        agent.fan_out = list.map(str::to_owned);
        agent.answer = answer;
        agent.search = search;
        agent
    })
}

/// Some initial tools, and one that finds the others.
fn search() -> impl Strategy<Value = ToolSearch> {
    let some = subsequence(vec![READ, SEND, NOTE, RESEARCH, "gone"], 0..5);
    some.prop_map(|offered| {
        let offered = offered.iter().map(|tool| tool.parse().unwrap());
        ToolSearch::new(NOTE.parse().unwrap(), offered.collect())
    })
}

/// How many agents a run may have: few, so that it ends.
pub(super) fn limits() -> impl Strategy<Value = AgentLimits> {
    (0..4_u32, 0..6_u32).prop_map(|(depth, total)| AgentLimits { depth, total })
}

fn seldom<T: Clone + std::fmt::Debug + 'static>(
    value: BoxedStrategy<T>,
) -> impl Strategy<Value = Option<T>> {
    prop_oneof![3 => Just(None), 1 => value.prop_map(Some)]
}

fn profile() -> impl Strategy<Value = Profile> {
    let first = (
        select(vec![Parallel::Auto, Parallel::All, Parallel::None]),
        mostly(UnknownTool::Retry, UnknownTool::Stop),
        mostly(ToolErrors::Continue, ToolErrors::Stop),
        mostly(LimitReached::LastAnswer, LimitReached::Finish),
        mostly(NoCalls::Finish, remind()),
        prop_oneof![8 => Just(Offer::Always), 1 => Just(Offer::Never), 1 => Just(Offer::FirstTurns(1))],
        mostly(
            Vec::new(),
            vec![SEND.parse().unwrap(), RESEARCH.parse().unwrap()],
        ),
    );
    let second = (
        mostly(Vec::new(), vec![rule(READ), rule(RESEARCH)]),
        mostly(Arguments::AsWritten, Arguments::Lenient),
        mostly(None, Some(1)),
        select(vec![Compaction::default(), Compaction::Drop]),
        mostly(Repeats::default(), Repeats { warn: 2, stop: 3 }),
        mostly(UsageScope::WithAgents, UsageScope::Own),
        1..4_u32,
        (
            mostly(Citations::Free, Citations::Checked),
            mostly_few_hooks(),
        ),
    );
    (first, second).prop_map(|(first, second)| {
        let mut profile = Profile::named("any");
        (
            profile.parallel,
            profile.unknown_tool,
            profile.tool_errors,
            profile.limit_reached,
            profile.no_calls,
            profile.offer,
            profile.stop_after,
        ) = first;
        (
            profile.results,
            profile.arguments,
            profile.digest_after,
            profile.compaction,
            profile.repeats,
            profile.usage,
            profile.parallel_agents,
            (profile.citations, profile.hooks),
        ) = second;
        profile
    })
}

fn mostly_few_hooks() -> impl Strategy<Value = Vec<Hook>> {
    let hooks = vec![
        Hook::ToolsSelected,
        Hook::Progress,
        Hook::ProcessCalls,
        Hook::Answer,
        Hook::Request,
    ];
    prop_oneof![3 => Just(Vec::new()), 1 => subsequence(hooks, 1..6)]
}

fn remind() -> NoCalls {
    NoCalls::Remind {
        prompt: "Call a tool.".to_owned(),
        at_most: 2,
    }
}

fn rule(tool: &str) -> ResultRule {
    let mut rule = ResultRule::new(tool.parse().unwrap());
    rule.max_chars = Some(8);
    rule.keep = Some(Keep::Summary);
    rule.then = Some(ToolChoice::Required);
    rule.note = Some("Mind it.".to_owned());
    rule
}
