//! What was found about tool calls before they run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::advised_call::AdvisedCall;
use crate::decision::{AskCause, Grant, GrantScope, Remember, RuleRef, Verdict};
use crate::ids::EffectId;
use crate::json::is_default;
use crate::tool::ToolClass;

/// A batch of calls was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vetted {
    /// The effect that asked.
    pub effect_id: EffectId,
    /// What was found, in the order of the calls. The first record after a reply is about all of its calls that have no result
    /// yet, and a later one about those that are checked anew, as after a decision. A person is asked where
    /// `approval_requested` follows: `ask` is found of a call that was approved as well.
    pub calls: Vec<Vetting>,
    /// What people allowed for the session with their answers to these calls: from this record on it counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Grant>,
    /// What the program's hooks said of these calls before they were checked; nothing of calls about which none was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advised: Vec<AdvisedCall>,
}

impl Vetted {
    /// Says what was found about calls, with nothing allowed for the session.
    #[must_use]
    pub const fn new(effect_id: EffectId, calls: Vec<Vetting>) -> Self {
        Self {
            effect_id,
            calls,
            granted: Vec::new(),
            advised: Vec::new(),
        }
    }
}

/// What was found about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Vetting {
    /// The call may run now.
    Run {
        /// What it may change, as far as its tool is trusted.
        class: ToolClass,
        /// Its result will be untrusted content.
        #[serde(default, skip_serializing_if = "is_default")]
        untrusted: bool,
        /// Why; none where nothing governs the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
        /// The rule that says so; none where a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// The remembered answer of a person that lets it run, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<u32>,
    },
    /// The arguments are not JSON or do not fit the schema.
    Invalid {
        /// The place in the arguments and what is wrong there, for the model.
        message: String,
    },
    /// There is no such tool.
    Unknown,
    /// The tool is not available in this turn.
    Disabled,
    /// A person has to approve it.
    Ask {
        /// What it may change, once approved.
        class: ToolClass,
        /// Its result will be untrusted content.
        #[serde(default, skip_serializing_if = "is_default")]
        untrusted: bool,
        /// Why, for people.
        reason: String,
        /// Why, for programs: what asks, each kind once; none where nobody says.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<AskCause>,
        /// The rule that says so; none where a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// How much of the answer may be remembered for the session.
        #[serde(default, skip_serializing_if = "is_default")]
        remember: Remember,
        /// What the person may be offered to remember, the narrowest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<GrantScope>,
        /// The approval that is on record does not count: whoever checked cannot tell that it was given here.
        #[serde(default, skip_serializing_if = "is_default")]
        again: bool,
    },
    /// Policy forbids it.
    Deny {
        /// The sentence that the model reads in place of a result.
        reason: String,
        /// The rule that says so; none where a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
    },
}

impl Vetting {
    /// It may run, and nobody says why.
    #[must_use]
    pub const fn run(class: ToolClass) -> Self {
        Self::Run {
            class,
            untrusted: false,
            reason: None,
            rule: None,
            grant: None,
        }
    }

    /// A person has to approve it, every time.
    pub fn ask(class: ToolClass, reason: impl Into<String>) -> Self {
        Self::Ask {
            class,
            untrusted: false,
            reason: reason.into(),
            causes: Vec::new(),
            rule: None,
            remember: Remember::Never,
            choices: Vec::new(),
            again: false,
        }
    }

    /// Policy forbids it.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny {
            reason: reason.into(),
            rule: None,
        }
    }

    /// Turns a verdict about a call that is otherwise fine into what was found.
    #[must_use]
    pub fn from_verdict(verdict: Verdict, class: ToolClass) -> Self {
        match verdict {
            Verdict::Allow => Self::run(class),
            Verdict::Ask {
                reason,
                causes,
                rule,
                remember,
            } => Self::Ask {
                class,
                untrusted: false,
                reason,
                causes,
                rule,
                remember,
                choices: Vec::new(),
                again: false,
            },
            Verdict::Deny { reason, rule } => Self::Deny { reason, rule },
        }
    }

    /// Says that the call's result will be untrusted content.
    #[must_use]
    pub fn bringing_untrusted(mut self) -> Self {
        if let Self::Run { untrusted, .. } | Self::Ask { untrusted, .. } = &mut self {
            *untrusted = true;
        }
        self
    }

    /// Says that an approval which is on record does not count, where a person has to approve the call.
    #[must_use]
    pub fn asking_again(mut self) -> Self {
        if let Self::Ask { again, .. } = &mut self {
            *again = true;
        }
        self
    }
}
