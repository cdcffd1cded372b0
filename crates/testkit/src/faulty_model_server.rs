//! A model server with one of the usual faults, until a test repairs it.
#![expect(
    clippy::expect_used,
    reason = "a test fails if its server does not start"
)]

mod reply;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;
use tokio::net::TcpSocket;
use tokio::runtime;

use crate::scripted::lock;

/// A fault of a model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelFault {
    /// Its port does not accept connections.
    Unreachable,
    /// It is still loading its model, and says so like llama-server.
    Loading,
    /// It fails with status 500 and a JSON error whose message is [`FaultyModelServer::WORDS`].
    Failing,
    /// It fails with status 500 and a plain text, [`FaultyModelServer::WORDS`].
    FailingInPlainText,
    /// It answers with a web page that contains [`FaultyModelServer::WORDS`].
    WebPage,
    /// It redirects to another host, [`FaultyModelServer::ELSEWHERE`].
    Redirect,
    /// It closes the connection in the middle of a reply, after [`FaultyModelServer::HALF`] and, in a stream, a tool
    /// call.
    CutOff,
    /// It sends the same, and then nothing more for as long as the client waits.
    Stalling,
    /// It resets the connection without reading a request.
    Reset,
}

/// A model server on loopback with the same fault in every request, until it is repaired. Then it answers each message
/// with a call of the tool `current_time`, and that call's result with [`FaultyModelServer::ANSWER`].
///
/// It speaks Chat Completions, streamed and whole, like llama-server. It serves until the test's process ends.
///
/// ```
/// use neuraxis_testkit::{FaultyModelServer, ModelFault};
///
/// let server = FaultyModelServer::start(ModelFault::Unreachable);
/// assert!(std::net::TcpStream::connect(server.address()).is_err());
/// server.repair();
/// assert!(std::net::TcpStream::connect(server.address()).is_ok());
/// ```
#[derive(Debug)]
pub struct FaultyModelServer {
    address: SocketAddr,
    fault: Arc<Mutex<Option<ModelFault>>>,
    /// Its bound port while it does not listen, so that no other process can take the port.
    closed: Mutex<Option<TcpSocket>>,
}

impl FaultyModelServer {
    /// Its answer once it is repaired.
    pub const ANSWER: &str = "All is well again.";

    /// The text of its error, if the fault includes one.
    pub const WORDS: &str = "out of luck";

    /// The part of a reply that it sends before it breaks off.
    pub const HALF: &str = "Half a th";

    /// The host to which it redirects.
    pub const ELSEWHERE: &str = "elsewhere.example";

    /// Starts the server on its own port.
    #[must_use]
    pub fn start(fault: ModelFault) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket can be created");
        let bound = socket.bind((Ipv4Addr::LOCALHOST, 0).into());
        bound.expect("a port is free");
        let server = Self {
            address: socket.local_addr().expect("it has an address"),
            fault: Arc::new(Mutex::new(Some(fault))),
            closed: Mutex::new(Some(socket)),
        };
        if fault != ModelFault::Unreachable {
            server.open();
        }
        server
    }

    /// Returns the address where it listens, or will listen once it is repaired.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its address as a model's `base_url`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Repairs the server, from the next connection on.
    pub fn repair(&self) {
        *lock(&self.fault) = None;
        self.open();
    }

    /// Starts listening, if it does not listen already.
    fn open(&self) {
        let mut closed = lock(&self.closed);
        let Some(socket) = closed.take() else { return };
        drop(closed);
        // A tokio runtime must not be started or dropped inside another one, and the test may run in one.
        let listening = thread::spawn(move || listen(socket)).join();
        let listener = listening.ok().and_then(Result::ok);
        let listener = listener.expect("a bound port can be listened on");
        let fault = Arc::clone(&self.fault);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let fault = *lock(&fault);
                // If the client has disconnected, that does not matter.
                thread::spawn(move || serve(&connection, fault).unwrap_or_default());
            }
        });
    }
}

fn listen(socket: TcpSocket) -> io::Result<TcpListener> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    let listener = socket.listen(128)?.into_std()?;
    listener.set_nonblocking(false)?;
    Ok(listener)
}

fn serve(mut connection: &TcpStream, fault: Option<ModelFault>) -> io::Result<()> {
    if fault == Some(ModelFault::Reset) {
        // Closing a connection with unread data resets it.
        connection.peek(&mut [0])?;
        return Ok(());
    }
    let request = read(connection)?;
    let text = match fault {
        Some(fault) => reply::broken(fault, &request),
        None => reply::whole(&request),
    };
    connection.write_all(text.as_bytes())?;
    if fault == Some(ModelFault::Stalling) {
        // Until the client disconnects.
        io::copy(&mut connection, &mut io::sink())?;
    }
    Ok(())
}

/// A request to the server.
struct ReceivedRequest {
    /// Method, path and version.
    line: String,
    /// Null for a request without a body.
    body: Value,
}

fn read(connection: &TcpStream) -> io::Result<ReceivedRequest> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok()).flatten()
    });
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body)?;
    Ok(ReceivedRequest {
        line: head.lines().next().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}
