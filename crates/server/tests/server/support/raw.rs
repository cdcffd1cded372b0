//! A client that sends arbitrary bytes.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Everything a server sent until it closed the connection.
#[derive(Debug)]
pub(crate) struct Raw(pub(crate) String);

/// Sends bytes and reads until the server closes the connection, which it must do.
pub(crate) async fn send(address: &str, bytes: &[u8]) -> Raw {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(bytes).await;
    read(stream).await
}

/// Like [`send`], for any response.
#[cfg(unix)]
pub(crate) async fn bytes(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    received(stream).await
}

/// Reads until the server closes the connection.
pub(crate) async fn read(stream: TcpStream) -> Raw {
    Raw(String::from_utf8(received(stream).await).unwrap())
}

async fn received(mut stream: TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let reading = async {
        // A reset counts as an end too.
        while let Ok(1..) = stream.read_buf(&mut received).await {}
    };
    timeout(Duration::from_secs(120), reading)
        .await
        .expect("the server closes the connection");
    received
}

impl Raw {
    /// Returns the status of each answer. A body need not end with a line break, so the next answer may begin anywhere.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let answers = self.0.split("HTTP/1.1 ").skip(1);
        answers.map(|answer| answer[..3].parse().unwrap()).collect()
    }

    /// Returns the head of the only answer, in lower case.
    pub(crate) fn head(&self) -> String {
        self.0.split("\r\n\r\n").next().unwrap().to_lowercase()
    }

    /// Returns the JSON of the only answer.
    pub(crate) fn json(&self) -> Value {
        let (_, body) = self.0.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }
}
