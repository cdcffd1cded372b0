//! `neuraxis models` and `neuraxis doctor`.

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::provider::{Behavior, Provider, nobody};

const CANARY: &str = "sk-canary-0123456789";

/// Roles whose servers work, refuse the key, are down, or do not exist.
struct World {
    machine: Machine,
    providers: Vec<Provider>,
    replacements: Vec<(String, &'static str)>,
}

impl World {
    fn new() -> Self {
        let behaviors = [Behavior::Works, Behavior::RefusesKey, Behavior::Html];
        let providers: Vec<Provider> = behaviors.map(Provider::start).into();
        let urls: Vec<String> = providers.iter().map(Provider::url).collect();
        let down = nobody();
        let text = format!(
            "[models.reasoning]\nprovider = 'openai'\nmodel = 'gpt-test'\nbase_url = '{0}/v1'\napi_key_env = 'MY_KEY'\n\
             [models.router]\nprovider = 'deepseek'\nbase_url = '{0}'\napi_key_env = 'MY_KEY'\n\
             [models.coding]\nprovider = 'openai'\nmodel = 'gpt-missing'\napi = 'chat'\nbase_url = '{0}'\n\
             [models.refused]\nprovider = 'deepseek'\nbase_url = '{1}'\napi_key_env = 'MY_KEY'\n\
             [models.page]\nprovider = 'llama'\nbase_url = '{2}'\n\
             [models.down]\nprovider = 'llama'\nbase_url = '{down}'\n\
             [models.keyless]\nprovider = 'openai'\nmodel = 'm'\napi_key_env = 'NO_KEY'\n\
             [models.unnamed]\nprovider = 'openai'\nbase_url = '{0}/v1'\napi_key_env = 'MY_KEY'\n\
             [models.rules]\nprovider = 'offline'\n",
            urls[0], urls[1], urls[2]
        );
        let names = ["WORKS", "REFUSES", "HTML"];
        let mut replacements: Vec<_> = urls.into_iter().zip(names).collect();
        replacements.push((down, "DOWN"));
        Self {
            machine: Machine::new().with_file("neuraxis.toml", text),
            providers,
            replacements,
        }
    }

    fn run(&self, arguments: &[&str]) -> Done {
        let mut command = self.machine.command(arguments);
        let done = Done::from(command.env("MY_KEY", CANARY).output().unwrap());
        assert!(
            !done.stdout.contains("canary") && !done.stderr.contains("canary"),
            "{done:?}"
        );
        done
    }

    /// Replaces everything that differs between test runs.
    fn stable(&self, text: &str) -> String {
        let replace = |text: String, (url, name): &(String, &'static str)| {
            let host = url.trim_start_matches("http://");
            text.replace(url, name).replace(host, name)
        };
        let text = self.replacements.iter().fold(text.to_owned(), replace);
        let root = self.machine.root().canonicalize().unwrap();
        let text = text.replace(&root.display().to_string(), "~");
        let took = |line: &str| match line.split_once(" ms, ") {
            Some((before, after)) => {
                let before = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
                format!("{before}N ms, {after}\n")
            }
            None => format!("{line}\n"),
        };
        // There is a line for each part of the sandbox that the machine's kernel lacks.
        let is_sandbox = |line: &&str| line.split_whitespace().nth(1) == Some("sandbox");
        let text: String = text
            .lines()
            .filter(|line| !is_sandbox(line))
            .map(took)
            .collect();
        match text.split_once(" checks failed") {
            Some((before, after)) => {
                let before = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
                format!("{before}N checks failed{after}")
            }
            None => text,
        }
    }

    fn requests(&self) -> usize {
        let seen = self.providers.iter().flat_map(Provider::seen);
        seen.filter(|seen| !seen.body.is_null()).count()
    }
}

#[test]
fn models_are_listed_by_role_and_failing_endpoints_hide_no_others() {
    let world = World::new();
    let done = world.run(&["models"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    insta::assert_snapshot!(format!(
        "{}---\n{}",
        world.stable(&done.stdout),
        world.stable(&done.stderr)
    ));
    assert_eq!(world.requests(), 0, "a model was asked");
}

#[test]
fn in_json_every_role_has_its_models_or_its_error() {
    let world = World::new();
    let done = world.run(&["models", "--format", "json"]);
    let list: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let of = |role: &str| list.iter().find(|entry| entry["role"] == role).unwrap();
    assert_eq!(of("reasoning")["models"][0], "gpt-test");
    assert_eq!(of("reasoning")["provider"], "openai");
    assert_eq!(of("refused")["error"]["kind"], "unauthorized");
    assert_eq!(of("down")["error"]["kind"], "connection");
    assert_eq!(of("page")["error"]["kind"], "invalid_response");
    assert!(
        of("keyless")["error"]["message"]
            .as_str()
            .unwrap()
            .contains("NO_KEY")
    );
    assert_eq!(of("unnamed")["model"], Value::Null);
    assert_eq!(of("unnamed")["models"][0], "gpt-test");
    assert_eq!(of("rules")["models"][0], "rules");
}

#[test]
fn without_configuration_the_discovered_models_are_listed() {
    let done = Machine::new().run(["models"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.stdout, "reasoning: offline/rules\n  * rules\n");
    assert!(
        done.stderr.starts_with("note: no model configured: "),
        "{}",
        done.stderr
    );
}

#[test]
fn doctor_reports_what_works_and_how_to_fix_what_does_not() {
    let world = World::new();
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    insta::assert_snapshot!(format!(
        "{}---\n{}",
        world.stable(&done.stdout),
        world.stable(&done.stderr)
    ));
}

#[test]
fn doctor_reports_success_for_a_working_provider() {
    let provider = Provider::start(Behavior::Works);
    let text = format!(
        "[models.reasoning]\nprovider = 'deepseek'\nbase_url = '{}'\napi_key_env = 'MY_KEY'\n",
        provider.url()
    );
    let machine = Machine::new().with_file("neuraxis.toml", text);
    let mut command = machine.command(["doctor", "--format", "json"]);
    let done = Done::from(command.env("MY_KEY", CANARY).output().unwrap());
    let told = "note: sending up to three tiny requests to each model, at a cost of a few tokens: \
                reasoning (deepseek/deepseek-flash); --offline sends nothing\n";
    assert_eq!(done.stderr, told);
    let report: Value = serde_json::from_str(&done.stdout_of(0)).unwrap();
    assert_eq!(report["ok"], true);
    let checks = report["checks"].as_array().unwrap();
    assert!(
        checks.iter().all(|check| check["outcome"] == "ok"),
        "{report:#}"
    );
    let mut names: Vec<&str> = checks
        .iter()
        .map(|check| check["check"].as_str().unwrap())
        .collect();
    // There is one for each part that the machine lacks.
    names.dedup();
    let expected = [
        "files",
        "trust",
        "store",
        "approvals",
        "project",
        "MCP servers",
        #[cfg(target_os = "linux")]
        "sandbox",
        "terminal",
        "search",
        "telemetry",
        "models",
        "key",
        "reachable",
        "model",
        "answers",
        "streams",
        "tools",
    ];
    assert_eq!(names, expected);
    let bodies = provider.seen().into_iter().map(|seen| seen.body);
    let asked: Vec<Value> = bodies.filter(|body| !body.is_null()).collect();
    assert_eq!(asked.len(), 3);
    assert!(
        asked
            .iter()
            .all(|body| body["max_tokens"].as_u64().unwrap() <= 512),
        "{asked:?}"
    );
}

#[test]
fn doctor_names_tools_that_no_request_can_run() {
    let rules = "[rules.none]\nanswer = 'deny'\ntools = ['calculate']\n";
    let machine = Machine::new().with_file("policy.toml", rules);
    let done = machine.run([
        "doctor",
        "--offline",
        "--format",
        "json",
        "--config",
        "policy.toml",
    ]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let refused: Vec<_> = checks
        .iter()
        .filter(|check| check["check"] == "refused")
        .collect();
    let [refused] = refused.as_slice() else {
        panic!("one tool is refused: {report:#}")
    };
    assert_eq!(refused["outcome"], "warning");
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("tool calculate never runs: "),
        "{detail}"
    );
}

#[test]
fn doctor_names_the_destinations_of_spans_and_metrics_separately() {
    let machine = Machine::new();
    let mut command = machine.command(["doctor", "--offline"]);
    command.env(
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "http://127.0.0.1:9/m",
    );
    let alone = Done::from(command.output().unwrap()).stdout;
    let metrics = "metrics go to http://127.0.0.1:9/m (http/protobuf), not checked";
    assert!(alone.contains(metrics), "{alone}");
    assert!(!alone.contains("spans go to"), "{alone}");
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/t");
    let both = Done::from(command.output().unwrap()).stdout;
    assert!(both.contains(metrics), "{both}");
    assert!(both.contains("spans go to http://127.0.0.1:9/t"), "{both}");
}

#[test]
fn doctor_offline_sends_nothing() {
    let world = World::new();
    let done = world.run(&["doctor", "--offline"]);
    assert_eq!(
        done.code,
        Some(1),
        "the key that is missing is found all the same"
    );
    assert!(done.stderr.starts_with("error: 2 of 2"), "{}", done.stderr);
    assert!(
        world
            .providers
            .iter()
            .all(|provider| provider.seen().is_empty())
    );
}

#[test]
fn doctor_finds_a_damaged_store_and_no_hint_leads_back_to_doctor() {
    let machine = crate::sessions::used_machine();
    let healthy = machine.run(["doctor", "--offline"]).stdout_of(0);
    assert!(
        healthy.contains("sessions.db\": file intact, 2 sessions, 3 runs\n"),
        "{healthy}"
    );

    let mut bytes = std::fs::read(machine.database()).unwrap();
    // Its tables and indexes, but not the schema, which continues after them.
    bytes[8 * 4096..28 * 4096].fill(0x5a);
    std::fs::write(machine.database(), &bytes).unwrap();
    let complaint = machine.run(["ask", "--session", "trip", "Hi"]).complaint(1);
    assert!(
        complaint.contains("`neuraxis doctor --offline` checks the file itself"),
        "{complaint}"
    );
    for damaged in [bytes, b"dear diary".repeat(1_000)] {
        std::fs::write(machine.database(), damaged).unwrap();
        let done = machine.run(["doctor", "--offline"]);
        assert_eq!(done.code, Some(1), "{done:?}");
        let told = done
            .stdout
            .lines()
            .skip_while(|line| !line.contains("failed   store"));
        let told: Vec<&str> = told.take(2).collect();
        assert!(told[0].contains("sessions.db: "), "{done:?}");
        assert!(
            told[1].contains(
                "→ in this order: stop all programs that use it; copy it to another disk"
            ),
            "{done:?}"
        );
        assert!(!done.stdout.contains("doctor"), "{done:?}");
    }
}

#[test]
fn a_wal_without_its_database_is_not_touched_and_is_reported_by_doctor() {
    let machine = crate::sessions::used_machine();
    let file = machine.database();
    let log = file.with_extension("db-wal");
    std::fs::rename(&file, file.with_extension("moved")).unwrap();
    std::fs::write(&log, "the last of it").unwrap();
    let complaint = machine.run(["sessions", "list"]).complaint(1);
    assert!(complaint.contains("put the file back"), "{complaint}");
    let done = machine.run(["doctor", "--offline"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("delete nothing"), "{done:?}");
    assert!(!file.exists());
    assert_eq!(std::fs::read(&log).unwrap(), b"the last of it");
}

#[test]
fn doctor_checks_the_files_without_which_the_server_refuses_to_start() {
    let found = |files: [(&str, &str); 3]| {
        let text = "[store]\nkeep = '90d'\narchive = '../home/old/sessions'\n\
                    [server]\nkeys = '../home/keys.json'\n\
                    tls = { certificate = '../home/a.pem', key = '../home/a.key' }\n";
        let machine = Machine::new().with_file("neuraxis.toml", text);
        let machine = files.into_iter().fold(machine, |machine, (name, content)| {
            machine.with_private(name, content)
        });
        let told = machine.run(["doctor", "--offline"]).stdout;
        let lines = told
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let told = found([("b.pem", ""), ("a.key", ""), ("old", "no folder")]);
    for expected in [
        "failed keys there is no file ",
        "a.pem cannot be read: ",
        "failed archive cannot write to ",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let certificate = "-----BEGIN CERTIFICATE-----\n";
    let told = found([
        ("keys.json", "{\"version\": 1, \"keys\": []}"),
        ("a.pem", certificate),
        ("a.key", certificate),
    ]);
    for expected in [
        "keys.json holds no keys, so no client is let in",
        "a.key holds no PEM private key",
        "ok archive ",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    for (key, is_encrypted) in [
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\r\n", true),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
            true,
        ),
        ("-----BEGIN PRIVATE KEY-----\n", false),
    ] {
        let told = found([("b.pem", ""), ("a.pem", certificate), ("a.key", key)]);
        let expected = "a.key is encrypted, and the server does not accept encrypted keys";
        assert_eq!(told.contains(expected), is_encrypted, "{told}");
        assert_eq!(told.contains("ok TLS "), !is_encrypted, "{told}");
    }
}

#[test]
fn doctor_names_the_location_of_a_configuration_error() {
    let machine =
        Machine::new().with_file("neuraxis.toml", "[models.reasoning]\nprovider = 'opnai'\n");
    let done = machine.run(["doctor"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stdout
            .contains("neuraxis.toml:2:12: models.reasoning.provider: unknown value"),
        "{done:?}"
    );
    let machine = Machine::new().with_file(
        "neuraxis.toml",
        "[store]\nurl = 'mongodb://x'\n[tools]\nroot = 'none'\n",
    );
    let done = machine.run(["doctor"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(
        done.stdout.matches("\n  failed ").count(),
        2,
        "{}",
        done.stdout
    );
}

#[cfg(unix)]
#[test]
fn doctor_reports_problems_of_the_approval_key_and_creates_none() {
    use std::os::unix::fs::PermissionsExt;

    let machine = Machine::new();
    let key = machine.database().with_file_name("approval.key");
    let healthy = machine.run(["doctor", "--offline"]).stdout_of(0);
    assert!(
        healthy.contains("ok       approvals   the key will be created in "),
        "{healthy}"
    );
    assert!(!key.exists(), "looking makes no key");

    let ask = |machine: &Machine, settings: &[&str]| {
        let arguments = [settings, &["ask", "What time is it?"]].concat();
        machine.run(arguments)
    };
    assert_eq!(ask(&machine, &[]).code, Some(0));
    let digits = std::fs::read_to_string(&key).unwrap();
    let healthy = machine.run(["doctor", "--offline"]).stdout_of(0);
    assert!(healthy.contains("approval.key, and private"), "{healthy}");

    let named = "store.approval_key_file=named.key";
    let faults = [
        (&[][..], digits.as_str(), 0o644, "→ run `chmod 600 "),
        (
            &[][..],
            "no key",
            0o600,
            "→ remove it: a new one is created",
        ),
        (
            &["--set", named][..],
            "",
            0o600,
            "→ create a key (see `neuraxis help storage`)",
        ),
    ];
    for (settings, content, mode, fix) in faults {
        std::fs::write(&key, content).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let complaint = ask(&machine, settings).complaint(2);
        assert!(
            complaint.contains("doctor --offline` says what can be done"),
            "{complaint}"
        );
        let done = machine.run([settings, &["doctor", "--offline"]].concat());
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stdout.contains("failed   approvals  "), "{done:?}");
        assert!(done.stdout.contains(fix), "{done:?}");
    }
}

#[test]
fn doctor_reports_an_untrusted_file_that_it_ignores() {
    let machine = Machine::new().with_untrusted("[modes\n");
    let done = machine.run(["doctor", "--offline"]);
    assert!(!done.stdout.contains("no neuraxis.toml here"), "{done:?}");
    assert!(
        done.stdout
            .contains("files       ./neuraxis.toml is ignored, and there is none in "),
        "{done:?}"
    );
    assert!(done.stdout.contains("warning  trust "), "{done:?}");
}

#[test]
fn doctor_explains_an_unreadable_key_file_and_suggests_no_invalid_setting() {
    for (file, said) in [
        ("no-such-key", "no-such-key: No such file or directory"),
        (".", " is not a file"),
    ] {
        let text = format!("[models.reasoning]\nprovider = 'deepseek'\napi_key_file = '{file}'\n");
        let machine = Machine::new().with_file("neuraxis.toml", text);
        let done = machine.run(["doctor", "--offline"]);
        assert!(done.stdout.contains(said), "{done:?}");
        let advised = "name that file in models.reasoning.api_key_file";
        assert!(done.stdout.contains(advised), "{done:?}");
        // It is refused in combination with a file.
        let refused = "models.reasoning.api_key_env";
        assert!(!done.stdout.contains(refused), "{done:?}");
    }
}

#[test]
fn doctor_warns_about_a_model_that_only_reasons() {
    let provider = Provider::start(Behavior::Thinks);
    let text = format!(
        "[models.reasoning]\nprovider = 'openai'\napi = 'chat'\nmodel = 'gpt-test'\nbase_url = '{}/v1'\napi_key_env = 'MY_KEY'\n",
        provider.url()
    );
    let machine = Machine::new().with_file("neuraxis.toml", text);
    let mut command = machine.command(["doctor", "--format", "json"]);
    let done = Done::from(command.env("MY_KEY", CANARY).output().unwrap());
    let report: Value = serde_json::from_str(&done.stdout_of(0)).unwrap();
    let checks = report["checks"].as_array().unwrap();
    for name in ["answers", "streams", "tools"] {
        let mut found = checks.iter().filter(|check| check["check"] == name);
        let check = found.next().unwrap();
        assert_eq!(check["outcome"], "warning", "{check}");
        let fix = check["fix"].as_str().unwrap();
        assert!(fix.contains("think less"), "{check}");
    }
}

#[test]
fn doctor_names_the_setting_for_each_refused_parameter_and_needs_no_model_list() {
    for (behavior, failed, fix) in [
        (
            Behavior::Refuses("temperature"),
            Some("answers"),
            "models.reasoning.temperature = \"left_out\"",
        ),
        (
            Behavior::Refuses("max_tokens"),
            Some("answers"),
            "models.reasoning.max_tokens_field",
        ),
        (
            Behavior::Refuses("tools"),
            Some("tools"),
            "channels.chat.tools = []",
        ),
        (Behavior::RefusesList, None, ""),
    ] {
        let provider = Provider::start(behavior);
        let text = format!(
            "[models.reasoning]\nprovider = 'openai'\napi = 'chat'\nmodel = 'gpt-test'\nbase_url = '{}/v1'\napi_key_env = 'MY_KEY'\n",
            provider.url()
        );
        let machine = Machine::new().with_file("neuraxis.toml", text);
        let mut command = machine.command(["doctor", "--format", "json"]);
        let done = Done::from(command.env("MY_KEY", CANARY).output().unwrap());
        let report: Value = serde_json::from_str(&done.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let mut faults = checks.iter().filter(|check| check["outcome"] == "failed");
        let fault = faults.next();
        let name = fault.and_then(|check| check["check"].as_str());
        assert_eq!(name, failed, "{behavior:?}: {report:#}");
        if let Some(fault) = fault {
            let told = fault["fix"].as_str().unwrap();
            assert!(told.contains(fix), "{behavior:?}: {told}");
        }
    }
}
