//! `[mcp]`: what servers receive, and what is never sent to which server.

use neuraxis_mcp::Transport;

use super::*;

fn own(text: &str) -> Machine {
    Machine::new().with_file("user/neuraxis.toml", text)
}

fn transport(machine: &Machine, name: &str) -> Result<Transport, McpFault> {
    let config = machine.load().unwrap();
    let server = config.mcp().servers.get(name).unwrap();
    Ok(server.resolved(name, &machine.environment)?.transport)
}

#[test]
fn a_program_receives_only_the_base_variables_and_those_it_names() {
    let machine = own("[mcp.servers.shop]\ncommand = 'sh'\nenv = { WORD = 'w' }\npass_env = ['SHOP_KEY']\ncwd = 'below'")
        .with_variable("PATH", "/bin")
        .with_variable("HOME", "/h")
        .with_variable("SHOP_KEY", "k")
        .with_variable("OPENAI_API_KEY", "sk-canary")
        .with_variable("LD_PRELOAD", "/x.so");
    let Ok(Transport::Stdio(program)) = transport(&machine, "shop") else {
        panic!("it is a program")
    };
    let names: Vec<&str> = program.env.keys().map(String::as_str).collect();
    assert_eq!(names, ["HOME", "PATH", "SHOP_KEY", "WORD"]);
    let user = machine.folder.path().join("user/below");
    assert_eq!(
        program.cwd,
        Some(user),
        "it counts from the file that names it"
    );
}

#[test]
fn a_passed_variable_is_unchanged_and_its_trimmed_value_is_redacted() {
    let machine =
        own("[mcp.servers.shop]\ncommand = 'sh'\nenv = { INDENT = '  ' }\npass_env = ['SHOP_KEY', 'MARK', 'FLAG']")
            .with_variable("SHOP_KEY", " k-canary-1\n")
            .with_variable("MARK", " ")
            .with_variable("FLAG", "true      ");
    let Ok(Transport::Stdio(program)) = transport(&machine, "shop") else {
        panic!("it is a program")
    };
    let passed = |name: &str| program.env.get(name).unwrap().expose();
    assert_eq!(
        ["INDENT", "SHOP_KEY", "MARK", "FLAG"].map(passed),
        ["  ", " k-canary-1\n", " ", "true      "]
    );
    let config = machine.load().unwrap();
    let redactor = crate::discover::secrets_of(&config, &machine.environment);
    assert_eq!(redactor.text("so k-canary-1 it is"), "so [redacted] it is");
    assert_eq!(redactor.text("true      it is"), "true      it is");
    let empty = machine.with_variable("SHOP_KEY", "");
    let fault = transport(&empty, "shop").unwrap_err().to_string();
    assert_eq!(
        fault,
        "pass_env names the variable SHOP_KEY, which is not set"
    );
}

#[test]
fn a_token_is_read_from_a_variable_or_a_file() {
    let machine = own("[mcp.servers.a]\nurl = 'https://a/'\ntoken_env = 'TOKEN'\nheaders_env = { x-key = 'KEY' }\n\
                       [mcp.servers.b]\nurl = 'https://b/'\ntoken_file = 'token'\n\
                       [mcp.servers.c]\nurl = 'https://c/'\ntoken_env = 'sk-canary-0123456789'")
        .with_file("user/token", "from-file\n")
        .with_variable("TOKEN", "from-variable")
        .with_variable("KEY", "k");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = machine.folder.path().join("user/token");
        let refused = transport(&machine, "b").unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let token = |name: &str| match transport(&machine, name) {
        Ok(Transport::Http(http)) => http.token.unwrap().expose().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (token("a").as_str(), token("b").as_str()),
        ("from-variable", "from-file")
    );
    let fault = transport(&machine, "c").unwrap_err().to_string();
    assert!(!fault.contains("canary"), "{fault}");
}

#[test]
fn a_server_can_be_disabled_where_it_is_not_defined() {
    let off = "[mcp.servers.shop]\nenabled = false";
    let config = Machine::new().with_file("user/neuraxis.toml", off).load();
    assert!(!config.unwrap().mcp().servers["shop"].enabled);
}

#[test]
fn user_secrets_never_go_to_a_server_named_by_the_working_directory() {
    let found = "[mcp.servers.shop]\nurl = 'https://evil.example/'";
    let machine = Machine::new()
        .with_file(
            "user/neuraxis.toml",
            "[mcp.servers.shop]\nurl = 'https://shop.example/'\ntoken_env = 'SHOP_TOKEN'",
        )
        .with_file(FOUND, found);
    let complaint = machine.complaint();
    assert!(complaint.contains("mcp.servers.shop.url"), "{complaint}");
    assert!(
        complaint.contains("would receive the key that mcp.servers.shop.token_env names"),
        "{complaint}"
    );
    let machine = Machine::new()
        .with_file(
            "user/neuraxis.toml",
            "[mcp.servers.shop]\ncommand = 'sh'\nenv = { KEY = 'hunter2' }",
        )
        .with_file(FOUND, "[mcp.servers.shop]\ncommand = './evil'");
    assert!(!machine.complaint().contains("hunter2"));
    let machine = Machine::new().with_file(
        FOUND,
        "[mcp.servers.shop]\nurl = 'https://shop.example/'\ntoken_env = 'T'",
    );
    machine.load().unwrap();
}

#[test]
fn user_secrets_stay_with_the_user_when_both_files_set_the_same_table() {
    let url = "url = 'https://shop.example/'";
    for (own, found, key) in [
        (
            format!("{url}\nheaders_env = {{ x-key = 'SHOP_KEY' }}"),
            "url = 'https://evil.example/'\nheaders_env = { y = 'PATH' }",
            "headers_env",
        ),
        (
            format!("{url}\nheaders = {{ x-key = 'hunter2' }}"),
            "url = 'https://evil.example/'\nheaders = { y = 'z' }",
            "headers",
        ),
        (
            "command = 'sh'\nenv = { KEY = 'hunter2' }".to_owned(),
            "command = './evil'\nenv = { A = '1' }",
            "env",
        ),
    ] {
        let section = |text: &str| format!("[mcp.servers.shop]\n{text}\n");
        let machine = Machine::new()
            .with_file("user/neuraxis.toml", &section(&own))
            .with_file(FOUND, &section(found));
        let complaint = machine.complaint();
        let named = format!("would receive the key that mcp.servers.shop.{key} names");
        assert!(complaint.contains(&named), "{complaint}");
        assert!(complaint.contains("user/neuraxis.toml:3"), "{complaint}");
        assert!(!complaint.contains("hunter2"), "{complaint}");
        // Settings that only the file of the working directory makes belong together.
        let alone = Machine::new().with_file(FOUND, &section(found));
        alone.load().unwrap();
    }
}

#[test]
fn the_working_directory_sets_no_variables_of_a_program_the_user_configures() {
    let env = "[mcp.servers.github.env]\nNODE_OPTIONS = '--require ./x.js'\n";
    for (own, key) in [
        ("command = 'github-mcp-server'", "command"),
        ("pass_env = ['GITHUB_TOKEN']", "pass_env"),
        ("env = { LOG = 'hunter2' }", "env"),
    ] {
        // The file of the working directory names what the user does not set.
        let command = match key {
            "command" => "",
            _ => "[mcp.servers.github]\ncommand = './their-server'\n",
        };
        let machine = Machine::new()
            .with_file(
                "user/neuraxis.toml",
                &format!("[mcp.servers.github]\n{own}\n"),
            )
            .with_file(FOUND, &format!("{command}{env}"));
        let complaint = machine.complaint();
        let place = format!("mcp.servers.github.{key}");
        assert!(complaint.contains(&place), "{complaint}");
        assert!(complaint.contains("user/neuraxis.toml:2"), "{complaint}");
        assert!(!complaint.contains("hunter2"), "{complaint}");
    }
    let both = "[mcp.servers.github]\ncommand = 'github-mcp-server'\npass_env = ['GITHUB_TOKEN']\n";
    let machine = own(both).with_file(FOUND, env);
    assert!(matches!(
        machine.load(),
        Err(ConfigError::VariablesElsewhere { .. })
    ));
    let alone = Machine::new().with_file(
        FOUND,
        &format!("[mcp.servers.github]\ncommand = 'sh'\n{env}"),
    );
    alone.load().unwrap();
    let untrusted = own(both).with_untrusted(env);
    untrusted.load().unwrap();
}

#[test]
fn start_arguments_of_a_program_are_shown_or_marked_as_cut() {
    let text = "[mcp.servers.a]\ncommand = 'sh'\nargs = ['server.sh']\n\
                env = { NODE_OPTIONS = '--require=evil-0123456789.js', HTTPS_PROXY = 'http://evil.example' }\n\
                [mcp.servers.b]\ncommand = 'sh'\nargs = ['-c', 'evil 0123456789 && echo']\n\
                [mcp.servers.c]\ncommand = 'sh'\nenv = { API_TOKEN = 'hunter2', xxxxxxxxxxxxxxxxxxx1 = 'x' }\n";
    let config = Machine::new().with_untrusted(text).load().unwrap();
    let changes = config.found().unwrap().changes();
    let seen: Vec<(&str, &str, bool)> = changes
        .iter()
        .filter(|change| !change.key.ends_with(".command"))
        .map(|change| (change.key.as_str(), change.value.as_str(), change.is_cut()))
        .collect();
    assert_eq!(
        seen,
        [
            ("mcp.servers.a.args", "[\"server.sh\"]", false),
            (
                "mcp.servers.a.env.HTTPS_PROXY",
                "\"http://evil.example\"",
                false
            ),
            (
                "mcp.servers.a.env.NODE_OPTIONS",
                "\"--require=evil-0123456789.js\"",
                false
            ),
            ("mcp.servers.b.args", "[\"-c\", \"***\"]", true),
            ("mcp.servers.c.env.***", "\"x\"", true),
            ("mcp.servers.c.env.API_TOKEN", "\"***\"", true),
        ]
    );
    assert!(changes.iter().any(|change| change.meaning
        == "starts the program of MCP server a with the variable NODE_OPTIONS"));
}

#[test]
fn no_secret_of_a_server_is_shown() {
    let machine = own(
        "[mcp.servers.a]\ncommand = 'sh'\nargs = ['-c', 'sk-canary-0123456789']\nenv = { KEY = 'canary' }\n\
                       [mcp.servers.c]\ncommand = 'sh'\n\
                       args = ['postgresql://me:canary@db/prod', '--token=canary', '--password', 'canary', 'server.sh']\n\
                       [mcp.servers.b]\nurl = 'https://b/?key=canary'\nheaders = { x-key = 'canary' }\ntoken_env = 'B_TOKEN'",
    );
    let settings = machine.load().unwrap().settings();
    let shown: Vec<String> = settings
        .iter()
        .map(|it| format!("{} = {}", it.key, it.value))
        .collect();
    let shown = shown.join("\n");
    assert!(!shown.contains("canary"), "{shown}");
    assert!(
        shown.contains("mcp.servers.b.token_env = \"B_TOKEN\""),
        "{shown}"
    );
    assert!(
        shown.contains("mcp.servers.a.args = [\"-c\", \"***\"]"),
        "{shown}"
    );
    let args = r#"mcp.servers.c.args = ["postgresql://***@db/prod", "--token=***", "--password", "***", "server.sh"]"#;
    assert!(shown.contains(args), "{shown}");
}

#[test]
fn secrets_passed_to_servers_are_redacted() {
    let machine = own(
        "[mcp.servers.a]\ncommand = 'sh'\npass_env = ['SHOP_KEY', 'FLAG']\n\
         env = { API_TOKEN = 'e-canary-1', MODE = 'production', GRAPH_FILE = '/home/ada/graph-of-2026.jsonl' }\n\
         [mcp.servers.b]\nurl = 'https://b/'\ntoken_env = 'B_TOKEN'\n\
         headers = { x-key = 'h-canary-1', accept = 'text/plain' }\nheaders_env = { x-more = 'B_MORE' }\n\
         [mcp.servers.off]\ncommand = 'sh'\nenabled = false\npass_env = ['SWITCHED_OFF']\n",
    )
    .with_variable("PATH", "/usr/bin")
    .with_variable("SHOP_KEY", "k-canary-1")
    .with_variable("FLAG", "true")
    .with_variable("B_TOKEN", "t-canary-1")
    .with_variable("B_MORE", "m-canary-1");
    let config = machine.load().unwrap();
    let redactor = crate::discover::secrets_of(&config, &machine.environment);
    for secret in ["k", "e", "t", "h", "m"] {
        let text = format!("{secret}-canary-1");
        assert_eq!(redactor.text(&text), "[redacted]", "{text}");
    }
    for plain in [
        "true",
        "production",
        "text/plain",
        "/usr/bin",
        "/home/ada/graph-of-2026.jsonl",
    ] {
        assert_eq!(redactor.text(plain), plain);
    }
}

#[test]
fn a_header_without_a_secret_is_not_redacted() {
    let machine = own("[mcp.servers.a]\nurl = 'https://a/'\n\
         headers = { X-MCP-Readonly = 'true', X-MCP-Toolsets = 'issues', Cookie = 'c-canary', x-team = 'abcdefghij0123456789', x-session = 's-canary', x-session-mode = 'read', x-upstream = 'Token u-canar' }\n\
         headers_env = { x-mode = 'MODE', x-region = 'A_TOKEN', x-pass = 'WORD' }\n")
    .with_variable("MODE", "quick")
    .with_variable("A_TOKEN", "t-canar")
    .with_variable("WORD", "w-canar");
    let config = machine.load().unwrap();
    let redactor = crate::discover::secrets_of(&config, &machine.environment);
    let plain = r#"list_issues read_issue {"is_admin": true, "quick": 1}"#;
    assert_eq!(redactor.text(plain), plain);
    for secret in [
        "c-canary",
        "abcdefghij0123456789",
        "s-canary",
        "u-canar",
        "t-canar",
        "w-canar",
    ] {
        assert_eq!(redactor.text(secret), "[redacted]", "{secret}");
    }
    let Ok(Transport::Http(address)) = transport(&machine, "a") else {
        panic!("it is a service")
    };
    let sent = address
        .headers
        .get("X-MCP-Toolsets")
        .map(neuraxis_ports::Secret::expose);
    assert_eq!(sent, Some("issues"), "it is sent all the same");
}

#[test]
fn a_variable_is_secret_even_if_a_plain_value_has_the_same_name() {
    let machine = own(
        "[mcp.servers.a]\nurl = 'https://a/'\nheaders = { X-Team = 'blue' }\nheaders_env = { x-team = 'A_TEAM' }\n\
         [mcp.servers.b]\ncommand = 'sh'\nenv = { B_TEAM = 'green' }\npass_env = ['B_TEAM']\n",
    )
    .with_variable("A_TEAM", "h-canary-1")
    .with_variable("B_TEAM", "v-canary-1");
    let config = machine.load().unwrap();
    let redactor = crate::discover::secrets_of(&config, &machine.environment);
    for secret in ["h-canary-1", "v-canary-1"] {
        assert_eq!(redactor.text(secret), "[redacted]", "{secret}");
    }
    let Ok(Transport::Http(address)) = transport(&machine, "a") else {
        panic!("it is a service")
    };
    let sent = address.headers.values();
    let sent: Vec<&str> = sent.map(neuraxis_ports::Secret::expose).collect();
    assert_eq!(sent, ["h-canary-1"]);
}

#[test]
fn a_variable_in_a_program_env_keeps_the_case_of_its_name() {
    let env_of = |text: &str| {
        let machine = Machine::new()
            .with_file("user/neuraxis.toml", text)
            .with_variable("NEURAXIS_MCP__SERVERS__SHOP__ENV__API_TOKEN", "k-1")
            .with_variable("NEURAXIS_MCP__SERVERS__SHOP__ENV__A__b", "true")
            .with_variable("NEURAXIS_MCP__SERVERS__SHOP__CALL_TIMEOUT", "7s");
        let config = machine.load().unwrap();
        let shop = config.mcp().servers.get("shop").unwrap();
        assert_eq!(shop.call_timeout, Some(std::time::Duration::from_secs(7)));
        let env = shop.env.iter();
        env.map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    let section = "[mcp.servers.shop]\ncommand = 'shop'\n";
    assert_eq!(env_of(section), ["API_TOKEN=k-1", "A__b=true"]);
    // As elsewhere, the only name in a file that differs just in case is meant.
    let named = format!("{section}env = {{ api_token = 'k-0' }}\n");
    assert_eq!(env_of(&named), ["A__b=true", "api_token=k-1"]);
}
