//! The tools that requests contain.

use neuraxis_core::{Effect, Hook, Opening, Step, ToolSpec};

use super::super::world::World;

/// The tools in an agent's requests only grow, at the end, and never beyond what the agent has. Each request contains
/// exactly these tools, or none, unless a hook selected among them.
pub(super) fn grow_at_their_end_and_hold_nothing_else(world: &World, step: &Step) {
    for (agent, before) in &world.offered {
        let now = world.tree.offered_tools(*agent);
        assert!(now.starts_with(before), "{before:#?} became {now:#?}");
        assert!(is_part(now, &world.spec_of(*agent).tools));
    }
    for effect in &step.effects {
        let Effect::CallModel(call) = effect else {
            continue;
        };
        let sent = &call.request.tools;
        let spec = world.spec_of(call.agent);
        assert!(is_part(sent, &spec.tools));
        let is_chosen = spec.profile.hooks.contains(&Hook::ToolsSelected);
        let gathers = matches!(spec.profile.opening, Opening::Gather { .. });
        if sent.is_empty() || gathers {
            continue;
        }
        let offered = world.tree.offered_tools(call.agent);
        assert!(is_part(sent, offered));
        assert!(is_chosen || **sent == *offered, "{sent:#?}");
    }
}

fn is_part(some: &[ToolSpec], all: &[ToolSpec]) -> bool {
    some.iter().all(|tool| all.contains(tool))
}
