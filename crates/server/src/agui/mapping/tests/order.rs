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

    fn goes_on(&self, what: &'static str, id: String, owner: &Value) -> Result<(), String> {
        let key = (what, id);
        if !self.now.contains(&key) {
            return Err(format!("{key:?} goes on and has not begun"));
        }
        let begun = self.owners.iter().rfind(|(other, _)| *other == key);
        match begun.is_some_and(|(_, other)| other == owner) {
            true => Ok(()),
            false => Err(format!("{key:?} goes on as another's")),
        }
    }

    fn end(&mut self, what: &'static str, id: String, owner: &Value) -> Result<(), String> {
        self.goes_on(what, id.clone(), owner)?;
        let key = (what, id);
        self.now.remove(&key);
        self.ended.insert(key);
        Ok(())
    }
}

/// Refuses events that a client would not accept.
pub(super) fn check(told: &[Value]) -> Result<(), String> {
    let mut open = Open::default();
    let mut results = BTreeSet::new();
    for (at, event) in told.iter().enumerate() {
        let kind = event["type"].as_str().ok_or("an event without a type")?;
        let within = |why: String| format!("event {at} ({event}): {why}");
        without_null(event).map_err(within)?;
        let (first, last) = (at == 0, at + 1 == told.len());
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
    let nobody = &Value::Null;
    match kind {
        "TEXT_MESSAGE_START" => open.begin("text", id("messageId"), owner),
        "TEXT_MESSAGE_CONTENT" => open.goes_on("text", id("messageId"), owner),
        "TEXT_MESSAGE_END" => open.end("text", id("messageId"), owner),
        "REASONING_START" => open.begin("span", id("messageId"), owner),
        "REASONING_END" => open.end("span", id("messageId"), owner),
        "REASONING_MESSAGE_START" => open.begin("thought", id("messageId"), owner),
        "REASONING_MESSAGE_CONTENT" => open.goes_on("thought", id("messageId"), owner),
        "REASONING_MESSAGE_END" => open.end("thought", id("messageId"), owner),
        "TOOL_CALL_START" => open.begin("call", id("toolCallId"), owner),
        "TOOL_CALL_ARGS" => open.goes_on("call", id("toolCallId"), owner),
        "TOOL_CALL_END" => open.end("call", id("toolCallId"), owner),
        "STEP_STARTED" => open.begin("step", id("stepName"), owner),
        "STEP_FINISHED" => open.end("step", id("stepName"), owner),
        "SUBAGENT_STARTED" => {
            let parent = &event["parentSubagentRunId"];
            if !parent.is_null() {
                open.goes_on("subagent", parent.to_string(), nobody)?;
            }
            open.begin("subagent", id("subagentRunId"), nobody)
        }
        "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => open.end("subagent", id("subagentRunId"), nobody),
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
pub(super) fn text(told: &[Value]) -> String {
    let mut messages: Vec<(String, String)> = Vec::new();
    for event in told {
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
