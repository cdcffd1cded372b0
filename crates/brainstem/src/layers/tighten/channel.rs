//! Checks that a layer's settings for a channel loosen nothing.

use std::collections::BTreeMap;

use neuraxis_core::Mode;

use super::faults::Faults;
use super::{LayerKind, check_limits};
use crate::config::{
    ChannelConfig, ChannelModeConfig, DataConfig, EscalationConfig, SelfChecks, UnlistedTools,
    besides_limits,
};

pub(super) fn check(
    faults: &Faults,
    kind: LayerKind,
    at: &str,
    given: &ChannelConfig,
    base: &ChannelConfig,
) {
    let besides_limits!(ChannelConfig {
        role,
        simple_role,
        complex_from,
        router,
        clarify,
        self_check,
        escalate,
        data,
        agent,
        tools,
        unlisted_tools,
        allowed_modes,
        system_prompt,
        opening,
        when,
    }) = given;
    check_limits(faults, at, given.limits(), base.limits());
    faults.same(at, "role", role, &base.role);
    faults.same(at, "simple_role", simple_role, &base.simple_role);
    faults.same(at, "complex_from", complex_from, &base.complex_from);
    faults.same(at, "router", router, &base.router);
    faults.same(at, "clarify", clarify, &base.clarify);
    faults.same(at, "agent", agent, &base.agent);
    faults.same(at, "system_prompt", system_prompt, &base.system_prompt);
    faults.same(at, "opening", opening, &base.opening);
    if *escalate != EscalationConfig::default() && *escalate != base.escalate {
        faults.add(&format!("{at}.escalate"), "only a deployment may set it");
    }
    if self_check.is_some_and(|given| given < base.self_check.unwrap_or(SelfChecks::Never)) {
        faults.add(&format!("{at}.self_check"), "it leaves drafts unchecked");
    }
    check_data(faults, kind, &format!("{at}.data"), data, &base.data);
    faults.fewer_tools(at, tools.as_ref(), base.tools.as_ref());
    check_unlisted(faults, at, *unlisted_tools, base.unlisted_tools);
    let modes_above = base.allowed_modes.as_ref();
    let added = allowed_modes
        .iter()
        .flatten()
        .find(|mode| modes_above.is_some_and(|modes| !modes.contains(mode)));
    if let Some(added) = added {
        faults.add(
            &format!("{at}.allowed_modes"),
            format!("it adds \"{added}\""),
        );
    }
    check_exceptions(faults, at, when, base);
}

fn check_exceptions(
    faults: &Faults,
    at: &str,
    given: &BTreeMap<Mode, ChannelModeConfig>,
    base: &ChannelConfig,
) {
    for (mode, exception) in given {
        let at = format!("{at}.when.{mode}");
        let ChannelModeConfig {
            roles,
            tools,
            unlisted_tools,
        } = exception;
        let above = base.when.get(mode);
        let tools_above = above
            .and_then(|above| above.tools.as_ref())
            .or(base.tools.as_ref());
        let unlisted_above = above
            .and_then(|above| above.unlisted_tools)
            .or(base.unlisted_tools);
        faults.fewer_tools(&at, tools.as_ref(), tools_above);
        check_unlisted(faults, &at, *unlisted_tools, unlisted_above);
        match above.and_then(|above| above.roles.as_ref()) {
            Some(roles_above) => faults.fewer_roles(&at, roles.as_ref(), Some(roles_above)),
            None if roles.is_some() => {
                faults.add(&format!("{at}.roles"), "only a deployment may set it");
            }
            None => {}
        }
    }
}

fn check_unlisted(
    faults: &Faults,
    at: &str,
    given: Option<UnlistedTools>,
    base: Option<UnlistedTools>,
) {
    let offers = given == Some(UnlistedTools::Offered);
    if offers && base.unwrap_or_default() == UnlistedTools::Withheld {
        faults.add(
            &format!("{at}.unlisted_tools"),
            "it offers tools that were withheld",
        );
    }
}

/// Storing less is tighter, but an untrusted file may not do it: its author may have something to hide.
pub(super) fn check_data(
    faults: &Faults,
    kind: LayerKind,
    at: &str,
    given: &DataConfig,
    base: &DataConfig,
) {
    let DataConfig {
        text,
        tool_calls,
        tool_results,
        reasoning,
    } = given;
    let kinds = [
        ("text", text, base.text),
        ("tool_calls", tool_calls, base.tool_calls),
        ("tool_results", tool_results, base.tool_results),
        ("reasoning", reasoning, base.reasoning),
    ];
    for (key, given, base) in kinds {
        if *given == Some(true) && base == Some(false) {
            faults.add(&format!("{at}.{key}"), "it stores what must not be stored");
        }
        if kind == LayerKind::Project && *given == Some(false) && base != Some(false) {
            faults.add(
                &format!("{at}.{key}"),
                "it does not store what must be stored",
            );
        }
    }
}
