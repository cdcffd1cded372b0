//! How servers start, die and end, and what they get from this process.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuraxis_core::{JsonText, ProgressSteps};
use neuraxis_mcp::{HttpConfig, McpServerConfig, StdioConfig, Transport};
use neuraxis_ports::{Progress, ProgressSink, Secret, ToolSource};
use neuraxis_testkit::tool_context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    call, call_in, names, notices, path, ready, script, script_in, start, tool, until,
};

fn lives(process: &str) -> bool {
    // A killed process that has not been waited for is a zombie: it does nothing any more.
    let status = fs::read_to_string(format!("/proc/{}/status", process.trim()));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

#[tokio::test]
async fn a_server_process_gets_only_its_configured_variables() {
    let mut config = script(r#"call() { text "$(env | sort | tr '\n' ' ')"; }"#);
    let Transport::Stdio(program) = &mut config.transport else {
        unreachable!()
    };
    program
        .env
        .insert("SHOP_KEY".to_owned(), Secret::new("mine"));
    program.plain.insert("SHOP_KEY".to_owned());
    let server = ready(config).await;
    let seen = call(&server, "shop__look", "{}")
        .await
        .unwrap()
        .value
        .as_text()
        .into_owned();
    assert!(seen.contains("SHOP_KEY=mine"), "{seen}");
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    assert!(!seen.contains("CARGO"), "{seen}");
    let names: Vec<&str> = seen
        .split(' ')
        .filter_map(|it| Some(it.split_once('=')?.0))
        .collect();
    let known = ["PATH", "PWD", "SHOP_KEY", "SHLVL", "OLDPWD", "_"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_fails_it_and_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let dying = r#"call() { case $line in *die*) exit 3 ;; *) text alive ;; esac; }"#;
    let server = ready(script_in(folder.path(), dying)).await;
    let look = tool(&server, "shop__look");
    let error = call(&server, "shop__look", r#"{"a":"die"}"#)
        .await
        .unwrap_err();
    assert!(error.message.contains("unknown"), "{}", error.message);
    // The same tool, in a run that continues immediately.
    let again = look.call(JsonText::from_text("{}"), tool_context()).await;
    assert_eq!(again.unwrap().value.as_text(), "alive");
    // It was reported before the server was restarted.
    let told = notices(&server);
    let lost = "the connection to MCP server shop was lost and is being re-established: it ended";
    assert!(told.starts_with(lost), "{told}");
    assert_eq!(names(&server), ["shop__look"], "it was there all the time");
}

#[tokio::test]
async fn a_call_right_after_a_server_ended_waits_for_its_restart() {
    // Its last notification makes its supervisor list the tools, and it exits before it answers.
    let dying =
        r#"call() { case $line in *die*) changed; sleep 0.1; exit 3 ;; *) text alive ;; esac; }"#;
    let server = ready(script(dying)).await;
    let look = tool(&server, "shop__look");
    let die = look.call(JsonText::from_text(r#"{"a":"die"}"#), tool_context());
    die.await.unwrap_err();
    let next = look.call(JsonText::from_text("{}"), tool_context()).await;
    assert_eq!(next.unwrap().value.as_text(), "alive");
}

#[tokio::test]
async fn a_server_that_keeps_dying_loses_its_tools_until_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let once = r#"if [ -e gone ]; then exit 1; fi
        call() { touch gone; exit 1; }"#;
    let server = ready(script_in(folder.path(), once)).await;
    call(&server, "shop__look", "{}").await.unwrap_err();
    until("its tools are withdrawn", || server.tools().is_empty()).await;
    assert!(server.report().trouble.is_some());
    fs::remove_file(folder.path().join("gone")).unwrap();
    until("it is back", || !server.tools().is_empty()).await;
}

#[tokio::test]
async fn a_failed_tool_list_after_a_change_is_retried_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let busy = r#"echo started >> starts; n=0
        list() { n=$((n+1)); case $n in
            1) answer '{"tools":[{"name":"look","inputSchema":{}}]}' ;;
            2) refuse -32603 busy ;;
            *) answer '{"tools":[{"name":"look","inputSchema":{}},{"name":"more","inputSchema":{}}]}' ;;
        esac; }
        call() { text ok; changed; }"#;
    let server = ready(script_in(folder.path(), busy)).await;
    assert!(call(&server, "shop__look", "{}").await.is_ok());
    until("the change is seen", || server.tools().len() == 2).await;
    let starts = fs::read_to_string(folder.path().join("starts")).unwrap();
    assert_eq!(starts, "started\n", "its calls would have ended with it");
    let told = notices(&server);
    assert!(
        told.contains("it does not list its current tools (busy (code -32603))"),
        "{told}"
    );
}

#[tokio::test]
async fn a_server_that_never_lists_its_changed_tools_is_shut_down_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let silent = r#"n=0
        list() { n=$((n+1)); case $n in
            1) answer '{"tools":[{"name":"look","inputSchema":{}}]}' ;;
            *) echo asked > asked ;;
        esac; }
        call() { text ok; changed; }"#;
    let server = ready(script_in(folder.path(), silent)).await;
    assert!(call(&server, "shop__look", "{}").await.is_ok());
    until("it is asked", || folder.path().join("asked").exists()).await;
    let started = Instant::now();
    server.shutdown().await;
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled_on_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let silent = r#"call() { echo "$id" > called; }
        other() { echo "$line" >> heard; }"#;
    let server = ready(script_in(folder.path(), silent)).await;
    let given_up = tokio::time::timeout(
        Duration::from_millis(500),
        call(&server, "shop__look", "{}"),
    );
    given_up.await.unwrap_err();
    let heard = || fs::read_to_string(folder.path().join("heard")).unwrap_or_default();
    until("it hears of it", || {
        heard().contains("notifications/cancelled")
    })
    .await;
    let id = fs::read_to_string(folder.path().join("called")).unwrap();
    let cancelled = format!(r#""requestId":{}"#, id.trim());
    assert!(heard().contains(&cancelled), "{}", heard());
}

#[tokio::test]
async fn a_server_that_never_answers_is_reported_in_time_with_its_last_output() {
    let mut config = script("echo 'cannot find my key' >&2; begin() { :; }");
    config.start_timeout = Duration::from_millis(700);
    let started = Instant::now();
    let server = start(config);
    let why = server.ready().await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(why.contains("did not answer within 700ms"), "{why}");
    assert!(why.contains("cannot find my key"), "{why}");
    assert!(server.tools().is_empty());
}

#[tokio::test]
async fn a_failing_program_is_reported_by_the_line_that_names_its_error() {
    for (program, args, said) in [
        (
            "node",
            ["-e", "require('/no/such/module')"],
            "Error: Cannot find module '/no/such/module'",
        ),
        (
            "python3",
            ["-c", "import no_such_module"],
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ] {
        let version = std::process::Command::new(program)
            .arg("--version")
            .output();
        if !version.is_ok_and(|version| version.status.success()) {
            println!("skipped: there is no {program}");
            continue;
        }
        let mut stdio = StdioConfig::new(program, args);
        stdio.env = path();
        let server = start(McpServerConfig::new("shop", Transport::Stdio(stdio)));
        let why = server.ready().await.unwrap_err();
        let expected = format!("it ended before it answered; its last output was: {said}");
        assert_eq!(why, expected);
    }
}

#[tokio::test]
async fn a_program_that_exits_before_reading_is_reported_with_its_last_output() {
    // It may end before the first line is written to it, or after that.
    for _ in 0..40 {
        let mut stdio = StdioConfig::new("/bin/sh", ["-c", "exec 0<&-; echo 'error: no key' >&2"]);
        stdio.env = path();
        let server = start(McpServerConfig::new("shop", Transport::Stdio(stdio)));
        let why = server.ready().await.unwrap_err();
        assert_eq!(
            why,
            "it ended before it answered; its last output was: error: no key"
        );
    }
}

#[tokio::test]
async fn a_missing_program_is_named_with_its_search_path() {
    for (command, expected) in [
        (
            "no-such-program",
            r#"there is no program "no-such-program" in PATH (/usr/bin:/bin)"#,
        ),
        (
            "/no/such/program",
            r#"there is no program "/no/such/program""#,
        ),
    ] {
        let mut program = StdioConfig::new(command, [""; 0]);
        program
            .env
            .insert("PATH".to_owned(), Secret::new("/usr/bin:/bin"));
        let server = start(McpServerConfig::new("shop", Transport::Stdio(program)));
        let why = server.ready().await.unwrap_err();
        assert_eq!(why, expected);
    }
}

#[tokio::test]
async fn a_missing_working_directory_is_named_instead_of_the_program() {
    let server = start(script_in(Path::new("/no/such/folder"), ""));
    let why = server.ready().await.unwrap_err();
    let told = r#""/bin/sh" cannot be started: its folder /no/such/folder (cwd): "#;
    assert!(why.starts_with(told), "{why}");
}

#[tokio::test]
async fn a_server_that_exits_on_discover_gets_the_legacy_handshake() {
    let strict = r#"refuse() { exit 1; }"#;
    let server = ready(script(strict)).await;
    assert_eq!(server.report().protocol, "2025-11-25");
    assert_eq!(server.report().program.as_deref(), Some("script 1"));
}

/// Answers with what a server of 2026-07-28 reports about itself, as if it had been asked under the given id.
const DISCOVERED: &str = r#"
    discovered() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}'; }"#;

#[tokio::test]
async fn a_server_that_ignores_discover_soon_gets_the_legacy_handshake() {
    let begin = r#"begin() { discovered "$first"; begun; }"#;
    let late_result = format!("{DISCOVERED}\n{begin}");
    let late_refusal = r#"begin() {
        printf '{"jsonrpc":"2.0","id":"%s","error":{"code":-32601,"message":"unknown"}}\n' "$first"
        begun; }"#;
    let of_no_id = r#"begin() {
        printf '{"jsonrpc":"2.0","error":{"code":-32601,"message":"unknown"}}\n'
        begun; }"#;
    let of_null = r#"begin() {
        printf '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unknown"}}\n'
        begun; }"#;
    for answers_late in [
        "begin() { begun; }",
        &late_result,
        late_refusal,
        of_no_id,
        of_null,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let silent = r#"echo started >> starts
            refuse() { first=$id; }
            begun() { answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'; }"#;
        let mut config = script_in(folder.path(), &format!("{silent}\n{answers_late}"));
        config.start_timeout = Duration::from_secs(6);
        let server = ready(config).await;
        assert_eq!(server.report().protocol, "2025-11-25");
        assert!(call(&server, "shop__look", "{}").await.is_ok());
        let starts = fs::read_to_string(folder.path().join("starts")).unwrap();
        assert_eq!(starts, "started\n", "it may only have taken long to start");
    }
}

#[tokio::test]
async fn a_slow_server_without_the_legacy_handshake_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let slow = r#"
        echo started >> life; trap 'echo ended >> life' EXIT
        refuse() { if [ -e late ]; then discovered "$id"; else first=$id; fi; }
        begin() { touch late; discovered "$first"
            printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"; }
        list() { answer '{"tools":[{"name":"look","inputSchema":{}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}'; }"#;
    let mut config = script_in(folder.path(), &format!("{DISCOVERED}\n{slow}"));
    config.start_timeout = Duration::from_secs(6);
    let server = ready(config).await;
    assert_eq!(server.report().protocol, "2026-07-28");
    assert_eq!(names(&server), ["shop__look"]);
    let life = fs::read_to_string(folder.path().join("life")).unwrap();
    assert_eq!(life, "started\nended\nstarted\n", "never two at once");
}

#[tokio::test]
async fn a_server_that_is_always_slow_is_waited_for_from_the_second_start_on() {
    let folder = tempfile::tempdir().unwrap();
    // Too slow to be started twice within its time limit.
    let slow = r#"
        echo started >> starts
        refuse() { sleep 2.5; discovered "$id"; }
        begin() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"; }
        list() { answer '{"tools":[{"name":"look","inputSchema":{}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}'; echo listed >> lists; }
        call() { exit 3; }"#;
    let mut config = script_in(folder.path(), &format!("{DISCOVERED}\n{slow}"));
    config.start_timeout = Duration::from_millis(4500);
    let server = start(config);
    server.ready().await.unwrap_err();
    until("it is connected", || !server.tools().is_empty()).await;
    assert_eq!(server.report().protocol, "2026-07-28");
    let count = |file: &str| {
        let lines = fs::read_to_string(folder.path().join(file)).unwrap_or_default();
        lines.lines().count()
    };
    assert_eq!(count("starts"), 3, "twice, and then once");
    call(&server, "shop__look", "{}").await.unwrap_err();
    until("it is connected again", || count("lists") == 2).await;
    assert_eq!(count("starts"), 4);
}

/// A server that, once it was called, ignores every request to end, as does its child process.
const STUBBORN: &str = r#"trap '' TERM HUP INT
    echo $$ > own; sleep 1000 & echo $! > child
    list() { answer '{"tools":[{"name":"look","inputSchema":{}}]}'; }
    call() { text ok; while :; do sleep 1; done; }"#;

#[tokio::test]
async fn no_process_of_a_stubborn_server_survives_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let server = ready(script_in(folder.path(), STUBBORN)).await;
    assert!(call(&server, "shop__look", "{}").await.is_ok());
    let process = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (own, child) = (process("own"), process("child"));
    assert!(lives(&own) && lives(&child));
    let started = Instant::now();
    server.shutdown().await;
    assert!(started.elapsed() < Duration::from_secs(8));
    until("both are gone", || !lives(&own) && !lives(&child)).await;
    assert!(server.tools().is_empty());
}

#[tokio::test]
async fn a_server_that_outlasts_the_shutdown_limit_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let server = ready(script_in(folder.path(), STUBBORN)).await;
    assert!(call(&server, "shop__look", "{}").await.is_ok());
    let process = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (own, child) = (process("own"), process("child"));
    let started = Instant::now();
    assert!(!server.shutdown_within(Duration::from_millis(50)).await);
    // Less than the time it has to end once its input is closed.
    assert!(started.elapsed() < Duration::from_secs(2));
    until("both are gone", || !lives(&own) && !lives(&child)).await;
    assert!(server.tools().is_empty());

    let quick = ready(script_in(folder.path(), "")).await;
    assert!(quick.shutdown_within(Duration::from_secs(20)).await);
}

#[tokio::test]
async fn dropping_a_server_ends_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let server = ready(script_in(folder.path(), "echo $$ > own")).await;
    let own = fs::read_to_string(folder.path().join("own")).unwrap();
    assert!(lives(&own));
    drop(server);
    until("it is gone", || !lives(&own)).await;
}

#[derive(Debug, Default)]
struct Reports(std::sync::Mutex<Vec<(String, Option<ProgressSteps>)>>);

impl ProgressSink for Reports {
    fn progress(&self, name: &str, _: Option<&str>, steps: Option<ProgressSteps>) {
        self.0.lock().unwrap().push((name.to_owned(), steps));
    }

    fn output(&self, _: &str) {}
}

#[tokio::test]
async fn progress_is_reported_to_the_call_it_belongs_to() {
    let telling = r#"call() { token=${line#*\"progressToken\":}; token=${token%%[,\}]*}
        printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":3,"message":"looking"}}\n' "$token"
        sleep 1; text ok; }"#;
    let server = ready(script(telling)).await;
    let reports: Arc<Reports> = Arc::default();
    let mut ctx = tool_context();
    ctx.progress = Progress::to(reports.clone());
    call_in(&server, "shop__look", "{}", ctx).await.unwrap();
    let seen = reports.0.lock().unwrap().clone();
    let steps = ProgressSteps {
        done: 1,
        total: Some(3),
    };
    assert_eq!(seen, [("looking".to_owned(), Some(steps))]);
}

#[tokio::test]
async fn a_token_is_sent_to_its_server_and_appears_in_no_error() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let heard: Arc<std::sync::Mutex<String>> = Arc::default();
    let hears = heard.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            hears.lock().unwrap().push_str(&text);
            let body = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32020,"message":"you sent t-canary-123 to ?key=h-canary-123"}}"#;
            let reply = format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    let mut http = HttpConfig::new(format!("http://{address}/mcp"));
    http.token = Some(Secret::new("t-canary-123"));
    http.headers
        .insert("x-key".to_owned(), Secret::new("h-canary-123"));
    let server = start(McpServerConfig::new("shop", Transport::Http(http)));
    let why = server.ready().await.unwrap_err();
    let sent = heard.lock().unwrap().to_ascii_lowercase();
    assert!(
        sent.contains("authorization: bearer t-canary-123"),
        "{sent}"
    );
    assert!(sent.contains("x-key: h-canary-123"));
    assert!(!why.contains("canary"), "{why}");
    assert!(!notices(&server).contains("canary"));
    assert!(!format!("{server:?}{:?}", server.report()).contains("canary"));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let elsewhere = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let other = elsewhere.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let reply = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{other}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    let mut config = McpServerConfig::new(
        "shop",
        Transport::Http(HttpConfig::new(format!("http://{address}/mcp"))),
    );
    config.start_timeout = Duration::from_secs(3);
    let server = start(config);
    server.ready().await.unwrap_err();
    let reached = tokio::time::timeout(Duration::from_millis(200), elsewhere.accept()).await;
    assert!(reached.is_err(), "the token would have gone there too");
}

#[tokio::test]
async fn child_processes_end_with_a_server_that_exits_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let leaving = "sleep 1000 > /dev/null 2>&1 < /dev/null & echo $! > child";
    let server = ready(script_in(folder.path(), leaving)).await;
    let child = fs::read_to_string(folder.path().join("child")).unwrap();
    assert!(lives(&child));
    let started = Instant::now();
    server.shutdown().await;
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "it ends by itself"
    );
    until("what it started is gone", || !lives(&child)).await;
}
