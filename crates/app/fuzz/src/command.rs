//! Command lines: judging a command line and determining what may be remembered of it terminates for any input, and
//! what a rule denies is not allowed.

use std::sync::OnceLock;

use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
use neuraxis_core::{
    Channel, Decision, JsonText, Mode, ToolAnnotations, ToolClass, ToolKind, ToolSpec, Verdict,
};

const POLICY: &str = r#"
[rules.allowed]
answer = "allow"
tools = ["run_command"]
commands = ["p **", "git log **", "*"]

[rules.denied]
answer = "deny"
tools = ["run_command"]
commands = ["curl", "git push --force x", "rm -rf *"]
"#;

/// Judges a command line, on its own and after a command that is denied.
pub fn command(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    judge(&text);
    let verdict = judge(&format!("curl x\n{text}"));
    assert!(matches!(verdict, Verdict::Deny { .. }), "{verdict:?}");
}

fn judge(text: &str) -> Verdict {
    static DECIDED: OnceLock<(Policy, Decision, ToolSpec)> = OnceLock::new();
    let (policy, decision, tool) = DECIDED.get_or_init(decided);
    let command = JsonText::string(text);
    let arguments = JsonText::from_text(format!("{{\"command\":{}}}", command.as_str()));
    let call = Call::new(tool, &arguments).with_root("/project");
    policy.grant_choices(decision, &call);
    policy.judge(decision, &call)
}

fn decided() -> (Policy, Decision, ToolSpec) {
    let policy = Policy::layered(PolicyConfig::from_toml(POLICY).unwrap()).unwrap();
    let tool = ToolSpec {
        name: "run_command".parse().unwrap(),
        description: "Runs a command.".into(),
        parameters: JsonText::from_text("{}"),
        class: ToolClass::Irreversible,
        annotations: ToolAnnotations::default(),
        kind: ToolKind::Server,
        non_iterative: false,
        timeout: None,
    };
    let tools = [tool];
    let request = Request::new(&Mode::EXPLORATORY, &Channel::CODE_TASK, "Go.").with_tools(&tools);
    let decision = policy.evaluate_request(&request).unwrap();
    let [tool] = tools;
    (policy, decision, tool)
}
