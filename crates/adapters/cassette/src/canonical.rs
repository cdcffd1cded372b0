//! Defines which requests are treated as the same.
//!
//! A request is written as lines, which are hashed to find its recording and compared to show what differs. The lines
//! leave out what no model reads: provider state, signatures, the models that gave earlier replies, what a tool may
//! change. Ids are numbered in order of appearance, since the loop's ids contain the id of their run. A looser form
//! also replaces times, dates and UUIDs, for prompts and results that contain the time they were made.

mod volatile;

use std::collections::HashMap;
use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, ContentHash, MediaPart, MediaSource, Message, ModelRequest, Part,
    ReplyFormat, Role, ToolCallId, ToolChoice,
};
use serde_json::Value;

use self::volatile::Volatile;
use crate::config::ToolResults;
use crate::exchange::contents;
use crate::recording::StatePolicy;
use crate::redact::Redactor;

/// How much of a request is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MatchLevel {
    /// Everything that a model reads, except the text of ids.
    Exact,
    /// Like `Exact`, without times, dates and UUIDs in texts.
    WithoutVolatile,
}

/// The settings for comparing requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Comparison {
    redactor: Redactor,
    tool_results: ToolResults,
    /// Known media contents with their hashes, by their address in memory.
    contents: HashMap<usize, (Arc<str>, ContentHash)>,
}

impl Comparison {
    pub(crate) fn new(redactor: Redactor, tool_results: ToolResults) -> Self {
        Self {
            redactor,
            tool_results,
            contents: HashMap::new(),
        }
    }

    /// Caches the hashes of a request's media. Requests share media: hashing them for each request would take as long
    /// as if the file held a copy for each.
    pub(crate) fn remember(&mut self, request: &ModelRequest) {
        let messages = request.messages.messages().iter();
        for content in messages.flat_map(|message| contents(message)) {
            let hashed = || (Arc::clone(content), ContentHash::of(content.as_bytes()));
            let known = self.contents.entry(content.as_ptr().addr());
            known.or_insert_with(hashed);
        }
    }

    /// Returns the request to a judge of an eval, one JSON object, without tool results, if those may differ. Whether
    /// calls were denied is kept.
    fn without_results(&self, text: &str) -> Option<String> {
        if self.tool_results == ToolResults::Compare || !text.starts_with('{') {
            return None;
        }
        let mut request: Value = serde_json::from_str(text).ok()?;
        request.get("rubric")?;
        for call in request.get_mut("tool_calls")?.as_array_mut()? {
            let call = call.as_object_mut()?;
            let result = call.remove("result");
            if result.is_some_and(|result| result.as_str().is_some_and(is_denial)) {
                call.insert("denied".to_owned(), Value::Bool(true));
            }
        }
        Some(request.to_string())
    }

    fn content_hash(&self, content: &str) -> ContentHash {
        let known = self.contents.get(&content.as_ptr().addr());
        known.map_or_else(|| ContentHash::of(content.as_bytes()), |(_, hash)| *hash)
    }

    /// Returns the hash by which a request's recordings are found.
    pub(crate) fn hash(&self, role: &Role, request: &ModelRequest, how: MatchLevel) -> ContentHash {
        ContentHash::of(self.lines(role, request, how).join("\n").as_bytes())
    }

    /// Returns a request as lines; texts of the request begin with `| `.
    pub(crate) fn lines(
        &self,
        role: &Role,
        request: &ModelRequest,
        how: MatchLevel,
    ) -> Vec<String> {
        let request = self.redactor.request(request, StatePolicy::Drop);
        let mut page = LineBuilder {
            lines: Vec::new(),
            volatile: Volatile::default(),
            calls: HashMap::new(),
            how,
            comparison: self,
        };
        page.head(role, &request);
        for message in request.messages.messages() {
            page.message(message);
        }
        page.lines
    }
}

/// Returns whether a result, or the beginning of one, is that of a denied call, as models read it: recordings contain
/// nothing else about it. A failed call does not make a different request: a replay may have no network.
fn is_denial(result: &str) -> bool {
    result.starts_with(r#"{"error":"denied"#)
}

/// Builds the lines of a request.
struct LineBuilder<'a> {
    lines: Vec<String>,
    volatile: Volatile,
    /// The number of each tool call, by its id.
    calls: HashMap<ToolCallId, usize>,
    how: MatchLevel,
    comparison: &'a Comparison,
}

impl LineBuilder<'_> {
    fn head(&mut self, role: &Role, request: &ModelRequest) {
        self.line(format!("role {role}"));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
            ToolChoice::Required => "required",
            ToolChoice::Named(name) => name.as_str(),
        };
        let is_named = matches!(request.tool_choice, ToolChoice::Named(_));
        let choice = format!(
            "tool choice {}{choice}",
            if is_named { "named " } else { "" }
        );
        self.line(choice);
        if let Some(tokens) = request.max_output_tokens {
            self.line(format!("max output tokens {tokens}"));
        }
        if let Some(temperature) = request.temperature {
            self.line(format!("temperature {temperature}"));
        }
        if let ReplyFormat::JsonSchema { name, schema } = &request.reply_format {
            self.line("reply format".to_owned());
            self.text(name);
            self.text(schema.as_str());
        }
        for tool in request.tools.iter() {
            self.line(format!("tool {}", tool.name));
            self.text(&tool.description);
            self.text(tool.parameters.as_str());
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::System { text } => {
                self.line("system".to_owned());
                self.text(text);
            }
            Message::User { parts } => self.parts("user", parts),
            Message::Assistant(AssistantMessage { parts, .. }) => self.parts("assistant", parts),
            Message::Tool(result) => {
                let number = self.call(&result.tool_call_id);
                self.line(format!("result of call {number}"));
                self.text(&result.name);
                match self.comparison.tool_results {
                    ToolResults::Compare => {
                        self.text(result.content.as_str());
                        result.media.iter().for_each(|part| self.media(part));
                    }
                    ToolResults::Ignore if is_denial(result.content.as_str()) => {
                        self.line("denied".to_owned());
                    }
                    ToolResults::Ignore => {}
                }
            }
        }
    }

    fn parts(&mut self, who: &str, parts: &[Part]) {
        self.line(who.to_owned());
        for part in parts {
            match part {
                Part::Text(part) => {
                    self.line("text".to_owned());
                    let judged = self.comparison.without_results(&part.text);
                    self.text(judged.as_deref().unwrap_or(&part.text));
                }
                Part::Reasoning(part) => {
                    self.line("reasoning".to_owned());
                    self.text(&part.text);
                }
                Part::ToolCall(call) => {
                    let number = self.call(&call.id);
                    self.line(format!("call {number}"));
                    self.text(&call.name);
                    self.text(call.arguments.as_str());
                }
                Part::Media(part) => self.media(part),
                _ => self.line("a part of an unknown kind".to_owned()),
            }
        }
    }

    fn media(&mut self, part: &MediaPart) {
        self.line("media".to_owned());
        self.text(&part.media_type);
        match &part.source {
            MediaSource::Url(url) => self.text(url),
            MediaSource::Base64(content) => {
                self.line(format!("content {}", self.comparison.content_hash(content)));
            }
        }
    }

    fn call(&mut self, id: &ToolCallId) -> usize {
        let next = self.calls.len() + 1;
        *self.calls.entry(id.clone()).or_insert(next)
    }

    fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    fn text(&mut self, text: &str) {
        let clean = self.comparison.redactor.each_line(text);
        let text = self.volatile.replaced(&clean, self.how);
        // Split only at `\n`: a `\r` in a text is compared.
        let lines = text.split('\n').map(|line| format!("| {line}"));
        self.lines.extend(lines);
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::{messages, request, request_of};

    use super::*;

    fn hash(request: &ModelRequest, how: MatchLevel) -> ContentHash {
        Comparison::default().hash(&Role::REASONING, request, how)
    }

    fn history(id: &str, result: &str) -> ModelRequest {
        request_of([
            Message::user("What time is it?"),
            messages::calls([(id, "current_time", "{}")]),
            messages::result(id, "current_time", result),
        ])
    }

    #[test]
    fn call_ids_of_another_run_do_not_change_the_hash() {
        let run = |run: &str| format!("call_{run}_a0_0_0");
        let one = history(&run("0190a0000000700080000000000000ff"), "1");
        let other = history(&run("0190b1111111711181111111111111ee"), "1");
        assert_eq!(
            hash(&one, MatchLevel::Exact),
            hash(&other, MatchLevel::Exact)
        );
    }

    #[test]
    fn the_call_a_result_answers_changes_the_hash() {
        let two = |first: &str, second: &str| {
            request_of([
                messages::calls([("a", "t", "{}"), ("b", "t", "{}")]),
                messages::result(first, "t", "1"),
                messages::result(second, "t", "2"),
            ])
        };
        assert_ne!(
            hash(&two("a", "b"), MatchLevel::WithoutVolatile),
            hash(&two("b", "a"), MatchLevel::WithoutVolatile)
        );
    }

    #[test]
    fn times_change_only_the_exact_hash() {
        let at = |time: &str, seconds: u64, day: &str| {
            history(
                "c",
                &format!(r#"{{"time":"{time}","unix_seconds":{seconds},"summary":"{day}"}}"#),
            )
        };
        let one = at(
            "2026-11-22T04:16:45+01:00",
            1_795_317_405,
            "Sunday, 22 November 2026, 04:16",
        );
        let other = at(
            "2027-01-05T23:59:59+01:00",
            1_799_190_999,
            "Tuesday, 5 January 2027, 23:59",
        );
        assert_ne!(
            hash(&one, MatchLevel::Exact),
            hash(&other, MatchLevel::Exact)
        );
        assert_eq!(
            hash(&one, MatchLevel::WithoutVolatile),
            hash(&other, MatchLevel::WithoutVolatile)
        );
        assert_ne!(
            hash(&history("c", "12"), MatchLevel::WithoutVolatile),
            hash(&history("c", "13"), MatchLevel::WithoutVolatile)
        );
    }

    #[test]
    fn ignored_tool_results_are_also_ignored_in_judge_requests() {
        let judged = |city: &str, result: &str| {
            let call = format!(r#"{{"tool":"t","arguments":"{city}","result":"{result}"}}"#);
            request(format!(r#"{{"rubric":"r","tool_calls":[{call}]}}"#))
        };
        let same = |tool_results, one: &ModelRequest, other: &ModelRequest| {
            let comparison = Comparison::new(Redactor::default(), tool_results);
            let hash =
                |request| comparison.hash(&Role::REASONING, request, MatchLevel::WithoutVolatile);
            hash(one) == hash(other)
        };
        let (one, elsewhere) = (judged("Delft", "UTC"), judged("Delft", "Etc/UTC"));
        assert!(same(ToolResults::Ignore, &one, &elsewhere));
        assert!(!same(ToolResults::Compare, &one, &elsewhere));
        assert!(!same(ToolResults::Ignore, &one, &judged("Paris", "UTC")));
        let denied = judged("Delft", r#"{\"error\":\"denied\"}"#);
        let cut = judged("Delft", r#"{\"error\":\"denied: it is no…"#);
        assert!(!same(ToolResults::Ignore, &one, &denied));
        assert!(same(ToolResults::Ignore, &denied, &cut));
    }

    #[test]
    fn a_denied_call_changes_the_hash_even_if_results_are_ignored() {
        let comparison = Comparison::new(Redactor::default(), ToolResults::Ignore);
        let hash = |result| {
            let request = history("c", result);
            comparison.hash(&Role::REASONING, &request, MatchLevel::WithoutVolatile)
        };
        assert_eq!(hash("1"), hash(r#"{"error":"there is no network"}"#));
        let denied = hash(r#"{"error":"denied: rule private"}"#);
        assert_eq!(denied, hash(r#"{"error":"denied"}"#));
        assert_ne!(denied, hash("1"));
    }

    #[test]
    fn everything_a_model_reads_changes_the_hash() {
        let base = request("hello");
        let mut changed = vec![
            request("hello!"),
            request("hello\n| "),
            request_of([Message::system("hello")]),
        ];
        let mut with = |change: fn(&mut ModelRequest)| {
            let mut request = base.clone();
            change(&mut request);
            changed.push(request);
        };
        with(|request| request.temperature = Some(0.5));
        with(|request| request.max_output_tokens = Some(5));
        with(|request| request.tool_choice = ToolChoice::Required);
        with(|request| request.tools = [neuraxis_testkit::spec("look").build()].into());
        with(|request| {
            request.reply_format = ReplyFormat::JsonSchema {
                name: "n".into(),
                schema: neuraxis_core::JsonText::from_text("{}"),
            };
        });
        for request in changed {
            assert_ne!(
                hash(&request, MatchLevel::WithoutVolatile),
                hash(&base, MatchLevel::WithoutVolatile),
                "{request:?}"
            );
        }
        let coding = Comparison::default().hash(&Role::CODING, &base, MatchLevel::WithoutVolatile);
        assert_ne!(coding, hash(&base, MatchLevel::WithoutVolatile));
    }
}
