//! The layers, and what each may depend on: the table of `docs/architecture.md`, as code.

/// The layer of a crate, which depends on its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// The domain.
    Core,
    /// Governance.
    Brainstem,
    /// The traits between the engine and the outside.
    Ports,
    /// The application: the driver of runs.
    Engine,
    /// The shared code of adapters for HTTP model servers.
    Wire,
    /// An implementation of a port.
    Adapter,
    /// An alternative to the engine's own way of driving runs.
    Driver,
    /// The attribute that turns a function into a tool.
    ToolMacro,
    /// The built-in tools.
    Tools,
    /// Test support.
    Testkit,
    /// The engine as a server of the Model Context Protocol.
    McpServer,
    /// Checks on the engine's runs.
    Evals,
    /// The crate that an embedding team adds first.
    Facade,
    /// The composition of all layers.
    App,
    /// A program that users run.
    Binary,
    /// Automation of the repository.
    Automation,
}

impl Layer {
    /// Returns the layer of the crate in a folder, or `None` if the table does not contain it.
    pub(super) fn of(folder: &str) -> Option<Self> {
        Some(match folder {
            "crates/core" => Self::Core,
            "crates/brainstem" => Self::Brainstem,
            "crates/ports" => Self::Ports,
            "crates/engine" => Self::Engine,
            "crates/adapters/wire" => Self::Wire,
            "crates/tool-macro" => Self::ToolMacro,
            "crates/tools" => Self::Tools,
            "crates/testkit" => Self::Testkit,
            "crates/mcp-server" => Self::McpServer,
            "crates/evals" => Self::Evals,
            "crates/neuraxis" => Self::Facade,
            "crates/app" => Self::App,
            "crates/cli" | "crates/server" => Self::Binary,
            "xtask" => Self::Automation,
            "crates/drivers/restate" => Self::Driver,
            other => {
                let name = other.strip_prefix("crates/adapters/")?;
                (!name.contains('/')).then_some(Self::Adapter)?
            }
        })
    }

    /// Returns the workspace layers that a crate of this layer may depend on.
    pub(super) const fn allowed_layers(self) -> &'static [Self] {
        match self {
            Self::Core | Self::ToolMacro | Self::Automation => &[],
            Self::Brainstem | Self::Ports => &[Self::Core],
            Self::Engine => &[Self::Core, Self::Ports, Self::Brainstem],
            Self::Wire | Self::Testkit => &[Self::Core, Self::Ports],
            Self::Tools => &[Self::Core, Self::Ports, Self::ToolMacro],
            Self::Adapter => &[Self::Core, Self::Ports, Self::Wire],
            Self::McpServer => &[Self::Core, Self::Brainstem, Self::Ports, Self::Engine],
            Self::Driver => &[Self::Core, Self::Ports, Self::Engine],
            Self::Evals => &[Self::Core, Self::Ports, Self::Engine],
            Self::Facade => &[
                Self::Core,
                Self::Brainstem,
                Self::Ports,
                Self::Engine,
                Self::McpServer,
                Self::Driver,
                Self::Evals,
                Self::Wire,
                Self::Adapter,
                Self::Tools,
                Self::Testkit,
            ],
            Self::App => &[
                Self::Core,
                Self::Brainstem,
                Self::Ports,
                Self::Engine,
                Self::Driver,
                Self::Wire,
                Self::Adapter,
                Self::Tools,
                Self::Facade,
            ],
            Self::Binary => &[Self::App, Self::Facade],
        }
    }

    /// Returns whether a crate of this layer may depend on a crate from outside the workspace.
    pub(super) fn allows_external(self, external: &str) -> bool {
        match self {
            Self::Core => [
                "hex",
                "jiff",
                "pulldown-cmark",
                "schemars",
                "serde",
                "serde_json",
                "sha2",
                "thiserror",
                "uuid",
            ]
            .contains(&external),
            Self::Ports => [
                "async-trait",
                "futures-core",
                "schemars",
                "serde",
                "thiserror",
                "tokio-util",
            ]
            .contains(&external),
            Self::ToolMacro => ["proc-macro2", "quote", "syn"].contains(&external),
            Self::Binary | Self::Automation => true,
            _ => external != "anyhow",
        }
    }

    /// Returns whether crates of this layer must not link, at any depth, anything that does I/O or needs a runtime.
    pub(super) const fn is_pure(self) -> bool {
        matches!(self, Self::Core | Self::Brainstem)
    }

    /// Returns the name of the layer in messages.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Brainstem => "brainstem",
            Self::Ports => "ports",
            Self::Engine => "engine",
            Self::Wire => "the adapter wire",
            Self::Adapter => "adapters",
            Self::ToolMacro => "the tool macro",
            Self::Tools => "tools",
            Self::Testkit => "testkit",
            Self::McpServer => "the MCP server",
            Self::Driver => "drivers",
            Self::Evals => "evals",
            Self::Facade => "the facade",
            Self::App => "app",
            Self::Binary => "binaries",
            Self::Automation => "xtask",
        }
    }

    /// Returns what to do with code of this layer that needs a forbidden dependency.
    pub(super) const fn remedy(self) -> &'static str {
        match self {
            Self::Core => "Describe the operation as an effect and perform it in crates/engine.",
            Self::Brainstem => {
                "Take the value as an argument; crates/engine can fetch it and pass it in."
            }
            Self::Ports => {
                "A port is a trait over core's types: move behavior to crates/engine or to an adapter."
            }
            Self::Engine => {
                "Put a trait into crates/ports, use it here, and choose its adapter in crates/app."
            }
            Self::Wire => {
                "Only code that several adapters share belongs here: move the rest to the adapter that needs it."
            }
            Self::Adapter => {
                "Move what two adapters share to crates/adapters/wire, or combine them in crates/app."
            }
            Self::ToolMacro => {
                "This crate generates code and runs none: what the generated code needs belongs in crates/tools, \
                 which names it in macro_parts."
            }
            Self::Tools => {
                "Put a trait into crates/ports and hand its implementation to the tool in crates/app."
            }
            Self::Driver => {
                "Performing a run's steps is the engine's job: let it offer what is needed, for every driver alike."
            }
            Self::Testkit => {
                "Move a test that needs the real part to the tests/ folder of the crate that has it."
            }
            Self::McpServer => {
                "This crate translates between the protocol and the engine's services: put what it needs there, and \
                 composition in crates/app."
            }
            Self::Evals => {
                "This crate inspects runs and starts them through the engine's services: put what it needs there, and \
                 composition in crates/app."
            }
            Self::Facade => "Composition from configuration belongs in crates/app.",
            Self::App => {
                "Test support is for [dev-dependencies]; what only programs need belongs in them."
            }
            Self::Binary => "Wire it in crates/app and use it through crates/app or the facade.",
            Self::Automation => {
                "Automation is outside the product: start the binary instead of linking it."
            }
        }
    }
}
