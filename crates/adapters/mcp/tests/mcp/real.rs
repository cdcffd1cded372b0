//! Real third-party servers, of both eras and over both transports.

use std::sync::Arc;

use neuraxis_core::JsonText;
use neuraxis_mcp::{HttpConfig, McpServer, McpServerConfig, StdioConfig, Transport};
use neuraxis_ports::{FieldKind, QuestionReply, QuestionSender};
use neuraxis_testkit::{FreePort, ScriptedApprover, tool_context};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{call, call_in, names, notices, path, ready, until};

fn program(variable: &str, name: &str, args: &[&str]) -> McpServerConfig {
    let folder = std::env::var(variable).expect("cargo xtask test sets the variables");
    let mut program = StdioConfig::new(format!("{folder}/{name}"), args.to_vec());
    program.env = path();
    McpServerConfig::new("real", Transport::Stdio(program))
}

fn node(name: &str, args: &[&str]) -> McpServerConfig {
    program("TEST_NEURAXIS_MCP_NODE", name, args)
}

fn python(name: &str, args: &[&str]) -> McpServerConfig {
    program("TEST_NEURAXIS_MCP_PYTHON", name, args)
}

async fn text(server: &McpServer, name: &str, arguments: &str) -> String {
    let output = call(server, name, arguments).await;
    output
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .value
        .as_text()
        .into_owned()
}

/// Serves one page for as long as the test runs. Returns its port.
async fn page(html: &'static str) -> u16 {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let length = html.len();
            let reply = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{html}"
            );
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    port
}

async fn is_everything(server: &Arc<McpServer>) {
    assert_eq!(server.report().protocol, "2025-11-25");
    let tools = names(server);
    assert!(tools.len() >= 10, "{tools:?}");
    assert_eq!(
        text(server, "real__echo", r#"{"message":"hi"}"#).await,
        "Echo: hi"
    );
    let sum = text(server, "real__get-sum", r#"{"a":2,"b":3}"#).await;
    assert!(sum.contains('5'), "{sum}");
    let wrong = call(server, "real__get-sum", r#"{"a":"x"}"#)
        .await
        .unwrap_err();
    assert!(wrong.message.contains("a"), "{}", wrong.message);
    let image = call(server, "real__get-tiny-image", "{}").await.unwrap();
    assert_eq!(image.media.len(), 1);
    assert_eq!(image.media[0].media_type, "image/png");
    let weather = text(
        server,
        "real__get-structured-content",
        r#"{"location":"New York"}"#,
    )
    .await;
    let weather: serde_json::Value = serde_json::from_str(&weather).unwrap();
    assert!(weather["temperature"].is_number(), "{weather}");
    let links = text(server, "real__get-resource-links", r#"{"count":2}"#).await;
    assert_eq!(links.matches("demo://").count(), 2, "{links}");
}

#[tokio::test]
#[ignore = "needs MCP servers: run by cargo xtask test"]
async fn the_everything_server_works_over_stdio() {
    let server = ready(node("mcp-server-everything", &["stdio"])).await;
    is_everything(&server).await;
    assert_eq!(notices(&server), "");
    server.shutdown().await;
}

#[tokio::test]
#[ignore = "needs MCP servers: run by cargo xtask test"]
async fn the_everything_server_works_over_http() {
    let folder = std::env::var("TEST_NEURAXIS_MCP_NODE").unwrap();
    let port = FreePort::take();
    let _process = tokio::process::Command::new(format!("{folder}/mcp-server-everything"))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let is_open = || std::net::TcpStream::connect(("127.0.0.1", port.number())).is_ok();
    until("it listens", is_open).await;
    let address = HttpConfig::new(format!("http://127.0.0.1:{port}/mcp"));
    let server = ready(McpServerConfig::new("real", Transport::Http(address))).await;
    is_everything(&server).await;
    server.shutdown().await;
}

#[tokio::test]
#[ignore = "needs MCP servers: run by cargo xtask test"]
async fn a_question_of_the_everything_server_is_answered_by_the_user() {
    let server = ready(node("mcp-server-everything", &["stdio"])).await;
    let asking = "real__trigger-elicitation-request";
    until("it offers what asks", || {
        names(&server).iter().any(|name| name == asking)
    })
    .await;
    let answer = QuestionReply::Answered(JsonText::from_text(r#"{"name":"Ada Canary"}"#));
    let approver = Arc::new(ScriptedApprover::new().answering(answer));
    let mut ctx = tool_context();
    ctx.questions = QuestionSender::to(approver.clone());
    let output = call_in(&server, asking, "{}", ctx)
        .await
        .unwrap()
        .value
        .as_text()
        .into_owned();
    assert!(output.contains("Ada Canary"), "{output}");
    let fields = &approver.questions()[0].fields;
    assert!(
        fields.iter().any(|field| field.kind == FieldKind::Boolean),
        "{fields:?}"
    );
    server.shutdown().await;
}

#[tokio::test]
#[ignore = "needs MCP servers: run by cargo xtask test"]
async fn the_filesystem_and_memory_servers_work() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    std::fs::write(real.join("a.txt"), "hello").unwrap();
    let root = real.to_str().unwrap();
    let server = ready(node("mcp-server-filesystem", &[root])).await;
    let read = format!(r#"{{"path":"{root}/a.txt"}}"#);
    assert!(
        text(&server, "real__read_text_file", &read)
            .await
            .contains("hello")
    );
    let outside = call(&server, "real__read_text_file", r#"{"path":"/etc/passwd"}"#).await;
    assert!(outside.unwrap_err().message.contains("denied"));
    server.shutdown().await;
    let mut config = node("mcp-server-memory", &[]);
    let Transport::Stdio(program) = &mut config.transport else {
        unreachable!()
    };
    let file = format!("{root}/graph.jsonl");
    program.env.insert(
        "MEMORY_FILE_PATH".to_owned(),
        neuraxis_ports::Secret::new(&file),
    );
    let server = ready(config).await;
    let entity = r#"{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}"#;
    text(&server, "real__create_entities", entity).await;
    assert!(
        text(&server, "real__read_graph", "{}")
            .await
            .contains("Ada")
    );
    server.shutdown().await;
}

#[tokio::test]
#[ignore = "needs MCP servers: run by cargo xtask test"]
async fn python_servers_work() {
    let server = ready(python("mcp-server-time", &["--local-timezone", "UTC"])).await;
    let now = text(
        &server,
        "real__get_current_time",
        r#"{"timezone":"Europe/Berlin"}"#,
    )
    .await;
    assert!(now.contains("Europe/Berlin"), "{now}");
    let wrong = call(
        &server,
        "real__get_current_time",
        r#"{"timezone":"Nowhere/Land"}"#,
    )
    .await;
    assert!(wrong.unwrap_err().message.contains("Nowhere"));
    server.shutdown().await;
    let folder = tempfile::tempdir().unwrap();
    let init = std::process::Command::new("git")
        .arg("init")
        .arg("-q")
        .arg(folder.path())
        .status();
    assert!(init.unwrap().success());
    let root = folder.path().to_str().unwrap();
    let server = ready(python("mcp-server-git", &["--repository", root])).await;
    let status = text(
        &server,
        "real__git_status",
        &format!(r#"{{"repo_path":"{root}"}}"#),
    )
    .await;
    assert!(status.contains("No commits yet"), "{status}");
    server.shutdown().await;
    let port = page("<p>Pumps are cheap in old houses.</p>").await;
    let fetch = ["--ignore-robots-txt", "--allow-private-ips"];
    let server = ready(python("mcp-server-fetch", &fetch)).await;
    assert_eq!(names(&server), ["real__fetch"]);
    let url = format!(r#"{{"url":"http://127.0.0.1:{port}/","raw":true}}"#);
    let read = text(&server, "real__fetch", &url).await;
    assert!(read.contains("Pumps are cheap"), "{read}");
    server.shutdown().await;
    let server = ready(python("mcp-server-fetch", &["--ignore-robots-txt"])).await;
    let refused = call(&server, "real__fetch", &url).await.unwrap_err();
    assert!(refused.message.contains("not a public"), "{refused:?}");
    server.shutdown().await;
}
