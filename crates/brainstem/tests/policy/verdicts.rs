//! How calls are judged.

use std::fmt::Write;

use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
use neuraxis_core::{Channel, Decision, JsonText, Mode, ToolClass, ToolSpec, Verdict};

use crate::catalog::{all_tools, destructive, judge_in, layered, open_world, tool, word};

fn judge(policy: &Policy, decision: &Decision, tool: &ToolSpec) -> Verdict {
    policy.judge(decision, &Call::new(tool, &JsonText::from_text("{}")))
}

/// Decides about a chat request and then offers the tool regardless of the policy, so that only the judgment of calls
/// matters.
fn decision_offering(policy: &Policy, mode: &Mode, tool: &ToolSpec) -> Decision {
    let mut decision = policy
        .evaluate_request(&Request::new(mode, &Channel::CHAT, "Hello"))
        .unwrap();
    decision.tools = vec![tool.name.clone()];
    decision
}

#[test]
fn verdicts_for_every_kind_of_tool_per_mode() {
    let policy = Policy::built_in();
    let mut table = String::new();
    for mode in [Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY] {
        writeln!(table, "mode {mode}").unwrap();
        for class in [
            ToolClass::ReadOnly,
            ToolClass::Idempotent,
            ToolClass::Irreversible,
        ] {
            let local = tool("it", class);
            let kinds = [
                ("local", local.clone()),
                ("open-world", open_world(local.clone())),
                ("destructive", destructive(local.clone())),
                ("open-world, destructive", destructive(open_world(local))),
            ];
            for (kind, tool) in kinds {
                let decision = decision_offering(&policy, &mode, &tool);
                let verdict = match judge(&policy, &decision, &tool) {
                    Verdict::Allow => "allow".to_owned(),
                    Verdict::Ask { reason, .. } => format!("ask    {reason}"),
                    Verdict::Deny { reason, .. } => format!("deny   {reason}"),
                };
                let kind = format!("{class}, {kind}");
                writeln!(table, "  {kind:<38} {verdict}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_tool_the_decision_does_not_offer_is_denied_even_if_it_is_harmless() {
    let policy = Policy::built_in();
    let tools = all_tools();
    let harmless = tool("read_file", ToolClass::ReadOnly);
    let request = Request::new(&Mode::EXPLORATORY, &Channel::CHAT, "Hello").with_tools(&tools);
    let decision = policy.evaluate_request(&request).unwrap();
    assert!(!decision.tools.is_empty(), "others are on offer");
    assert_eq!(
        judge(&policy, &decision, &harmless),
        Verdict::Deny {
            reason: "Tool read_file is not offered on channel chat in mode exploratory.".to_owned(),
            rule: None,
        }
    );
    // If the mode is the reason, the message names the property of the tool that the mode denies.
    let reaching = open_world(tool("read_file", ToolClass::ReadOnly));
    let text = "[modes.exploratory.tools]\nopen_world = 'deny'";
    let Verdict::Deny { reason, .. } = judge(&layered(text), &decision, &reaching) else {
        panic!("not denied");
    };
    assert!(reason.contains("it reaches outside"), "{reason}");
}

#[test]
fn a_rule_that_denies_whole_tools_is_named_as_the_reason_they_are_not_offered() {
    let rules = "[rules.stop]\nanswer = 'deny'\ntools = ['read_file', 'list_files']";
    let policy = layered(rules);
    let tools = all_tools();
    let request = Request::new(&Mode::MODERATE, &Channel::CODE_TASK, "Hello").with_tools(&tools);
    let decision = policy.evaluate_request(&request).unwrap();
    let stopped = tool("read_file", ToolClass::ReadOnly);
    assert!(!decision.offers(&stopped.name));
    let verdict = judge(&policy, &decision, &stopped);
    let Verdict::Deny {
        reason,
        rule: Some(rule),
    } = &verdict
    else {
        panic!("{verdict:?}");
    };
    assert_eq!(&*rule.name, "stop");
    assert!(reason.starts_with(&format!("Rule {rule} ")), "{reason}");
    let told =
        format!("Rule {rule} denies these tools, so they are not offered: list_files, read_file.");
    assert!(decision.reasons.contains(&told), "{:?}", decision.reasons);
    let of_mode = "Mode moderate denies these tools";
    let blames_mode = decision.reasons.iter().any(|it| it.starts_with(of_mode));
    assert!(!blames_mode, "{:?}", decision.reasons);
}

#[test]
fn a_call_in_a_mode_the_policy_no_longer_has_is_denied() {
    let config = "[modes.careful.tools]\nread_only = 'allow'";
    let former = Policy::layered(PolicyConfig::from_toml(config).unwrap()).unwrap();
    let harmless = tool("it", ToolClass::ReadOnly);
    let decision = decision_offering(&former, &Mode::new("careful"), &harmless);
    assert_eq!(judge(&former, &decision, &harmless), Verdict::Allow);
    assert_eq!(
        judge(&Policy::built_in(), &decision, &harmless),
        Verdict::Deny {
            reason: "Tool it cannot be judged, because the policy no longer has mode careful."
                .to_owned(),
            rule: None,
        }
    );
}

#[test]
fn deny_beats_ask_and_ask_beats_allow() {
    let config = "
        [modes.mixed.tools]
        read_only = 'allow'
        idempotent = 'ask'
        irreversible = 'deny'
        open_world = 'ask'
        destructive = 'deny'";
    let policy = Policy::layered(PolicyConfig::from_toml(config).unwrap()).unwrap();
    let verdict = |tool: ToolSpec| {
        judge(
            &policy,
            &decision_offering(&policy, &Mode::new("mixed"), &tool),
            &tool,
        )
    };
    let class = |class| tool("it", class);
    assert_eq!(verdict(class(ToolClass::ReadOnly)), Verdict::Allow);
    assert!(matches!(
        verdict(open_world(class(ToolClass::ReadOnly))),
        Verdict::Ask { .. }
    ));
    assert!(matches!(
        verdict(destructive(class(ToolClass::Idempotent))),
        Verdict::Deny { .. }
    ));
    assert!(matches!(
        verdict(open_world(class(ToolClass::Irreversible))),
        Verdict::Deny { .. }
    ));
}

#[test]
fn a_rule_about_the_contents_of_a_folder_covers_the_folder_and_globs_into_it() {
    let policy = layered(
        "[rules.private]\nanswer = 'deny'\ntools = ['search_files']\npaths = ['private/**', '**/keys/*']\n\
         [rules.notes]\nanswer = 'allow'\ntools = ['write_file']\npaths = ['notes/**']",
    );
    let judged = |name, arguments| word(&judge_in(&policy, &Mode::MODERATE, name, arguments));
    for arguments in [
        r#"{"path":"private"}"#,
        r#"{"path":"./Private/"}"#,
        r#"{"path":"src/keys"}"#,
        r#"{"glob":"private/**"}"#,
        r#"{"glob":"/private/*.txt"}"#,
        r#"{"glob":"/home/me/project/private/"}"#,
        r#"{"path":".","glob":"private/n.txt"}"#,
        r#"{"path":"src","glob":"keys/*.pem"}"#,
    ] {
        assert_eq!(judged("search_files", arguments), "deny", "{arguments}");
    }
    // Whether a search from above reads the folder is unknown from the arguments; `cautions_about_tools` warns about
    // it.
    for arguments in [
        "{}",
        r#"{"path":"src","glob":"*.rs"}"#,
        r#"{"path":"privates"}"#,
        r#"{"glob":"privates/**"}"#,
        r#"{"glob":"**/private.rs"}"#,
    ] {
        assert_eq!(judged("search_files", arguments), "allow", "{arguments}");
    }
    // A rule that allows is only about what it names.
    for arguments in [r#"{"path":"notes"}"#, r#"{"path":"x","glob":"notes/**"}"#] {
        assert_eq!(judged("write_file", arguments), "ask", "{arguments}");
    }
}

#[test]
fn rules_that_ask_or_deny_ignore_accent_encoding_and_allowing_rules_are_exact() {
    let (composed, apart) = ("Vertr\u{e4}ge", "Vertra\u{308}ge");
    for (written, other) in [(composed, apart), (apart, composed)] {
        let judged = |answer: &str, tool: &str, condition: &str, arguments: String| {
            let policy = layered(&format!(
                "[rules.r]\nanswer = '{answer}'\ntools = ['{tool}']\n{condition}"
            ));
            word(&judge_in(&policy, &Mode::MODERATE, tool, &arguments))
        };
        let paths = format!("paths = ['{written}/**']");
        let path = |name: &str| format!(r#"{{"path":"{name}"}}"#);
        let upper = written.to_uppercase();
        for led in [written, other, upper.as_str()] {
            let file = path(&format!("{led}/a.txt"));
            assert_eq!(judged("deny", "read_file", &paths, file), "deny");
            assert_eq!(judged("deny", "list_files", &paths, path(led)), "deny");
        }
        let allowed = |led: &str| {
            let file = path(&format!("{led}/a.txt"));
            judged("allow", "write_file", &paths, file)
        };
        assert_eq!((allowed(written), allowed(other)), ("allow", "ask"));
        let cwd = format!("cwd = ['{written}']");
        let there = format!(r#"{{"command":"ls","cwd":"{other}"}}"#);
        assert_eq!(judged("deny", "run_command", &cwd, there), "deny");
        for (pattern, line) in [
            (format!("{written} **"), format!("bin/{other} x")),
            (format!("rm {written}*"), format!("rm -r {other}/x")),
            (format!("{written}* a"), format!("{other}2 a")),
        ] {
            let commands = format!("commands = ['{pattern}']");
            let line = format!(r#"{{"command":"{line}"}}"#);
            let denied = judged("deny", "run_command", &commands, line.clone());
            assert_eq!(denied, "deny", "{line}");
            let allowed = judged("allow", "run_command", &commands, line);
            assert_eq!(allowed, "ask", "{commands}");
        }
    }
}

#[test]
fn a_denying_rule_ignores_case_for_both_sigmas() {
    // As in `str::to_lowercase`, a sigma at the end of a word is a different letter.
    let upper = "\u{39b}\u{39f}\u{393}\u{39f}\u{3a3}";
    let lower = upper.to_lowercase();
    for (written, led) in [(upper, &*lower), (&*lower, upper)] {
        let policy = layered(&format!(
            "[rules.r]\nanswer = 'deny'\ntools = ['read_file']\npaths = ['{written}/**']"
        ));
        let file = format!(r#"{{"path":"{led}/a.txt"}}"#);
        let judged = judge_in(&policy, &Mode::MODERATE, "read_file", &file);
        assert_eq!(word(&judged), "deny", "{written}");
    }
}

#[test]
fn a_path_rule_for_tools_that_read_whole_folders_causes_a_warning() {
    let schema =
        r#"{"type":"object","properties":{"path":{"type":"string"},"glob":{"type":"string"}}}"#;
    let mut search = tool("search_files", ToolClass::ReadOnly);
    search.parameters = JsonText::from_text(schema);
    let tools = [search, tool("read_file", ToolClass::ReadOnly)];
    let cautions = |answer: &str, names: &str| {
        let rule = format!("answer = '{answer}'\ntools = [{names}]\npaths = ['private/**']");
        layered(&format!("[rules.r]\n{rule}")).cautions_about_tools(&tools)
    };
    for answer in ["ask", "deny"] {
        let found = cautions(answer, "'*'");
        let [(key, said)] = found.as_slice() else {
            panic!("not one caution: {found:?}")
        };
        assert_eq!(key.as_str(), "rules.r.paths");
        assert!(said.starts_with("search_files: "), "{said}");
        assert!(cautions(answer, "'read_file'").is_empty());
    }
    assert!(cautions("allow", "'*'").is_empty());
}

#[test]
fn a_path_or_host_rule_for_tools_that_run_commands_causes_a_warning() {
    let schema =
        r#"{"type":"object","properties":{"command":{"type":"string"},"cwd":{"type":"string"}}}"#;
    let mut run = tool("run_command", ToolClass::Irreversible);
    run.parameters = JsonText::from_text(schema);
    let tools = [run];
    let cautions = |rule: &str| {
        let rule = format!("[rules.r]\ntools = ['run_command']\n{rule}");
        let found = layered(&rule).cautions_about_tools(&tools).into_iter();
        found.map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(
        cautions("answer = 'deny'\npaths = ['private/**']"),
        ["rules.r.paths"]
    );
    assert_eq!(
        cautions("answer = 'ask'\nhosts = ['evil.example']"),
        ["rules.r.hosts"]
    );
    let of_commands = "answer = 'deny'\ncommands = ['rm **']\ncwd = ['private/**']";
    assert!(cautions(of_commands).is_empty());
}

#[test]
fn a_rule_for_a_mode_that_denies_its_tools_causes_a_warning() {
    let tools = [tool("run_command", ToolClass::Irreversible)];
    let cautions = |modes: &str| {
        let text = format!(
            "[modes.looking]\nroles = ['*']\ntools = {{ read_only = 'allow' }}\n\n\
             [rules.r]\nanswer = 'allow'\ntools = ['run_command']\nmodes = [{modes}]"
        );
        layered(&text).cautions_about_tools(&tools)
    };
    assert_eq!(cautions("'looking'").len(), 1);
    assert!(cautions("'looking', 'moderate'").is_empty());
    assert!(Policy::built_in().cautions_about_tools(&tools).is_empty());
}
