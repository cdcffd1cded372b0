//! Tool specs.
#![expect(
    clippy::expect_used,
    reason = "an invalid tool name is a mistake in the test itself"
)]

use std::time::Duration;

use neuraxis_core::{JsonText, ToolClass, ToolKind, ToolSpec};

/// Starts the spec of a tool: irreversible, run by the engine, and accepting any object.
///
/// ```
/// use neuraxis_core::ToolClass;
/// use neuraxis_testkit::spec;
///
/// let spec = spec("look").read_only().describe("Looks around.").build();
/// assert_eq!(spec.class, ToolClass::ReadOnly);
/// ```
pub fn spec(name: &str) -> SpecBuilder {
    let id = name.parse().expect("a valid tool name");
    SpecBuilder(ToolSpec::new(id, format!("The tool {name} of a test.")))
}

/// Builds a [`ToolSpec`]. Functions of this crate that take a spec also accept this builder.
#[derive(Debug, Clone)]
#[must_use]
pub struct SpecBuilder(ToolSpec);

impl SpecBuilder {
    /// Makes the tool read-only, so that it may run in parallel with others.
    pub fn read_only(mut self) -> Self {
        self.0.class = ToolClass::ReadOnly;
        self
    }

    /// Marks the tool as idempotent: it may run twice.
    pub fn idempotent(mut self) -> Self {
        self.0.class = ToolClass::Idempotent;
        self
    }

    /// Marks the tool as reaching outside this machine.
    pub fn open_world(mut self) -> Self {
        self.0.annotations = self.0.annotations.open_world();
        self
    }

    /// Marks the tool as possibly destructive.
    pub fn destructive(mut self) -> Self {
        self.0.annotations = self.0.annotations.destructive();
        self
    }

    /// Marks the tool as one that starts a sub-agent.
    pub fn agent(mut self) -> Self {
        self.0.kind = ToolKind::Agent;
        self
    }

    /// Marks the tool as one that the caller runs.
    pub fn client(mut self) -> Self {
        self.0.kind = ToolKind::Client;
        self
    }

    /// Exempts turns that call only this tool from the turn limit.
    pub fn non_iterative(mut self) -> Self {
        self.0.non_iterative = true;
        self
    }

    /// Sets the time limit of a call.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = Some(timeout);
        self
    }

    /// Sets the description that the model reads.
    pub fn describe(mut self, description: &str) -> Self {
        self.0.description = description.into();
        self
    }

    /// Sets the JSON Schema of the arguments.
    pub fn schema(mut self, schema: &str) -> Self {
        self.0.parameters = JsonText::from_text(schema);
        self
    }

    /// Returns the spec.
    #[must_use]
    pub fn build(self) -> ToolSpec {
        self.0
    }
}

impl From<SpecBuilder> for ToolSpec {
    fn from(builder: SpecBuilder) -> Self {
        builder.build()
    }
}
