//! What came of a tool call.

use serde::{Deserialize, Serialize};

use crate::citations::Source;
use crate::ids::ToolName;
use crate::json::JsonText;
use crate::message::MediaPart;

/// The most characters of an error's text that a model reads (loop rule 8).
pub const MAX_ERROR_CHARS: usize = 2_000;

/// The most pages that one result may name as read for it.
const MAX_RESULT_SOURCES: usize = 100;

/// What a tool returns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The result as JSON on one line.
    pub value: JsonText,
    /// Whether later history keeps the result.
    pub keep: Keep,
    /// What later history keeps of the result, if not the result itself.
    pub summary: Option<String>,
    /// Images and files beside the value, for the model to see. Each holds its content; none names an address. A model that
    /// takes no such media is told that they are left out.
    pub media: Vec<MediaPart>,
    /// What people and programs may want to know beside the result; no model reads it.
    pub metadata: Option<JsonText>,
    /// What the result means to the loop beyond its value.
    pub signal: Option<ToolSignal>,
    /// The pages that the tool read for it, which an answer may cite.
    pub sources: Vec<Source>,
    /// A hook of the program put it in place of what the tool returned. Not for tools to set.
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
    /// As [`JsonText::encode`].
    pub fn encode(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        let value = JsonText::encode(value)?;
        // Lines are broken by text alone that was JSON before.
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

    /// Adds a page that was read for the value, which an answer may cite.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Brings every text that a record embeds as JSON into a form that a record can hold.
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

/// What came of a tool call: a value, or an error in the form of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// What the tool returned; the value is `{"error": "…"}` if it failed.
    pub output: ToolOutput,
    /// Why it failed, if it did.
    pub failure: Option<ToolFailure>,
}

impl ToolOutcome {
    /// A call that gave a value.
    #[must_use]
    pub const fn done(output: ToolOutput) -> Self {
        Self {
            output,
            failure: None,
        }
    }

    /// A call that failed or was not run. The message is cut at [`MAX_ERROR_CHARS`].
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

    /// Adds what a call that was cut off had printed by then, if it had printed anything, to what the model reads of it.
    #[must_use]
    pub fn with_what_it_printed(mut self, printed: Option<String>) -> Self {
        let printed = printed.filter(|text| !text.trim().is_empty());
        if let (Some(printed), Some(error)) = (printed, self.output.value.error_message()) {
            let (error, printed) = (JsonText::string(&error), JsonText::string(&printed));
            let value = format!("{{\"error\":{error},\"printed\":{printed}}}");
            self.output.value = JsonText::from_text(value);
        }
        self
    }

    /// Tells whether the call gave a value.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.failure.is_none()
    }
}

/// Why a call gave no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolFailure {
    /// The tool said so.
    Error,
    /// The tool said so, and that the same call may succeed when it is made again. That is for who reads the log: it is
    /// tried again no more than [`Error`](Self::Error) is.
    Temporary,
    /// The tool said so, and that the same call would fail again: what was asked for is not there, not possible or not
    /// allowed.
    Permanent,
    /// It took too long and was stopped.
    Timeout,
    /// Its code panicked; the run goes on.
    Panic,
    /// It was stopped because the run ended.
    Cancelled,
    /// It was under way when the process died, and must not run twice: nobody knows whether it took effect.
    OutcomeUnknown,
    /// Its arguments are not JSON or do not fit the schema; it was not run.
    InvalidArguments,
    /// There is no such tool.
    UnknownTool,
    /// The tool is not available in this turn; it was not run.
    NotEnabled,
    /// Policy or a person said no; it was not run.
    Denied,
    /// Nobody decided about it in time; it was not run.
    ApprovalExpired,
    /// A limit was reached first; it was not run.
    LimitReached,
}

impl ToolFailure {
    /// Returns the name that records have for it.
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

    /// Tells whether the same call may succeed when it is made again at once: the tool failed and did not say that it would
    /// again. Not after a timeout: it has taken as long as it may already, and a tool that hangs would hang twice.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Error | Self::Temporary | Self::Panic)
    }

    /// Tells whether the tool ran and failed, rather than being kept from running.
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
        /// The plan, as JSON text.
        plan: JsonText,
    },
    /// The user has to answer this first.
    Clarify {
        /// The question.
        question: String,
    },
    /// These tools were found: the agent's later requests hold them. Counts only of the agent's
    /// [tool that finds others](crate::ToolSearch).
    Found {
        /// Their names, the best first.
        tools: Vec<ToolName>,
    },
    /// It repeats what another call brought of strangers' words: the conversation holds them from now on.
    Untrusted,
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_value_that_brings_its_own_text_is_wrapped_as_if_it_had_been_given_as_text() {
        for text in ["{\"a\":1}", "{\n\"a\": 1}", "null"] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            let encoded = ToolOutput::encode(&raw).unwrap();
            let given = ToolOutput::new(JsonText::from_text(text));
            assert_eq!(encoded, given);
        }
    }
}
