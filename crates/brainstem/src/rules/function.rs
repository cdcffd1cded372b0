//! Functions of an embedding program that rules ask about calls: for conditions that no pattern says.
//!
//! Not for what a program decides without a rule, which is a hook's.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use neuraxis_core::JsonText;
use serde::de::DeserializeOwned;

use crate::error::PolicyError;
use crate::names;
use crate::policy::Policy;

/// A call, as far as a function is told of it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RuleCall<'a> {
    /// Its arguments, a JSON object.
    pub arguments: &'a JsonText,
    /// Whose session it is, where that is known.
    pub owner: Option<&'a str>,
}

impl<'a> RuleCall<'a> {
    pub(super) const fn new(arguments: &'a JsonText, owner: Option<&'a str>) -> Self {
        Self { arguments, owner }
    }
}

type Holds = dyn Fn(&RuleCall<'_>) -> Option<bool> + Send + Sync;

/// A function that tells whether a call is what the rule is about that names it. It is called each time such a call is judged:
/// the same call has to get the same answer, and at once.
#[derive(Clone)]
pub struct RuleFunction(Arc<Holds>);

impl RuleFunction {
    /// Takes a function of the call. `None` is for what it cannot tell, which has a person asked, whatever the rule answers; so
    /// does a panic.
    pub fn new(holds: impl Fn(&RuleCall<'_>) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Takes a function of the arguments, read as a type. What cannot be read, it cannot tell.
    pub fn of_arguments<T: DeserializeOwned + 'static>(
        holds: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |call| Some(holds(&call.arguments.decode::<T>().ok()?)))
    }

    pub(super) fn holds(&self, call: &RuleCall<'_>) -> Option<bool> {
        let asked = AssertUnwindSafe(|| (self.0)(call));
        catch_unwind(asked).ok().flatten()
    }
}

impl fmt::Debug for RuleFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuleFunction")
    }
}

/// The functions of a program, by the names that rules give them.
pub(crate) type RuleFunctions = BTreeMap<String, RuleFunction>;

impl Policy {
    /// Adds functions that the rules of this policy may name as `when`. One that it knows already is replaced.
    #[must_use]
    pub fn with_rule_functions(
        mut self,
        functions: impl IntoIterator<Item = (String, RuleFunction)>,
    ) -> Self {
        Arc::make_mut(&mut self.functions).extend(functions);
        self
    }

    /// Finds the rules that name a function which this policy does not know. Such a rule has a person asked about every call
    /// that it may be about.
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
