//! `neuraxis policy`.

use serde_json::{Value, json};

use crate::machine::Machine;

/// A rule that prevents a folder from being read.
const NO_SECRETS: &str = "[rules.no-secrets]\nanswer = 'deny'\ntools = ['read_file']\npaths = ['secrets/**']\nreason = 'They stay here.'\n";

#[test]
fn a_decision_is_explained_as_a_table_with_reasons() {
    let machine = Machine::new();
    let text = machine
        .run([
            "policy",
            "explain",
            "Why is the sky blue? Explain and compare with Mars.",
        ])
        .stdout_of(0);
    let shown: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("policy "))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_call_is_decided_by_the_rule_at_its_line() {
    let machine = Machine::new().with_file("neuraxis.toml", format!("# mine\n{NO_SECRETS}"));
    let explain = |path: &str| {
        let arguments = format!("{{\"path\":\"{path}\"}}");
        let command = [
            "policy",
            "explain",
            "--channel",
            "code_task",
            "--tool",
            "read_file",
            "--arguments",
            &arguments,
            "--format",
            "json",
        ];
        let text = machine.run(command).stdout_of(0);
        serde_json::from_str::<Value>(&text).unwrap()["call"].clone()
    };
    let denied = explain("secrets/key.pem");
    assert_eq!(denied["verdict"]["verdict"], "deny");
    assert_eq!(denied["rule"]["source"], "neuraxis.toml");
    assert_eq!(denied["rule"]["line"], 2);
    assert_eq!(explain("README.md")["verdict"]["verdict"], "allow");
    let inside = machine.path("README.md").display().to_string();
    assert_eq!(explain(&inside)["verdict"]["verdict"], "allow", "{inside}");
    let outside = explain("../README.md");
    assert_eq!(outside["rule"]["name"], "outside-root");
    assert_eq!(outside["rule"]["source"], "default-policy.toml");
}

#[test]
fn for_a_call_the_verdict_is_shown_first_with_its_rule_and_reason() {
    let machine = Machine::new().with_file("neuraxis.toml", NO_SECRETS);
    let command = [
        "policy",
        "explain",
        "--channel",
        "code_task",
        "--tool",
        "read_file",
        "--arguments",
        r#"{"path":"secrets/key"}"#,
    ];
    let text = machine.run(command).stdout_of(0);
    let first = "call        read_file\nverdict     deny\nrule        no-secrets (neuraxis.toml:1)\n\nwhy\n  \
                 Rule no-secrets (neuraxis.toml:1) denies read_file: They stay here.\n\nmode        moderate\n";
    assert!(text.starts_with(first), "{text}");
    assert!(!text.contains("set by mode moderate"), "{text}");
}

#[test]
fn with_tool_search_explain_shows_which_tools_are_up_front_and_on_demand() {
    let machine = Machine::new();
    let explain = |above: &str, format: &str| {
        let above = format!("tools.search_above={above}");
        let command = [
            "policy",
            "explain",
            "Calculate 6 × 7",
            "--set",
            &above,
            "--format",
            format,
        ];
        machine.run(command).stdout_of(0)
    };
    let text = explain("1", "text");
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("up front") || line.contains("on demand"))
        .collect();
    assert!(rows[0].contains("find_tools, calculate"), "{text}");
    assert!(
        rows[1].contains("others, which the model can search for"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&explain("1", "json")).unwrap();
    let first = json!(["read_output", "find_tools"]);
    let at_once = json["tool_offer"]["at_once"].as_array().unwrap();
    assert_eq!(at_once[..2], first.as_array().unwrap()[..]);
    let in_all = json["decision"]["tools"].as_array().unwrap().len();
    let at_once = at_once.len();
    // The search itself is not one of the offered tools.
    assert_eq!(json["tool_offer"]["found_on_demand"], in_all + 1 - at_once);
    // Below that number it is not mentioned.
    assert!(!explain("50", "text").contains("on demand"));
    assert!(!explain("50", "json").contains("tool_offer"));
}

#[test]
fn a_request_that_cannot_be_explained_is_a_usage_error() {
    let machine = Machine::new();
    for (arguments, expected) in [
        (
            &["policy", "explain", "--mode", "yolo", "x"][..],
            "unknown mode \"yolo\"",
        ),
        (
            &["policy", "explain", "--channel", "deep_research", "x"],
            "it needs exploratory",
        ),
        (
            &["policy", "explain", "--tool", "rm", "x"],
            "unknown tool \"rm\"\nhint: ",
        ),
        (
            &[
                "policy",
                "explain",
                "--tool",
                "read_file",
                "--arguments",
                "{",
                "x",
            ],
            "--arguments is not JSON",
        ),
        (
            &["policy", "explain", "--untrusted", "no good", "x"],
            "not a valid tool name",
        ),
    ] {
        let complaint = machine.run(arguments).complaint(2);
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn a_policy_check_reports_the_location_of_each_problem() {
    let machine = Machine::new()
        .with_file(
            "good.toml",
            "[rules.r]\nanswer = 'ask'\ntools = ['read_*']\n",
        )
        .with_file(
            "typo.toml",
            "[rules.r]\nanswer = 'ask'\ntools = ['reed_file']\n",
        )
        .with_file(
            "wrong.toml",
            "\n[rules.r]\nanswer = 'ask'\ntools = ['*']\nmodes = ['modrate']\n",
        );
    let good = machine.run(["policy", "check", "good.toml"]).stdout_of(0);
    assert!(
        good.starts_with("good.toml: a policy with 3 rules; its hash begins with "),
        "{good}"
    );
    let typo = machine.run(["policy", "check", "typo.toml"]).stdout_of(1);
    assert!(
        typo.starts_with(
            "typo.toml:3: rules.r.tools: \"reed_file\" matches no tool (did you mean read_file?)"
        ),
        "{typo}"
    );
    let wrong = machine.run(["policy", "check", "wrong.toml"]).complaint(2);
    assert!(wrong.contains("wrong.toml:5:1"), "{wrong}");
    assert!(wrong.contains("did you mean moderate?"), "{wrong}");
}

#[test]
fn a_policy_check_reports_each_finding_once() {
    let rule = |name: &str, tool: &str| {
        format!("[rules.{name}]\nanswer = 'allow'\ntools = ['{tool}']\ncommands = ['git log **']\n")
    };
    let text = rule("a", "run_command") + &rule("b", "run_command");
    let machine = Machine::new()
        .with_file("twice.toml", &text)
        .with_file("typo.toml", rule("c", "run_comand"));
    let said = machine.run(["policy", "check", "twice.toml"]).stdout_of(0);
    assert_eq!(said.matches("--no-index").count(), 1, "{said}");
    let again =
        "twice.toml:8: warning: rules.b.commands: \"git log **\": same as for rules.a.commands\n";
    assert!(said.contains(again), "{said}");
    let done = machine.run(["policy", "check", "typo.toml"]);
    assert!(done.stdout.starts_with("typo.toml:3: "), "{done:?}");
    assert!(
        done.stdout.contains("\"run_comand\" matches no tool"),
        "{done:?}"
    );
    assert!(!done.stderr.contains("run_comand"), "{done:?}");
}

#[test]
fn the_hint_for_an_unknown_rule_function_names_the_builder_method() {
    let text = "[rules.r]\nanswer = 'deny'\ntools = ['read_file']\nwhen = 'is_of_another'\n";
    let machine = Machine::new().with_file("when.toml", text);
    let done = machine.run(["policy", "check", "when.toml"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stderr.contains("`OrchestratorBuilder::rule_function`"),
        "{done:?}"
    );
    assert!(!done.stderr.contains("tools list"), "{done:?}");
}

#[test]
fn tools_that_are_currently_unavailable_are_a_warning_in_every_command() {
    let tools = "['shop__query', 'github__list_*', 'web_search', 'web_s*']";
    let text = format!("[rules.r]\nanswer = 'ask'\ntools = {tools}\n");
    let machine = Machine::new().with_file("later.toml", text);
    let said = machine.run(["policy", "check", "later.toml"]).stdout_of(0);
    for expected in [
        "later.toml:3: warning: rules.r.tools: no configured server has \"shop__query\"",
        "later.toml:3: warning: rules.r.tools: no configured server has \"github__list_*\"",
        "later.toml:3: warning: rules.r.tools: there is no tool web_search unless [web.search] names a service",
        "later.toml:3: warning: rules.r.tools: there is no tool web_s* unless [web.search] names a service",
        "later.toml: a policy with 3 rules",
    ] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    let done = machine.run(["ask", "--config", "later.toml", "What time is it?"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("no tool web_s*"), "{done:?}");
}

/// Returns the policies in the guides, each with the cases that follow it.
fn policies_of_the_guides() -> Vec<&'static str> {
    let guides = concat!(
        include_str!("../../../../docs/policy.md"),
        include_str!("../../../../docs/rules.md")
    );
    let blocks = guides.split("\n```toml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("\n```").next());
    blocks.collect()
}

#[test]
fn every_policy_in_the_guides_is_valid_with_the_current_tools() {
    let blocks = policies_of_the_guides();
    assert!(blocks.len() >= 8, "{}", blocks.len());
    for block in blocks {
        // Cases are in separate files, or at the end.
        let policy = block.split("[[case]]").next().unwrap();
        let machine = Machine::new()
            .with_file("mine.toml", policy)
            .with_file("cases.toml", block);
        let checked = machine.run(["policy", "check", "mine.toml"]);
        // Functions belong to an embedding program, and this one has none.
        if policy.contains("\nwhen = ") {
            assert!(checked.stdout_of(1).contains("unknown function"), "{block}");
            continue;
        }
        checked.stdout_of(0);
        let used = machine.run(["tools", "list", "--config", "mine.toml"]);
        assert_eq!(used.code, Some(0), "{block}\n{used:?}");
        if block.contains("[[case]]") {
            machine.run(["policy", "test", "cases.toml"]).stdout_of(0);
        }
    }
}

#[test]
fn policy_cases_run_and_a_failing_one_gives_exit_code_1() {
    let cases = "
[rules.no-network]
answer = 'deny'
tools = ['run_command']
commands = ['curl']
match = [{ command = 'ls && curl x' }]

[[case]]
name = 'the network is out of reach'
channel = 'code_task'
tool = 'run_command'
arguments = { command = 'curl x' }
expect = 'EXPECTED'
";
    let machine = Machine::new()
        .with_file("good.toml", cases.replace("EXPECTED", "deny"))
        .with_file("bad.toml", cases.replace("EXPECTED", "allow"))
        .with_file(
            "typo.toml",
            "[[case]]\ntool = 'reed_file'\nexpect = 'ask'\n[[case]]\ntool = 'shop__buy'\nexpect = 'ask'\n",
        );
    let good = machine.run(["policy", "test", "good.toml"]).stdout_of(0);
    assert!(good.ends_with(" passed, 0 failed\n"), "{good}");
    let bad = machine.run(["policy", "test", "bad.toml"]).stdout_of(1);
    assert!(
        bad.starts_with("FAILED the network is out of reach: expected allow, got deny: Rule no-network (bad.toml:2) denies run_command. (`curl x`)\n"),
        "{bad}"
    );
    let typo = machine.run(["policy", "test", "typo.toml"]).stdout_of(1);
    assert!(
        typo.starts_with(
            "FAILED case 1: unknown tool \"reed_file\" (did you mean read_file?); known: "
        ),
        "{typo}"
    );
    assert!(
        typo.ends_with("1 failed\n"),
        "a tool of another server is not unknown: {typo}"
    );
    let missing = machine.run(["policy", "test", "missing.toml"]).complaint(2);
    assert!(missing.contains("cannot read missing.toml"), "{missing}");
}

#[test]
fn invalid_arguments_are_reported_instead_of_judged() {
    let machine = Machine::new();
    let explain = |more: &[&str]| {
        let command = [
            "policy",
            "explain",
            "--channel",
            "code_task",
            "--tool",
            "read_file",
        ];
        machine
            .run(command.into_iter().chain(more.iter().copied()))
            .stdout_of(0)
    };
    let table = explain(&["--arguments", r#"{"path": 7}"#]);
    let told: Vec<&str> = table
        .lines()
        .filter(|line| {
            [
                "call ",
                "verdict ",
                "arguments ",
                "remember ",
                "  The call would",
            ]
            .iter()
            .any(|start| line.starts_with(start))
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
    let json = explain(&["--arguments", "{}", "--format", "json"]);
    let call = serde_json::from_str::<Value>(&json).unwrap()["call"].clone();
    assert_eq!(call["verdict"], Value::Null);
    assert!(
        call["invalid_arguments"].as_str().unwrap().contains("path"),
        "{call}"
    );
    assert!(
        call["reasons"][0]
            .as_str()
            .unwrap()
            .contains("refused before policy judges it")
    );
    // Without arguments the question is about the tool.
    let json = explain(&["--format", "json"]);
    let call = serde_json::from_str::<Value>(&json).unwrap()["call"].clone();
    assert_eq!(call["verdict"]["verdict"], "allow");
    assert_eq!(call["invalid_arguments"], Value::Null);
}

const LOOK_AROUND: &str = "
[rules.look-around]
answer = 'allow'
tools = ['run_command']
commands = ['git status', 'git log **', 'git diff **', 'cargo test **']
";

/// Judges a command with the real program, with `rules.toml` in effect.
fn judged(machine: &Machine, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let command = [
        "policy",
        "explain",
        "--config",
        "rules.toml",
        "--channel",
        "code_task",
        "--tool",
        "run_command",
        "--arguments",
        &arguments,
        "--format",
        "json",
    ];
    let text = machine.run(command).stdout_of(0);
    let explained: Value = serde_json::from_str(&text).unwrap();
    explained["call"]["verdict"]["verdict"].clone()
}

#[test]
fn a_pathological_command_is_judged_without_delay() {
    let machine = Machine::new().with_file("rules.toml", LOOK_AROUND);
    let long = format!("sh -c \"{}\"", "git log 'a' $(sh -c b) ".repeat(340));
    for command in ["<<\"\" ", "ls <<'' ", "<<$[''(${", "$(<<E\n)\nE", &long] {
        let verdict = judged(&machine, &serde_json::json!({ "command": command }));
        assert_eq!(verdict, "ask", "{command:?}");
    }
}

#[test]
fn the_look_around_rules_neither_run_code_nor_read_secrets() {
    let machine = Machine::new().with_file("rules.toml", LOOK_AROUND);
    for (command, expected) in [
        ("git status && git log --oneline -5 && cargo test", "allow"),
        (
            "git log -1 '--format=[core]%n fsmonitor=touch PWNED' --output=.git/config && git status",
            "ask",
        ),
        ("git diff --no-index /dev/null /home/u/.ssh/id_rsa", "ask"),
        ("cargo test --config 'build.rustc-wrapper=./x'", "ask"),
        ("cargo test --manifest-path /any", "ask"),
    ] {
        let verdict = judged(&machine, &serde_json::json!({ "command": command }));
        assert_eq!(verdict, expected, "{command}");
    }
    let in_folder = serde_json::json!({ "command": "git status", "cwd": "fixtures/x" });
    assert_eq!(judged(&machine, &in_folder), "ask");
}

#[test]
fn denied_commands_are_matched_inside_scripts_and_wrappers() {
    let rules = "
[rules.all]
answer = 'allow'
tools = ['run_command']
commands = ['**']

[rules.listed]
answer = 'deny'
tools = ['run_command']
commands = ['curl', 'git push']
";
    let machine = Machine::new().with_file("rules.toml", rules);
    for command in [
        "sh -c 'true;curl x'",
        "env '-Scurl x'",
        "trap 'curl x' EXIT",
        "git --no-pager push",
        "git -c alias.z='!curl x' z",
    ] {
        let verdict = judged(&machine, &serde_json::json!({ "command": command }));
        assert_eq!(verdict, "deny", "{command}");
    }
}

#[test]
fn policy_check_warns_of_far_reaching_commands_and_refuses_rules_that_never_match() {
    let dead = "[rules.r]\nanswer = 'deny'\ntools = ['read_file']\ncommands = ['rm']\n";
    let machine = Machine::new()
        .with_file("rules.toml", LOOK_AROUND)
        .with_file("dead.toml", dead);
    let warned = machine.run(["policy", "check", "rules.toml"]).stdout_of(0);
    let about: Vec<&str> = warned
        .lines()
        .filter(|line| line.contains("warning: "))
        .collect();
    assert_eq!(about.len(), 2, "{warned}");
    assert!(warned.starts_with("rules.toml: a policy with "), "{warned}");
    assert!(
        about[0].starts_with("rules.toml:5: warning: rules.look-around.commands: \"git log **\", \"git diff **\": with some options, git writes files"),
        "{warned}"
    );
    assert!(
        about[0].contains("wildcards do not stand for --output, --no-index"),
        "{warned}"
    );
    let dead = machine.run(["policy", "check", "dead.toml"]).stdout_of(1);
    assert!(dead.contains("rules.r.commands can never match"), "{dead}");
}

#[test]
fn policy_check_refuses_misspelled_arguments_and_paths_outside_the_root() {
    let sums =
        "[rules.sums]\nanswer = 'deny'\ntools = ['calculate']\nvalues = { expresion = ['*'] }\n";
    let etc = "[rules.etc]\nanswer = 'deny'\ntools = ['read_file']\npaths = ['/etc/**']\n";
    let machine = Machine::new().with_file("dead.toml", [sums, etc].concat());
    let dead = machine.run(["policy", "check", "dead.toml"]).stdout_of(1);
    for expected in [
        "dead.toml:4: rules.sums.values can never match: none of the rule's tools takes an argument named expresion",
        "dead.toml:8: rules.etc.paths: \"/etc/**\" can never match",
    ] {
        assert!(dead.contains(expected), "{dead}");
    }
    let told = machine.with_file("e", etc).run(["policy", "check", "e"]);
    assert_eq!(told.stderr, "error: e has rules that can never match\n");
}
