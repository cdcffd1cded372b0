//! What a client says to take a turn: the body of the request.

use neuraxis::{Channel, Mode, SessionId, UserRequest};
use serde::Deserialize;
use serde_json::error::Category;

use crate::problem::{INVALID_FIELD, INVALID_JSON, Problem, UNKNOWN_FIELD};

/// The fields there are.
const FIELDS: [&str; 3] = ["message", "channel", "mode"];

/// The most characters of a client's own words, such as the name of an unknown field, that an answer repeats.
const MAX_REPEATED_CHARS: usize = 64;

/// The most characters of an answer about them.
const MAX_COMPLAINT_CHARS: usize = 300;

/// A user message with the circumstances that a client may choose.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the field message")]
pub(crate) struct Turn {
    message: String,
    #[serde(default)]
    channel: Option<Channel>,
    #[serde(default)]
    mode: Option<Mode>,
}

impl Turn {
    /// Reads a turn from JSON.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        // serde would take a list of the fields' values, too.
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            let detail = "the body must be a JSON object with the field message, not a list";
            return Err(Problem::new(&INVALID_FIELD, detail));
        }
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let turn: Self = serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| complaint(error.inner(), &error.path().to_string()))?;
        deserializer.end().map_err(|error| complaint(&error, ""))?;
        if turn.message.contains('\0') {
            // Not every store can keep it, and what one refuses all refuse.
            let detail = "message: it must not hold the character U+0000";
            return Err(Problem::new(&INVALID_FIELD, detail).with("field", "message"));
        }
        Ok(turn)
    }

    /// Makes the engine's request of it.
    pub(crate) fn into_request(self, session: SessionId) -> UserRequest {
        let mut request = UserRequest::new(session, self.message);
        if let Some(channel) = self.channel {
            request = request.channel(channel);
        }
        if let Some(mode) = self.mode {
            request = request.mode(mode);
        }
        request
    }
}

fn complaint(error: &serde_json::Error, path: &str) -> Problem {
    let (line, column) = (error.line(), error.column());
    let place = format!(" at line {line} column {column}");
    let text = error.to_string();
    let text = cut(
        text.strip_suffix(&place).unwrap_or(&text),
        MAX_COMPLAINT_CHARS,
    );
    let problem = match (error.classify(), path) {
        (Category::Data, "" | ".") => Problem::new(&INVALID_FIELD, format!("{text}{place}")),
        (Category::Data, field) if FIELDS.contains(&field) => {
            Problem::new(&INVALID_FIELD, format!("{field}: {text}{place}")).with("field", field)
        }
        (Category::Data, field) => {
            let field = cut(field, MAX_REPEATED_CHARS);
            let detail = format!(
                "unknown field \"{field}\"{place}; known: {}",
                FIELDS.join(", ")
            );
            Problem::new(&UNKNOWN_FIELD, detail)
                .with("field", field)
                .with("known", FIELDS.to_vec())
        }
        _ => Problem::new(
            &INVALID_JSON,
            format!("the body cannot be read as JSON: {text}{place}"),
        ),
    };
    problem.with("line", line).with("column", column)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
