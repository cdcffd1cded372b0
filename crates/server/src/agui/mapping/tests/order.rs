//! The order of events that AG-UI 1.0 clients require (docs.ag-ui.com/concepts/events), checked as they check it.

use std::collections::BTreeSet;

use serde_json::Value;

/// What has started and not ended, and what has ended.
#[derive(Default)]
struct Open {
    now: BTreeSet<(&'static str, String)>,
    ended: BTreeSet<(&'static str, String)>,
    /// The sub-agent that started each.
    owners: Vec<((&'static str, String), Value)>,
}

impl Open {
    fn begin(&mut self, what: &'static str, id: String, owner: &Value) -> Result<(), String> {
        let key = (what, id);
        if self.ended.contains(&key) && what != "step" {
            return Err(format!("{key:?} begins again"));
        }
        self.owners.push((key.clone(), owner.clone()));
        match self.now.insert(key.clone()) {
            true => Ok(()),
            false => Err(format!("{key:?} begins twice")),
        }
    }

    fn check_open(&self, what: &'static str, id: String, owner: &Value) -> Result<(), String> {
        let key = (what, id);
        if !self.now.contains(&key) {
            return Err(format!("{key:?} continues but has not begun"));
        }
        let begun = self.owners.iter().rfind(|(other, _)| *other == key);
        match begun.is_some_and(|(_, other)| other == owner) {
            true => Ok(()),
            false => Err(format!("{key:?} continues under another owner")),
        }
    }

    fn end(&mut self, what: &'static str, id: String, owner: &Value) -> Result<(), String> {
        self.check_open(what, id.clone(), owner)?;
        let key = (what, id);
        self.now.remove(&key);
        self.ended.insert(key);
        Ok(())
    }
}

/// Refuses events that a client would not accept.
pub(super) fn check(events: &[Value]) -> Result<(), String> {
    let mut open = Open::default();
    let mut results = BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        let kind = event["type"].as_str().ok_or("an event without a type")?;
        let within = |why: String| format!("event {at} ({event}): {why}");
        without_null(event).map_err(within)?;
        let (first, last) = (at == 0, at + 1 == events.len());
        if first != (kind == "RUN_STARTED") {
            return Err(within("the run does not begin with its start".to_owned()));
        }
        if last != matches!(kind, "RUN_FINISHED" | "RUN_ERROR") {
            return Err(within("the run does not end with its end".to_owned()));
        }
        if kind == "RUN_FINISHED" && !open.now.is_empty() {
            return Err(within(format!("the run ends while {:?}", open.now)));
        }
        if kind == "TOOL_CALL_RESULT" && !results.insert(event["messageId"].to_string()) {
            return Err(within("a result has the id of another".to_owned()));
        }
        let owner = &event["subagentRunId"];
        if !owner.is_null()
            && !kind.starts_with("SUBAGENT_")
            && !open.now.contains(&("subagent", owner.to_string()))
        {
            return Err(within("it is of a subagent that is not at work".to_owned()));
        }
        step(&mut open, kind, event).map_err(within)?;
    }
    Ok(())
}

fn step(open: &mut Open, kind: &str, event: &Value) -> Result<(), String> {
    let id = |field: &str| event[field].to_string();
    let owner = &event["subagentRunId"];
    let no_owner = &Value::Null;
    match kind {
        "TEXT_MESSAGE_START" => open.begin("text", id("messageId"), owner),
        "TEXT_MESSAGE_CONTENT" => open.check_open("text", id("messageId"), owner),
        "TEXT_MESSAGE_END" => open.end("text", id("messageId"), owner),
        "REASONING_START" => open.begin("span", id("messageId"), owner),
        "REASONING_END" => open.end("span", id("messageId"), owner),
        "REASONING_MESSAGE_START" => open.begin("thought", id("messageId"), owner),
        "REASONING_MESSAGE_CONTENT" => open.check_open("thought", id("messageId"), owner),
        "REASONING_MESSAGE_END" => open.end("thought", id("messageId"), owner),
        "TOOL_CALL_START" => open.begin("call", id("toolCallId"), owner),
        "TOOL_CALL_ARGS" => open.check_open("call", id("toolCallId"), owner),
        "TOOL_CALL_END" => open.end("call", id("toolCallId"), owner),
        "STEP_STARTED" => open.begin("step", id("stepName"), owner),
        "STEP_FINISHED" => open.end("step", id("stepName"), owner),
        "SUBAGENT_STARTED" => {
            let parent = &event["parentSubagentRunId"];
            if !parent.is_null() {
                open.check_open("subagent", parent.to_string(), no_owner)?;
            }
            open.begin("subagent", id("subagentRunId"), no_owner)
        }
        "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => {
            open.end("subagent", id("subagentRunId"), no_owner)
        }
        _ => Ok(()),
    }
}

/// Refuses null outside of free-form values.
fn without_null(event: &Value) -> Result<(), String> {
    let fields = event.as_object().ok_or("an event is an object")?;
    match fields.iter().find(|(_, value)| value.is_null()) {
        Some((field, _)) => Err(format!("{field} is null")),
        None => Ok(()),
    }
}

/// Returns the text that remains at the end.
pub(super) fn text(events: &[Value]) -> String {
    let mut messages: Vec<(String, String)> = Vec::new();
    for event in events {
        let id = event["messageId"].to_string();
        match event["type"].as_str() {
            Some("TEXT_MESSAGE_START") => messages.push((id, String::new())),
            Some("TEXT_MESSAGE_CONTENT") => {
                let message = messages.iter_mut().find(|(known, _)| *known == id).unwrap();
                message.1.push_str(event["delta"].as_str().unwrap());
            }
            Some("MESSAGES_SNAPSHOT") => {
                let stand: Vec<String> = event["messages"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|message| message["id"].to_string())
                    .collect();
                messages.retain(|(id, _)| stand.contains(id));
            }
            _ => {}
        }
    }
    messages.into_iter().map(|(_, text)| text).collect()
}
