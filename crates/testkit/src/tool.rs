//! A tool that plays acts.

mod act;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

use neuraxis_core::{JsonText, ToolOutput, ToolSpec};
use neuraxis_ports::{Tool, ToolContext, ToolError, TurnContext, async_trait};

pub use self::act::Act;
use crate::call::Gauge;
use crate::scripted::lock;

/// Plays one [`Act`] per call, counts its calls and records how many ran at the same time. When no acts are left, it
/// fails.
///
/// ```
/// use std::time::Duration;
///
/// use neuraxis_testkit::{Act, ScriptedTool, spec};
///
/// let tool = ScriptedTool::new(spec("look").read_only())
///     .then(Act::error("too dark"))
///     .then(Act::value(r#"{"seen":"a door"}"#).printing("looking").after(Duration::from_secs(2)));
/// assert_eq!(tool.count(), 0);
/// ```
pub struct ScriptedTool {
    spec: ToolSpec,
    acts: Mutex<VecDeque<Act>>,
    otherwise: Option<Box<Improvise>>,
    available: Option<Box<Available>>,
    calls: Mutex<Vec<SeenToolCall>>,
    gauge: Gauge,
}

type Improvise = dyn Fn(&JsonText) -> Act + Send + Sync;
type Available = dyn Fn(&TurnContext) -> bool + Send + Sync;

/// A call that a [`ScriptedTool`] received.
#[derive(Debug, Clone)]
pub struct SeenToolCall {
    /// The call's arguments.
    pub arguments: JsonText,
    /// The call's context.
    pub context: ToolContext,
}

impl ScriptedTool {
    /// Creates a tool without acts.
    pub fn new(spec: impl Into<ToolSpec>) -> Self {
        Self {
            spec: spec.into(),
            acts: Mutex::default(),
            otherwise: None,
            available: None,
            calls: Mutex::default(),
            gauge: Gauge::default(),
        }
    }

    /// Creates a tool that plays the same act for every call.
    pub fn always(spec: impl Into<ToolSpec>, act: Act) -> Self {
        Self::answering(spec, move |_| act.clone())
    }

    /// Creates a tool that returns its arguments.
    pub fn echoing(spec: impl Into<ToolSpec>) -> Self {
        Self::answering(spec, |arguments| Act::value(arguments.as_str()))
    }

    /// Creates a tool that chooses its act by the arguments.
    pub fn answering(
        spec: impl Into<ToolSpec>,
        choose: impl Fn(&JsonText) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self {
            otherwise: Some(Box::new(choose)),
            ..Self::new(spec)
        }
    }

    /// Adds the act of the next call.
    #[must_use]
    pub fn then(self, act: Act) -> Self {
        lock(&self.acts).push_back(act);
        self
    }

    /// Makes the tool available only in some turns.
    #[must_use]
    pub fn available_when(
        mut self,
        available: impl Fn(&TurnContext) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.available = Some(Box::new(available));
        self
    }

    /// Returns the calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<SeenToolCall> {
        lock(&self.calls).clone()
    }

    /// Returns how often the tool was called.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.calls).len()
    }

    /// Returns how many calls are open, that is, neither finished nor abandoned.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.gauge.now()
    }

    /// Returns the maximum number of calls that were open at the same time.
    #[must_use]
    pub fn most_open_calls(&self) -> usize {
        self.gauge.most()
    }
}

impl fmt::Debug for ScriptedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedTool")
            .field("spec", &self.spec)
            .field("acts", &self.acts)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Tool for ScriptedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn should_use(&self, turn: &TurnContext) -> bool {
        self.available
            .as_ref()
            .is_none_or(|available| available(turn))
    }

    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        let _open = self.gauge.open();
        lock(&self.calls).push(SeenToolCall {
            arguments: arguments.clone(),
            context: ctx.clone(),
        });
        let next = lock(&self.acts).pop_front();
        let act = next.or_else(|| self.otherwise.as_ref().map(|choose| choose(&arguments)));
        let act = act.unwrap_or_else(|| Act::error("the test has no act for this call"));
        act.play(&ctx).await
    }
}
