//! The notice about a run that waits. The protocol has no field for it, so the answer says it in a sentence.
//!
//! Nothing is decided here: decisions are made through the server's own API or its page. The notice is read by people in
//! a chat, who can use no address of that API: programs find the ids for it in `neuraxis` beside the answer. The command
//! line is not mentioned, although it can decide too: it would resume the run with the command's configuration instead of
//! the server's.

use std::fmt::Write as _;
use std::sync::Arc;

use neuraxis::OrchestratorResult;
use neuraxis::core::{PendingKind, Record, ToolKind};
use neuraxis::engine::PendingCall;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::responses::ID;

/// The maximum length of a call's arguments in the notice, in characters. The user who decides sees all of them.
const MAX_ARGUMENT_CHARS: usize = 500;

/// The maximum length of the reason why a decision is needed, in characters.
const MAX_REASON_CHARS: usize = 300;

/// Tells people that nothing happened yet, and whom to ask.
const WHO_DECIDES: &str = "Nothing of this runs until someone who may approve calls has decided, on the server's page or \
     in another program. If you cannot decide, ask the operator of this service.";

/// Returns what a run with these records waits for, who decides about it, and what then happens to the run.
pub(super) fn notice(result: &OrchestratorResult, records: &[Arc<Record>]) -> String {
    let (run, session) = (result.run_id, &result.session_id);
    let mut lines: Vec<String> = result.pending.iter().map(of_call).collect();
    let has_question = result
        .pending
        .iter()
        .any(|call| call.kind == PendingKind::Approval);
    if has_question {
        lines.push(WHO_DECIDES.to_owned());
    }
    // The client no longer listens, so calls cannot be returned to it.
    lines.push(match has_tools_of_client(records) {
        true => format!(
            "Run {run} then continues. Its answer, or its calls of your own tools, will be available at \
             /v1/responses/{ID}{run}; submit the results of such calls in the session {session}."
        ),
        false => {
            format!("Run {run} then continues, and its answer appears in the session {session}.")
        }
    });
    lines.join("\n")
}

/// Returns whether the client runs some of the tools of a run.
fn has_tools_of_client(records: &[Arc<Record>]) -> bool {
    let started = records.first().and_then(|first| first.run_started());
    let mut tools = started.into_iter().flat_map(|it| it.spec.root.tools.iter());
    tools.any(|tool| tool.kind == ToolKind::Client)
}

fn of_call(call: &PendingCall) -> String {
    let (tool, arguments) = (
        &call.name,
        shown(call.arguments.as_str(), MAX_ARGUMENT_CHARS),
    );
    match call.kind {
        PendingKind::Approval => {
            let reason = call.reason.as_deref().unwrap_or_default();
            let reason = match shown(reason, MAX_REASON_CHARS) {
                reason if reason.is_empty() => reason,
                reason => format!(" Reason: {reason}"),
            };
            format!("Waiting for approval of the call {tool} {arguments}.{reason}")
        }
        PendingKind::ClientTool => {
            format!("Waiting for the client to return the result of the call {tool} {arguments}.")
        }
    }
}

/// Renders a text on one line, of at most `most` characters, so that nothing in it hides, moves or reorders the
/// surrounding text: such characters are written as their code.
fn shown(text: &str, most: usize) -> String {
    let mut shown = String::new();
    let mut letters = text.trim().chars();
    for letter in letters.by_ref().take(most) {
        match letter.general_category_group() {
            GeneralCategoryGroup::Other => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "{}", letter.escape_unicode());
            }
            GeneralCategoryGroup::Separator => shown.push(' '),
            _ => shown.push(letter),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_and_reordering_characters_are_escaped_and_long_text_is_cut() {
        let text = "{\"a\": \"x\u{202e}y\u{200b}\u{2028}z\n\"}";
        let told = r#"{"a": "x\u{202e}y\u{200b} z\u{a}"}"#;
        assert_eq!(shown(text, 100), told);
        assert_eq!(shown("abcdef", 3), "abc…");
        assert_eq!(shown(" abc ", 3), "abc");
    }
}
