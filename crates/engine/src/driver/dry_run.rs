//! Spares users decisions about calls that could only fail, such as a patch that does not fit.

use std::time::Duration;

use neuraxis_core::{CallToVet, ToolCallId, ToolClass, ToolName, Vetting};

use crate::catalog::ToolCatalog;
use crate::driver::answered;

/// How long a tool may check a call. If it takes longer, the user is asked about the call anyway: the tool checks again
/// when it runs.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Returns the positions of the calls that would need approval and that may be tried out first.
///
/// A call after one that changes something is not included: it may depend on the changes.
pub(super) fn hopeful<'a>(
    vetted: &'a [Vetting],
    calls: &'a [CallToVet],
) -> impl Iterator<Item = usize> + 'a {
    let changes = |vetting: &Vetting| {
        matches!(
            vetting,
            Vetting::Run { class, .. } | Vetting::Ask { class, .. } if *class != ToolClass::ReadOnly
        )
    };
    let first = vetted.iter().position(changes);
    let before = first.map_or(vetted.len(), |first| first + 1);
    let both = vetted.iter().zip(calls).take(before).enumerate();
    both.filter(|(_, (vetting, call))| {
        matches!(vetting, Vetting::Ask { .. }) && call.approved.is_none()
    })
    .map(|(place, _)| place)
}

/// Tries out calls that would need approval, and refuses those that could only fail. Leaves out calls of the client's
/// own tools: the client runs them, and a tool here of the same name may be another.
pub(super) async fn dry_run(
    catalog: &ToolCatalog,
    calls: &[CallToVet],
    client_calls: &[ToolCallId],
    mut vetted: Vec<Vetting>,
) -> Vec<Vetting> {
    let places: Vec<usize> = hopeful(&vetted, calls).collect();
    for place in places {
        let (Some(vetting), Some(call)) = (vetted.get_mut(place), calls.get(place)) else {
            continue;
        };
        if client_calls.contains(&call.tool_call_id) {
            continue;
        }
        let name: Option<ToolName> = call.name.parse().ok();
        let Some(tool) = name.and_then(|name| catalog.tool(&name)) else {
            continue;
        };
        // Called inside `answered`: a tool may panic before it returns a future.
        let looked = answered(async { tool.dry_run(&call.arguments).await });
        match tokio::time::timeout(MAX_TIME, looked).await {
            Ok(Some(Err(error))) => {
                let message = error.message;
                *vetting = Vetting::Invalid { message };
            }
            Ok(Some(Ok(()))) => {}
            Ok(None) | Err(_) => {
                tracing::warn!(call = %call.tool_call_id, "the dry run of a call crashed or took too long; approval is requested without it");
            }
        }
    }
    vetted
}
