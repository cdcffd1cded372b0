//! Tests of the error messages about invalid configurations.

use super::*;

fn complaint_about_file(text: &str) -> String {
    let machine = Machine::new().with_file("work/neuraxis.toml", text);
    machine.complaint()
}

fn complaint_about_variable(name: &str, value: &str) -> String {
    Machine::new().with_variable(name, value).complaint()
}

#[test]
fn an_error_in_a_file_names_its_position_and_the_nearest_key() {
    let complaints = [
        "[modles.reasoning]",
        "[modes.moderate]\nmax_turn = 5",
        "models = { reasoning = { provider = 'openai', modle = 'x' } }",
        "[modes.moderate.tools]\nreed_only = 'allow'",
        "[modes.moderate]\nmax_turns = 'five'",
        "[modes.moderate]\nmax_turns = -1",
        "[modes.moderate]\ndeadline = 60",
        "[modes.moderate]\ndeadline = 'soon'",
        "[modes.moderate]\nroles = 'router'",
        "[modes.moderate]\nroles = ['router', 7]",
        "[modes.moderate.tools]\nread_only = 'alow'",
        "[modes.moderate.tools]\nread_only = 0",
        "[channels.chat]\nunlisted_tools = true",
        "[channels.chat]\nopening = 'gather'",
        "[channels.chat]\nopening = { gather = { role = 'router' } }",
        "[models]\nreasoning = 'sk-hunter2'",
        "[models.reasoning]\nprovider = 'llama'\nmodel = ['sk-hunter2']",
        "[models.reasoning]\nprovider = 'opnai'",
        "[models.reasoning]\nprovider = 0",
        "[models.reasoning]\nprovder = 'openai'",
        "[models.reasoning]\nmodel = 'm'",
        "[models.reasoning]\nprovider = 'openai'\nreasoning_efort = 'low'",
        "[models.reasoning]\nprovider = 'openai'\nreasoning_effort = 'lo'",
        "[models.reasoning]\nprovider = 'openai'\nreasoning_effort = 1",
        "[models.reasoning]\nprovider = 'openai'\nmax_concurrent = 0",
        "[models.reasoning]\nprovider = 'openai'\nserver = 'ollama'",
        "[models.reasoning]\nprovider = 'openai'\n[models.reasoning.timeouts]\nidl = '3s'",
        "[models.reasoning]\nprovider = 'openai'\ntimeouts.idle = 'soon'",
        "[models.reasoning]\nprovider = 'deepseek'\nthinking = true",
        "[models.reasoning]\nprovider = 'llama'\nbase_uri = 'x'",
        "[models.reasoning]\nprovider = 'llama'\napi_key_env = 7",
        "[models.reasoning]\nprovider = 'cassette'",
        "[models.reasoning]\nprovider = 'cassette'\nfile = 'x'\nsped = 'instant'",
        "[server]\nlisten = 'localhost'",
        "[config]\nproject_polcy = 'full'",
        "[models.reasoning]\n\n  api_key = 'sk-hunter2'",
        "[models.'no name']\nprovider = 'offline'",
        "[modes.moderate]\nmax_turns = 0",
        "[channels.chat]\nrole = 'resoning'",
        "[channels.chat]\ntools = ['a', '{']",
        "[channels.mine]\ntools = ['a']",
        "[models.reasonin]\nprovider = 'offline'",
        "[server]\nplan = 'teem'",
        "[plans.team]\nmax_turns = 3\n[server]\nplan = 'teem'",
        "[server]\nplan = 7",
        "[server]\nmodes = ['moderat']",
        "[server]\nmodes = []",
        "[server]\nmax_runs = 0",
        "[plans.'a b']\nmax_turns = 3",
        "[tools]\nroot = 2020-01-01",
        "[store\nurl = 'memory:'",
        "[store]\nurl = memory",
        "[store]\nurl = 'memory:'\nurl = 'memory:'",
        "\"\\u001b[2J\" = 1",
    ];
    let complaints = complaints.map(|text| format!("{text}\n  => {}", complaint_about_file(text)));
    insta::assert_snapshot!(complaints.join("\n\n"));
}

#[test]
fn an_excess_key_in_a_single_key_table_is_named() {
    for (text, told) in [
        (
            "no_calls = { remind = { prompt = 'x', at_most = 1 }, x = 1 }",
            "unknown key \"x\" in [agents.main_thread.no_calls]",
        ),
        (
            "no_calls = { at_most = 1, remind = { prompt = 'x', at_most = 1 } }",
            "unknown key \"at_most\" in [agents.main_thread.no_calls]",
        ),
        (
            "compaction = { drop = true, summarize = { role = 'router' } }",
            "unknown key \"drop\" in [agents.main_thread.compaction]",
        ),
        (
            "no_calls = 'fnish'",
            "agents.main_thread.no_calls: unknown value \"fnish\" (did you mean finish?)",
        ),
        (
            "no_calls = { remind = { prompt = 'x', at_mst = 1 } }",
            "unknown key \"at_mst\" in [agents.main_thread.no_calls.remind] (did you mean at_most?)",
        ),
    ] {
        let complaint = complaint_about_file(&format!("[agents.main_thread]\n{text}"));
        assert!(complaint.contains(told), "{complaint}");
    }
}

#[test]
fn an_agent_whose_tool_name_is_taken_is_refused_with_its_position() {
    let text = "[agents.main_thread]\nagents = ['notes']\n[agents.notes]\ntool_name = 'NAME'";
    let tools = ["read_file".parse().unwrap()];
    for (name, is_free) in [
        ("read_file", false),
        ("final_answer", false),
        ("ask_notes", true),
    ] {
        let machine = Machine::new().with_file("work/neuraxis.toml", &text.replace("NAME", name));
        let checked = machine.load().unwrap().check_agents(&tools);
        assert_eq!(checked.is_ok(), is_free, "{name}");
        if let Err(error) = checked {
            assert!(error.to_string().contains(":4:"), "{error}");
        }
    }
}

#[test]
fn an_error_in_a_variable_names_the_variable() {
    let complaints = [
        ("NEURAXIS_MODLES__REASONING__PROVIDER", "offline"),
        ("NEURAXIS_MODELS__REASONING__API_KEY", "sk-hunter2"),
        ("NEURAXIS_MODES__MODERATE__MAX_TURNS", "many"),
        ("NEURAXIS_MODES__MODERATE__MAX_TURNS", "-3"),
        ("NEURAXIS_MODES__MODERATE__TOOLS__READ_ONLY", "0"),
        ("NEURAXIS_STORE", "sk-hunter2"),
        ("NEURAXIS_MODELS__REASONING__PROVIDER", "offlin"),
        ("NEURAXIS_MODELS__REASONING", "sk-hunter2"),
        (
            "NEURAXIS_MODELS__REASONING",
            "{ provider = 'openai', modle = 'x' }",
        ),
        ("NEURAXIS_", "x"),
        ("NEURAXIS_STORE____URL", "x"),
        ("NEURAXIS_HOME", "/x"),
    ];
    let complaints = complaints.map(|(name, value)| {
        let complaint = complaint_about_variable(name, value);
        format!("{name}={value}\n  => {complaint}")
    });
    insta::assert_snapshot!(complaints.join("\n\n"));
}

#[test]
fn a_variable_with_one_underscore_instead_of_two_gets_a_suggestion() {
    for (name, value, meant) in [
        ("NEURAXIS_TOOLS_ROOT", "/x", "NEURAXIS_TOOLS__ROOT"),
        (
            "NEURAXIS_STORE_APPROVAL_KEY_FILE",
            "key",
            "NEURAXIS_STORE__APPROVAL_KEY_FILE",
        ),
        (
            "NEURAXIS_SERVER_MAX_RUNS",
            "many",
            "NEURAXIS_SERVER__MAX_RUNS",
        ),
        (
            "NEURAXIS_MODES__MODERATE__TOOLS_READ_ONLY",
            "allow",
            "NEURAXIS_MODES__MODERATE__TOOLS__READ_ONLY",
        ),
        (
            "NEURAXIS_MODES_MODERATE_MAX_TURNS",
            "5",
            "NEURAXIS_MODES__MODERATE__MAX_TURNS",
        ),
        (
            "NEURAXIS_MODELS_REASONING_PROVIDER",
            "offline",
            "NEURAXIS_MODELS__REASONING__PROVIDER",
        ),
    ] {
        let said = complaint_about_variable(name, value);
        let expected = format!("{name}: unknown key; did you mean {meant}?");
        assert!(said.starts_with(&expected), "{said}");
    }
    for name in ["NEURAXIS_MODELS_DIR", "NEURAXIS_HOME_DIR"] {
        let said = complaint_about_variable(name, "/x");
        assert!(said.starts_with(&format!("{name}: unknown key")), "{said}");
    }
}

#[test]
fn a_misspelled_table_is_not_taken_as_a_name_in_a_free_form_table() {
    let name = "NEURAXIS_MCP__SERVERS__SHOP__HEADERS_ENVS";
    let said = complaint_about_variable(name, "X");
    let expected = format!("{name}: unknown key \"headers_envs\" in [mcp.servers.shop]");
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("did you mean headers_env?"), "{said}");
}

#[test]
fn a_number_instead_of_text_is_rejected_with_the_expected_format() {
    let said = complaint_about_variable("NEURAXIS_SERVER__LISTEN", "8080");
    let expected = "NEURAXIS_SERVER__LISTEN: server.listen: expected an IP address and a port";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn an_explicitly_named_file_must_exist() {
    let sources = Sources::default().with_file("nope.toml");
    let error = Machine::new().load_from(&sources).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read the configuration file nope.toml"
    );
    let ConfigError::Read { source, .. } = error else {
        panic!("another error: {error}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}

#[cfg(unix)]
#[test]
fn a_non_unicode_value_is_refused_with_the_name_of_its_variable() {
    use std::os::unix::ffi::OsStringExt;

    let value = std::ffi::OsString::from_vec(vec![0xff]);
    let ours = Environment::new("/").with_variable("NEURAXIS_STORE__URL", value.clone());
    let error = Config::load(&ours, &Sources::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "NEURAXIS_STORE__URL: the value of the variable is not Unicode"
    );
    let other = Environment::new("/").with_variable("OTHER", value);
    assert!(Config::load(&other, &Sources::default()).is_ok());
}

#[test]
fn a_file_that_is_too_large_not_text_or_a_directory_is_refused() {
    let machine = Machine::new();
    let path = machine.folder.path().join("user/neuraxis.toml");
    fs::write(&path, "#".repeat(1024 * 1024 + 1)).unwrap();
    let complaint = machine.complaint();
    assert!(
        complaint.ends_with("user/neuraxis.toml has more than 1048576 bytes"),
        "{complaint}"
    );

    fs::write(&path, [b'#', 0xff]).unwrap();
    let complaint = machine.complaint();
    assert!(
        complaint.contains("line 1, column 2 is not UTF-8"),
        "{complaint}"
    );

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let complaint = machine.complaint();
    let expected = "cannot read the configuration file ";
    assert!(complaint.starts_with(expected), "{complaint}");
}

#[test]
fn deeply_nested_input_is_refused_without_overflow() {
    let keys = format!("{} = 1", vec!["a"; 100_000].join("."));
    let tables = format!("a = {}1", "{ a = ".repeat(50_000));
    for text in [keys, tables] {
        let complaint = complaint_about_file(&text);
        assert!(complaint.contains("recurs"), "{complaint}");
    }
    let name = format!("NEURAXIS_{}", vec!["A"; 10_000].join("__"));
    let complaint = complaint_about_variable(&name, "1");
    assert!(complaint.contains("is not a valid key"), "{complaint}");
    let value = "[".repeat(100_000);
    let complaint = complaint_about_variable("NEURAXIS_PLANS", &value);
    assert!(complaint.contains("expected a table"), "{complaint}");
}
