//! References to items, which a client may send because responses are stored. They are replaced by the items, so the
//! conversation is the same as from a client that sends all of it.

use std::collections::{BTreeMap, BTreeSet};

use neuraxis::Orchestrator;
use neuraxis::core::{RunId, with_causes};
use serde_json::{from_str, to_string};

use super::input::Item;
use super::items::may_be_discarded;
use super::stored_response;
use crate::attached::MAX_BODY_BYTES;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::refusal::internal;

/// The prefix of the ids of thoughts. They are not sent to a model again.
const OF_THOUGHTS: &str = "rs_";

/// The prefix of the ids of messages.
const OF_MESSAGES: &str = "msg_";

/// The maximum number of responses whose items a request may refer to: each is rebuilt from all records of its run.
const MAX_RESPONSES: usize = 500;

/// The maximum length of an id that an error repeats, in characters.
const MAX_REPEATED_CHARS: usize = 64;

/// References, each with its index, by the run of the item that they refer to.
type Named<'a> = BTreeMap<RunId, Vec<(usize, &'a mut Item)>>;

/// Replaces references by their items. References into the run that continues are left, because its session holds those
/// items.
pub(super) async fn look_up(
    items: &mut [Item],
    continued: Option<RunId>,
    orchestrator: &Orchestrator,
    caller: &Caller,
) -> Result<(), Problem> {
    let mut bytes: usize = 0;
    for (run, named) in by_run(items, continued)? {
        let response = stored_response(orchestrator, caller, run).await?;
        for (at, item) in named {
            let id = item.named().unwrap_or_default();
            let response = response.as_ref().ok_or_else(|| unknown(at, id))?;
            let found = match response.item(id) {
                Some(found) => found,
                // A message that was sent and later discarded.
                None if id.starts_with(OF_MESSAGES) && may_be_discarded(id, response.count()) => {
                    continue;
                }
                None => return Err(unknown(at, id)),
            };
            // Items are sent in a form that can also be received.
            let sent = to_string(found).map_err(|error| internal(&with_causes(&error)))?;
            bytes = bytes.saturating_add(sent.len());
            if bytes > MAX_BODY_BYTES {
                let why = format!(
                    "with this item, the referenced items exceed {MAX_BODY_BYTES} bytes in total, the limit for a body"
                );
                return Err(Problem::invalid(&format!("input[{at}].id"), why));
            }
            *item = from_str(&sent).map_err(|error| internal(&with_causes(&error)))?;
        }
    }
    Ok(())
}

/// Returns the runs that items belong to, both referenced ones and those that a client sends back in full.
pub(super) fn runs_of(items: &[Item]) -> BTreeSet<RunId> {
    let ids = items.iter().filter_map(Item::id);
    ids.filter_map(run_of).collect()
}

/// Groups the references by run, except those into the run that continues.
fn by_run(items: &mut [Item], continued: Option<RunId>) -> Result<Named<'_>, Problem> {
    let mut runs = Named::new();
    for (at, item) in items.iter_mut().enumerate() {
        let Some(id) = item.named().filter(|id| !id.starts_with(OF_THOUGHTS)) else {
            continue;
        };
        let run = run_of(id).ok_or_else(|| unknown(at, id))?;
        if continued != Some(run) {
            runs.entry(run).or_default().push((at, item));
        }
    }
    if runs.len() > MAX_RESPONSES {
        let why = format!(
            "references items of {} responses; at most {MAX_RESPONSES} are allowed; send the items whole, \
             or use previous_response_id",
            runs.len()
        );
        return Err(Problem::invalid("input", why));
    }
    Ok(runs)
}

/// Returns the run that an item belongs to.
fn run_of(id: &str) -> Option<RunId> {
    let (_, id) = id.split_once('_')?;
    let (run, _) = id.split_once('_')?;
    run.parse().ok().map(RunId)
}

fn unknown(at: usize, id: &str) -> Problem {
    let id: String = id.chars().take(MAX_REPEATED_CHARS).collect();
    let why = format!("no such item: {id:?}; send it whole");
    Problem::invalid(&format!("input[{at}].id"), why)
}
