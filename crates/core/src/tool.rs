//! The loop's description of a tool: its name, its schema, and what running it may do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::ids::ToolName;
use crate::json::{JsonText, is_default};

/// The separator between the name of a server and the name of its tool, in the name under which the tool is called
/// here.
pub const SERVER_SEPARATOR: &str = "__";

/// The name of the engine's built-in tool that delivers an answer with a required form.
pub const FINAL_ANSWER: &str = "final_answer";

/// The name of the engine's built-in tool that lets a model with many tools find others.
pub const FIND_TOOLS: &str = "find_tools";

/// The name of the engine's built-in tool that reads what was cut out of a long result. It is offered with every tool
/// that the engine runs.
pub const READ_OUTPUT: &str = "read_output";

/// A tool as it is offered to a model and judged by the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolSpec {
    /// The name by which models call it.
    pub name: ToolName,
    /// What it does and when to use it, for the model.
    pub description: Arc<str>,
    /// The JSON Schema (2020-12) of its arguments: an object.
    pub parameters: JsonText,
    /// What a call may change.
    pub class: ToolClass,
    /// Additional hints.
    #[serde(default)]
    pub annotations: ToolAnnotations,
    /// Who runs it.
    #[serde(default)]
    pub kind: ToolKind,
    /// Whether a turn that calls only tools with this mark does not count toward the turn limit (loop rule 7).
    #[serde(default)]
    pub non_iterative: bool,
    /// How long a call may take; `None` means the loop's own limit.
    #[serde(
        default,
        rename = "timeout_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub timeout: Option<Duration>,
}

impl ToolSpec {
    /// Creates a tool that accepts any arguments, that the engine runs, and about which nothing else is known: it is
    /// treated as [irreversible](ToolClass::Irreversible), so the built-in policy requires approval of its calls in
    /// most modes.
    ///
    /// ```
    /// use neuraxis_core::{JsonText, ToolClass, ToolSpec};
    ///
    /// let spec = ToolSpec::new("weather".parse()?, "Tells the weather in a city.")
    ///     .parameters(JsonText::from_text(
    ///         r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#,
    ///     ))
    ///     .class(ToolClass::ReadOnly);
    /// assert_eq!(spec.name.as_str(), "weather");
    /// # Ok::<(), neuraxis_core::InvalidId>(())
    /// ```
    pub fn new(name: ToolName, description: impl Into<Arc<str>>) -> Self {
        Self {
            name,
            description: description.into(),
            parameters: JsonText::from_text(r#"{"type":"object"}"#),
            class: ToolClass::default(),
            annotations: ToolAnnotations::default(),
            kind: ToolKind::default(),
            non_iterative: false,
            timeout: None,
        }
    }

    /// Sets the JSON Schema (2020-12) of the arguments: an object.
    #[must_use]
    pub fn parameters(mut self, schema: JsonText) -> Self {
        self.parameters = schema;
        self
    }

    /// Sets what a call may change.
    #[must_use]
    pub const fn class(mut self, class: ToolClass) -> Self {
        self.class = class;
        self
    }

    /// Adds hints, such as that the tool reaches outside this machine.
    #[must_use]
    pub const fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// Sets who runs it.
    #[must_use]
    pub const fn kind(mut self, kind: ToolKind) -> Self {
        self.kind = kind;
        self
    }

    /// Marks the tool so that turns that call only such tools do not count toward the turn limit.
    #[must_use]
    pub const fn non_iterative(mut self) -> Self {
        self.non_iterative = true;
        self
    }

    /// Sets how long a call may take.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// What a call may change, and so whether it may run again if its outcome is unknown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Changes nothing: may run in parallel and repeatedly.
    ReadOnly,
    /// Makes changes, but running twice has the same effect as once: may run again.
    Idempotent,
    /// Anything else: never runs twice. The default.
    #[default]
    Irreversible,
}

impl ToolClass {
    /// Returns whether a call with an unknown outcome may be run again.
    #[must_use]
    pub const fn may_rerun(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Idempotent)
    }
}

impl fmt::Display for ToolClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ReadOnly => "read_only",
            Self::Idempotent => "idempotent",
            Self::Irreversible => "irreversible",
        })
    }
}

/// Hints about a tool, modeled on those of the Model Context Protocol. They only apply if the tool is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// It reaches outside this machine, so its output may contain untrusted content.
    #[serde(default)]
    pub open_world: bool,
    /// It may destroy something.
    #[serde(default)]
    pub destructive: bool,
    /// Its calls are confined to this machine, except those whose argument `access` names `network`: of a tool that
    /// reaches outside this machine, only these calls introduce untrusted content. Not for tools of third-party
    /// servers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub confined: bool,
}

impl ToolAnnotations {
    /// Marks a tool whose calls are confined to this machine unless they ask for the network.
    #[must_use]
    pub const fn confined(mut self) -> Self {
        self.confined = true;
        self
    }

    /// Marks a tool that reaches outside this machine.
    #[must_use]
    pub const fn open_world(mut self) -> Self {
        self.open_world = true;
        self
    }

    /// Marks a tool that may destroy something.
    #[must_use]
    pub const fn destructive(mut self) -> Self {
        self.destructive = true;
        self
    }
}

/// Who runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// The engine.
    #[default]
    Server,
    /// It starts a sub-agent inside the machine.
    Agent,
    /// The caller: the run waits for its result.
    Client,
}
