//! Tests that no secrets are displayed.

use super::*;

#[test]
fn no_secret_remains_in_a_shown_url() {
    for (url, expected) in [
        ("memory:", "memory:"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("postgres://me:hunter2@db/x", "postgres://***@db/x"),
        ("postgres://me:hunt@er2@db/x", "postgres://***@db/x"),
        ("postgres://me:hunt/er2@db/x", "postgres://***@db/x"),
        ("postgres://me:hunt?er2@db/x", "postgres://***@db/x"),
        ("postgres:me:hunter2@db", "postgres:***@db"),
        ("postgres://db/x?password=hunter2", "postgres://db/x?***"),
        (
            "postgres://db/x?host=a&password=hunter2",
            "postgres://db/x?***",
        ),
        (
            "postgres://db/x?user=me;password=hunter2",
            "postgres://db/x?***",
        ),
        (
            "postgres://db/x?host=a?password=hunter2",
            "postgres://db/x?***",
        ),
        ("postgres://db/x?user=me:hunter2", "postgres://db/x?***"),
        ("postgres://hunt?er2@db/x", "postgres://***@db/x"),
        ("https://hunter2@db/x", "https://***@db/x"),
        ("https://db/x#token=hunter2", "https://db/x?***"),
        ("hunter2@db", "***@db"),
        ("postgres://app:hunter2/x", "postgres://app:***/x"),
        ("host=db user=me password=hunter2", "***"),
        ("host=db password=hunt@er2", "***"),
        ("host=db password=hunt:e@r2", "***"),
        ("host=db password=hunt://er2", "***"),
        ("host=db password=hunt?er2", "***"),
        ("db:8080/v1?token=hunter2", "db:8080/v1?***"),
        ("postgres://db:5432/x", "postgres://db:5432/x"),
        ("postgres://[::1]/x", "postgres://[::1]/x"),
        ("sqlite://C:/a.db", "sqlite://C:/a.db"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        (
            "postgres://db/x?application_name=a%26password%3Dhunter2",
            "postgres://db/x?***",
        ),
    ] {
        assert_eq!(without_secrets(url), expected, "{url}");
    }
}

#[test]
fn a_database_url_without_a_password_is_shown_unchanged() {
    for url in [
        "postgres://app@db:5432/x",
        "postgres:///x?host=/run/postgres&user=app",
        "postgresql://app@db/x?sslmode=verify-full",
    ] {
        assert_eq!(shown_setting("store.url", url), url);
    }
}

#[test]
fn a_table_is_shown_only_if_it_can_contain_no_secret() {
    for (key, table) in [
        ("plans.t", "{ day = { max_tokens = 100 } }"),
        ("modes", "{ strict = { tools = { read_only = 'allow' } } }"),
        (
            "rules.git",
            "{ answer = 'allow', commands = ['git status'] }",
        ),
        ("channels.chat.tools", "['current_time', 'calculate']"),
        ("server.origins", "['https://chat.example']"),
        ("mcp.servers.a.command", "npx"),
    ] {
        assert_eq!(shown_setting(key, table), table, "{key}");
    }
    for (key, table) in [
        ("models.coding", "{ model = 'm' }"),
        ("mcp.servers.a", "{ command = 'a' }"),
        ("store", "{ url = 'memory:' }"),
        ("plans.t", "{ api_key = 'hunter2' }"),
        ("plans.t", "{ api_keys = ['hunter2'] }"),
        ("plans.t", "{ day = 'sk-hunter2' }"),
        (
            "rules.a",
            "{ commands = ['git clone https://me:hunter2@host'] }",
        ),
        ("rules.a", "{ commands = ['curl --token=hunter2'] }"),
        (
            "rules.a",
            "{ commands = ['curl -H \"X-Api-Key: hunter\" host'] }",
        ),
        ("plans.t", "{ day = "),
        (
            "rules.a",
            "{ commands = ['psql --password correcthorse **'] }",
        ),
        ("rules.a", "{ commands = ['mysql -pcorrecthorse **'] }"),
        ("rules.a.commands", "['curl -u me:correcthorse **']"),
        ("mcp.servers.a.command", "x --token=hunter2"),
    ] {
        assert_eq!(shown_setting(key, table), "***", "{key} = {table}");
    }
}

#[test]
fn no_password_remains_in_an_address_under_any_key() {
    for key in [
        "driver.restate.ingress",
        "driver.restate.admin",
        "driver.restate.advertise",
        "telemetry.otlp.endpoint",
    ] {
        let address = "http://me:hunter2@host:9070/v1?token=hunter2";
        assert_eq!(shown(key, address), "http://***@host:9070/v1?***", "{key}");
        let plain = "http://127.0.0.1:9070";
        assert_eq!(shown(key, plain), plain, "{key}");
    }
}

#[test]
fn no_secret_remains_in_shown_arguments() {
    for (before, argument, expected) in [
        (
            None,
            "postgresql://me:hunter2@db/prod",
            "postgresql://***@db/prod",
        ),
        (
            None,
            "--db=postgres://me:hunter2@db/x",
            "--db=postgres://***@db/x",
        ),
        (None, "https://host/v1?token=hunter2", "https://host/v1?***"),
        (None, "--token=hunter2", "--token=***"),
        (None, "API_KEY=hunter2", "API_KEY=***"),
        (None, "Authorization: Bearer hunter2", "Authorization:***"),
        (Some("--password"), "hunter2", "***"),
        (Some("--api-key"), "hunt/er2", "***"),
        (
            None,
            "--env=AWS_SECRET_ACCESS_KEY=wJal/K7MD",
            "--env=AWS_SECRET_ACCESS_KEY=***",
        ),
        (
            None,
            "--header=Authorization: Basic dXNl/cjpodW50ZXIy==",
            "--header=Authorization:***",
        ),
        (None, "--env=DB_PASS=hunter", "--env=DB_PASS=***"),
        (Some("--header"), "X-Session: ada", "X-Session:***"),
        (None, "host=db password=hunter2", "host=db password=***"),
        (None, "--authToken=hunter2", "--authToken=***"),
        (Some("--password"), "1234", "***"),
        (Some("--no-auth"), "--port", "--port"),
        (Some("--token=***"), "server.sh", "server.sh"),
        (Some("--token-file"), "/run/token", "/run/token"),
        (Some("-y"), "@scope/server", "@scope/server"),
        (
            Some("--from"),
            "git+https://host/it@v1",
            "git+https://host/it@v1",
        ),
        (None, "sk-hunter2", "***"),
    ] {
        assert_eq!(shown_argument(before, argument), expected, "{argument}");
    }
}

#[test]
fn arguments_without_secrets_are_shown() {
    for (before, argument) in [
        (Some("--max-tokens"), "4096"),
        (None, "--max-tokens=4096"),
        (Some("--token-limit"), "4096"),
        (Some("--author"), "Bob"),
        (Some("--no-auth"), "server.js"),
        (None, "--auth=false"),
        (None, "keycloak:8080"),
        (None, "--decode=utf-8"),
    ] {
        assert_eq!(shown_argument(before, argument), argument);
    }
}

#[test]
fn a_user_written_list_of_arguments_is_not_shown() {
    let list = "['--token', 'hunter2']";
    assert_eq!(shown_setting("mcp.servers.a.args", list), "***");
}

#[test]
fn only_the_variable_names_of_api_keys_are_shown() {
    assert_eq!(
        shown("models.coding.api_key_env", "OPENAI_API_KEY"),
        "OPENAI_API_KEY"
    );
    for key in ["sk-hunter2", "a3f0c2", "", "1234"] {
        assert_eq!(shown("models.coding.api_key_env", key), "***", "{key}");
    }
    assert_eq!(shown("models.coding.api_key_file", "/k"), "***");
    assert_eq!(shown("models.coding.model", "m"), "m");
}

#[test]
fn a_header_is_secret_because_of_its_name_or_its_value() {
    for (name, value) in [
        ("X-Credential", "ada-love"),
        ("x-session", "ada-love"),
        ("X-Jwt", "ada-love"),
        ("x-pwd", "ada-love"),
        ("x-bearer", "ada-love"),
        ("x-api-key", "ada"),
        ("x-upstream", "Bearer hunter2"),
        ("x-upstream", "basic aHVudGVyMg"),
        ("x-upstream", "Token hunter2"),
        ("x-upstream", "Other sk-12345678"),
        ("x-upstream", "abcdefghij0123456789"),
    ] {
        assert!(may_be_secret_header(name, value), "{name}: {value}");
    }
    for (name, value) in [
        ("X-MCP-Toolsets", "issues"),
        ("x-team", "blue or green"),
        ("x-kind", "Bearer"),
        ("X-Session-Mode", "read"),
        ("X-Credits", "5"),
    ] {
        assert!(!may_be_secret_header(name, value), "{name}: {value}");
    }
    assert!(!sounds_secret("DBUS_SESSION_BUS_ADDRESS") && !sounds_secret("PWD"));
}

#[test]
fn headers_and_query_values_are_shown_if_they_cannot_be_secret() {
    for (key, value, expected) in [
        ("headers.authorization", "hunter2", "***"),
        ("headers_env.x-token", "hunter2", "***"),
        ("headers_env.x-token", "MY_TOKEN", "MY_TOKEN"),
        ("query.api-version", "2026-01-01", "2026-01-01"),
        ("query.api-key", "hunter2", "***"),
        ("proxy", "http://me:hunter2@proxy", "http://***@proxy"),
        ("timeouts.idle", "2m", "2m"),
    ] {
        let key = format!("models.coding.{key}");
        assert_eq!(shown(&key, value), expected, "{key}");
        let quoted = key.replace("headers", "'headers'");
        let quoted = quoted.replace("'headers'_env", "'headers_env'");
        assert_eq!(shown_setting(&quoted, value), expected, "{quoted}");
    }
}
