//! Any provider for any role, by configuration alone; and keys that are never shown.

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::provider::{ANSWER, Behavior, Provider, nobody};

/// The key that must not appear anywhere.
const CANARY: &str = "sk-canary-0123456789";

/// Sections that configure the same provider's server for a role in every possible way.
fn sections(url: &str) -> [(&'static str, String); 4] {
    [
        (
            "/v1/responses",
            format!("provider = 'openai'\nmodel = 'gpt-test'\nbase_url = '{url}/v1'"),
        ),
        (
            "/v1/chat/completions",
            format!("provider = 'openai'\napi = 'chat'\nmodel = 'gpt-test'\nbase_url = '{url}/v1'"),
        ),
        (
            "/chat/completions",
            format!("provider = 'deepseek'\nbase_url = '{url}'"),
        ),
        (
            "/v1/chat/completions",
            format!("provider = 'llama'\nserver = 'vllm'\nmodel = 'gpt-test'\nbase_url = '{url}'"),
        ),
    ]
}

pub(crate) fn machine(section: &str) -> Machine {
    let text = format!("[models.reasoning]\n{section}\napi_key_env = 'MY_KEY'\n");
    Machine::new().with_file("neuraxis.toml", text)
}

/// Runs a command with the key in its variable, and checks that it is not shown.
fn run(machine: &Machine, arguments: &[&str]) -> Done {
    let mut command = machine.command(arguments);
    command.env("MY_KEY", CANARY);
    let done = Done::from(command.output().unwrap());
    assert!(
        !done.stdout.contains("canary") && !done.stderr.contains("canary"),
        "{done:?}"
    );
    done
}

#[test]
fn the_same_question_is_answered_alike_by_every_provider() {
    for flags in [&[][..], &["--no-stream"]] {
        for (path, section) in sections("URL") {
            let provider = Provider::start(Behavior::Works);
            let machine = machine(&section.replace("URL", &provider.url()));
            let question = ["ask", "--format", "json", "What time is it?"];
            let done = run(&machine, &[&question[..], flags].concat());
            assert_eq!(
                (done.code, &*done.stderr),
                (Some(0), ""),
                "{section}: {done:?}"
            );
            let result: Value = serde_json::from_str(&done.stdout).unwrap();
            assert_eq!(result["reply"], ANSWER, "{section}");
            assert_eq!(result["turns"], 2, "{section}");
            assert_eq!(result["usage"]["total_tokens"], 16, "{section}: {result}");
            let mut seen = provider.seen();
            // A server is also asked for its model's context size.
            seen.retain(|seen| !seen.head.starts_with("GET "));
            assert_eq!(seen.len(), 2, "{section}");
            for request in seen {
                assert_eq!(request.path, path, "{section}");
                assert!(request.head.contains(CANARY), "{section}: no key was sent");
                assert_eq!(
                    request.body["stream"] == true,
                    flags.is_empty(),
                    "{section}"
                );
            }
        }
    }
}

#[test]
fn a_model_without_tool_support_answers_without_tools_and_a_warning_is_given() {
    let provider = Provider::start(Behavior::TakesNoTools);
    let [_, (_, section), ..] = sections(&provider.url());
    let done = run(&machine(&section), &["ask", "What time is it?"]);
    let warned = "warning: openai/gpt-test: the model does not accept tools: from now on, it answers without them";
    assert!(done.stderr.starts_with(warned), "{done:?}");
    let why = "gemma:2b does not support tools";
    assert!(done.stderr.contains(why), "{done:?}");
    assert_eq!(done.stdout_of(0), format!("{ANSWER}\n"));
}

#[test]
fn each_role_has_its_own_provider() {
    let provider = Provider::start(Behavior::Works);
    let url = provider.url();
    let text = format!(
        "[models.router]\nprovider = 'deepseek'\nbase_url = '{url}'\napi_key_env = 'MY_KEY'\n\
         [models.reasoning]\nprovider = 'openai'\nmodel = 'gpt-test'\nbase_url = '{url}/v1'\napi_key_env = 'MY_KEY'\n"
    );
    let machine = Machine::new().with_file("neuraxis.toml", text);
    let done = run(
        &machine,
        &["ask", "--channel", "system_health", "How is this machine?"],
    );
    assert_eq!(done.stdout_of(0), format!("{ANSWER}\n"));
    let paths: Vec<String> = provider.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/chat/completions", "/v1/responses"]);
}

#[test]
fn the_proxy_from_the_environment_is_used_except_for_a_local_server() {
    for (_, section) in sections("URL") {
        let (proxy, local) = (
            Provider::start(Behavior::Works),
            Provider::start(Behavior::Works),
        );
        let far = "http://models.example".to_owned();
        for (url, asked, not_asked) in [(far, &proxy, &local), (local.url(), &local, &proxy)] {
            let before = not_asked.seen().len();
            let machine = machine(&section.replace("URL", &url));
            let mut command = machine.command(["ask", "What time is it?"]);
            command.env("MY_KEY", CANARY);
            for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
                command.env(name, proxy.url());
            }
            command.env_remove("NO_PROXY").env_remove("no_proxy");
            let done = Done::from(command.output().unwrap());
            assert_eq!(done.stdout_of(0), format!("{ANSWER}\n"), "{section}");
            assert!(!asked.seen().is_empty(), "{section}");
            assert_eq!(not_asked.seen().len(), before, "{section}");
        }
        assert!(
            proxy.seen()[0].path.starts_with("http://models.example/"),
            "{section}"
        );
    }
}

#[test]
fn a_non_http_proxy_from_the_environment_is_named() {
    for (_, section) in sections("http://models.example") {
        let machine = machine(&section);
        let mut command = machine.command(["models", "--format", "json"]);
        command.env("MY_KEY", CANARY);
        command.env("ALL_PROXY", "socks5://127.0.0.1:1");
        for name in ["HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"] {
            command.env_remove(name);
        }
        let done = Done::from(command.output().unwrap());
        let list: Value = serde_json::from_str(&done.stdout).unwrap();
        let said = list[0]["error"]["message"].as_str().unwrap();
        assert!(
            said.contains("socks5") && said.contains("ALL_PROXY"),
            "{section}: {said}"
        );
    }
}

#[test]
fn a_refused_key_is_not_printed_even_if_the_server_repeats_it() {
    for (_, section) in sections("URL") {
        let provider = Provider::start(Behavior::RefusesKey);
        let machine = machine(&section.replace("URL", &provider.url()));
        for arguments in [
            &["ask", "Hello?"][..],
            &["ask", "--format", "json", "Hello?"],
            &["ask", "--format", "events", "Hello?"],
        ] {
            let done = run(&machine, arguments);
            assert_eq!(done.code, Some(1), "{section}: {done:?}");
        }
        let said = run(&machine, &["ask", "Hello?"]).stderr;
        assert!(
            said.contains("the provider refuses the key"),
            "{section}: {said}"
        );
    }
}

#[test]
fn an_unusable_model_configuration_exits_with_code_2_before_anything_is_sent() {
    let url = nobody();
    for (text, expected) in [
        (
            format!("provider = 'openai'\nbase_url = '{url}'\napi_key_env = 'MY_KEY'"),
            "models.reasoning: no model is named: set model",
        ),
        (
            "provider = 'openai'\nmodel = 'm'\napi_key_env = 'NO_KEY'".to_owned(),
            "neuraxis.toml:4:1: models.reasoning: the environment variable NO_KEY that api_key_env names is not set",
        ),
        (
            "provider = 'openai'\nmodel = 'm'\nheaders_env = { x-token = 'NO_TOKEN' }".to_owned(),
            "neuraxis.toml:4:1: models.reasoning: the environment variable NO_TOKEN for the header x-token",
        ),
        (
            "provider = 'openai'\nmodel = 'm'\napi = 'chat'\nstore = true".to_owned(),
            "neuraxis.toml:5:1: models.reasoning: store is not part of Chat Completions",
        ),
        (
            "provider = 'deepseek'\nbase_url = 'ftp://x'".to_owned(),
            "neuraxis.toml:3:1: models.reasoning: base_url begins with ftp:, but must begin with http: or https:",
        ),
        (
            "provider = 'cassette'\nfile = 'none.cassette'".to_owned(),
            "neuraxis.toml:3:1: models.reasoning: cannot read ",
        ),
    ] {
        let text = format!("[models.reasoning]\n{text}\n");
        let machine = Machine::new().with_file("neuraxis.toml", text);
        let done = run(&machine, &["ask", "Hello?"]);
        let complaint = done.complaint(2);
        assert!(complaint.contains(expected), "{expected}: {complaint}");
        let hint = "doctor --offline` says what can be done";
        assert!(complaint.contains(hint), "{expected}: {complaint}");
    }
}

#[test]
fn a_key_in_its_usual_variable_is_used_and_reported() {
    let provider = Provider::start(Behavior::Works);
    let machine = Machine::new();
    for (key, url, told) in [
        ("OPENAI_API_KEY", "OPENAI_BASE_URL", "openai/gpt-5.4-mini"),
        (
            "DEEPSEEK_API_KEY",
            "DEEPSEEK_BASE_URL",
            "deepseek/deepseek-flash",
        ),
    ] {
        let mut command = machine.command(["ask", "What time is it?"]);
        command.env(key, CANARY).env(url, provider.url());
        let done = Done::from(command.output().unwrap());
        assert_eq!(done.stdout, format!("{ANSWER}\n"), "{done:?}");
        let expected = format!(
            "note: no model configured: using {told} at {} with the key in {key}\n",
            provider.url()
        );
        assert_eq!(done.stderr, expected);
    }
    let mut command = machine.command(["doctor", "--offline"]);
    command.env("OPENAI_API_KEY", CANARY);
    let told = Done::from(command.output().unwrap()).stdout_of(0);
    let before_keys = "`neuraxis setup` saves it as [models.reasoning]";
    assert!(told.contains(before_keys), "{told}");
}

#[test]
fn the_configuration_is_shown_without_keys_for_every_provider() {
    for (_, section) in sections("http://me:sk-canary-1@127.0.0.1:9") {
        let shown = run(&machine(&section), &["config", "show"]).stdout_of(0);
        for expected in [
            "models.reasoning.api_key_env = \"MY_KEY\"  # neuraxis.toml:",
            "models.reasoning.timeouts.connect = \"10s\"  # default\n",
            "models.reasoning.base_url = \"http://***@127.0.0.1:9",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
    }
}
