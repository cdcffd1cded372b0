//! The result of a tool call.

use serde::{Deserialize, Serialize};

use crate::citations::Source;
use crate::ids::ToolName;
use crate::json::JsonText;
use crate::message::MediaPart;

/// Maximum number of characters of an error's text that a model reads (loop rule 8).
pub const MAX_ERROR_CHARS: usize = 2_000;

/// Maximum number of pages that one result may name as its sources.
const MAX_RESULT_SOURCES: usize = 100;

/// What a tool returns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The result as JSON on one line.
    pub value: JsonText,
    /// Whether the result stays in later history.
    pub keep: Keep,
    /// What later history keeps of the result, if not the result itself.
    pub summary: Option<String>,
    /// Images and files beside the value, for the model to see. Each has inline content, never a URL. A model that does
    /// not accept such media is told that they are left out.
    pub media: Vec<MediaPart>,
    /// Additional information for users and programs; no model reads it.
    pub metadata: Option<JsonText>,
    /// What the result means to the loop beyond its value.
    pub signal: Option<ToolSignal>,
    /// The pages that the tool read for it; an answer may cite them.
    pub sources: Vec<Source>,
    /// Whether one of the program's hooks replaced what the tool returned. Not for tools to set.
    pub rewritten: bool,
}

impl ToolOutput {
    /// Wraps a value. Text that is not one JSON value on one line becomes a JSON string.
    #[must_use]
    pub fn new(value: JsonText) -> Self {
        Self::of(value.into_value())
    }

    /// Encodes a value and wraps it, as [`new`](Self::new) does.
    ///
    /// # Errors
    ///
    /// Same as [`JsonText::encode`].
    pub fn encode(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        let value = JsonText::encode(value)?;
        // Only embedded text that already was JSON can contain line breaks.
        let is_on_one_line = !value.as_str().contains(['\n', '\r']);
        Ok(match is_on_one_line {
            true => Self::of(value),
            false => Self::new(value),
        })
    }

    const fn of(value: JsonText) -> Self {
        Self {
            value,
            keep: Keep::Result,
            summary: None,
            media: Vec::new(),
            metadata: None,
            signal: None,
            sources: Vec::new(),
            rewritten: false,
        }
    }

    /// Adds an image or a file for the model to see, beside the value.
    #[must_use]
    pub fn with_media(mut self, part: MediaPart) -> Self {
        self.media.push(part);
        self
    }

    /// Adds a page that was read for the value; an answer may cite it.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Converts every text that a record embeds as JSON into a form that a record can hold.
    pub(crate) fn normalized(self) -> Self {
        let signal = self.signal.map(|signal| match signal {
            ToolSignal::Plan { plan } => ToolSignal::Plan {
                plan: plan.into_value(),
            },
            other => other,
        });
        let metadata = self.metadata.map(JsonText::into_value);
        // In a record, metadata of `null` is no metadata.
        let metadata = metadata.filter(|metadata| metadata.as_str() != "null");
        let sources = self.sources.into_iter().filter_map(Source::normalized);
        let sources = sources.take(MAX_RESULT_SOURCES).collect();
        Self {
            value: self.value.into_value(),
            metadata,
            signal,
            sources,
            ..self
        }
    }
}

/// The result of a tool call: a value, or an error in the form of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// What the tool returned; the value is `{"error": "…"}` if it failed.
    pub output: ToolOutput,
    /// Why it failed, if it did.
    pub failure: Option<ToolFailure>,
}

impl ToolOutcome {
    /// Creates the outcome of a call that returned a value.
    #[must_use]
    pub const fn done(output: ToolOutput) -> Self {
        Self {
            output,
            failure: None,
        }
    }

    /// Creates the outcome of a call that failed or did not run. The message is cut at [`MAX_ERROR_CHARS`].
    #[must_use]
    pub fn failed(failure: ToolFailure, message: &str) -> Self {
        let value = match message.char_indices().nth(MAX_ERROR_CHARS) {
            Some((end, _)) => JsonText::error(&format!(
                "{}… (cut)",
                message.get(..end).unwrap_or_default()
            )),
            None => JsonText::error(message),
        };
        Self {
            output: ToolOutput::new(value),
            failure: Some(failure),
        }
    }

    /// Appends the output that a call had printed before it was cut off, if any, to what the model reads.
    #[must_use]
    pub fn with_printed(mut self, printed: Option<String>) -> Self {
        let printed = printed.filter(|text| !text.trim().is_empty());
        if let (Some(printed), Some(error)) = (printed, self.output.value.error_message()) {
            let (error, printed) = (JsonText::string(&error), JsonText::string(&printed));
            let value = format!("{{\"error\":{error},\"printed\":{printed}}}");
            self.output.value = JsonText::from_text(value);
        }
        self
    }

    /// Returns whether the call returned a value.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.failure.is_none()
    }
}

/// Why a call returned no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolFailure {
    /// The tool reported an error.
    Error,
    /// The tool reported an error and that the same call may succeed if repeated. This is for readers of the log: it is
    /// retried no more than [`Error`](Self::Error) is.
    Temporary,
    /// The tool reported an error and that the same call would fail again: what was requested does not exist, is not
    /// possible or is not allowed.
    Permanent,
    /// It took too long and was stopped.
    Timeout,
    /// Its code panicked; the run continues.
    Panic,
    /// It was stopped because the run ended.
    Cancelled,
    /// It was in progress when the process died, and must not run twice: whether it took effect is unknown.
    OutcomeUnknown,
    /// Its arguments are not JSON or do not conform to the schema; it did not run.
    InvalidArguments,
    /// No such tool exists.
    UnknownTool,
    /// The tool is not available in this turn; it did not run.
    NotEnabled,
    /// Policy or a user denied it; it did not run.
    Denied,
    /// No decision about it came in time; it did not run.
    ApprovalExpired,
    /// A limit was reached first; it did not run.
    LimitReached,
}

impl ToolFailure {
    /// Returns the name used in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Temporary => "temporary",
            Self::Permanent => "permanent",
            Self::Timeout => "timeout",
            Self::Panic => "panic",
            Self::Cancelled => "cancelled",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::InvalidArguments => "invalid_arguments",
            Self::UnknownTool => "unknown_tool",
            Self::NotEnabled => "not_enabled",
            Self::Denied => "denied",
            Self::ApprovalExpired => "approval_expired",
            Self::LimitReached => "limit_reached",
        }
    }

    /// Returns whether an immediate retry of the same call may succeed: the tool failed and did not report that it
    /// would fail again. A timeout is not retryable: the call has already used its full time, and a tool that hangs
    /// would hang again.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Error | Self::Temporary | Self::Panic)
    }

    /// Returns whether the tool ran and failed, rather than being prevented from running.
    #[must_use]
    pub const fn is_of_the_tool(self) -> bool {
        matches!(
            self,
            Self::Error | Self::Temporary | Self::Permanent | Self::Timeout | Self::Panic
        )
    }
}

/// What later history keeps of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The result itself.
    #[default]
    Result,
    /// Its summary, once the model has read the result.
    Summary,
}

/// What a result means to the loop beyond its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolSignal {
    /// The session's plan has changed.
    Plan {
        /// The plan, as JSON text: usually that of a `Plan`.
        plan: JsonText,
    },
    /// The user must answer this question first.
    Clarify {
        /// The question.
        question: String,
    },
    /// These tools were found: the agent's later requests include them. Only honored for the agent's [tool that finds
    /// others](crate::ToolSearch).
    Found {
        /// Their names, best match first.
        tools: Vec<ToolName>,
    },
    /// The result repeats third-party text that another call introduced: from now on the conversation contains it.
    Untrusted,
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_raw_json_value_is_wrapped_as_if_given_as_text() {
        for text in ["{\"a\":1}", "{\n\"a\": 1}", "null"] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            let encoded = ToolOutput::encode(&raw).unwrap();
            let given = ToolOutput::new(JsonText::from_text(text));
            assert_eq!(encoded, given);
        }
    }
}
