//! Tool specs.
#![expect(
    clippy::expect_used,
    reason = "a name that is no tool name is a mistake in the test itself"
)]

use std::time::Duration;

use neuraxis_core::{JsonText, ToolClass, ToolKind, ToolSpec};

/// Begins the spec of a tool: irreversible, run by us, taking any object.
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

/// Builds a [`ToolSpec`]; whatever takes one from a test also takes this.
#[derive(Debug, Clone)]
#[must_use]
pub struct SpecBuilder(ToolSpec);

impl SpecBuilder {
    /// Makes it a tool that changes nothing, which may run beside others.
    pub fn read_only(mut self) -> Self {
        self.0.class = ToolClass::ReadOnly;
        self
    }

    /// It may run twice.
    pub fn idempotent(mut self) -> Self {
        self.0.class = ToolClass::Idempotent;
        self
    }

    /// It reaches outside this machine.
    pub fn open_world(mut self) -> Self {
        self.0.annotations = self.0.annotations.open_world();
        self
    }

    /// It may destroy something.
    pub fn destructive(mut self) -> Self {
        self.0.annotations = self.0.annotations.destructive();
        self
    }

    /// It starts a sub-agent.
    pub fn agent(mut self) -> Self {
        self.0.kind = ToolKind::Agent;
        self
    }

    /// The caller runs it.
    pub fn client(mut self) -> Self {
        self.0.kind = ToolKind::Client;
        self
    }

    /// A turn of it alone does not use up the turn limit.
    pub fn non_iterative(mut self) -> Self {
        self.0.non_iterative = true;
        self
    }

    /// A call may take this long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = Some(timeout);
        self
    }

    /// What the model is told about it.
    pub fn describe(mut self, description: &str) -> Self {
        self.0.description = description.into();
        self
    }

    /// The JSON Schema of its arguments.
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
