//! How deployments change the built-in policy.

use neuraxis_brainstem::{Permission, Policy, PolicyConfig, Request};
use neuraxis_core::{Channel, Mode, Role, ToolClass, ToolSpec};

use crate::catalog::{all_tools, tool};

fn layered(text: &str) -> Policy {
    Policy::layered(PolicyConfig::from_toml(text).unwrap()).unwrap()
}

#[test]
fn an_empty_layer_does_not_change_the_built_in_policy() {
    let policy = Policy::layered(PolicyConfig::default()).unwrap();
    assert_eq!(policy.hash(), Policy::built_in().hash());
    assert_eq!(policy.config(), &PolicyConfig::built_in());
}

#[test]
fn a_changed_policy_has_another_hash_and_an_equivalent_one_the_same() {
    let hash = |text| layered(text).hash();
    let built_in = Policy::built_in().hash();
    assert_eq!(hash("[modes.moderate]\ndeadline = '3 minutes'"), built_in);
    assert_ne!(hash("[modes.moderate]\ndeadline = '4m'"), built_in);
    assert_ne!(
        hash("[channels.chat]\nsystem_prompt = 'Be brief.'"),
        built_in
    );
}

#[test]
fn a_decision_carries_the_hash_of_the_policy_in_force() {
    let policy = layered("[modes.moderate]\nmax_turns = 4");
    let decision = policy
        .evaluate_request(&Request::new(&Mode::MODERATE, &Channel::CHAT, "Hello"))
        .unwrap();
    assert_eq!(decision.policy_hash, policy.hash());
    assert_eq!(decision.limits.max_turns, Some(4));
}

#[test]
fn a_deployment_may_override_a_single_answer_of_a_mode() {
    let policy = layered("[modes.moderate.tools]\nidempotent = 'deny'");
    let tools = all_tools();
    let request = Request::new(&Mode::MODERATE, &Channel::CODE_TASK, "Hello").with_tools(&tools);
    let decision = policy.evaluate_request(&request).unwrap();
    assert!(!decision.tools.contains(&"write_file".parse().unwrap()));
    assert!(decision.tools.contains(&"apply_patch".parse().unwrap()));
}

#[test]
fn modes_are_listed_the_strictest_first_whatever_their_names() {
    let names = |modes: &[Mode]| -> Vec<String> { modes.iter().map(Mode::to_string).collect() };
    let all = |policy: &Policy| names(&policy.modes().cloned().collect::<Vec<_>>());
    let built_in = ["conservative", "moderate", "exploratory"];
    assert_eq!(all(&Policy::built_in()), built_in);
    // `aloof` asks about what it does not deny; `zealous` allows everything.
    let policy = layered(
        "
        [modes.aloof]
        after_untrusted = 'deny'
        [modes.aloof.tools]
        read_only = 'ask'
        [modes.zealous]
        after_untrusted = 'allow'
        [modes.zealous.tools]
        read_only = 'allow'
        idempotent = 'allow'
        irreversible = 'allow'
        open_world = 'allow'
        destructive = 'allow'
        ",
    );
    let expected = [
        "aloof",
        "conservative",
        "moderate",
        "exploratory",
        "zealous",
    ];
    assert_eq!(all(&policy), expected);
    let no_freer = policy.modes_no_freer_than(&Mode::MODERATE);
    assert_eq!(names(&no_freer), ["aloof", "conservative", "moderate"]);
    let listed = [Mode::EXPLORATORY, Mode::new("unknown"), Mode::new("aloof")];
    assert_eq!(
        names(&policy.modes_among(&listed)),
        ["aloof", "exploratory"]
    );
}

#[test]
fn a_deployment_may_add_modes_channels_roles_and_plans() {
    let mut config = PolicyConfig::from_toml(
        "
        [modes.careful]
        max_turns = 2
        [modes.careful.tools]
        read_only = 'ask'

        [channels.pictures]
        role = 'vision'
        tools = ['image_*']
        allowed_modes = ['careful', 'moderate']
        max_tool_calls = 4

        [plans.guest]
        max_tokens = 10_000
        ",
    )
    .unwrap();
    config.extra_roles = vec![Role::new("vision")];
    let policy = Policy::layered(config).unwrap();

    let (mode, channel) = (Mode::new("careful"), Channel::new("pictures"));
    let tools = [
        tool("image_crop", ToolClass::ReadOnly),
        tool("image_save", ToolClass::Idempotent),
    ];
    let decision = policy
        .evaluate_request(&Request::new(&mode, &channel, "Crop it").with_tools(&tools))
        .unwrap();
    assert_eq!(
        decision.allowed_roles,
        [
            Role::new("vision"),
            Role::REASONING,
            Role::ROUTER,
            Role::CODING
        ]
    );
    assert_eq!(decision.tools, ["image_crop".parse().unwrap()]);
    assert_eq!(
        (decision.limits.max_turns, decision.limits.max_tool_calls),
        (Some(2), Some(4))
    );
    assert_eq!(policy.system_prompt(&decision), None);
    assert_eq!(
        policy.plans().map(ToString::to_string).collect::<Vec<_>>(),
        ["basic", "full", "guest"]
    );
}

#[test]
fn code_tasks_in_conservative_mode_stay_without_tools_whatever_the_channel_lists() {
    let policy = layered("[channels.code_task]\ntools = ['*']");
    let tools = all_tools();
    let request =
        Request::new(&Mode::CONSERVATIVE, &Channel::CODE_TASK, "Hello").with_tools(&tools);
    assert!(policy.evaluate_request(&request).unwrap().tools.is_empty());

    let policy =
        layered("[channels.code_task.when.conservative]\ntools = ['read_file', 'write_file']");
    let decision = policy.evaluate_request(&request).unwrap();
    assert_eq!(decision.tools, ["read_file".parse().unwrap()]);
    assert_eq!(decision.role, Role::CODING, "the keys left out stay");
}

#[test]
fn a_tool_left_out_of_a_shorter_list_appears_on_no_other_channel() {
    let tools = all_tools();
    let offered = |policy: &Policy, channel: &Channel| {
        let request = Request::new(&Mode::EXPLORATORY, channel, "Hello").with_tools(&tools);
        policy.evaluate_request(&request).unwrap().tools
    };
    let policy = layered(
        "[channels.code_task]\ntools = ['read_file']\n[channels.system_health]\ntools = ['system_health']",
    );
    let built_in = Policy::built_in();
    for channel in built_in.channels() {
        let before = offered(&built_in, channel);
        let added: Vec<_> = offered(&policy, channel)
            .into_iter()
            .filter(|tool| !before.contains(tool))
            .collect();
        assert!(added.is_empty(), "{channel}: {added:?}");
    }
    let run_command = "run_command".parse().unwrap();
    assert!(!offered(&policy, &Channel::CODE_TASK).contains(&run_command));
    assert!(offered(&policy, &Channel::CODE_TASK).contains(&"read_file".parse().unwrap()));

    // The same applies to a deployment's own list that another source overrides.
    let mut config =
        PolicyConfig::from_toml("[channels.shop]\nrole = 'router'\ntools = []").unwrap();
    let find_order = [ToolSpec::new(
        "find_order".parse().unwrap(),
        "Finds an order.",
    )];
    let request = Request::new(&Mode::MODERATE, &Channel::CHAT, "Hello").with_tools(&find_order);
    for (listed, expected) in [(vec![], 1), (vec!["find_*".to_owned()], 0)] {
        config.listed_tools = listed;
        let policy = Policy::layered(config.clone()).unwrap();
        let offered = policy.evaluate_request(&request).unwrap().tools;
        assert_eq!(offered.len(), expected);
    }
}

#[test]
fn a_built_in_channel_can_be_limited_to_modes_despite_overrides_for_others() {
    let only = "[channels.code_task]\nallowed_modes = ['moderate']\n";
    let policy = layered(only);
    let request = |mode| Request::new(mode, &Channel::CODE_TASK, "Hello");
    assert!(policy.evaluate_request(&request(&Mode::MODERATE)).is_ok());
    let refused = policy.evaluate_request(&request(&Mode::CONSERVATIVE));
    assert!(refused.is_err());

    let same = "[channels.code_task]\nallowed_modes = ['conservative']\n";
    let policy = layered(same);
    let decision = policy.evaluate_request(&request(&Mode::CONSERVATIVE));
    assert_eq!(
        decision.unwrap().role,
        Role::CODING,
        "what is built in stays"
    );

    // Exceptions that a source sets for a mode outside that list are still an error.
    let contradicts = format!("{only}when.conservative.tools = ['read_file']\n");
    let contradicts = PolicyConfig::from_toml(&contradicts).unwrap();
    let error = Policy::layered(contradicts).unwrap_err().to_string();
    assert!(
        error.contains("when.conservative can never apply"),
        "{error}"
    );
}

#[test]
fn answers_are_ordered_from_the_mildest_to_the_strictest() {
    assert!(Permission::Allow < Permission::Ask && Permission::Ask < Permission::Deny);
}
