//! A model that does research by rules: it plans, delegates topics, finds a gap, and answers with one source too many.
//! It uses the Chat Completions protocol.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};

use super::web::Site;

/// The address that it invents.
pub(super) const MADE_UP: &str = "https://made-up.example/findings";

/// The maximum time that researchers wait for each other.
const PATIENCE: Duration = Duration::from_secs(20);

/// The model, and how many of its researchers were active at the same time.
pub(super) struct Model {
    pub(super) server: Site,
    gate: Arc<Gate>,
}

/// A barrier where researchers wait until the expected number has arrived.
#[derive(Default)]
struct Gate {
    here: Mutex<(usize, usize)>,
    came: Condvar,
    expected: usize,
    /// Whether the researcher for the gap never returns.
    loses_the_last: bool,
}

impl Gate {
    /// Arrives, and waits for the others.
    fn pass(&self) {
        let mut here = self.here.lock().unwrap();
        here.0 += 1;
        here.1 = here.1.max(here.0);
        self.came.notify_all();
        let waits = |here: &mut (usize, usize)| here.1 < self.expected;
        let (mut here, _) = self.came.wait_timeout_while(here, PATIENCE, waits).unwrap();
        here.0 -= 1;
    }
}

impl Model {
    /// Starts a model that researches these topics, all at the same time.
    pub(super) fn start(topics: &[String]) -> Self {
        Self::with(topics, false)
    }

    /// Same as `start`, but the researcher for the gap never returns.
    pub(super) fn losing_the_last(topics: &[String]) -> Self {
        Self::with(topics, true)
    }

    fn with(topics: &[String], loses_the_last: bool) -> Self {
        let gate = Arc::new(Gate {
            expected: topics.len(),
            loses_the_last,
            ..Gate::default()
        });
        let (at_gate, topics) = (Arc::clone(&gate), topics.to_vec());
        let server = Site::start(move |_, body| {
            let request: Value = serde_json::from_slice(body).unwrap();
            let message = reply(&request, &topics, &at_gate);
            let is_streamed = request["stream"] == true;
            let finish = if message["tool_calls"].is_array() {
                "tool_calls"
            } else {
                "stop"
            };
            let usage = json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120});
            if is_streamed {
                ("text/event-stream", streamed(&message, finish, &usage))
            } else {
                let choice = json!({"index": 0, "message": message, "finish_reason": finish});
                let reply = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-test",
                    "choices": [choice], "usage": usage});
                ("application/json", reply.to_string())
            }
        });
        Self { server, gate }
    }

    /// Returns how many researchers were active at the same time.
    pub(super) fn at_the_same_time(&self) -> usize {
        self.gate.here.lock().unwrap().1
    }
}

fn streamed(message: &Value, finish: &str, usage: &Value) -> String {
    let mut delta = message.clone();
    if let Some(calls) = delta["tool_calls"].as_array_mut() {
        for (index, call) in calls.iter_mut().enumerate() {
            call["index"] = index.into();
        }
    }
    let chunk = |choices: Value, usage: &Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
            "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let first = chunk(
        json!([{"index": 0, "delta": delta, "finish_reason": null}]),
        &Value::Null,
    );
    let last = chunk(
        json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
        &Value::Null,
    );
    format!("{first}{last}{}data: [DONE]\n\n", chunk(json!([]), usage))
}

fn reply(request: &Value, topics: &[String], gate: &Gate) -> Value {
    let messages = request["messages"].as_array().unwrap();
    let results: Vec<&str> = of_role(messages, "tool").collect();
    let offers = |name: &str| {
        let tools = request["tools"].as_array().into_iter().flatten();
        tools
            .into_iter()
            .any(|tool| tool["function"]["name"] == name)
    };
    if of_role(messages, "system").any(|text| text.contains("You check the draft")) {
        return says("ACCEPT");
    }
    match (offers("research"), results.as_slice()) {
        (true, []) => {
            let steps: Vec<Value> = topics
                .iter()
                .map(|topic| json!({"step": topic, "status": "pending"}))
                .collect();
            calls(&[("update_plan", json!({"steps": steps}))])
        }
        (true, [_]) => calls(&[("research", json!({"topics": topics}))]),
        (true, [_, reports]) => {
            let asked_for_gaps =
                of_role(messages, "system").any(|text| text.contains("leave open"));
            assert!(asked_for_gaps && !reports.contains("error"), "{reports}");
            calls(&[("research", json!({"topics": ["rivers, once more"]}))])
        }
        (true, reports) => answer(&reports.concat()),
        (false, []) => {
            let topic = of_role(messages, "user").last().unwrap_or_default();
            if !topic.contains("once more") {
                gate.pass();
            } else if gate.loses_the_last {
                loop {
                    std::thread::park();
                }
            }
            calls(&[("web_search", json!({"query": topic}))])
        }
        (false, [found]) => {
            let pages = addresses(found);
            let reads = pages.iter().map(|url| ("web_fetch", json!({"url": url})));
            calls(&reads.collect::<Vec<_>>())
        }
        (false, [_, pages @ ..]) => report(pages),
    }
}

/// Reports what was read. Neither obeys instructions in pages nor cites pages that could not be read.
fn report(pages: &[&str]) -> Value {
    let observed = Regex::new(r"Observation (\d+) of (\w+)").unwrap();
    let lines = pages.iter().filter_map(|page| {
        let found = observed.captures(page)?;
        let url = addresses(page)
            .into_iter()
            .find(|url| url.contains("/page/"))?;
        Some(format!(
            "{} rise at station {} ({url})",
            &found[2], &found[1]
        ))
    });
    let lines: Vec<String> = lines.collect();
    says(&lines.join("\n"))
}

fn answer(reports: &str) -> Value {
    let found = addresses(reports).into_iter().enumerate();
    let lines = found.map(|(at, url)| format!("- Finding {at} is [certain]({url})."));
    let mut lines: Vec<String> = lines.collect();
    lines.push(format!("- Everything is [connected]({MADE_UP})."));
    says(&format!("All rise.\n\n{}", lines.join("\n")))
}

fn of_role<'a>(messages: &'a [Value], role: &'a str) -> impl Iterator<Item = &'a str> {
    let of_role = messages
        .iter()
        .filter(move |message| message["role"] == role);
    of_role.filter_map(|message| message["content"].as_str())
}

fn addresses(text: &str) -> BTreeSet<String> {
    let address = Regex::new(r#"http://[0-9.]+(:[0-9]+)?/[a-z0-9/-]+"#).unwrap();
    address
        .find_iter(text)
        .map(|found| found.as_str().to_owned())
        .collect()
}

fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn calls(calls: &[(&str, Value)]) -> Value {
    let calls = calls.iter().enumerate().map(|(index, (name, arguments))| {
        json!({"id": format!("theirs_{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    });
    json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()})
}
