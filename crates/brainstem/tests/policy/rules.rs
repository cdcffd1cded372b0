//! How rules match calls: by command, path, host and value, with each part of a command judged separately.

use std::fmt::Write;

use neuraxis_brainstem::{Call, Policy, PolicyConfig, RuleFunction};
use neuraxis_core::{Channel, JsonText, Mode, Verdict};

use crate::catalog::{judge_in, layered, named, offering_all, word};

const POLICY: &str = "
[rules.git-reads]
answer = 'allow'
tools = ['run_command']
commands = ['git status', 'git log **', 'git diff **']
match = [{ command = 'git log -1' }, { command = 'git status && git diff' }]
not_match = [{ command = 'git push' }, { command = 'git status && curl x' }]

[rules.no-network]
answer = 'deny'
tools = ['run_command']
commands = ['curl', 'wget']
reason = 'Commands here have no business on the network.'
match = [{ command = 'git status && curl x' }, { command = '/usr/bin/wget x' }]
not_match = [{ command = 'echo curl' }]

[rules.generated]
answer = 'allow'
tools = ['write_file', 'apply_patch']
paths = ['generated/**']

[rules.docs]
answer = 'allow'
tools = ['web_fetch']
hosts = ['docs.rs', '*.rust-lang.org']

[rules.not-inside]
answer = 'deny'
tools = ['web_fetch']
hosts = ['127.0.0.1', 'localhost', '*.internal.example']

[rules.tables]
answer = 'ask'
tools = ['find_order']
values = { table = ['*_private'] }
remember = 'never'
";

#[test]
fn path_patterns_that_leave_the_root_or_are_not_normalized_are_reported() {
    let told = |key: &str, pattern: &str| {
        let policy = layered(&format!(
            "[rules.r]\nanswer = 'deny'\ntools = ['*']\n{key} = ['{pattern}']"
        ));
        let told = policy.patterns_out_of_root();
        told.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told("paths", "/etc/**"),
        [
            "rules.r.paths: \"/etc/**\" can never match: paths are relative to the root of the project, such as src/**; to match paths outside the root, set outside_root = true"
        ]
    );
    for pattern in ["../**", "src/../x", "./src/**", "/", "**/.."] {
        assert_eq!(told("paths", pattern).len(), 1, "{pattern}");
        assert_eq!(told("cwd", pattern).len(), 1, "{pattern}");
    }
    for pattern in [".", "**", "src/**", "**/..hidden", ".git/**", "a..b/c"] {
        assert!(told("paths", pattern).is_empty(), "{pattern}");
    }
}

#[test]
fn a_rule_compares_numbers_and_asks_if_a_value_is_not_one() {
    let policy = layered(
        "[rules.large]\nanswer = 'deny'\ntools = ['find_order']\nvalues = { amount = ['> 100'] }\n\
         match = [{ arguments = { amount = 100.5 } }, { arguments = { of = [{ amount = 7 }, { amount = 101 }] } }]\n\
         not_match = [{ arguments = { amount = 100 } }, { arguments = { other = 101 } }]\n\
         [rules.small]\nanswer = 'allow'\ntools = ['write_file']\nvalues = { lines = ['< 10'] }\n\
         match = [{ arguments = { lines = 9 } }]\n\
         not_match = [{ arguments = { lines = [9, 10] } }, { arguments = { lines = 'few' } }]",
    );
    let judged = |name, arguments| judge_in(&policy, &Mode::EXPLORATORY, name, arguments);
    assert_eq!(word(&judged("find_order", r#"{"amount":1e3}"#)), "deny");
    assert_ne!(word(&judged("find_order", r#"{"amount":99}"#)), "deny");
    assert_eq!(word(&judged("find_order", r#"{"amount":"1,000"}"#)), "ask");
    let wrong = PolicyConfig::from_toml(
        "[rules.r]\nanswer = 'ask'\ntools = ['*']\nvalues = { amount = ['>= much'] }",
    );
    let error = Policy::layered(wrong.unwrap()).unwrap_err().to_string();
    assert!(
        error.starts_with("rules.r.values.amount: invalid pattern \">= much\""),
        "{error}"
    );
}

/// A refund, as a rule's function reads it.
#[derive(serde::Deserialize)]
struct Refund {
    amount: u32,
    paid: u32,
}

#[test]
fn a_rule_calls_a_program_function_and_asks_a_person_if_it_gives_no_answer() {
    let text = |answer: &str| {
        format!("[rules.too-much]\nanswer = '{answer}'\ntools = ['find_order']\nwhen = 'too_much'")
    };
    let too_much = || RuleFunction::of_arguments(|refund: &Refund| refund.amount > refund.paid);
    let crash = || RuleFunction::new(|_| panic!("a program's own fault"));
    let with = |policy: Policy, function: RuleFunction| {
        policy.with_rule_functions([("too_much".to_owned(), function)])
    };
    let judged = |policy: &Policy, arguments| {
        word(&judge_in(
            policy,
            &Mode::EXPLORATORY,
            "find_order",
            arguments,
        ))
    };
    let (more, less) = (r#"{"amount":9,"paid":8}"#, r#"{"amount":8,"paid":9}"#);
    let unreadable = r#"{"amount":"nine","paid":8}"#;
    for (answer, when_it_holds) in [("deny", "deny"), ("ask", "ask"), ("allow", "allow")] {
        let plain = layered(&text(answer));
        assert_eq!(plain.unknown_rule_functions().len(), 1);
        assert_eq!(
            judged(&plain, more),
            "ask",
            "a function that is not there says nothing"
        );
        let policy = with(plain.clone(), too_much());
        assert!(policy.unknown_rule_functions().is_empty());
        assert_eq!(judged(&policy, more), when_it_holds);
        assert_eq!(
            judged(&policy, less),
            judged(&layered(""), less),
            "{answer}"
        );
        assert_eq!(judged(&policy, unreadable), "ask");
        assert_eq!(judged(&with(plain, crash()), more), "ask");
    }
    let faults = with(layered(&text("ask")), too_much());
    let over = layered(&text("ask").replace("when = 'too_much'", "when = 'to_much'"));
    let over = over.with_rule_functions([("too_much".to_owned(), too_much())]);
    assert!(faults.unknown_rule_functions().is_empty());
    assert_eq!(
        over.unknown_rule_functions()[0].to_string(),
        "rules.too-much.when: unknown function \"to_much\" (did you mean too_much?); known: too_much"
    );
}

#[test]
fn a_rule_function_receives_the_owner_of_the_call() {
    let policy = layered("[rules.r]\nanswer = 'deny'\ntools = ['find_order']\nwhen = 'is_eve'");
    let is_eve = RuleFunction::new(|call| Some(call.owner? == "eve"));
    let policy = policy.with_rule_functions([("is_eve".to_owned(), is_eve)]);
    let tool = named("find_order");
    let decision = offering_all(&policy, &Mode::EXPLORATORY, &Channel::CODE_TASK);
    let arguments = JsonText::from_text("{}");
    let judged = |owner| {
        let call = Call::new(&tool, &arguments).with_owner(owner);
        word(&policy.judge(&decision, &call))
    };
    assert_eq!(judged(Some("eve")), "deny");
    assert_ne!(judged(Some("ada")), "deny");
    assert_eq!(judged(None), "ask");
}

#[test]
fn a_rule_that_names_owners_applies_only_to_those_owners() {
    let policy = layered(
        "[rules.desk]\nanswer = 'allow'\ntools = ['write_file']\nowners = ['ada']\n\
         match = [{ owner = 'ada' }]\nnot_match = [{ owner = 'eve' }]\n\
         [rules.barred]\nanswer = 'deny'\ntools = ['*']\nowners = ['eve']",
    );
    let tool = named("write_file");
    let (mode, channel) = (Mode::MODERATE, Channel::CODE_TASK);
    let decision = offering_all(&policy, &mode, &channel);
    let arguments = JsonText::from_text("{}");
    let judged = |owner: Option<&str>| {
        let call = Call::new(&tool, &arguments).with_owner(owner);
        policy.judge(&decision, &call)
    };
    let usual = judged(None);
    assert_eq!(judged(Some("grace")), usual);
    assert!(matches!(judged(Some("eve")), Verdict::Deny { .. }));
    assert_eq!(judged(Some("ada")), Verdict::Allow);
    assert_ne!(usual, Verdict::Allow);
}

fn command(command: &str) -> String {
    JsonText::encode(
        &[("command", command)]
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>(),
    )
    .unwrap()
    .to_string()
}

#[test]
fn commands_are_judged_part_by_part() {
    let policy = layered(POLICY);
    let mut table = String::new();
    for line in [
        "git status",
        "git log --oneline -5",
        "git status && git diff HEAD",
        "git push",
        "git status && git push",
        "git status && curl x",
        "git status; curl x",
        "git status | curl x",
        "git status\ncurl x",
        "git status & curl x",
        "git log $(curl x)",
        "git log `curl x`",
        "git log \"$(curl x)\"",
        "git log $(rm -rf .)",
        "git log $X",
        "git log > out.txt",
        "GIT_PAGER=sh git log",
        "c'ur'l x",
        "/usr/bin/curl x",
        "sudo curl x",
        "sh -c 'curl x'",
        "xargs curl",
        "echo curl",
        "(git status)",
        "if git status; then git log; fi",
        "git log *",
        "git log 'unfinished",
        "./git status",
        "",
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", &command(line));
        writeln!(table, "{line:?}\n  {}", shown(&verdict)).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_program_with_a_list_of_arguments_is_judged_without_a_shell() {
    let policy = layered(POLICY);
    for (arguments, expected) in [
        (r#"{"command":["git","status"]}"#, "allow"),
        (r#"{"command":["git","log","$(curl x)"]}"#, "allow"),
        (r#"{"command":["curl","x"]}"#, "deny"),
        (r#"{"command":"git","args":["status"]}"#, "allow"),
        (r#"{"command":"git","args":["push"]}"#, "ask"),
        (r#"{"command":"git status","command":"curl x"}"#, "deny"),
        (r#"{"command":{"line":"git status"}}"#, "ask"),
        (r#"{"command":[]}"#, "ask"),
        (r#"["git status"]"#, "ask"),
        ("no JSON", "ask"),
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", arguments);
        assert_eq!(word(&verdict), expected, "{arguments}: {verdict:?}");
    }
}

#[test]
fn paths_are_judged_by_where_they_resolve() {
    let policy = layered(POLICY);
    for (tool, arguments, expected) in [
        ("write_file", r#"{"path":"generated/a.rs"}"#, "allow"),
        (
            "write_file",
            r#"{"path":"./src/../generated/a.rs"}"#,
            "allow",
        ),
        (
            "write_file",
            r#"{"path":"/home/me/project/generated/a.rs"}"#,
            "allow",
        ),
        ("write_file", r#"{"path":"generated/../src/a.rs"}"#, "ask"),
        ("write_file", r#"{"path":"generated/../../a.rs"}"#, "deny"),
        (
            "write_file",
            r#"{"path":"/home/me/project-evil/a"}"#,
            "deny",
        ),
        (
            "write_file",
            r#"{"path":"generated/a.rs ","content":""}"#,
            "ask",
        ),
        (
            "write_file",
            r#"{"path":"generated/a.rs","path":"/etc/passwd"}"#,
            "deny",
        ),
        ("write_file", r#"{"path":"GENERATED/a.rs"}"#, "ask"),
        ("write_file", r#"{"path":"neuraxis.toml"}"#, "deny"),
        ("write_file", r#"{"path":"generated/.GIT/hooks/x"}"#, "deny"),
        ("write_file", r#"{"paths":["generated/a","src/b"]}"#, "ask"),
        (
            "apply_patch",
            r#"{"patch":"--- a/generated/x\n+++ b/generated/x\n"}"#,
            "allow",
        ),
        (
            "apply_patch",
            r#"{"patch":"--- a/generated/x\n+++ b/src/x\n"}"#,
            "ask",
        ),
        (
            "apply_patch",
            r#"{"patch":"--- a/x\n+++ b/../x\n"}"#,
            "deny",
        ),
        ("read_file", r#"{"path":"/proc/self/environ"}"#, "deny"),
        ("read_file", r#"{"path":"~/.ssh/id_rsa"}"#, "ask"),
        ("run_command", r#"{"command":"ls","cwd":"../.."}"#, "deny"),
        ("run_command", r#"{"command":"ls","cwd":"/"}"#, "deny"),
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, tool, arguments);
        assert_eq!(word(&verdict), expected, "{tool} {arguments}: {verdict:?}");
    }
}

#[test]
fn a_working_folder_also_affects_paths_in_named_arguments() {
    let rule = |answer: &str, condition: &str| {
        layered(&format!(
            "[rules.r]\nanswer = '{answer}'\ntools = ['find_order', 'github__create_issue']\n{condition}\n\
             arguments = ['target']"
        ))
    };
    let allowing = rule("allow", "paths = ['notes/**']");
    let denying = rule("deny", "outside_root = true");
    for (arguments, allowed, denied) in [
        (r#"{"target":"notes/a.md"}"#, "allow", "allow"),
        (r#"{"target":"notes/a.md","cwd":"."}"#, "allow", "allow"),
        (r#"{"target":"notes/a.md","cwd":"src"}"#, "ask", "allow"),
        (r#"{"target":"notes/a.md","cwd":"/etc"}"#, "ask", "deny"),
        (r#"{"target":"notes/a.md","workdir":".."}"#, "ask", "deny"),
        (r#"{"target":"notes/a.md","cwd":"~"}"#, "ask", "ask"),
        (
            r#"{"target":"notes/a.md","cwd":{"of":"/etc"}}"#,
            "ask",
            "ask",
        ),
        (
            r#"{"target":"/home/me/project/notes/a.md","cwd":"/etc"}"#,
            "allow",
            "allow",
        ),
    ] {
        // In this mode, the first asks unless a rule allows it, and the second runs unless a rule denies it.
        for (policy, tool, expected) in [
            (&allowing, "github__create_issue", allowed),
            (&denying, "find_order", denied),
        ] {
            let verdict = judge_in(policy, &Mode::MODERATE, tool, arguments);
            assert_eq!(word(&verdict), expected, "{tool} {arguments}: {verdict:?}");
        }
    }
}

#[test]
fn urls_are_judged_by_the_host_they_connect_to() {
    let policy = layered(POLICY);
    for (url, expected) in [
        ("https://docs.rs/serde", "allow"),
        ("https://doc.rust-lang.org/std", "allow"),
        ("https://rust-lang.org/", "ask"),
        ("https://docs.rs.evil.example/", "ask"),
        ("https://docs.rs@evil.example/", "ask"),
        ("http://127.0.0.1/", "deny"),
        ("http://2130706433/", "deny"),
        ("http://LOCALHOST./", "deny"),
        ("http://a.b.internal.example/", "deny"),
        ("file:///etc/passwd", "ask"),
        ("javascript:alert(1)", "ask"),
    ] {
        let arguments = format!("{{\"url\":\"{url}\"}}");
        let verdict = judge_in(&policy, &Mode::MODERATE, "web_fetch", &arguments);
        assert_eq!(word(&verdict), expected, "{url}: {verdict:?}");
    }
    // Exploratory mode lets web_fetch run, but not if its target is unknown.
    let verdict = judge_in(
        &policy,
        &Mode::EXPLORATORY,
        "web_fetch",
        r#"{"url":"https://a@b.example/"}"#,
    );
    assert_eq!(word(&verdict), "ask", "{verdict:?}");
}

#[test]
fn other_arguments_are_matched_by_name_at_any_depth() {
    let policy = layered(POLICY);
    for (arguments, expected) in [
        (r#"{"table":"orders"}"#, "allow"),
        (r#"{"table":"orders_private"}"#, "ask"),
        (
            r#"{"queries":[{"table":"a"},{"table":"b_private"}]}"#,
            "ask",
        ),
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, "find_order", arguments);
        assert_eq!(word(&verdict), expected, "{arguments}: {verdict:?}");
    }
}

#[test]
fn a_verdict_names_the_rule_and_its_line() {
    let policy = layered(POLICY);
    let verdict = judge_in(
        &policy,
        &Mode::MODERATE,
        "run_command",
        &command("git status && curl x"),
    );
    let Verdict::Deny { reason, rule } = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        reason,
        "Rule no-network (neuraxis.toml:9) denies run_command: Commands here have no business on the network. (`curl x`)"
    );
    let rule = rule.unwrap();
    assert_eq!(
        (&*rule.name, &*rule.source, rule.line),
        ("no-network", "neuraxis.toml", 9)
    );
    let built_in = judge_in(&policy, &Mode::MODERATE, "read_file", r#"{"path":"../x"}"#);
    let Verdict::Deny {
        rule: Some(rule), ..
    } = built_in
    else {
        panic!("{built_in:?}")
    };
    assert_eq!(&*rule.source, "default-policy.toml");
    let line = include_str!("../../default-policy.toml")
        .lines()
        .nth(rule.line as usize - 1);
    assert_eq!(line, Some("[rules.outside-root]"));
}

#[test]
fn an_allowed_call_is_also_explained() {
    let policy = layered(POLICY);
    let decision = offering_all(&policy, &Mode::MODERATE, &Channel::CODE_TASK);
    let arguments = JsonText::from_text(command("git status"));
    let judgment = policy.explain(&decision, &Call::new(&named("run_command"), &arguments));
    assert_eq!(judgment.verdict, Verdict::Allow);
    assert_eq!(
        judgment.reasons,
        ["Rule git-reads (neuraxis.toml:2) lets run_command run. (`git status`)"]
    );
}

#[test]
fn no_rule_allows_what_a_mode_denies() {
    let policy = layered("[rules.all]\nanswer = 'allow'\ntools = ['*']");
    for tool in ["write_file", "run_command", "web_fetch"] {
        let verdict = judge_in(&policy, &Mode::CONSERVATIVE, tool, "{}");
        assert_eq!(word(&verdict), "deny", "{tool}");
    }
    assert_eq!(
        word(&judge_in(&policy, &Mode::MODERATE, "run_command", "{}")),
        "allow"
    );
}

#[test]
fn a_tool_that_a_rule_always_denies_is_not_offered() {
    let policy =
        layered("[rules.no-web]\nanswer = 'deny'\ntools = ['web_*']\nmodes = ['exploratory']");
    let tools = crate::catalog::all_tools();
    let offers = |mode: &Mode| {
        let request =
            neuraxis_brainstem::Request::new(mode, &Channel::CHAT, "Hello").with_tools(&tools);
        let decision = policy.evaluate_request(&request).unwrap();
        decision
            .tools
            .iter()
            .any(|tool| tool.as_str() == "web_fetch")
    };
    assert!(offers(&Mode::MODERATE));
    assert!(!offers(&Mode::EXPLORATORY));
}

fn shown(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow => "allow".to_owned(),
        Verdict::Ask {
            reason, remember, ..
        } => format!("ask    {reason} [{remember:?}]"),
        Verdict::Deny { reason, .. } => format!("deny   {reason}"),
    }
}
