//! Sub-agents never exceed their parents.

use std::time::Duration;

use neuraxis_brainstem::narrow_sub_agent;
use neuraxis_core::{AgentSpec, Channel, Decision, Limits, Mode, Profile, Role};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::catalog::{all_tools, layered};

fn decision() -> Decision {
    let policy = layered("[channels.chat.data]\nreasoning = false");
    let tools = all_tools();
    let request = neuraxis_brainstem::Request::new(&Mode::CONSERVATIVE, &Channel::CHAT, "Hello")
        .with_tools(&tools);
    policy.evaluate_request(&request).unwrap()
}

fn agent(role: Role, limits: Limits) -> AgentSpec {
    let mut agent = AgentSpec::new(Profile::researcher(), role);
    agent.tools = all_tools().into();
    agent.limits = limits;
    agent.max_output_tokens = Some(100_000);
    agent
}

/// A parent that leaves all limits to the decision.
fn unbounded() -> AgentSpec {
    agent(Role::REASONING, Limits::NONE)
}

#[test]
fn an_agent_does_not_receive_more_than_the_decision_grants() {
    let mut wished = agent(
        Role::CODING,
        Limits {
            max_turns: Some(99),
            ..Limits::NONE
        },
    );
    wished.profile.roles.first = Some(Role::CODING);
    let (agent, notes) = narrow_sub_agent(&decision(), &unbounded(), wished);
    assert_eq!(agent.role, Role::ROUTER);
    assert_eq!(agent.profile.roles.first, None);
    assert_eq!(
        (agent.limits.max_turns, agent.max_output_tokens),
        (Some(3), Some(1_024))
    );
    assert_eq!(agent.limits.deadline, Some(Duration::from_secs(60)));
    assert!(!agent.profile.data.reasoning);
    let names: Vec<_> = agent.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "current_time",
            "calculate",
            "ask_user",
            "update_plan",
            "find_order"
        ]
    );
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(
        notes[1],
        "Agent researcher is served by router, because coding may not serve."
    );
}

#[test]
fn an_agent_that_requests_less_keeps_its_own_limits() {
    let mut wished = agent(
        Role::REASONING,
        Limits {
            max_turns: Some(1),
            ..Limits::default()
        },
    );
    wished.tools = all_tools().into_iter().take(1).collect::<Vec<_>>().into();
    let (agent, notes) = narrow_sub_agent(&decision(), &unbounded(), wished);
    assert_eq!(
        (agent.role, agent.limits.max_turns, agent.tools.len()),
        (Role::REASONING, Some(1), 1)
    );
    assert!(notes.is_empty(), "{notes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_chain_of_sub_agents_gains_permissions(
        wishes in prop::collection::vec((0..100_u32, 0..100_u32, 0..16_usize, 0..16_usize), 1..6),
    ) {
        let decision = decision();
        let (mut parent, _) = narrow_sub_agent(&decision, &unbounded(), unbounded());
        for (turns, calls, from, to) in wishes {
            let mut wished = agent(Role::CODING, Limits { max_turns: Some(turns), max_tool_calls: Some(calls), ..Limits::NONE });
            wished.tools = all_tools().into_iter().skip(from).take(to).collect::<Vec<_>>().into();
            let (child, _) = narrow_sub_agent(&decision, &parent, wished);
            // A child may use tools that its parent is not offered: each call is judged separately.
            prop_assert!(child.tools.iter().all(|tool| decision.offers(&tool.name)));
            prop_assert!(child.limits.max_turns <= parent.limits.max_turns);
            prop_assert!(child.limits.tightest(parent.limits) == child.limits);
            prop_assert!(decision.allowed_roles.contains(&child.role));
            prop_assert!(child.max_output_tokens <= parent.max_output_tokens);
            parent = child;
        }
    }
}
