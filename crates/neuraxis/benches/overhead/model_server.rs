//! A model server that is as fast as possible: canned replies over HTTP/1.1, in a separate process.
//!
//! The path selects the behavior: `/turns/T/C/…` calls the tool `add` C times in each of T turns and then answers;
//! `/wait/…` never answers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The argument that makes this program the server.
pub(crate) const SERVE: &str = "--serve-model";

/// How many tokens the final answer has.
const ANSWER_TOKENS: usize = 400;

/// The server's process, killed on drop.
#[derive(Debug)]
pub(crate) struct ModelServer {
    child: Child,
    address: String,
}

impl ModelServer {
    pub(crate) fn start() -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .arg(SERVE)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address)?;
        Ok(Self {
            child,
            address: address.trim().to_owned(),
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until the process is ended.
pub(crate) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (connection, _) = listener.accept().await?;
            tokio::spawn(async move {
                // A client that disconnects only ends its connection.
                let _ = converse(connection).await;
            });
        }
    })
}

async fn converse(mut connection: TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        let Some((path, body_start, length)) = read_head(&mut connection, &mut buffer).await?
        else {
            return Ok(());
        };
        while buffer.len() < body_start + length {
            if connection.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let body = buffer
            .get(body_start..body_start + length)
            .unwrap_or_default();
        if path.starts_with("/wait/") {
            std::future::pending::<()>().await;
        }
        let response = respond(&path, body)?;
        connection.write_all(&response).await?;
        buffer.drain(..body_start + length);
    }
}

/// Reads up to the end of a request's head. Returns its path, where the body begins and how long it is.
async fn read_head(
    connection: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> Result<Option<(String, usize, usize)>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head =
                String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).to_ascii_lowercase();
            let path = head
                .split(' ')
                .nth(1)
                .context("a request without a path")?
                .to_owned();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"));
            let length = length.map_or(Ok(0), |length| length.trim().parse())?;
            return Ok(Some((path, end + 4, length)));
        }
        if connection.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn respond(path: &str, body: &[u8]) -> Result<Vec<u8>> {
    let mut parts = path.split('/').skip(2);
    let mut number = || {
        parts
            .next()
            .and_then(|part| part.parse::<usize>().ok())
            .ok_or_else(|| anyhow!("path {path}"))
    };
    let (turns, calls) = (number()?, number()?);
    let results = count(body, b"\"role\":\"tool\"");
    let streamed = count(body, b"\"stream\":true") > 0;
    let wants_tools = results < turns * calls;
    Ok(match (streamed, wants_tools) {
        (false, true) => json(&called(results, calls)),
        (false, false) => json(&answered()),
        (true, _) => events(),
    })
}

fn count(body: &[u8], pattern: &[u8]) -> usize {
    body.windows(pattern.len())
        .filter(|window| *window == pattern)
        .count()
}

fn called(results: usize, calls: usize) -> String {
    let calls: Vec<String> = (results..results + calls)
        .map(|number| {
            format!(
                r#"{{"id":"call_{number}","type":"function","function":{{"name":"add","arguments":"{{\"a\":{number},\"b\":1}}"}}}}"#
            )
        })
        .collect();
    completion(
        "tool_calls",
        &format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#,
            calls.join(",")
        ),
    )
}

fn answered() -> String {
    completion(
        "stop",
        r#"{"role":"assistant","content":"That is all there is to say about it."}"#,
    )
}

fn completion(finish: &str, message: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"finish_reason":"{finish}","message":{message}}}],"usage":{{"prompt_tokens":50,"completion_tokens":9,"total_tokens":59}}}}"#
    )
}

fn json(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The whole stream at once: the reader is measured, not the pace.
fn events() -> Vec<u8> {
    let mut body = String::new();
    let mut chunk = |delta: &str, finish: &str| {
        body.push_str(&format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        ));
    };
    chunk(r#"{"role":"assistant","content":null}"#, "null");
    for number in 0..ANSWER_TOKENS {
        chunk(&format!(r#"{{"content":" word{number}"}}"#), "null");
    }
    chunk("{}", "\"stop\"");
    body.push_str("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":400,\"total_tokens\":450}}\n\n");
    body.push_str("data: [DONE]\n\n");
    let mut response =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    // One HTTP chunk per event, as servers send them.
    for event in body.split_inclusive("\n\n") {
        response.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    }
    response.extend_from_slice(b"0\r\n\r\n");
    response
}
