//! Secrets that must not appear anywhere: keys, the credential for sending spans, a token, a password, and what a
//! pattern of `[telemetry]` matches. Each is planted at all of its possible sources, and every output except the
//! conversation is searched for it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::machine::{Done, Machine};

const KEY: &str = "sk-canary-0123456789abcdef";
const HEADER: &str = "canary-of-the-header";
const TOKEN: &str = "canary-of-a-token-4f2a";
const PASSWORD: &str = "canary-of-the-store";
/// The text that the pattern matches. It also removes everything after it on the line.
const PATTERN: &str = "CUST-4711";

/// A model server, an OTLP receiver and an MCP server that refuses every client, on one port.
#[derive(Clone)]
struct Backend {
    port: u16,
    /// Everything that was sent to the receiver.
    received: Arc<Mutex<Vec<u8>>>,
    /// How often the model was called.
    asked: Arc<Mutex<usize>>,
}

impl Backend {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let backend = Self {
            port: listener.local_addr().unwrap().port(),
            received: Arc::default(),
            asked: Arc::default(),
        };
        let serving = backend.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (serving, connection) = (serving.clone(), connection.unwrap());
                thread::spawn(move || serving.answer(connection));
            }
        });
        backend
    }

    fn answer(&self, mut connection: TcpStream) {
        let Some((path, body)) = read(&connection) else {
            return;
        };
        let (status, kind, said) = match path.as_str() {
            "/v1/chat/completions" => self.reply(&body),
            "/v1/traces" | "/v1/metrics" => {
                self.received.lock().unwrap().extend(body);
                ("200 OK", "application/x-protobuf", String::new())
            }
            _ => {
                let said = format!("the token {TOKEN} is not known here");
                ("401 Unauthorized", "text/plain", said)
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            said.len()
        );
        // The program may have ended.
        let _ = connection.write_all((head + &said).as_bytes());
    }

    /// Calls a tool, then fails, and after that always replies with text; all of it is about the pattern.
    fn reply(&self, body: &[u8]) -> (&'static str, &'static str, String) {
        let body: Value = serde_json::from_slice(body).unwrap();
        let number = {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let message = match number {
            1 => {
                let arguments = json!({"expression": format!("\"{PATTERN} and more\"")});
                json!({"role": "assistant", "content": format!("About {PATTERN}."), "tool_calls": [{
                    "index": 0, "id": "c0", "type": "function",
                    "function": {"name": "calculate", "arguments": arguments.to_string()},
                }]})
            }
            2 => {
                let said = format!("what is {PATTERN}? and {KEY}? and {HEADER}?");
                let error = json!({"error": {"message": said, "type": "invalid_request_error"}});
                return ("400 Bad Request", "application/json", error.to_string());
            }
            _ => {
                // One of them is where a report cuts a long answer.
                let between = "x".repeat(3_970);
                let said = format!("About {PATTERN}\n{between} {HEADER}.");
                json!({"role": "assistant", "content": said})
            }
        };
        let usage = json!({"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57});
        let finish = if number == 1 { "tool_calls" } else { "stop" };
        let of = |key: &str, message: &Value, finish: Value| {
            json!({"id": "c", "object": "chat.completion", "model": "scripted", "usage": usage,
                "choices": [{"index": 0, key: message, "finish_reason": finish}]})
        };
        if body["stream"] != true {
            let whole = of("message", &message, json!(finish));
            return ("200 OK", "application/json", whole.to_string());
        }
        let first = of("delta", &message, Value::Null);
        let last = of("delta", &json!({}), json!(finish));
        let stream = format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n");
        ("200 OK", "text/event-stream", stream)
    }
}

fn read(connection: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

fn machine(backend: &Backend) -> Machine {
    let port = backend.port;
    let text = format!(
        "[models.reasoning]\nprovider = 'openai'\napi = 'chat'\nmodel = 'scripted'\n\
         base_url = 'http://127.0.0.1:{port}/v1'\napi_key_env = 'MY_KEY'\n\
         [mcp.servers.far]\nurl = 'http://127.0.0.1:{port}/mcp'\ntoken_env = 'MY_TOKEN'\n\
         [store.log]\nfolder = 'copy'\n\
         [telemetry]\ncontent = true\nredact = ['CUST-.*']\n\
         [telemetry.otlp]\nendpoint = 'http://127.0.0.1:{port}'\n\
         [telemetry.json_lines]\npath = 'traces.jsonl'\n"
    );
    Machine::new().with_file("neuraxis.toml", text)
}

fn run(machine: &Machine, arguments: &[&str]) -> Done {
    let mut command: Command = machine.command(arguments);
    // Only a file named by the user may send the telemetry key anywhere.
    command
        .args(["--config", "neuraxis.toml"])
        .env("MY_KEY", KEY)
        .env("MY_TOKEN", TOKEN)
        .env("OTEL_EXPORTER_OTLP_HEADERS", format!("x-key={HEADER}"));
    command.output().unwrap().into()
}

/// Returns every file in a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let found = entries.map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    found.flatten().collect()
}

fn holds(bytes: &[u8], canary: &str) -> bool {
    bytes
        .windows(canary.len())
        .any(|it| it == canary.as_bytes())
}

fn assert_said_nowhere(said: &[(&str, &String)], canaries: &[&str]) {
    for (name, text) in said {
        for canary in canaries {
            assert!(!text.contains(canary), "{canary} is in {name}: {text}");
        }
    }
}

#[test]
fn no_output_contains_a_secret_and_json_output_stays_valid() {
    let backend = Backend::start();
    let machine = machine(&backend);
    let asked = format!("I am {PATTERN}, and my key is {KEY}.");
    let failed = run(
        &machine,
        &["ask", "--record", "one.cassette", "--session", "s", &asked],
    );
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("[redacted]"), "{failed:?}");
    let answered = run(&machine, &["ask", "--session", "s", &asked]);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    let added = run(&machine, &["eval", "add", "cases.toml", "last"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let mut cases = fs::read_to_string(machine.path("cases.toml")).unwrap();
    assert!(cases.contains("[redacted]"), "{cases}");
    cases += "\n[[case]]\nname = 'another'\nmessage = 'Who?'\ncheck = [{ contains = 'a heron' }]\n";
    fs::write(machine.path("cases.toml"), cases).unwrap();
    let judged = [
        "eval",
        "cases.toml",
        "--out",
        "report.json",
        "--junit",
        "report.xml",
    ];
    let judged = run(&machine, &judged);
    assert_eq!(judged.code, Some(1), "{judged:?}");
    let made = run(&machine, &["runs", "cassette", "last", "two.cassette"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let url = format!("store.url=postgres://me:{PASSWORD}@127.0.0.1:1/x");
    let unreachable = run(&machine, &["runs", "list", "--set", &url]);
    assert_ne!(unreachable.code, Some(0), "{unreachable:?}");

    let canaries = [KEY, HEADER, TOKEN, PASSWORD, PATTERN];
    // Standard output is the conversation, except for the results of evals.
    let said = [
        ("failed", &failed.stderr),
        ("answered", &answered.stderr),
        ("added", &added.stderr),
        ("judged", &judged.stderr),
        ("the table", &judged.stdout),
        ("made", &made.stderr),
        ("unreachable", &unreachable.stderr),
    ];
    assert_said_nowhere(&said, &canaries);
    let received = backend.received.lock().unwrap().clone();
    assert!(holds(&received, "[redacted]"), "content is exported");
    for canary in canaries {
        assert!(
            !holds(&received, canary),
            "{canary} is in what was exported"
        );
    }
    let mut searched = 0;
    for file in files(machine.root()) {
        // The conversation is stored unchanged, for the user.
        if file.to_string_lossy().contains("sessions.db") {
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        for canary in canaries {
            let place = file.display();
            assert!(!holds(&bytes, canary), "{canary} is in {place}");
        }
        searched += 1;
    }
    assert!(searched >= 7, "{searched} files");
    for name in ["traces.jsonl", "copy/records.jsonl"] {
        let text = fs::read_to_string(machine.path(name)).unwrap();
        assert!(text.contains("[redacted]"), "{name}");
        for line in text.lines() {
            serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{name}: {line}"));
        }
    }
    let report = fs::read_to_string(machine.path("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let answer = report["cases"][1]["attempts"][0]["answer"]
        .as_str()
        .unwrap();
    assert!(
        answer.ends_with("x [redacted]."),
        "nothing of it is left: {answer}"
    );
}
