//! The result of checking tool calls before they run.

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
    /// The results, in the order of the calls. The first record after a reply covers all of its calls that have no
    /// result yet; a later one covers calls that are checked again, such as after a decision. A user is asked only if
    /// `approval_requested` follows, since an approved call is also recorded as `ask`.
    pub calls: Vec<Vetting>,
    /// What users allowed for the session with their answers to these calls; it applies from this record on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Grant>,
    /// What the program's hooks said about these calls before the check; calls that no hook was asked about are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advised: Vec<AdvisedCall>,
}

impl Vetted {
    /// Creates the results of a check, with nothing allowed for the session.
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

/// The result of checking one call.
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
        /// The reason; `None` if no governance applies to the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
        /// The rule that allows it; `None` if a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// The remembered user answer that allows it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<u32>,
    },
    /// The arguments are not JSON or do not conform to the schema.
    Invalid {
        /// The location in the arguments and the problem there, for the model.
        message: String,
    },
    /// No such tool exists.
    Unknown,
    /// The tool is not available in this turn.
    Disabled,
    /// A user must approve it.
    Ask {
        /// What it may change, once approved.
        class: ToolClass,
        /// Its result will be untrusted content.
        #[serde(default, skip_serializing_if = "is_default")]
        untrusted: bool,
        /// The reason, for users.
        reason: String,
        /// The reasons, for programs: what requires the approval, each kind once; empty if unknown.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<AskCause>,
        /// The rule that requires it; `None` if a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// How much of the answer may be remembered for the session.
        #[serde(default, skip_serializing_if = "is_default")]
        remember: Remember,
        /// What the user may be offered to remember, narrowest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<GrantScope>,
        /// The approval on record does not count, because the checker cannot verify that it was given here.
        #[serde(default, skip_serializing_if = "is_default")]
        again: bool,
    },
    /// Policy forbids it.
    Deny {
        /// The sentence that the model reads instead of a result.
        reason: String,
        /// The rule that denies it; `None` if a mode does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
    },
}

impl Vetting {
    /// The call may run, with no reason given.
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

    /// A user must approve the call, every time.
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

    /// The policy forbids the call.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny {
            reason: reason.into(),
            rule: None,
        }
    }

    /// Converts the verdict on an otherwise valid call to the result of its check.
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

    /// Marks the call's result as untrusted content.
    #[must_use]
    pub fn bringing_untrusted(mut self) -> Self {
        if let Self::Run { untrusted, .. } | Self::Ask { untrusted, .. } = &mut self {
            *untrusted = true;
        }
        self
    }

    /// Marks an approval on record as not counting, if a user must approve the call.
    #[must_use]
    pub fn asking_again(mut self) -> Self {
        if let Self::Ask { again, .. } = &mut self {
            *again = true;
        }
        self
    }
}
