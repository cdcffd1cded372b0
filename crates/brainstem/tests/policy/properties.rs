//! Properties that hold whatever a deployment writes.

use std::time::Duration;

use neuraxis_brainstem::{
    Call, ChannelConfig, ModeConfig, Permission, PlanConfig, Policy, PolicyConfig, Request,
    UnlistedTools,
};
use neuraxis_core::{
    Channel, Decision, JsonText, Limits, MicroUsd, Mode, PlanName, Role, ToolSpec, Verdict,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::catalog::all_tools;

const MODE: Mode = Mode::MODERATE;
const CHANNEL: Channel = Channel::CHAT;

/// The limits that one section sets.
type Given = (
    Option<u32>,
    Option<u32>,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    Option<u64>,
);

fn some_limits() -> impl Strategy<Value = Given> {
    let (count, number) = (
        || prop::option::of(1..100_u32),
        || prop::option::of(1..1_000_000_u64),
    );
    (count(), count(), number(), number(), number(), number())
}

macro_rules! set_limits {
    ($section:expr, $given:expr) => {
        let (turns, calls, tokens, cost, deadline, timeout) = $given;
        $section.max_turns = turns;
        $section.max_tool_calls = calls;
        $section.max_tokens = tokens;
        $section.max_cost_micro_usd = cost.map(MicroUsd);
        $section.deadline = deadline.map(Duration::from_millis);
        $section.tool_timeout = timeout.map(Duration::from_millis);
    };
}

fn an_answer() -> impl Strategy<Value = Permission> {
    prop_oneof![
        Just(Permission::Allow),
        Just(Permission::Ask),
        Just(Permission::Deny)
    ]
}

fn answers() -> impl Strategy<Value = [Permission; 5]> {
    [
        an_answer(),
        an_answer(),
        an_answer(),
        an_answer(),
        an_answer(),
    ]
}

fn policy_answering(
    [read_only, idempotent, irreversible, open_world, destructive]: [Permission; 5],
) -> Option<Policy> {
    let mut mode = ModeConfig::default();
    mode.tools.read_only = Some(read_only);
    mode.tools.idempotent = Some(idempotent);
    mode.tools.irreversible = Some(irreversible);
    mode.tools.open_world = Some(open_world);
    mode.tools.destructive = Some(destructive);
    let mut channel = ChannelConfig::default();
    channel.tools = Some(vec!["*".to_owned()]);
    channel.unlisted_tools = Some(UnlistedTools::Offered);
    let mut config = PolicyConfig::default();
    config.modes.insert(MODE, mode);
    config.channels.insert(CHANNEL, channel);
    // A mode that denies all three classes is refused.
    Policy::layered(config).ok()
}

fn strictness(policy: &Policy, decision: &Decision, tool: &ToolSpec) -> u8 {
    match policy.judge(decision, &Call::new(tool, &JsonText::from_text("{}"))) {
        Verdict::Allow => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

fn tightest<T: Ord>(values: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    values.into_iter().flatten().min()
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn limits_are_the_minimum_of_what_mode_channel_and_plan_set(
        by_mode in some_limits(), by_channel in some_limits(), by_plan in some_limits(),
    ) {
        let mut config = PolicyConfig::default();
        let (name, mut mode) = (Mode::new("own"), ModeConfig::default());
        mode.tools.read_only = Some(Permission::Allow);
        set_limits!(mode, by_mode);
        config.modes.insert(name.clone(), mode);
        let mut channel = ChannelConfig::default();
        set_limits!(channel, by_channel);
        config.channels.insert(CHANNEL, channel);
        let (plan_name, mut plan) = (PlanName::new("own"), PlanConfig::default());
        set_limits!(plan, by_plan);
        config.plans.insert(plan_name.clone(), plan);

        let policy = Policy::layered(config).unwrap();
        let request = Request::new(&name, &CHANNEL, "Hello").with_plan(&plan_name);
        let limits = policy.evaluate_request(&request).unwrap().limits;
        let all = [by_mode, by_channel, by_plan];
        let default = Limits::default();
        prop_assert_eq!(limits, Limits {
            max_turns: tightest(all.map(|given| given.0)).or(default.max_turns),
            max_tool_calls: tightest(all.map(|given| given.1)),
            max_tokens: tightest(all.map(|given| given.2)),
            max_cost: tightest(all.map(|given| given.3)).map(MicroUsd),
            deadline: tightest(all.map(|given| given.4)).map(Duration::from_millis),
            tool_timeout: tightest(all.map(|given| given.5)).map_or(default.tool_timeout, Duration::from_millis),
            max_tool_timeout: tightest(all.map(|given| given.5)).map(Duration::from_millis),
        });
    }

    #[test]
    fn a_stricter_answer_never_lets_a_tool_do_more(before in answers(), which in 0..5_usize, answer in an_answer()) {
        let mut after = before;
        after[which] = before[which].max(answer);
        let (Some(before), Some(after)) = (policy_answering(before), policy_answering(after)) else { return Ok(()) };
        let tools = all_tools();
        let request = Request::new(&MODE, &CHANNEL, "Hello").with_tools(&tools);
        let mild = before.evaluate_request(&request).unwrap();
        let strict = after.evaluate_request(&request).unwrap();
        for tool in &tools {
            prop_assert!(strictness(&after, &strict, tool) >= strictness(&before, &mild, tool), "{}", tool.name);
        }
    }

    #[test]
    fn offered_tools_are_never_denied_and_keep_the_given_order(
        answers in answers(), tools in Just(all_tools()).prop_shuffle(),
    ) {
        let Some(policy) = policy_answering(answers) else { return Ok(()) };
        let request = Request::new(&MODE, &CHANNEL, "Hello").with_tools(&tools);
        let decision = policy.evaluate_request(&request).unwrap();
        let not_denied = tools.iter().filter(|tool| strictness(&policy, &decision, tool) < 2);
        let in_order: Vec<_> = not_denied.map(|tool| tool.name.clone()).collect();
        prop_assert_eq!(decision.tools, in_order);
    }

    #[test]
    fn the_serving_role_has_a_model_and_is_allowed(
        allowed in prop::sample::subsequence(vec![Role::ROUTER, Role::REASONING, Role::CODING], 1..=3),
        configured in prop::sample::subsequence(vec![Role::CODING, Role::ROUTER, Role::REASONING], 0..=3),
    ) {
        let (mut config, mut mode) = (PolicyConfig::default(), ModeConfig::default());
        mode.roles = Some(allowed.clone());
        config.modes.insert(MODE, mode);
        let policy = Policy::layered(config).unwrap();
        let request = Request::new(&MODE, &CHANNEL, "Hello").with_roles(&configured);
        let both = |role: &Role| allowed.contains(role) && configured.contains(role);
        match policy.evaluate_request(&request) {
            Ok(decision) => {
                prop_assert!(decision.allowed_roles.iter().all(both));
                prop_assert_eq!(&decision.allowed_roles[0], &decision.role);
            }
            Err(_) => prop_assert!(!configured.iter().any(both)),
        }
    }

    #[test]
    fn reading_arbitrary_text_as_a_configuration_never_panics(text in ".{0,200}") {
        let _ = PolicyConfig::from_toml(&text).and_then(Policy::layered);
    }
}
