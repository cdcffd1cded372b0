//! Functions of an embedding program that rules ask about calls, for conditions that no pattern can express.
//!
//! Not for what a program decides without a rule; use a hook for that.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use neuraxis_core::JsonText;
use serde::de::DeserializeOwned;

use crate::error::PolicyError;
use crate::names;
use crate::policy::Policy;

/// What a function learns about a call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RuleCall<'a> {
    /// Its arguments, a JSON object.
    pub arguments: &'a JsonText,
    /// The owner of the session, if known.
    pub owner: Option<&'a str>,
}

impl<'a> RuleCall<'a> {
    pub(super) const fn new(arguments: &'a JsonText, owner: Option<&'a str>) -> Self {
        Self { arguments, owner }
    }
}

type RuleFn = dyn Fn(&RuleCall<'_>) -> Option<bool> + Send + Sync;

/// A function that returns whether a call is one that its rule is about. It is called each time such a call is judged.
/// It must return quickly, and give the same answer for the same call.
#[derive(Clone)]
pub struct RuleFunction(Arc<RuleFn>);

impl RuleFunction {
    /// Wraps a function of the call. If it returns `None` because it has no answer, or panics, the user is asked,
    /// whatever the rule answers.
    pub fn new(holds: impl Fn(&RuleCall<'_>) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Wraps a function of the arguments, deserialized as a type. If they cannot be deserialized, it has no answer.
    pub fn of_arguments<T: DeserializeOwned + 'static>(
        holds: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |call| Some(holds(&call.arguments.decode::<T>().ok()?)))
    }

    pub(super) fn holds(&self, call: &RuleCall<'_>) -> Option<bool> {
        let call_function = AssertUnwindSafe(|| (self.0)(call));
        catch_unwind(call_function).ok().flatten()
    }
}

impl fmt::Debug for RuleFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuleFunction")
    }
}

/// The functions of a program, by the names that rules use.
pub(crate) type RuleFunctions = BTreeMap<String, RuleFunction>;

impl Policy {
    /// Adds functions that the rules of this policy may name as `when`. Replaces functions of the same name.
    #[must_use]
    pub fn with_rule_functions(
        mut self,
        functions: impl IntoIterator<Item = (String, RuleFunction)>,
    ) -> Self {
        Arc::make_mut(&mut self.functions).extend(functions);
        self
    }

    /// Returns an error for each rule that names a function which is not registered. Such a rule asks about every call
    /// that it may apply to.
    #[must_use]
    pub fn unknown_rule_functions(&self) -> Vec<PolicyError> {
        let rules = self.config.rules.iter();
        let named = rules.filter_map(|(name, rule)| Some((name, rule.when.as_ref()?)));
        let unknown = named.filter(|(_, function)| !self.functions.contains_key(*function));
        let errors = unknown.map(|(name, function)| {
            let known = || self.functions.keys().map(String::as_str);
            PolicyError::UnknownName {
                at: format!("rules.{name}.when"),
                what: "function",
                given: names::shown(function),
                nearest: names::nearest(function, known()).map(str::to_owned),
                known: known().map(str::to_owned).collect(),
            }
        });
        errors.collect()
    }
}
