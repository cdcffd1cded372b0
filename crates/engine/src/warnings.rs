//! Reports tools that cannot run whatever is requested, and what to write so that they can. Without a warning, a
//! silently refused tool looks to its author as if the model did not want it.

use std::fmt;

use neuraxis_brainstem::{Outlook, Policy};
use neuraxis_core::{Mode, ToolClass, ToolName, ToolSpec};
use serde::Serialize;

/// A tool that never runs, or only if a request asks for more freedom than the default. Its text says why, and what to
/// do about it.
///
/// ```
/// use neuraxis_brainstem::Policy;
/// use neuraxis_core::{JsonText, ToolAnnotations, ToolClass, ToolKind, ToolSpec};
/// use neuraxis_engine::{Approving, Hindrance, tool_warnings};
///
/// let refund = ToolSpec {
///     name: "refund".parse()?,
///     description: "Pays money back.".into(),
///     parameters: JsonText::from_text(r#"{"type":"object"}"#),
///     class: ToolClass::Irreversible,
///     annotations: ToolAnnotations::default(),
///     kind: ToolKind::Server,
///     non_iterative: false,
///     timeout: None,
/// };
/// let warnings = tool_warnings(&Policy::built_in(), [&refund], Approving::Nobody);
/// assert_eq!(warnings[0].why, Hindrance::NobodyApproves);
/// let text = warnings[0].to_string();
/// assert!(text.contains(".class(ToolClass::ReadOnly)") && text.contains("#[tool(class = \"read_only\")]"));
/// assert!(tool_warnings(&Policy::built_in(), [&refund], Approving::Somebody).is_empty());
/// # Ok::<(), neuraxis_core::InvalidId>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolWarning {
    /// The tool.
    pub tool: ToolName,
    /// What its calls may change, which most policies are based on.
    pub class: ToolClass,
    /// What keeps it from running.
    pub why: Hindrance,
}

/// What keeps a tool from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hindrance {
    /// Whatever the mode and channel, each call needs approval, and there is no approver.
    NobodyApproves,
    /// The same as `NobodyApproves`, but only in the mode of requests that name none; the tool runs in another mode.
    NobodyApprovesByDefault,
    /// The policy denies it wherever it would be offered.
    Denied,
    /// No channel offers it.
    NotOffered,
}

/// Whether calls can be approved, now or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Approving {
    /// They can be approved.
    Somebody,
    /// They cannot: calls that need approval are denied.
    Nobody,
}

/// Returns a warning about each tool that cannot run whatever is requested, in the order of the tools.
#[must_use]
pub fn tool_warnings<'a>(
    policy: &Policy,
    tools: impl IntoIterator<Item = &'a ToolSpec>,
    approving: Approving,
) -> Vec<ToolWarning> {
    let warnings = tools.into_iter().filter_map(|tool| {
        let by_default = || policy.outlook_in(&Mode::MODERATE, tool);
        let why = match (policy.outlook(tool), approving) {
            (Outlook::NotOffered, _) => Hindrance::NotOffered,
            (Outlook::Denied, _) => Hindrance::Denied,
            (Outlook::NeedsApproval, Approving::Nobody) => Hindrance::NobodyApproves,
            (Outlook::Runs, Approving::Nobody) if by_default() == Outlook::NeedsApproval => {
                Hindrance::NobodyApprovesByDefault
            }
            (Outlook::NeedsApproval | Outlook::Runs, _) => return None,
        };
        Some(ToolWarning {
            tool: tool.name.clone(),
            class: tool.class,
            why,
        })
    });
    warnings.collect()
}

impl fmt::Display for ToolWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, class, why } = self;
        match why {
            Hindrance::NobodyApproves => write!(
                f,
                "tool {tool} never runs: it is treated as {class}, each call needs approval, and there is no approver"
            )?,
            Hindrance::NobodyApprovesByDefault => write!(
                f,
                "tool {tool} does not run in mode {}, the default mode of requests: each call needs approval, and there is no approver",
                Mode::MODERATE
            )?,
            Hindrance::Denied => {
                return write!(
                    f,
                    "tool {tool} never runs: every mode and rule that could let it run denies it; it is treated as {class}. Change the \
                     answer of a mode (`[modes.NAME.tools]`), or change the rule"
                );
            }
            Hindrance::NotOffered => {
                return write!(
                    f,
                    "tool {tool} never runs: no channel offers it. Add it to `tools` of a `[channels.NAME]`"
                );
            }
        }
        let reads = match class {
            ToolClass::ReadOnly => "",
            _ => {
                " If it only reads, declare that: with `[trust.NAME]` for tools of an MCP server, and in your own program with \
                 `#[tool(class = \"read_only\")]` or `.class(ToolClass::ReadOnly)` of its builder."
            }
        };
        write!(
            f,
            ".{reads} Allow it with a rule: `[rules.{tool}]` with `answer = \"allow\"` and `tools = [\"{tool}\"]`; in your own \
             program, you can also give the builder an `approver`, and a request can supply its own"
        )
    }
}
