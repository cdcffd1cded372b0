//! Checks that a layer's settings for an agent loosen nothing.

use neuraxis_core::{AgentName, Profile};

use super::channel::check_data;
use super::faults::Faults;
use super::{LayerKind, check_limits};
use crate::config::{AgentConfig, Layered, besides_limits};

pub(super) fn check(
    faults: &Faults,
    kind: LayerKind,
    at: &str,
    given: &AgentConfig,
    base: &AgentConfig,
) {
    let besides_limits!(AgentConfig {
        instructions: _,
        description: _,
        role: _,
        temperature: _,
        max_output_tokens,
        tools,
        agents,
        tool_name: _,
        fan_out: _,
        opening: _,
        parallel: _,
        unknown_tool: _,
        stop_on_error: _,
        limit_reached: _,
        no_calls: _,
        offer: _,
        tool_choice: _,
        first_role: _,
        after_calls_role: _,
        stop_after: _,
        results,
        lenient_arguments: _,
        digest_after: _,
        citations: _,
        compaction: _,
        repeats,
        usage: _,
        answer,
        data,
        parallel_agents,
        tool_retries,
        context_tokens,
    }) = given;
    check_limits(faults, at, given.limits(), base.limits());
    let default = Profile::named("").parallel_agents;
    let agents_above = base.parallel_agents.or(Some(default));
    faults.at_most(
        at,
        "max_output_tokens",
        *max_output_tokens,
        base.max_output_tokens,
    );
    faults.at_most(at, "parallel_agents", *parallel_agents, agents_above);
    faults.at_most(at, "tool_retries", *tool_retries, base.tool_retries);
    faults.at_most(at, "context_tokens", *context_tokens, base.context_tokens);
    // If omitted, an agent uses all tools on offer.
    if base.tools.is_some() {
        faults.fewer_tools(at, tools.as_ref(), base.tools.as_ref());
    }
    check_agents(faults, at, agents.as_ref(), base.agents.as_ref());
    check_data(faults, kind, &format!("{at}.data"), data, &base.data);
    check_conduct(faults, at, given, base);
    if !results.is_empty() && *results != base.results {
        faults.add(&format!("{at}.results"), "only a deployment may set it");
    }
    if !answer.is_unset() && *answer != base.answer {
        faults.add(&format!("{at}.answer"), "only a deployment may set it");
    }
    let repeats_above = &base.repeats;
    let same = |given: Option<u32>, base: Option<u32>| given.is_none() || given == base;
    if !same(repeats.warn, repeats_above.warn) || !same(repeats.stop, repeats_above.stop) {
        faults.add(&format!("{at}.repeats"), "only a deployment may set it");
    }
}

/// An agent's instructions, role and behavior are neither tighter nor looser, so a layer may only repeat them.
fn check_conduct(faults: &Faults, at: &str, given: &AgentConfig, base: &AgentConfig) {
    macro_rules! same {
        ($($field:ident),*) => {
            $(faults.same(at, stringify!($field), &given.$field, &base.$field);)*
        };
    }
    same!(
        instructions,
        description,
        role,
        temperature,
        tool_name,
        fan_out,
        opening,
        usage,
        parallel,
        unknown_tool,
        stop_on_error,
        limit_reached,
        no_calls,
        offer,
        tool_choice,
        first_role,
        after_calls_role,
        stop_after,
        lenient_arguments,
        digest_after,
        citations,
        compaction
    );
}

fn check_agents(
    faults: &Faults,
    at: &str,
    given: Option<&Vec<AgentName>>,
    base: Option<&Vec<AgentName>>,
) {
    let above = base.map(Vec::as_slice).unwrap_or_default();
    let added = given
        .into_iter()
        .flatten()
        .find(|agent| !above.contains(agent));
    if let Some(added) = added {
        let name = crate::names::shown(added.as_str());
        faults.add(&format!("{at}.agents"), format!("it adds \"{name}\""));
    }
}
