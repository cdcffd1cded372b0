//! What no sequence of layers, arguments, remembered answers, taint and requests can cause.

use neuraxis_brainstem::{Call, GrantScope, Grants, LayerKind, Policy, PolicyConfig, Request};
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{Channel, Decision, JsonText, Mode, Spent, Taint, ToolSpec, Verdict};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::catalog::{all_tools, layered};

/// Pieces of policy, some of which tighten the built-in one and some of which would loosen it.
const PIECES: [&str; 27] = [
    "[rules.a1]\nanswer = 'deny'\ntools = ['run_command']\ncommands = ['curl']",
    "[rules.a2]\nanswer = 'ask'\ntools = ['*']\nclass = ['idempotent']\nremember = 'tool'",
    "[rules.a3]\nanswer = 'deny'\ntools = ['web_*']\nhosts = ['*.evil.example']",
    "[rules.a4]\nanswer = 'allow'\ntools = ['write_file']\npaths = ['src/**']",
    "[rules.a5]\nanswer = 'ask'\ntools = ['read_file']\npaths = ['secret/**']\nremember = 'never'",
    "[rules.a6]\nanswer = 'deny'\ntools = ['apply_patch']",
    "[rules.a7]\nanswer = 'deny'\ntools = ['write_file']\nmodes = ['moderate']\npaths = ['src/**']",
    "[rules.a8]\nanswer = 'ask'\ntools = ['run_command']\ncommands = ['git status', 'git log']",
    "[rules.a8]\nanswer = 'deny'\ntools = ['*']\nowners = ['ada']",
    "[rules.a9]\nanswer = 'allow'\ntools = ['write_file']\nowners = ['ada']",
    "[modes.moderate.tools]\nirreversible = 'deny'",
    "[modes.moderate.tools]\nirreversible = 'ask'",
    "[modes.moderate.tools]\nread_only = 'ask'",
    "[modes.exploratory.tools]\nopen_world = 'ask'\nidempotent = 'deny'",
    "[modes.exploratory.tools]\nirreversible = 'allow'",
    "[modes.exploratory]\nafter_untrusted = 'deny'",
    "[modes.moderate]\nremember = 'never'",
    "[modes.moderate]\nmax_turns = 4\nmax_output_tokens = 9",
    "[modes.moderate]\nmax_turns = 40",
    "[channels.code_task]\ntools = ['read_file', 'write_file']",
    "[channels.chat]\ntools = ['current_time']\nunlisted_tools = 'withheld'",
    "[channels.chat]\nunlisted_tools = 'offered'",
    "[channels.code_task.when.moderate]\ntools = []",
    "[channels.code_task]\nagent = 'researcher'",
    "[agents.main_thread]\ntools = ['read_*', 'run_command']\nmax_output_tokens = 7",
    "[agents.main_thread]\nagents = ['researcher']",
    "[trust.all]\ntools = ['*']\nclass = 'read_only'",
];

const BASE: &str = "
[rules.git]
answer = 'allow'
tools = ['run_command']
commands = ['git status', 'git log **', 'cargo **']
[rules.sources]
answer = 'allow'
tools = ['write_file', 'apply_patch']
paths = ['src/**', 'docs/*']
[rules.docs]
answer = 'allow'
tools = ['web_fetch']
hosts = ['docs.rs', '*.evil.example']
";

fn arguments() -> impl Strategy<Value = JsonText> {
    let command = prop::sample::select(vec![
        "git status",
        "git log -1",
        "git status && curl x",
        "git log $(rm x)",
        "cargo test; git push",
        "curl x",
        "ls",
        "",
        "cargo test > x",
        "sudo git status",
    ]);
    let path = prop::sample::select(vec![
        "src/a.rs",
        "docs/a",
        "../x",
        "src/../neuraxis.toml",
        "secret/x",
        "/etc/passwd",
        "~/x",
        ".git/x",
        "",
    ]);
    let url = prop::sample::select(vec![
        "https://docs.rs/x",
        "https://a.evil.example/",
        "https://x@docs.rs/",
        "http://127.0.0.1/",
        "nonsense",
    ]);
    let fields = (
        prop::option::of(command),
        prop::option::of(path),
        prop::option::of(url),
    );
    let made = fields.prop_map(|(command, path, url)| {
        let given = [("command", command), ("path", path), ("url", url)];
        let given = given
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        JsonText::encode(&given.collect::<std::collections::BTreeMap<_, _>>()).unwrap()
    });
    prop_oneof![8 => made, 1 => ".{0,40}".prop_map(JsonText::from_text)]
}

fn layers() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..6)
}

/// Lays all layers that a policy accepts over it.
fn tightened(base: &Policy, layers: &[&str]) -> Policy {
    let kinds = [
        LayerKind::Project,
        LayerKind::Key,
        LayerKind::Session,
        LayerKind::Agent,
        LayerKind::SubAgent,
    ];
    let mut policy = base.clone();
    for (layer, kind) in layers.iter().zip(kinds.into_iter().cycle()) {
        let layer = PolicyConfig::from_toml(layer).unwrap();
        if let Ok(tighter) = policy.tightened(kind, layer) {
            policy = tighter;
        }
    }
    policy
}

fn tainted() -> Taint {
    let mut taint = Taint::default();
    taint.add(&"web_fetch".parse().unwrap(), None);
    taint
}

fn decide(
    policy: &Policy,
    mode: &Mode,
    channel: &Channel,
    tools: &[ToolSpec],
    taint: &Taint,
) -> Decision {
    let request = Request::new(mode, channel, "Hello")
        .with_tools(tools)
        .with_taint(taint);
    policy
        .evaluate_request(&request.with_spent(Spent::NONE, Spent::NONE))
        .unwrap()
}

fn strictness(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

fn a_mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY])
}

fn a_channel() -> impl Strategy<Value = Channel> {
    prop::sample::select(vec![
        Channel::CHAT,
        Channel::CODE_TASK,
        Channel::SYSTEM_HEALTH,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 192,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn another_layer_never_loosens_anything(
        some in layers(), more in layers(), mode in a_mode(), channel in a_channel(), arguments in arguments(),
        is_tainted in any::<bool>(), owner in prop::option::of(prop::sample::select(vec!["ada", "eve"])),
    ) {
        let (base, tools) = (layered(BASE), all_tools());
        let before = tightened(&base, &some);
        let after = tightened(&before, &more);
        let taint = if is_tainted { tainted() } else { Taint::default() };
        let (mild, strict) = (decide(&before, &mode, &channel, &tools, &taint), decide(&after, &mode, &channel, &tools, &taint));
        prop_assert!(strict.tools.iter().all(|tool| mild.tools.contains(tool)));
        prop_assert!(strict.allowed_roles.iter().all(|role| mild.allowed_roles.contains(role)));
        prop_assert_eq!(strict.limits.tightest(mild.limits), strict.limits);
        prop_assert!(strict.max_output_tokens <= mild.max_output_tokens);
        prop_assert!(strict.approval.remember <= mild.approval.remember);
        for tool in &tools {
            let call = Call::new(tool, &arguments).with_root("/project").with_owner(owner);
            let (mild, strict) = (before.judge(&mild, &call), after.judge(&strict, &call));
            prop_assert!(strictness(&strict) >= strictness(&mild), "{}: {:?} after {:?}", tool.name, strict, mild);
            if let (Verdict::Ask { remember: mild, .. }, Verdict::Ask { remember: strict, .. }) = (&mild, &strict) {
                prop_assert!(strict <= mild, "{}: {:?} after {:?}", tool.name, strict, mild);
            }
        }
    }

    #[test]
    fn a_denied_call_stays_denied_whatever_was_remembered(
        layers in layers(), mode in a_mode(),
        asked in prop::collection::vec((0..16_usize, arguments(), 0..4_u8), 0..12),
        tool in 0..16_usize, arguments in arguments(),
    ) {
        let (policy, tools) = (tightened(&layered(BASE), &layers), all_tools());
        let decision = decide(&policy, &mode, &Channel::CODE_TASK, &tools, &Taint::default());
        let mut remembered = Grants::default();
        for (tool, arguments, scope) in &asked {
            let scope = match scope {
                0 => GrantScope::Tool,
                1 => GrantScope::Arguments { hash: arguments.hash() },
                2 => GrantScope::Command { pattern: "**".to_owned(), access: Vec::new() },
                _ => GrantScope::Host { pattern: "*".to_owned() },
            };
            let call = Call::new(&tools[*tool], arguments).with_root("/project");
            let _ = policy.remember(&mut remembered, &decision, &call, scope, Timestamp::UNIX_EPOCH, None);
        }
        let call = Call::new(&tools[tool], &arguments).with_root("/project");
        let (plain, recalled) = (policy.judge(&decision, &call), policy.judge(&decision, &call.with_remembered(&remembered)));
        match plain {
            Verdict::Deny { .. } | Verdict::Allow => prop_assert_eq!(&plain, &recalled),
            Verdict::Ask { remember: neuraxis_core::Remember::Never, .. } => {
                prop_assert_eq!(&plain, &recalled);
            }
            Verdict::Ask { .. } => prop_assert!(strictness(&recalled) < 2),
        }
        // Untrusted content undoes all of it.
        let taint = tainted();
        let after = policy.judge(&decision, &call.with_remembered(&remembered).with_taint(&taint));
        prop_assert!(strictness(&after) >= strictness(&recalled));
    }

    #[test]
    fn an_offered_tool_is_never_denied_under_any_layers(layers in layers(), mode in a_mode(), channel in a_channel()) {
        let (policy, tools) = (tightened(&layered(BASE), &layers), all_tools());
        let decision = decide(&policy, &mode, &channel, &tools, &Taint::default());
        let arguments = JsonText::from_text("{}");
        for tool in tools.iter().filter(|tool| decision.tools.contains(&tool.name)) {
            prop_assert!(strictness(&policy.judge(&decision, &Call::new(tool, &arguments))) < 2, "{}", tool.name);
        }
    }

    #[test]
    fn judging_arbitrary_arguments_never_panics_and_allows_only_plain_commands(text in "[ -~\\n]{0,300}", tool in 0..16_usize) {
        let (policy, tools) = (layered(BASE), all_tools());
        let mut decision = decide(&policy, &Mode::MODERATE, &Channel::CODE_TASK, &tools, &Taint::default());
        decision.tools = tools.iter().map(|tool| tool.name.clone()).collect();
        let command = JsonText::encode(&std::collections::BTreeMap::from([("command", &text), ("path", &text), ("url", &text)])).unwrap();
        let verdict = policy.judge(&decision, &Call::new(&tools[tool], &command));
        // Only the plain commands of the rule may run.
        if tools[tool].name.as_str() == "run_command" && verdict == Verdict::Allow {
            prop_assert!(text.contains("git ") || text.contains("cargo"), "{}", text);
            prop_assert!(!text.contains(['$', '`', '>', '<', '(']) || text.contains(['\'', '"', '#']), "{}", text);
        }
    }
}
