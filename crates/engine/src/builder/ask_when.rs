//! A condition on a tool's arguments under which the user is asked: the most common use of a
//! [`ToolHook`](neuraxis_ports::ToolHook), in one line.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use neuraxis_core::SERVER_SEPARATOR;
use neuraxis_ports::{BeforeCall, HookedCall, ToolHook, async_trait};
use serde::de::DeserializeOwned;

use super::{BuildError, OrchestratorBuilder};
use crate::catalog::ToolCatalog;

impl OrchestratorBuilder {
    /// Requires approval for calls of a tool whose arguments meet a condition, even if the policy would let them run.
    /// Calls whose arguments cannot be decoded as `T` need approval too. The condition is a [`ToolHook`] and is asked
    /// in the order in which hooks were added.
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_core::{Mode, Role, RunStatus};
    /// use neuraxis_engine::{DecideLater, Orchestrator, UserRequest};
    /// use neuraxis_memory::MemoryStore;
    /// use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Refund {
    ///     amount: u32,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::new().then(reply::calls([("refund", r#"{"amount":500}"#)]));
    /// let orchestrator = Orchestrator::builder()
    ///     .model(Role::REASONING, Arc::new(model))
    ///     .tool(Arc::new(ScriptedTool::echoing(spec("refund").idempotent())))
    ///     .ask_when("refund", "It is a refund above 100.", |refund: &Refund| refund.amount > 100)
    ///     .approver(Arc::new(DecideLater))
    ///     .store(Arc::new(MemoryStore::default()))
    ///     .build()?;
    /// let request = UserRequest::new("s1".parse()?, "Pay it back.").mode(Mode::EXPLORATORY);
    /// assert_eq!(orchestrator.handle(request).await?.status, RunStatus::Waiting);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The tool must exist when the orchestrator is built, unless it belongs to a server (`SERVER__TOOL`).
    #[must_use]
    pub fn ask_when<T: DeserializeOwned + 'static>(
        mut self,
        tool: impl Into<Arc<str>>,
        reason: impl Into<String>,
        condition: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Self {
        let tool = tool.into();
        self.asked_about.push(Arc::clone(&tool));
        self.tool_hook(Arc::new(AskWhen {
            tool,
            reason: reason.into(),
            condition,
            arguments: PhantomData,
        }))
    }
}

/// Refuses a condition on a tool that does not exist, since it would never hold. Tools of servers are not checked: they
/// come and go.
pub(super) fn check(asked_about: &[Arc<str>], catalog: &ToolCatalog) -> Result<(), BuildError> {
    let is_there = |tool: &str| catalog.specs().any(|spec| spec.name.as_str() == tool);
    let mut missing = asked_about.iter();
    match missing.find(|tool| !tool.contains(SERVER_SEPARATOR) && !is_there(tool)) {
        None => Ok(()),
        Some(tool) => Err(BuildError::AskedAbout {
            tool: Arc::clone(tool),
            known: catalog.names(),
        }),
    }
}

struct AskWhen<T, Condition> {
    tool: Arc<str>,
    reason: String,
    condition: Condition,
    arguments: PhantomData<fn(&T)>,
}

#[async_trait]
impl<T, Condition> ToolHook for AskWhen<T, Condition>
where
    T: DeserializeOwned + 'static,
    Condition: Fn(&T) -> bool + Send + Sync + 'static,
{
    async fn before(&self, call: &HookedCall) -> BeforeCall {
        if call.tool.name.as_str() != &*self.tool {
            return BeforeCall::Continue;
        }
        match call.arguments.decode::<T>() {
            Ok(arguments) if !(self.condition)(&arguments) => BeforeCall::Continue,
            _ => BeforeCall::ask(self.reason.clone()),
        }
    }
}

impl<T, Condition> fmt::Debug for AskWhen<T, Condition> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, reason, .. } = self;
        write!(f, "AskWhen({tool}: {reason})")
    }
}
