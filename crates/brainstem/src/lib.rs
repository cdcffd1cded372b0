//! Governance: what a request may do and whether a call may run.
//!
//! **For** anyone who wants to know, or to change, what Neuraxis allows. A [`Policy`] turns a [`Request`] (its mode,
//! channel and plan, and the available tools) into a [`Decision`](neuraxis_core::Decision): the role that serves, the
//! tools on offer, the limits, and the reasons. Then it judges each [`Call`] with a
//! [`Verdict`](neuraxis_core::Verdict). The policy itself is one readable document, [`PolicyConfig::built_in_text`]; a
//! deployment overrides single keys of it.
//!
//! In addition, [`Policy::tightened`] applies the layer of a key, a session or an agent; [`narrow_sub_agent`] keeps
//! sub-agents within the limits of a decision and of their parent; [`Policy::with_agents`] adds agents that a program
//! defines; [`Policy::remember`] stores what users allowed; [`Policy::taint`] tracks untrusted content;
//! [`Policy::observe`] and [`Policy::serving`] follow the health of models; and [`Policy::cost`] prices their use.
//!
//! **Not for** carrying anything out: this crate runs no tools, asks no users, reads no files and does not know the
//! time. The same policy and request always give the same decision. The engine checks whether arguments fit a tool's
//! schema.
//!
//! ```
//! use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
//! use neuraxis_core::{Channel, JsonText, Mode, Role, ToolAnnotations, ToolClass, ToolKind, ToolSpec, Verdict};
//!
//! // A deployment gives runs a little more time than the built-in policy does, and adds its own channel.
//! let policy = Policy::layered(PolicyConfig::from_toml(
//!     r#"
//!     [modes.moderate]
//!     deadline = "5m"
//!
//!     [channels.support]
//!     role = "reasoning"
//!     tools = ["order_*"]
//!     "#,
//! )?)?;
//!
//! let tools = [ToolSpec {
//!     name: "order_cancel".parse()?,
//!     description: "Cancels an order.".into(),
//!     parameters: JsonText::from_text(r#"{"type":"object"}"#),
//!     class: ToolClass::Irreversible,
//!     annotations: ToolAnnotations::default(),
//!     kind: ToolKind::Server,
//!     non_iterative: false,
//!     timeout: None,
//! }];
//! let channel = Channel::new("support");
//! let request = Request::new(&Mode::MODERATE, &channel, "Please cancel my order.").with_tools(&tools);
//! let decision = policy.evaluate_request(&request)?;
//! assert_eq!(decision.role, Role::REASONING);
//! assert_eq!(decision.limits.max_turns, Some(10));
//!
//! let arguments = JsonText::from_text(r#"{"order": 7}"#);
//! let verdict = policy.judge(&decision, &Call::new(&tools[0], &arguments));
//! let Verdict::Ask { reason, .. } = verdict else { panic!("moderate mode asks first") };
//! assert_eq!(
//!     reason,
//!     "Mode moderate asks before order_cancel runs, because it may change something permanently."
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agents;
mod budget;
mod cases;
mod catalog;
mod cautions;
mod config;
mod decide;
mod error;
mod files;
mod health;
mod judge;
mod layers;
mod names;
mod narrow;
mod outlook;
mod policy;
mod price_list;
mod prices;
mod remembered;
mod request;
mod rule_allowing;
mod rules;
mod trust;

pub use agents::AgentDefinition;
pub use cases::{CaseFailure, CaseFile, CaseReport};
pub use config::{
    AgentConfig, AnswerConfig, BudgetConfig, ChannelConfig, ChannelModeConfig, Clarify,
    CompactionConfig, DataConfig, EscalationConfig, ExampleConfig, GatherConfig, HealthConfig,
    ModeConfig, NoCallsConfig, OpeningConfig, Origins, Permission, PlanConfig, PolicyConfig,
    PriceConfig, RemindConfig, RepeatsConfig, ResultConfig, RuleConfig, SelfChecks, SourceLine,
    SummarizeConfig, TaintConfig, ToolAnswersConfig, TrustConfig, UnlistedTools,
};
pub use error::PolicyError;
pub use files::{files_named, works_on_files};
pub use health::{CallOutcome, DegradedRole, Health, Serving};
pub use judge::{Judgment, ReasonCache};
pub use layers::LayerKind;
pub use names::nearest;
pub use narrow::narrow_sub_agent;
pub use neuraxis_core::{Grant, GrantScope, Grants};
pub use outlook::Outlook;
pub use policy::Policy;
pub use price_list::PriceList;
pub use remembered::GrantError;
pub use request::{Call, Refusal, Request};
pub use rule_allowing::rule_allowing;
pub use rules::{RuleCall, RuleFunction};
pub use trust::{note_taint, reaches_out};
