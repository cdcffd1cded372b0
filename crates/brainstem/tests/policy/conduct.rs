//! Clarifying questions, checks, escalation, routing, approvals and storage.

use std::time::Duration;

use neuraxis_brainstem::{Policy, Refusal, Request};
use neuraxis_core::{
    BudgetScope, Channel, DataPolicy, Decision, Mode, PlanName, Remember, Role, TakesOver,
};

use crate::catalog::layered;

fn decide(policy: &Policy, message: &str) -> Decision {
    let request = Request::new(&Mode::MODERATE, &Channel::CHAT, message).with_history(0);
    policy.evaluate_request(&request).unwrap()
}

const HARD: &str = "Compare TCP with UDP and explain why games use the latter.";

#[test]
fn the_router_serves_simple_chats_and_reasoning_complex_ones_with_a_reason() {
    let policy = Policy::built_in();
    let simple = decide(&policy, "What time is it in Tokyo?");
    assert_eq!(simple.role, Role::ROUTER);
    let complex = decide(&policy, HARD);
    assert_eq!(complex.role, Role::REASONING);
    assert_eq!(
        complex.reasons[0],
        "Role reasoning serves, set by channel chat for complex requests: 6 points (reasoning 6), at least 4."
    );
    let complexity = complex.complexity.unwrap();
    assert_eq!(
        (
            complexity.score,
            complexity.threshold,
            complexity.is_complex()
        ),
        (6, 4, true)
    );
    let always = layered("[channels.chat]\ncomplex_from = 0");
    assert_eq!(decide(&always, "Hello").role, Role::REASONING);
}

const VAGUE: &str = "[channels.chat]\nclarify = \"vague\"";

#[test]
fn a_vague_request_gets_a_question_only_at_the_start_of_a_conversation() {
    assert_eq!(decide(&Policy::built_in(), "fix it").clarify, None);
    let policy = layered(VAGUE);
    for (message, asks) in [
        ("fix it", true),
        ("Do that again, please!", true),
        ("???", true),
        ("Fix the build", false),
        ("Hello", false),
        ("2 + 2", false),
    ] {
        assert_eq!(
            decide(&policy, message).clarify.is_some(),
            asks,
            "{message}"
        );
    }
    let request = Request::new(&Mode::MODERATE, &Channel::CHAT, "fix it");
    for request in [request, request.with_history(2)] {
        assert_eq!(policy.evaluate_request(&request).unwrap().clarify, None);
    }
    let never = layered("[channels.chat]\nclarify = 'never'");
    assert_eq!(decide(&never, "fix it").clarify, None);
}

#[test]
fn drafts_are_checked_if_the_channel_requires_it() {
    assert_eq!(decide(&Policy::built_in(), HARD).self_check, None);
    let complex = layered("[channels.chat]\nself_check = 'complex'");
    assert_eq!(decide(&complex, "Hello").self_check, None);
    let check = decide(&complex, HARD).self_check.unwrap();
    assert_eq!(
        (check.role, check.reason.as_str()),
        (Role::REASONING, "the request seems complex (6 points)")
    );
    let always = layered("[channels.chat]\nself_check = 'always'");
    assert!(decide(&always, "Hello").self_check.is_some());
}

#[test]
fn consecutive_failures_escalate_to_the_larger_role_and_then_to_a_person() {
    let policy = layered("[channels.chat.escalate]\nrole = 'reasoning'\nperson = true");
    let decision = decide(&policy, "Hello");
    let escalation = decision.escalation.unwrap();
    assert_eq!(escalation.after(2), TakesOver::Role(Role::REASONING));
    assert_eq!(escalation.after(4), TakesOver::Person);
    // If the larger role already serves, a person is asked next.
    let hard = decide(&policy, HARD).escalation.unwrap();
    assert_eq!(hard.after(2), TakesOver::Person);
    assert_eq!(decide(&Policy::built_in(), HARD).escalation, None);
}

#[test]
fn a_model_may_choose_the_role_if_the_channel_names_a_router() {
    let policy = layered("[channels.chat]\nrouter = 'router'");
    let decision = decide(&policy, HARD);
    let routing = decision.routing.unwrap();
    assert_eq!((routing.asks, routing.choices.len()), (Role::ROUTER, 3));
    assert_eq!(decide(&Policy::built_in(), HARD).routing, None);
}

#[test]
fn a_requested_role_serves_and_checks_its_own_drafts() {
    let policy = layered(
        "[channels.chat]\nrouter = 'router'\nself_check = 'always'\n\
         escalate = { role = 'reasoning', after_failures = 2 }",
    );
    assert_eq!(decide(&policy, "Hello").role, Role::ROUTER);
    let named = |role: &Role| {
        let request = Request::new(&Mode::MODERATE, &Channel::CHAT, "Hello").with_role(role);
        policy.evaluate_request(&request)
    };
    let decision = named(&Role::REASONING).unwrap();
    assert_eq!(decision.role, Role::REASONING);
    assert_eq!(decision.allowed_roles[0], Role::REASONING);
    assert_eq!(decision.allowed_roles.len(), 3);
    assert_eq!(decision.self_check.unwrap().role, Role::REASONING);
    assert_eq!((decision.routing, decision.escalation), (None, None));
    assert_eq!(decision.complexity, None);
    let told = |word: &str| {
        let reasons = decision.reasons.iter().map(String::as_str);
        let told = reasons.filter(|reason| reason.contains(word));
        told.collect::<Vec<_>>()
    };
    assert_eq!(
        told(" serve"),
        ["Role reasoning serves, because the request asks for it."]
    );
    assert_eq!(told("Fallback"), ["Fallback roles: router, coding."]);
    assert_eq!(
        told("the draft"),
        ["Role reasoning checks the draft, because channel chat always checks drafts."]
    );
    assert!(told("takes over").is_empty(), "{:?}", decision.reasons);

    // Any role other than the larger one escalates to it.
    let decision = named(&Role::CODING).unwrap();
    let escalation = decision.escalation.unwrap();
    assert_eq!(escalation.after(2), TakesOver::Role(Role::REASONING));
    assert!(
        decision
            .reasons
            .contains(&"After 2 failures in a row, role reasoning takes over.".to_owned()),
        "{:?}",
        decision.reasons
    );

    let refused = named(&Role::new("oracle")).unwrap_err();
    let Refusal::RoleNotAllowed { asked, allowed } = &refused else {
        panic!("{refused}")
    };
    assert_eq!((asked.as_str(), allowed.len()), ("oracle", 3));
}

#[test]
fn approvals_expire_and_are_remembered_as_the_mode_defines() {
    let policy = Policy::built_in();
    let approval = |mode: &Mode| {
        let request = Request::new(mode, &Channel::CHAT, "Hello");
        policy.evaluate_request(&request).unwrap().approval
    };
    assert_eq!(
        approval(&Mode::MODERATE).expires_after,
        Some(Duration::from_secs(72 * 3_600))
    );
    assert_eq!(
        [Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY]
            .map(|mode| approval(&mode).remember),
        [Remember::Never, Remember::Tool, Remember::Arguments]
    );
}

#[test]
fn a_channel_determines_which_content_is_stored() {
    let policy = layered("[channels.chat.data]\ntool_results = false");
    let decision = decide(&policy, "Hello");
    let expected = DataPolicy {
        tool_results: false,
        ..DataPolicy::ALL
    };
    assert_eq!(decision.data, expected);
    assert_eq!(policy.profile(&decision).data, expected);
}

#[test]
fn unknown_tool_names_in_a_policy_are_reported() {
    let tools = crate::catalog::all_tools();
    let tools: Vec<_> = tools.into_iter().map(|tool| tool.name).collect();
    assert!(Policy::built_in().unknown_tools(&tools).is_empty());
    let policy = layered(
        "[rules.r]\nanswer = 'ask'\ntools = ['reed_file', 'web_*']\n[channels.chat]\ntools = ['calculate', 'weather_*']",
    );
    let messages: Vec<_> = policy
        .unknown_tools(&tools)
        .iter()
        .map(|error| {
            error
                .to_string()
                .split("; known")
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        messages,
        [
            "channels.chat.tools: \"weather_*\" matches no tool",
            "rules.r.tools: \"reed_file\" matches no tool (did you mean read_file?)"
        ]
    );
}

#[test]
fn known_tools_are_listed_once_sorted_and_with_a_count_of_the_rest() {
    let policy = layered("[rules.r]\nanswer = 'ask'\ntools = ['zzz']");
    let told = |names: &[String]| {
        let tools: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
        policy.unknown_tools(&tools)[0].to_string()
    };
    let few = ["write", "read", "write"].map(str::to_owned);
    assert_eq!(
        told(&few),
        "rules.r.tools: \"zzz\" matches no tool; known: read, write"
    );
    let many: Vec<String> = (10..33).map(|number| format!("t{number}")).collect();
    let told = told(&many);
    assert!(told.contains("known: t10, t11, "), "{told}");
    assert!(told.ends_with(", t29, … and 3 more"), "{told}");
}

#[test]
fn every_agent_setting_that_names_a_tool_is_checked_for_typos() {
    let tools = crate::catalog::all_tools();
    let tools: Vec<_> = tools.into_iter().map(|tool| tool.name).collect();
    let policy = layered(
        "[agents.a]
         tools = ['calculat']
         stop_after = ['read_file', 'reed_file']
         tool_choice = { named = 'run_comand' }
         opening = { gather = { role = 'router', tool = 'curent_time', default_arguments = '{}' } }
         results.curent_time.note = 'n'
         results.current_time.then = { named = 'reed_file' }
         [channels.chat]
         tools = ['*']
         opening = { gather = { role = 'router', tool = 'curent_time', default_arguments = '{}' } }",
    );
    let faults = policy.unknown_tools(&tools);
    let told: Vec<_> = faults
        .iter()
        .map(|fault| {
            fault
                .to_string()
                .split("; known")
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        told,
        [
            "channels.chat.opening.gather.tool: \"curent_time\" matches no tool (did you mean current_time?)",
            "agents.a.tools: \"calculat\" matches no tool (did you mean calculate?)",
            "agents.a.stop_after: \"reed_file\" matches no tool (did you mean read_file?)",
            "agents.a.tool_choice.named: \"run_comand\" matches no tool (did you mean run_command?)",
            "agents.a.opening.gather.tool: \"curent_time\" matches no tool (did you mean current_time?)",
            "agents.a.results.curent_time: \"curent_time\" matches no tool (did you mean current_time?)",
            "agents.a.results.current_time.then.named: \"reed_file\" matches no tool (did you mean read_file?)",
        ]
    );
}

#[test]
fn an_agent_hidden_by_a_tool_of_the_same_name_is_reported() {
    let tools = ["read_file".parse().unwrap(), "researcher".parse().unwrap()];
    assert!(Policy::built_in().hidden_agents(&tools).is_empty());
    let named = "agents.a.tool_name: the agent could not be called, because a tool named read_file already exists";
    let own = "agents.read_file: the agent could not be called, because a tool named read_file already exists";
    for (text, told) in [
        (
            "[agents.main_thread]\nagents = ['a']\n[agents.a]\ntool_name = 'read_file'",
            Some(named),
        ),
        (
            "[agents.main_thread]\nagents = ['read_file']\n[agents.read_file]\nmax_turns = 2",
            Some(own),
        ),
        // No agent calls it.
        ("[agents.read_file]\nmax_turns = 2", None),
        (
            "[agents.main_thread]\nagents = ['a']\n[agents.a]\ntool_name = 'read_files'",
            None,
        ),
    ] {
        let found = layered(text).hidden_agents(&tools);
        let found = found.first().map(ToString::to_string);
        match (found, told) {
            (Some(found), Some(told)) => assert!(found.starts_with(told), "{found}"),
            (found, told) => assert_eq!(found.as_deref(), told, "{text}"),
        }
    }
}

#[test]
fn conversation_length_matters_only_if_a_question_may_be_the_reply() {
    assert!(!Policy::built_in().may_clarify(&Channel::CHAT, "fix it"));
    let policy = layered(VAGUE);
    assert!(policy.may_clarify(&Channel::CHAT, "fix it"));
    assert!(!policy.may_clarify(&Channel::CHAT, "Fix the build"));
    assert!(!policy.may_clarify(&Channel::SYSTEM_HEALTH, "fix it"));
    assert!(!policy.may_clarify(&Channel::new("nowhere"), "fix it"));
}

#[test]
fn prior_usage_matters_only_if_a_plan_limits_it() {
    let policy = layered("[plans.team.day]\nmax_tokens = 1");
    let (team, basic) = (PlanName::new("team"), PlanName::new("basic"));
    let counts = |plan, scope| policy.has_budget(plan, scope);
    assert!(counts(&team, BudgetScope::Day));
    assert!(!counts(&team, BudgetScope::Session));
    assert!(!counts(&basic, BudgetScope::Day));
}

/// Each condition that makes words, history or usage matter, in its own channel or plan.
const READERS: &str = "
[channels.asks_back]
role = 'reasoning'
clarify = 'vague'
[channels.checks]
role = 'reasoning'
self_check = 'complex'
[channels.sorts]
role = 'reasoning'
simple_role = 'router'
[channels.plain]
role = 'reasoning'
self_check = 'always'
[plans.small]
max_tokens = 1000
[plans.daily.day]
max_tokens = 1000
[plans.talk.session]
max_tokens = 1000
";

#[test]
fn requests_promised_the_same_decision_get_it_whatever_their_text_and_usage() {
    let policy = layered(READERS);
    let plans: Vec<_> = std::iter::once(None)
        .chain(policy.plans().map(Some))
        .collect();
    let mut alike = Vec::new();
    for channel in policy.channels() {
        for (plan, mode) in plans
            .iter()
            .flat_map(|plan| policy.modes().map(move |mode| (*plan, mode)))
        {
            let decide = |message, history, today, before| {
                let mut request = Request::new(mode, channel, message).with_history(history);
                request.plan = plan;
                request.day_spent.tokens = today;
                request.session_spent.tokens = before;
                policy.evaluate_request(&request).ok()
            };
            let usual = decide(HARD, 0, 0, 0);
            let others = [
                decide("fix it", 0, 0, 0),
                decide("fix it", 5, 0, 0),
                decide(HARD, 0, 2_000, 0),
                decide(HARD, 0, 0, 2_000),
            ];
            let is_same = others.iter().all(|other| *other == usual);
            let promised = policy.decision_is_cacheable(channel, plan);
            // A mode that the channel does not have is refused alike; nothing was promised about it.
            if usual.is_some() {
                assert_eq!(promised, is_same, "{channel} {mode} {plan:?}");
            }
            if promised && !alike.contains(&channel.as_str()) {
                alike.push(channel.as_str());
            }
        }
    }
    assert!(alike.contains(&"plain"), "{alike:?}");
}
