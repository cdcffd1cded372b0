//! A client that uses HTTP correctly.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use super::contract;

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    pub(crate) fn new(url: &str) -> Self {
        Self::with_headers(url, HeaderMap::new())
    }

    /// A client that sends a key with each request.
    pub(crate) fn with_key(url: &str, key: &str) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
        Self::with_headers(url, headers)
    }

    fn with_headers(url: &str, headers: HeaderMap) -> Self {
        // A hanging server fails the test instead of blocking it.
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(60))
            .default_headers(headers)
            .no_proxy();
        Self {
            http: http.build().unwrap(),
            url: url.to_owned(),
        }
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.url))
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.url))
    }

    pub(crate) fn patch(&self, path: &str) -> RequestBuilder {
        self.http.patch(format!("{}{path}", self.url))
    }

    pub(crate) fn delete(&self, path: &str) -> RequestBuilder {
        self.http.delete(format!("{}{path}", self.url))
    }

    /// A turn of a session, ready to be sent.
    pub(crate) fn turn(&self, session: &str, body: &Value) -> RequestBuilder {
        self.post(&format!("/api/v1/sessions/{session}/turns"))
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string())
    }

    /// Takes a turn and returns the status and the JSON.
    pub(crate) async fn ask(&self, session: &str, body: &Value) -> (u16, Value) {
        answer(self.turn(session, body)).await
    }

    /// Takes a turn and returns its events.
    pub(crate) async fn listen(&self, session: &str, body: &Value) -> Frames {
        self.events(self.turn(session, body)).await
    }

    /// Sends a request and returns the events of its answer as they arrive.
    pub(crate) async fn events(&self, request: RequestBuilder) -> Frames {
        let request = request.header(ACCEPT, "text/event-stream");
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Frames {
            response,
            buffer: Vec::new(),
        }
    }
}

/// Sends a request and returns the status and the JSON, which the API's document must allow.
pub(crate) async fn answer(request: RequestBuilder) -> (u16, Value) {
    let (client, request) = request.build_split();
    let request = request.unwrap();
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let response = client.execute(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.bytes().await.unwrap();
    contract::check(&method, &path, status, &headers, &body);
    (status.as_u16(), serde_json::from_slice(&body).unwrap())
}

/// Server-sent events as they arrive.
pub(crate) struct Frames {
    response: Response,
    buffer: Vec<u8>,
}

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Frames {
    /// Waits for the next event, or returns `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|it| it == b"\n\n") {
                let rest = self.buffer.split_off(end + 2);
                let frame = std::mem::replace(&mut self.buffer, rest);
                let frame = parse(std::str::from_utf8(&frame).unwrap().trim_end());
                match frame {
                    Some(frame) => {
                        contract::check_event(&frame.data);
                        return Some(frame);
                    }
                    None => continue,
                }
            }
            let Some(chunk) = self.response.chunk().await.unwrap() else {
                let rest = String::from_utf8_lossy(&self.buffer);
                assert_eq!(rest, "", "the stream ends in the middle of an event");
                return None;
            };
            self.buffer.extend_from_slice(&chunk);
        }
    }

    /// Waits for the next event with this name.
    pub(crate) async fn next_named(&mut self, name: &str) -> Frame {
        loop {
            let frame = self
                .next()
                .await
                .unwrap_or_else(|| panic!("there was no {name}"));
            if frame.event == name {
                return frame;
            }
        }
    }

    /// Waits for all remaining events.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

/// Parses an event; returns `None` for a comment.
fn parse(frame: &str) -> Option<Frame> {
    let (mut id, mut event, mut data) = (None, None, None);
    for line in frame.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => id = Some(value.parse().unwrap()),
            Some(("event", value)) => event = Some(value.to_owned()),
            Some(("data", value)) => data = Some(serde_json::from_str(value).unwrap()),
            _ => assert!(
                line.starts_with(':'),
                "neither a field nor a comment: {line:?}"
            ),
        }
    }
    Some(Frame {
        id,
        event: event?,
        data: data?,
    })
}
