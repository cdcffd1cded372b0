//! Command lines, judged and offered to be remembered. Begins with the inputs of `tests/corpus/command`.
#![no_main]

use std::sync::LazyLock;

use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
use neuraxis_core::{
    Channel, Decision, JsonText, Mode, ToolAnnotations, ToolClass, ToolKind, ToolSpec,
};

const RULES: &str = "
[rules.allowed]
answer = 'allow'
tools = ['run_command']
commands = ['p **', 'git log **', '*']

[rules.denied]
answer = 'deny'
tools = ['run_command']
commands = ['curl', 'git push --force x', 'rm -rf *']
";

static POLICY: LazyLock<(Policy, Decision, ToolSpec)> = LazyLock::new(|| {
    let config = PolicyConfig::from_toml(RULES).expect("the rules are TOML");
    let policy = Policy::layered(config).expect("the rules are a policy");
    let tools = [ToolSpec {
        name: "run_command".parse().expect("it is a name"),
        description: "Runs a command.".into(),
        parameters: JsonText::from_text("{}"),
        class: ToolClass::Irreversible,
        annotations: ToolAnnotations::default(),
        kind: ToolKind::Server,
        non_iterative: false,
        timeout: None,
    }];
    let request = Request::new(&Mode::EXPLORATORY, &Channel::CODE_TASK, "Hello").with_tools(&tools);
    let decision = policy.evaluate_request(&request).expect("the request is allowed");
    let [tool] = tools;
    (policy, decision, tool)
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (policy, decision, tool) = &*POLICY;
    let command = JsonText::string(&String::from_utf8_lossy(input));
    let arguments = JsonText::from_text(format!("{{\"command\":{}}}", command.as_str()));
    let call = Call::new(tool, &arguments).with_root("/project");
    policy.judge(decision, &call);
    policy.grant_choices(decision, &call);
});
