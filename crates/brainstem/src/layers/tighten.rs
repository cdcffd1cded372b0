//! Checks key by key that a layer loosens nothing. Every section is destructured in full here, so that a new key cannot
//! be forgotten.

mod agent;
mod channel;
mod faults;

use neuraxis_core::{AgentLimits, BudgetMeasure, Limits, Remember};

use super::LayerKind;
use crate::config::{
    BudgetConfig, HealthConfig, ModeConfig, PartialLimits, Permission, PlanConfig, PolicyConfig,
    RuleConfig, TaintConfig, ToolAnswersConfig, besides_limits,
};
use crate::error::PolicyError;
use crate::policy::Policy;
use faults::Faults;

/// Returns an error for each key that would loosen something.
pub(super) fn check(policy: &Policy, kind: LayerKind, layer: &PolicyConfig) -> Vec<PolicyError> {
    let PolicyConfig {
        modes,
        channels,
        agents,
        plans,
        rules,
        trust,
        taint,
        health,
        prices,
        extra_roles: _,
        listed_tools: _,
        origins,
    } = layer;
    let base = &policy.config;
    let faults = Faults::default();
    for (name, mode) in modes {
        let at = format!("modes.{name}");
        match base.modes.get(name) {
            Some(base) => check_mode(&faults, &at, mode, base),
            None => faults.add(&at, "it adds a mode"),
        }
    }
    for (name, channel) in channels {
        let at = format!("channels.{name}");
        match base.channels.get(name) {
            Some(base) => channel::check(&faults, kind, &at, channel, base),
            None => faults.add(&at, "it adds a channel"),
        }
    }
    for (name, agent) in agents {
        let at = format!("agents.{name}");
        match base.agents.get(name) {
            Some(base) => agent::check(&faults, kind, &at, agent, base),
            None => faults.add(&at, "it adds an agent"),
        }
    }
    for (name, plan) in plans {
        let default = PlanConfig::default();
        check_plan(
            &faults,
            &format!("plans.{name}"),
            plan,
            base.plans.get(name).unwrap_or(&default),
        );
    }
    for (name, rule) in rules {
        check_rule(
            &faults,
            &format!("rules.{name}"),
            rule,
            base.rules.get(name),
        );
    }
    for name in trust.keys() {
        faults.add(&format!("trust.{name}"), "it sets which tools are trusted");
    }
    check_taint(&faults, taint, &base.taint);
    if *health != HealthConfig::default() {
        faults.add("health", "only a deployment may set it");
    }
    for name in prices.keys() {
        faults.add(
            &format!("prices.\"{name}\""),
            "it changes the costs that budgets count",
        );
    }
    let loosens = |(at, how): (String, String)| PolicyError::Loosens {
        layer: kind.name(),
        place: origins.of(&at).cloned(),
        at,
        how,
    };
    faults.all().into_iter().map(loosens).collect()
}

/// Checks the limits that a section sets for runs. If nothing above sets them, the loop's defaults apply, and a higher
/// value would loosen those.
fn check_limits(faults: &Faults, at: &str, given: PartialLimits, base: PartialLimits) {
    let default = Limits::default();
    let base = PartialLimits {
        max_turns: base.max_turns.or(default.max_turns),
        tool_timeout: base.tool_timeout.or(Some(default.tool_timeout)),
        ..base
    };
    check_each_limit(faults, at, given, base);
    check_agent_limits(faults, at, given, base);
}

fn check_each_limit(faults: &Faults, at: &str, given: PartialLimits, base: PartialLimits) {
    let PartialLimits {
        max_turns,
        max_tool_calls,
        max_tokens,
        max_cost,
        deadline,
        tool_timeout,
        max_agents: _,
        max_agent_depth: _,
    } = given;
    faults.at_most(at, "max_turns", max_turns, base.max_turns);
    faults.at_most(at, "max_tool_calls", max_tool_calls, base.max_tool_calls);
    faults.at_most(at, "max_tokens", max_tokens, base.max_tokens);
    faults.at_most(at, "max_cost_micro_usd", max_cost, base.max_cost);
    faults.at_most(at, "deadline", deadline, base.deadline);
    faults.at_most(at, "tool_timeout", tool_timeout, base.tool_timeout);
}

fn check_agent_limits(faults: &Faults, at: &str, given: PartialLimits, base: PartialLimits) {
    let default = AgentLimits::default();
    let agents = base.max_agents.or(Some(default.total));
    faults.at_most(at, "max_agents", given.max_agents, agents);
    let depth = base.max_agent_depth.or(Some(default.depth));
    faults.at_most(at, "max_agent_depth", given.max_agent_depth, depth);
}

fn check_mode(faults: &Faults, at: &str, given: &ModeConfig, base: &ModeConfig) {
    let besides_limits!(ModeConfig {
        roles,
        temperature,
        max_output_tokens,
        tools,
        after_untrusted,
        remember,
        approval_expires,
        tool_retries,
    }) = given;
    check_limits(faults, at, given.limits(), base.limits());
    faults.fewer_roles(at, roles.as_ref(), base.roles.as_ref());
    faults.at_most(at, "temperature", *temperature, base.temperature);
    faults.at_most(
        at,
        "max_output_tokens",
        *max_output_tokens,
        base.max_output_tokens,
    );
    check_answers(faults, &format!("{at}.tools"), tools, &base.tools);
    stricter(
        faults,
        &format!("{at}.after_untrusted"),
        *after_untrusted,
        base.after_untrusted.unwrap_or(Permission::Ask),
    );
    if remember.is_some_and(|given| given > base.remember.unwrap_or(Remember::Never)) {
        faults.add(&format!("{at}.remember"), "it allows more to be remembered");
    }
    faults.at_most(
        at,
        "approval_expires",
        *approval_expires,
        base.approval_expires,
    );
    // The default is one.
    let retries = base.tool_retries.or(Some(1));
    faults.at_most(at, "tool_retries", *tool_retries, retries);
}

fn check_answers(faults: &Faults, at: &str, given: &ToolAnswersConfig, base: &ToolAnswersConfig) {
    let ToolAnswersConfig {
        read_only,
        idempotent,
        irreversible,
        open_world,
        destructive,
    } = given;
    let answers = [
        ("read_only", read_only, base.read_only),
        ("idempotent", idempotent, base.idempotent),
        ("irreversible", irreversible, base.irreversible),
        ("open_world", open_world, base.open_world),
        ("destructive", destructive, base.destructive),
    ];
    for (key, given, base) in answers {
        stricter(
            faults,
            &format!("{at}.{key}"),
            *given,
            base.unwrap_or(Permission::Deny),
        );
    }
}

fn stricter(faults: &Faults, at: &str, given: Option<Permission>, base: Permission) {
    if let Some(given) = given.filter(|given| *given < base) {
        faults.add(
            at,
            format!("it turns \"{}\" into \"{}\"", base.name(), given.name()),
        );
    }
}

fn check_plan(faults: &Faults, at: &str, given: &PlanConfig, base: &PlanConfig) {
    let besides_limits!(PlanConfig { session, day }) = given;
    check_agent_limits(faults, at, given.limits(), base.limits());
    // The tighter of a plan and another limit always applies, so setting a limit where none was set also tightens.
    check_each_limit(faults, at, given.limits(), base.limits());
    check_budget(faults, &format!("{at}.session"), session, &base.session);
    check_budget(faults, &format!("{at}.day"), day, &base.day);
}

fn check_budget(faults: &Faults, at: &str, given: &BudgetConfig, base: &BudgetConfig) {
    let (given, base) = (given.limits(), base.limits());
    for measure in BudgetMeasure::ALL {
        let (key, _) = BudgetConfig::key(measure);
        faults.at_most(at, key, given.most(measure), base.most(measure));
    }
}

fn check_rule(faults: &Faults, at: &str, given: &RuleConfig, base: Option<&RuleConfig>) {
    if base.is_some() {
        faults.add(at, "it would change an existing rule; use another name");
    }
    if given.when.is_some() {
        let why = "a layer cannot name functions of the program";
        faults.add(&format!("{at}.when"), why);
    }
    if given.answer == Some(Permission::Allow) {
        faults.add(
            &format!("{at}.answer"),
            "a rule in a layer may ask or deny, not allow",
        );
    }
}

fn check_taint(faults: &Faults, given: &TaintConfig, base: &TaintConfig) {
    let TaintConfig { tools } = given;
    let Some(tools) = tools else { return };
    let above = base.tools.iter().flatten();
    if let Some(gone) = above.into_iter().find(|pattern| !tools.contains(pattern)) {
        let how = format!("it no longer lists \"{}\"", crate::names::shown(gone));
        faults.add("taint.tools", how);
    }
}
