//! Examples and cases that are run offline.

use neuraxis_brainstem::{CaseFile, PolicyConfig};
use neuraxis_core::{Channel, Mode};

use crate::catalog::layered;

const FILE: &str = r#"
[models.reasoning]
provider = "offline"

[rules.no-network]
answer = "deny"
tools = ["run_command"]
commands = ["curl"]
match = [{ command = "curl x" }, { command = "wget x" }]
not_match = [{ command = "echo x" }]

[[case]]
name = "the network is out of reach"
channel = "code_task"
tool = "run_command"
arguments = { command = "git status && curl x" }
expect = "deny"
rule = "no-network"

[[case]]
name = "a wrong expectation"
channel = "code_task"
tool = "run_command"
expect = "allow"

[[case]]
role = "reasoning"
message = "Compare TCP with UDP and explain both."

[[case]]
channel = "deep_research"
refused = "needs exploratory"

[[case]]
tool = "read_file"
class = "read_only"
expect = "deny"

[[case]]
name = "after a web page"
mode = "moderate"
channel = "code_task"
tool = "write_file"
arguments = { path = "a" }
untrusted = true
expect = "ask"
"#;

#[test]
fn every_example_and_case_runs_and_each_failure_is_named() {
    let file = CaseFile::from_toml("cases.toml", FILE).unwrap();
    let report = file.run(&PolicyConfig::built_in(), None).unwrap();
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|failure| format!("{}: {}", failure.case, failure.message))
        .collect();
    assert_eq!(
        failures,
        [
            "cases.toml:9: rules.no-network.match[1]: the rule does not match {\"command\":\"wget x\"}",
            "a wrong expectation: expected allow, got ask: Mode moderate asks before run_command runs, because it may change something permanently.",
        ]
    );
    let own = 2 + 5;
    let built_in = PolicyConfig::built_in().rules.into_values();
    let built_in: usize = built_in
        .map(|rule| {
            rule.r#match.unwrap_or_default().len() + rule.not_match.unwrap_or_default().len()
        })
        .sum();
    assert_eq!(report.passed, own + built_in);
}

#[test]
fn a_case_file_that_is_not_a_valid_policy_is_refused() {
    let run = |text: &str| {
        CaseFile::from_toml("cases.toml", text)
            .and_then(|file| file.run(&PolicyConfig::built_in(), None))
    };
    for (text, expected) in [
        ("[[case]]\nexpct = 'deny'", "unknown field `expct`"),
        ("[ruls]", "unknown field `ruls`"),
        ("[rules.x]\nanswer = 'deny'", "rules.x.tools is missing"),
    ] {
        let message = run(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let report = run("[[case]]\nname = 'empty'").unwrap();
    assert_eq!(report.failures[0].message, "the case expects nothing");
}

#[test]
fn built_in_mode_overrides_apply_when_a_case_file_restores_the_mode() {
    let base = layered("[channels.code_task]\nallowed_modes = ['moderate']");
    let text = "[channels.code_task]\nallowed_modes = ['conservative', 'moderate']\n\
                [[case]]\nmode = 'conservative'\nchannel = 'code_task'\nmessage = 'Hello'\nrole = 'coding'\n";
    let file = CaseFile::from_toml("cases.toml", text).unwrap();
    let report = file.run(base.config(), None).unwrap();
    let failures: Vec<_> = report.failures.iter().map(|it| &it.message).collect();
    assert!(failures.is_empty(), "{failures:?}");
    let when = &base.config().channels[&Channel::CODE_TASK].when;
    assert_eq!(when[&Mode::CONSERVATIVE].tools, Some(Vec::new()));
}

#[test]
fn a_case_uses_the_real_tool_and_fails_if_it_does_not_exist() {
    let tools = crate::catalog::all_tools();
    let run = |text: &str| {
        let file = CaseFile::from_toml("cases.toml", text).unwrap();
        let report = file.run(&PolicyConfig::built_in(), Some(&tools)).unwrap();
        report.failures.into_iter().next().map(|it| it.message)
    };
    let case = |tool: &str, expect: &str| {
        format!("[[case]]\nchannel = 'code_task'\ntool = '{tool}'\nexpect = '{expect}'\n")
    };
    // The tool only reads, which the case does not need to say.
    assert_eq!(run(&case("read_file", "allow")), None);
    assert_eq!(
        run(&format!(
            "{}class = 'irreversible'",
            case("read_file", "ask")
        )),
        None
    );
    let unknown = run(&case("reed_file", "ask")).unwrap();
    assert!(
        unknown.starts_with("unknown tool \"reed_file\" (did you mean read_file?); known: "),
        "{unknown}"
    );
    // The tool of a server that need not be connected.
    assert_eq!(run(&case("shop__buy", "ask")), None);
}

#[test]
fn cases_under_a_misspelled_list_are_refused_with_the_correct_name() {
    let text = "[models.reasoning]\nprovider = 'openai'\n\n[[cases]]\ntool = 'read_file'\n";
    let error = CaseFile::from_toml("cases.toml", text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("[[case]]") && error.contains('4'), "{error}");
}
