//! Agents: the effect of their configuration, which only ever narrows.

use std::time::Duration;

use neuraxis_brainstem::{
    AgentConfig, AgentDefinition, Call, CompactionConfig, GatherConfig, OpeningConfig, Policy,
    PolicyConfig, Refusal, Request, SummarizeConfig, narrow_sub_agent,
};
use neuraxis_core::{
    AgentName, Arguments, Channel, Citations, Compaction, DataPolicy, Decision, JsonText, Keep,
    LimitReached, Limits, MicroUsd, Mode, NoCalls, Offer, Opening, Parallel, Profile, Repeats,
    Role, ToolChoice, ToolErrors, ToolName, ToolSpec, UnknownTool, UsageScope, Verdict,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::catalog::{all_tools, layered};

/// Returns all tools that exist under a policy, those that start agents last.
fn tools_of(policy: &Policy) -> Vec<ToolSpec> {
    let mut tools = all_tools();
    tools.extend(policy.agent_tools());
    tools
}

fn decide(policy: &Policy, mode: &Mode, channel: &Channel, agent: Option<&str>) -> Decision {
    let agent = agent.map(|name| AgentName::new(name.to_owned()));
    let tools = tools_of(policy);
    let mut request = Request::new(mode, channel, "Hello").with_tools(&tools);
    request.agent = agent.as_ref();
    policy.evaluate_request(&request).unwrap()
}

fn in_chat(policy: &Policy, agent: &str) -> Decision {
    decide(policy, &Mode::MODERATE, &Channel::CHAT, Some(agent))
}

fn names(decision: &Decision) -> Vec<&str> {
    decision.tools.iter().map(ToolName::as_str).collect()
}

#[test]
fn the_built_in_agents_match_the_profiles_of_the_loop() {
    let policy = Policy::built_in();
    let spec = |name| {
        policy
            .agent_spec(&name, &Role::REASONING, &all_tools())
            .unwrap()
    };
    assert_eq!(spec(AgentName::MAIN_THREAD).profile, Profile::main_thread());
    assert_eq!(spec(AgentName::RESEARCHER).profile, Profile::researcher());
    let mut supervisor = Profile::named("deep_research");
    supervisor.parallel = Parallel::None;
    supervisor.citations = Citations::Checked;
    let mut leads = spec(AgentName::DEEP_RESEARCH);
    // Beyond its profile, it is told to look for gaps when reports arrive.
    let [reports] = std::mem::take(&mut leads.profile.results)
        .try_into()
        .unwrap();
    assert_eq!(reports.tool.as_str(), "research");
    assert!(reports.note.unwrap().contains("leave open"));
    assert_eq!(leads.profile, supervisor);
    assert_eq!(leads.limits.max_tool_calls, Some(50));
    assert_eq!(leads.limits.deadline, Some(Duration::from_secs(300)));
    let limits = Limits {
        // Its share of what its lead has left may be lower.
        max_tool_calls: Some(20),
        ..Limits::default()
    };
    assert_eq!(spec(AgentName::RESEARCHER).limits, limits);
}

#[test]
fn deep_research_offers_a_research_tool_that_accepts_several_topics() {
    let policy = Policy::built_in();
    let decision = decide(&policy, &Mode::EXPLORATORY, &Channel::DEEP_RESEARCH, None);
    assert!(names(&decision).contains(&"research"), "{decision:?}");
    let tool = &policy.agent_tools()[0];
    let judged = policy.judge(&decision, &Call::new(tool, &JsonText::from_text("{}")));
    assert_eq!(judged, Verdict::Allow);
    assert!(tool.parameters.as_str().contains("topics"), "{tool:?}");

    let root = policy.main_agent(&decision, all_tools().into());
    assert!(
        root.system_prompt
            .as_deref()
            .unwrap()
            .starts_with("You lead")
    );
    let below = policy.sub_agents(&AgentName::DEEP_RESEARCH);
    assert_eq!(
        below.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["research"]
    );
    let spec = policy.agent_spec(&AgentName::RESEARCHER, &root.role, &all_tools());
    let (researcher, _) = narrow_sub_agent(&decision, &root, spec.unwrap());
    assert_eq!(researcher.fan_out.as_deref(), Some("topics"));
    let offered: Vec<_> = researcher
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(
        offered,
        ["current_time", "calculate", "web_search", "web_fetch"]
    );

    // No agent on other channels is offered it.
    let chat = decide(&policy, &Mode::EXPLORATORY, &Channel::CHAT, None);
    assert!(!format!("{chat:?}").contains("research"), "{chat:?}");
}

/// Every setting, with a value other than its default.
const EVERY_SETTING: &str = r#"
[agents.helper]
instructions = "You help."
role = "coding"
temperature = 0.25
max_output_tokens = 99
max_turns = 2
max_tool_calls = 3
max_tokens = 4
max_cost_micro_usd = 5
deadline = "6s"
tool_timeout = "7s"
tools = ["calculate", "ask_*"]
opening = { gather = { role = "router", tool = "calculate", default_arguments = '{"a":1}' } }
usage = "own"
parallel = "all"
unknown_tool = "stop"
stop_on_error = true
limit_reached = "finish"
no_calls = { remind = { prompt = "Call submit.", at_most = 2 } }
offer = { first_turns = 3 }
tool_choice = { named = "calculate" }
first_role = "router"
after_calls_role = "reasoning"
stop_after = ["ask_user"]
results.calculate = { max_chars = 10, keep = "summary", then = "none", note = "Mind the units." }
lenient_arguments = true
digest_after = 4
compaction = "drop"
repeats = { warn = 5, stop = 6 }
data = { reasoning = false }
parallel_agents = 7
tool_retries = 0
context_tokens = 8_000
"#;

#[test]
fn every_setting_of_an_agent_applies_to_its_decisions() {
    let policy = layered(EVERY_SETTING);
    let decision = in_chat(&policy, "helper");
    assert_eq!(decision.agent, Some(AgentName::new("helper")));
    assert_eq!(
        (decision.role.as_str(), decision.temperature),
        ("coding", Some(0.25))
    );
    assert_eq!(decision.max_output_tokens, Some(99));
    assert_eq!(names(&decision), ["calculate", "ask_user"]);
    let limits = decision.limits;
    assert_eq!(
        (limits.max_turns, limits.max_tool_calls),
        (Some(2), Some(3))
    );
    assert_eq!(
        (limits.max_tokens, limits.max_cost),
        (Some(4), Some(MicroUsd(5)))
    );
    assert_eq!(limits.deadline, Some(Duration::from_secs(6)));
    assert_eq!(limits.max_tool_timeout, Some(Duration::from_secs(7)));
    assert!(!decision.data.reasoning);

    let tools = all_tools().into_iter();
    let offered: Vec<_> = tools
        .filter(|tool| decision.tools.contains(&tool.name))
        .collect();
    let agent = policy.main_agent(&decision, offered.into());
    assert_eq!(agent.system_prompt.as_deref(), Some("You help."));
    assert_eq!(agent.context_tokens, Some(8_000));
    let calculate = ToolChoice::Named("calculate".parse().unwrap());
    assert_eq!(agent.tool_choice, Some(calculate));
}

#[test]
fn every_behavior_setting_of_an_agent_appears_in_its_profile() {
    let policy = layered(EVERY_SETTING);
    let decision = in_chat(&policy, "helper");
    let profile = policy.profile(&decision);
    assert_eq!(profile.name, "helper");
    let Opening::Gather { role, tool, .. } = &profile.opening else {
        panic!("{:?}", profile.opening);
    };
    assert_eq!((role, tool.as_str()), (&Role::ROUTER, "calculate"));
    assert_eq!(profile.usage, UsageScope::Own);
    assert_eq!(profile.parallel, Parallel::All);
    assert_eq!(profile.unknown_tool, UnknownTool::Stop);
    assert_eq!(profile.tool_errors, ToolErrors::Stop);
    assert_eq!(profile.limit_reached, LimitReached::Finish);
    let prompt = "Call submit.".to_owned();
    assert_eq!(profile.no_calls, NoCalls::Remind { prompt, at_most: 2 });
    assert_eq!(profile.offer, Offer::FirstTurns(3));
    assert_eq!(profile.roles.first, Some(Role::ROUTER));
    assert_eq!(profile.roles.after_calls, Some(Role::REASONING));
    assert_eq!(profile.stop_after, ["ask_user".parse().unwrap()]);
    let rule = &profile.results[0];
    assert_eq!(
        (rule.tool.as_str(), rule.max_chars),
        ("calculate", Some(10))
    );
    assert_eq!(
        (rule.keep, &rule.then),
        (Some(Keep::Summary), &Some(ToolChoice::None))
    );
    assert_eq!(rule.note.as_deref(), Some("Mind the units."));
    assert_eq!(profile.arguments, Arguments::Lenient);
    assert_eq!(profile.digest_after, Some(4));
    assert_eq!(profile.compaction, Compaction::Drop);
    assert_eq!(profile.repeats, Repeats { warn: 5, stop: 6 });
    assert_eq!(
        profile.data,
        DataPolicy {
            reasoning: false,
            ..DataPolicy::ALL
        }
    );
    assert_eq!((profile.parallel_agents, profile.tool_retries), (7, 0));
}

#[test]
fn an_agent_gathers_only_with_a_tool_and_role_it_may_use() {
    let policy = layered(EVERY_SETTING);
    let tool_of = |opening: &Opening| match opening {
        Opening::Gather { role, tool, .. } => Some((role.clone(), tool.to_string())),
        Opening::Direct => None,
    };
    let health = Channel::SYSTEM_HEALTH;
    let decision = decide(&policy, &Mode::MODERATE, &health, Some("helper"));
    let gathers = tool_of(&policy.profile(&decision).opening);
    assert_ne!(gathers.map(|(_, tool)| tool).as_deref(), Some("calculate"));
    let name = AgentName::new("helper");
    let as_tool = policy.agent_spec(&name, &Role::REASONING, &all_tools());
    let as_tool = as_tool.unwrap();
    assert!(tool_of(&as_tool.profile.opening).is_some());
    let alone = policy.agent_spec(&name, &Role::REASONING, &[]).unwrap();
    assert_eq!(alone.profile.opening, Opening::Direct);
    let mut decision = in_chat(&policy, "helper");
    decision.allowed_roles = vec![Role::CODING];
    decision.role = Role::CODING;
    let parent = policy.main_agent(&decision, all_tools().into());
    let (narrowed, _) = narrow_sub_agent(&decision, &parent, as_tool);
    let gathers = tool_of(&narrowed.profile.opening);
    assert_eq!(gathers, Some((Role::CODING, "calculate".to_owned())));
}

#[test]
fn a_request_for_an_unknown_agent_is_refused_with_the_nearest_name() {
    let policy = Policy::built_in();
    let agent = AgentName::new("deep_reserch");
    let request = Request::new(&Mode::MODERATE, &Channel::CHAT, "Hello").with_agent(&agent);
    let error = policy.evaluate_request(&request).unwrap_err();
    assert!(matches!(error, Refusal::UnknownAgent { .. }));
    assert_eq!(
        error.to_string(),
        "unknown agent \"deep_reserch\" (did you mean deep_research?); known: deep_research, main_thread, researcher"
    );
}

#[test]
fn an_agent_role_that_may_not_serve_leaves_the_channel_role_with_a_reason() {
    let policy = layered("[agents.helper]\nrole = 'coding'\n[channels.chat]\nrouter = 'router'");
    let allowed = in_chat(&policy, "helper");
    assert_eq!((allowed.role.as_str(), allowed.routing), ("coding", None));
    let agent = Some("helper");
    let narrower = decide(&policy, &Mode::CONSERVATIVE, &Channel::CHAT, agent);
    assert_eq!(narrower.role, Role::ROUTER);
    assert!(narrower.routing.is_some());
    let why = "Role router serves: agent helper names role coding, which may not serve in mode conservative.";
    assert!(
        narrower.reasons.iter().any(|reason| reason == why),
        "{:?}",
        narrower.reasons
    );
}

#[test]
fn the_system_prompt_of_a_channel_is_for_its_own_agent() {
    let policy =
        layered("[agents.helper]\ninstructions = 'You help.'\n[agents.mute]\nrole = 'router'");
    let told = |agent| {
        let decision = decide(&policy, &Mode::MODERATE, &Channel::CHAT, agent);
        policy.system_prompt(&decision).unwrap().to_string()
    };
    let of_channel = told(None);
    assert!(of_channel.starts_with("You are a helpful assistant."));
    assert_eq!(told(Some("mute")), of_channel);
    assert_eq!(told(Some("helper")), "You help.");
    let policy =
        layered("[channels.chat]\nagent = 'helper'\n[agents.helper]\ninstructions = 'You help.'");
    let decision = decide(&policy, &Mode::MODERATE, &Channel::CHAT, None);
    assert_eq!(
        policy.system_prompt(&decision).unwrap().to_string(),
        of_channel
    );
    assert_eq!(decision.profile, "helper");
}

#[test]
fn a_sub_agent_may_use_tools_its_parent_lacks_but_none_the_channel_withholds() {
    let policy = layered(
        r#"
        [agents.lead]
        tools = ["calculate"]
        agents = ["reader"]
        [agents.reader]
        tools = ["read_file", "list_files", "run_command"]
        "#,
    );
    let agent = Some("lead");
    let decision = decide(&policy, &Mode::CONSERVATIVE, &Channel::CODE_TASK, agent);
    assert_eq!(
        names(&decision),
        ["reader"],
        "without tools, but for those who do nothing themselves"
    );
    assert!(decision.sub_agent_tools.is_empty(), "{decision:?}");

    let decision = decide(&policy, &Mode::MODERATE, &Channel::CODE_TASK, agent);
    assert_eq!(names(&decision), ["calculate", "reader"]);
    let below: Vec<_> = decision
        .sub_agent_tools
        .iter()
        .map(ToolName::as_str)
        .collect();
    assert_eq!(below, ["list_files", "read_file", "run_command"]);
    let root = policy.main_agent(&decision, Vec::new().into());
    let spec = policy.agent_spec(&AgentName::new("reader"), &root.role, &tools_of(&policy));
    let (reader, notes) = narrow_sub_agent(&decision, &root, spec.unwrap());
    assert_eq!((reader.tools.len(), notes.len()), (3, 0), "{notes:?}");
    // Its calls are judged like those of any agent.
    let tools = all_tools();
    let run = tools
        .iter()
        .find(|tool| tool.name.as_str() == "run_command")
        .unwrap();
    let arguments = JsonText::from_text(r#"{"command":"rm -r x"}"#);
    let verdict = policy.judge(&decision, &Call::new(run, &arguments));
    assert!(matches!(verdict, Verdict::Ask { .. }), "{verdict:?}");
}

#[test]
fn own_tools_and_roles_belong_to_their_agent_and_configuration_overrides_it() {
    let mut config = AgentConfig::default();
    config.max_turns = Some(4);
    config.max_tool_calls = Some(9);
    let mut own = AgentDefinition::new(AgentName::new("owner"), config);
    own.own_tools = vec!["find_order".parse().unwrap()];
    own.own_role = Some(Role::new("own"));
    own.config.role.clone_from(&own.own_role);
    let over = PolicyConfig::from_toml("[agents.owner]\nmax_turns = 2").unwrap();
    let plain = Policy::layered(over).unwrap();
    let policy = plain.with_agents([own], []).unwrap();
    assert_ne!(policy.hash(), plain.hash());
    let owner = in_chat(&policy, "owner");
    assert!(names(&owner).contains(&"find_order"));
    assert_eq!(
        (owner.limits.max_turns, owner.limits.max_tool_calls),
        (Some(2), Some(9))
    );
    assert_eq!(owner.role.as_str(), "own");
    let other = decide(&policy, &Mode::MODERATE, &Channel::CHAT, None);
    assert!(!names(&other).contains(&"find_order"));
    assert!(!other.allowed_roles.contains(&Role::new("own")));
    assert!(names(&decide(&plain, &Mode::MODERATE, &Channel::CHAT, None)).contains(&"find_order"));
}

#[test]
fn a_decision_names_the_turn_role_that_cannot_serve_and_why() {
    let policy = layered(
        "modes.moderate.roles = ['reasoning']
         [agents.a]
         first_role = 'coding'
         after_calls_role = 'reasoning'",
    );
    let decision = in_chat(&policy, "a");
    let told = "Role reasoning also serves the turns that first_role is for, because role coding may not serve in mode moderate.";
    let about = |text: &str| {
        decision
            .reasons
            .iter()
            .filter(|it| it.contains(text))
            .count()
    };
    assert!(
        decision.reasons.iter().any(|it| it == told),
        "{:#?}",
        decision.reasons
    );
    assert_eq!(about("after_calls_role"), 0);
}

fn settings() -> impl Strategy<Value = AgentConfig> {
    let role = || prop::sample::select(vec![None, Some(Role::CODING), Some(Role::ROUTER)]);
    let tools = prop::sample::select(vec!["*", "web_*", "run_command", "current_time", "nothing"]);
    let tools = prop::option::of(prop::collection::vec(tools, 0..3));
    let limit = || prop::option::of(1..100_u32);
    let stored = || prop::option::of(any::<bool>());
    let names = prop::option::of(prop::sample::select(vec!["researcher", "deep_research"]));
    (
        (role(), role(), role(), role(), role()),
        tools,
        (limit(), limit(), limit(), limit(), limit(), limit()),
        (stored(), stored(), stored(), stored()),
        names,
        (prop::option::of(0..3_u32), limit(), limit(), limit()),
        limit(),
    )
        .prop_map(|(roles, tools, limits, stored, agent, counts, seconds)| {
            let mut config = AgentConfig::default();
            (config.role, config.first_role, config.after_calls_role) = (roles.0, roles.1, roles.2);
            config.compaction = roles
                .3
                .map(|role| CompactionConfig::Summarize(SummarizeConfig { role }));
            config.opening = roles.4.map(gathering);
            config.tools = tools.map(|tools| tools.into_iter().map(str::to_owned).collect());
            config.max_turns = limits.0;
            config.max_tool_calls = limits.1;
            config.deadline = limits.2.map(|seconds| Duration::from_secs(seconds.into()));
            config.max_output_tokens = limits.3.map(|tokens| tokens * 200);
            config.max_tokens = limits.4.map(|tokens| u64::from(tokens) * 10_000);
            config.max_cost_micro_usd = limits.5.map(|cost| MicroUsd(u64::from(cost) * 100_000));
            (config.data.text, config.data.reasoning) = (stored.0, stored.1);
            (config.data.tool_calls, config.data.tool_results) = (stored.2, stored.3);
            config.agents = agent.map(|name| vec![AgentName::new(name)]);
            config.tool_retries = counts.0;
            (
                config.parallel_agents,
                config.max_agents,
                config.max_agent_depth,
            ) = (counts.1, counts.2, counts.3);
            config.tool_timeout = seconds.map(|seconds| Duration::from_secs(seconds.into()));
            config
        })
}

fn gathering(role: Role) -> OpeningConfig {
    OpeningConfig::Gather(GatherConfig {
        role,
        tool: "system_health".parse().unwrap(),
        default_arguments: JsonText::from_text("{}"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_setting_of_an_agent_widens_a_decision(
        config in settings(),
        mode in prop::sample::select(vec![Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY]),
        channel in prop::sample::select(vec![
            Channel::CHAT,
            Channel::CODE_TASK,
            Channel::SYSTEM_HEALTH,
            Channel::DEEP_RESEARCH,
        ]),
    ) {
        // Deep research is a separate agent with its own limits, so another agent there is compared with the main one.
        let base = layered(
            "[channels.chat.data]
             text = false
             [channels.deep_research]
             agent = 'main_thread'
             allowed_modes = ['conservative', 'moderate', 'exploratory']
             [modes.conservative]
             max_tokens = 200_000
             max_cost_micro_usd = 2_000_000
             tool_timeout = '20s'
             max_agents = 8
             max_agent_depth = 1
             [modes.moderate]
             max_tokens = 500_000
             tool_timeout = '45s'
             max_agent_depth = 3
             [modes.exploratory]
             max_cost_micro_usd = 9_000_000
             tool_timeout = '90s'
             max_agents = 80",
        );
        let mut over = base.config().clone();
        over.agents.insert(AgentName::new("any"), config);
        let policy = Policy::layered(over).unwrap();
        let plain = decide(&base, &mode, &channel, None);
        let given = decide(&policy, &mode, &channel, Some("any"));

        prop_assert_eq!(given.agent_limits.tightest(plain.agent_limits), given.agent_limits);
        prop_assert_eq!(given.approval, plain.approval);
        let starts_agents = |name: &ToolName| policy.agent_tools().iter().any(|tool| tool.name == *name);
        let every = given.tools.iter().chain(&given.sub_agent_tools);
        for name in every.filter(|name| !starts_agents(name)) {
            prop_assert!(plain.tools.contains(name), "{name}");
        }
        for tool in tools_of(&policy).iter().filter(|tool| plain.offers(&tool.name)) {
            let call = JsonText::from_text("{}");
            let strictness = |policy: &Policy, decision| match policy.judge(decision, &Call::new(tool, &call)) {
                Verdict::Allow => 0,
                Verdict::Ask { .. } => 1,
                Verdict::Deny { .. } => 2,
            };
            prop_assert!(strictness(&policy, &given) >= strictness(&base, &plain));
        }
        for role in &given.allowed_roles {
            prop_assert!(plain.allowed_roles.contains(role), "{role}");
        }
        prop_assert_eq!(given.limits.tightest(plain.limits), given.limits);
        prop_assert!(given.max_output_tokens <= plain.max_output_tokens);
        prop_assert_eq!(given.data.and(plain.data), given.data);
        let (of_given, of_plain) = (policy.profile(&given), base.profile(&plain));
        prop_assert!(of_given.tool_retries <= of_plain.tool_retries);
        prop_assert_eq!(of_given.data.and(of_plain.data), of_given.data);
        let root = policy.main_agent(&given, Vec::new().into());
        prop_assert!(root.turn_roles().all(|role| given.allowed_roles.contains(role)));
        if let Opening::Gather { tool, .. } = &root.profile.opening {
            prop_assert!(given.tools.contains(tool), "{tool}");
        }
    }
}
