//! Functions of a program that the policy's rules call about tool calls.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, RuleFunction};
use serde::de::DeserializeOwned;

use super::{BuildError, OrchestratorBuilder};

impl OrchestratorBuilder {
    /// Makes a function about the arguments of calls available to the policy's rules, which name it as `when`: for
    /// conditions that no pattern can express. A call whose arguments cannot be decoded as `T` needs approval. The
    /// function is called each time a call is judged, and must always return the same answer for the same arguments.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_brainstem::{Policy, PolicyConfig};
    /// use neuraxis_core::{Mode, Role, RunStatus};
    /// use neuraxis_engine::{DecideLater, Orchestrator, UserRequest};
    /// use neuraxis_memory::MemoryStore;
    /// use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Refund {
    ///     amount: u32,
    ///     paid: u32,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rules = r#"
    ///     [rules.more-than-was-paid]
    ///     answer = "ask"
    ///     tools = ["refund"]
    ///     when = "more_than_was_paid"
    /// "#;
    /// # let model = ScriptedModel::new().then(reply::calls([("refund", r#"{"amount":9,"paid":8}"#)]));
    /// let orchestrator = Orchestrator::builder()
    ///     .policy(Policy::layered(PolicyConfig::from_toml(rules)?)?)
    ///     .rule_function("more_than_was_paid", |refund: &Refund| refund.amount > refund.paid)
    ///     .tool(Arc::new(ScriptedTool::echoing(spec("refund").idempotent())))
    /// #   .model(Role::REASONING, Arc::new(model)).store(Arc::new(MemoryStore::default()))
    ///     .approver(Arc::new(DecideLater))
    ///     .build()?;
    /// let request = UserRequest::new("s1".parse()?, "Pay it back.").mode(Mode::EXPLORATORY);
    /// assert_eq!(orchestrator.handle(request).await?.status, RunStatus::Waiting);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn rule_function<T: DeserializeOwned + 'static>(
        mut self,
        name: impl Into<String>,
        holds: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Self {
        let function = RuleFunction::of_arguments(holds);
        self.rule_functions.push((name.into(), function));
        self
    }
}

/// Adds the functions to a policy, and refuses a policy whose rules name a function that does not exist. Otherwise such
/// a rule would silently require approval of all calls that it concerns.
pub(super) fn join(
    policy: &mut Arc<Policy>,
    functions: Vec<(String, RuleFunction)>,
) -> Result<(), BuildError> {
    if !functions.is_empty() {
        *policy = Arc::new(Policy::clone(policy).with_rule_functions(functions));
    }
    let unknown = policy.unknown_rule_functions().into_iter().next();
    unknown.map_or(Ok(()), |fault| Err(BuildError::Rule(fault)))
}
