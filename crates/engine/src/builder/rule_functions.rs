//! Functions of a program that rules of the policy ask about calls.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, RuleFunction};
use serde::de::DeserializeOwned;

use super::{BuildError, OrchestratorBuilder};

impl OrchestratorBuilder {
    /// Lets rules of the policy ask a function about the arguments of calls, by its name as `when`: for conditions that no
    /// pattern says. A call whose arguments cannot be read as `T` has a person asked. It is asked anew each time a call is
    /// judged, and has to answer alike.
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

/// Lets a policy know the functions, and refuses one whose rules name a function that there is not: nobody would be told that
/// the rule asks about all calls in its place.
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
