//! Benchmarks of a decision and a verdict with a thousand rules loaded.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot prepare its case fails"
)]

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
use neuraxis_core::{Channel, Decision, JsonText, Mode, ToolClass, ToolSpec};

/// A thousand rules with each kind of condition; half of them are about the one tool that is judged.
fn config() -> String {
    let mut text = String::new();
    for n in 0..1_000 {
        let (answer, condition) = match n % 5 {
            0 => (
                "allow",
                format!("tools = ['run_command']\ncommands = ['program{n} status **']"),
            ),
            1 => (
                "ask",
                format!("tools = ['run_command']\ncommands = ['program{n} push']"),
            ),
            2 => (
                "deny",
                format!("tools = ['tool_{n}', 'server{n}__*']\nclass = ['irreversible']"),
            ),
            3 => (
                "ask",
                format!("tools = ['write_file']\npaths = ['generated/{n}/**']"),
            ),
            _ => (
                "allow",
                format!("tools = ['web_fetch']\nhosts = ['*.example{n}.org']"),
            ),
        };
        writeln!(text, "[rules.rule-{n}]\nanswer = '{answer}'\n{condition}")
            .expect("a text takes it");
    }
    text
}

fn tools() -> Vec<ToolSpec> {
    let names = [
        "current_time",
        "calculate",
        "ask_user",
        "update_plan",
        "list_files",
        "read_file",
        "search_files",
        "write_file",
        "apply_patch",
        "run_command",
        "web_search",
        "web_fetch",
    ];
    let spec = |name: &&str| {
        let class = if name.contains("write") || name.contains("run") {
            ToolClass::Irreversible
        } else {
            ToolClass::ReadOnly
        };
        ToolSpec::new(name.parse().expect("a tool's name"), "A tool.")
            .parameters(JsonText::from_text("{}"))
            .class(class)
    };
    names.iter().map(spec).collect()
}

fn decide(policy: &Policy, tools: &[ToolSpec]) -> Decision {
    let message = "Please find out why the build fails and fix it.";
    let request = Request::new(&Mode::MODERATE, &Channel::CODE_TASK, message).with_tools(tools);
    policy.evaluate_request(&request).expect("it is decided")
}

fn judge(criterion: &mut Criterion, name: &str, policy: &Policy, tool: &str, arguments: &str) {
    let mut tools = tools();
    tools.retain(|spec| spec.name.as_str() == tool);
    let mut decision = decide(policy, &[]);
    decision.tools = vec![tools[0].name.clone()];
    let arguments = JsonText::from_text(arguments);
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            policy.judge(
                black_box(&decision),
                &Call::new(&tools[0], black_box(&arguments)),
            )
        });
    });
}

fn policy(criterion: &mut Criterion) {
    let built_in = Policy::built_in();
    let text = config();
    let large =
        Policy::layered(PolicyConfig::from_toml(&text).expect("it is TOML")).expect("a policy");
    let tools = tools();
    for (name, policy) in [
        ("decide, built-in", &built_in),
        ("decide, 1000 rules", &large),
    ] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| decide(black_box(policy), &tools));
        });
    }
    let command = r#"{"command":"program995 status -s && cargo test"}"#;
    judge(
        criterion,
        "judge read_file, built-in",
        &built_in,
        "read_file",
        r#"{"path":"src/lib.rs"}"#,
    );
    judge(
        criterion,
        "judge current_time, 1000 rules",
        &large,
        "current_time",
        "{}",
    );
    judge(
        criterion,
        "judge read_file, 1000 rules",
        &large,
        "read_file",
        r#"{"path":"src/lib.rs"}"#,
    );
    judge(
        criterion,
        "judge write_file, 200 of 1000 rules apply",
        &large,
        "write_file",
        r#"{"path":"src/lib.rs"}"#,
    );
    judge(
        criterion,
        "judge web_fetch, 200 of 1000 rules apply",
        &large,
        "web_fetch",
        r#"{"url":"https://a.example4.org/"}"#,
    );
    judge(
        criterion,
        "judge run_command, 400 of 1000 rules apply",
        &large,
        "run_command",
        command,
    );
    criterion.bench_function("load 1000 rules", |bencher| {
        let config = PolicyConfig::from_toml(&text).expect("it is TOML");
        bencher.iter(|| Policy::layered(config.clone()).expect("a policy"));
    });
}

criterion_group!(benches, policy);
criterion_main!(benches);
