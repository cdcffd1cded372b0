//! The names of the reasons for which runs end, as records and files of cases have them.

use neuraxis_core::FinishReason;

/// All names there are.
pub(super) const NAMES: [&str; 15] = [
    "stop",
    "max_turns",
    "length",
    "content_filter",
    "refused",
    "unknown_tool",
    "tool_error",
    "budget",
    "deadline",
    "invalid_answer",
    "cancelled",
    "clarify",
    "client_tools",
    "failed",
    "interrupted",
];

/// Returns the name of a reason, without what it holds beside.
pub(crate) const fn name(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::MaxTurns => "max_turns",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Refused => "refused",
        FinishReason::UnknownTool(_) => "unknown_tool",
        FinishReason::ToolError => "tool_error",
        FinishReason::Budget(_) => "budget",
        FinishReason::Deadline => "deadline",
        FinishReason::InvalidAnswer(_) => "invalid_answer",
        FinishReason::Cancelled => "cancelled",
        FinishReason::Clarify => "clarify",
        FinishReason::ClientTools => "client_tools",
        FinishReason::Failed(_) => "failed",
        FinishReason::Interrupted(_) => "interrupted",
        // The enum may grow; a new reason needs a line here and one above.
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::BudgetKind;

    use super::*;

    #[test]
    fn a_reason_has_the_name_that_records_have_for_it() {
        let text = || "x".to_owned();
        let reasons = [
            FinishReason::Stop,
            FinishReason::MaxTurns,
            FinishReason::Length,
            FinishReason::ContentFilter,
            FinishReason::Refused,
            FinishReason::UnknownTool(text()),
            FinishReason::ToolError,
            FinishReason::Budget(BudgetKind::Cost),
            FinishReason::Deadline,
            FinishReason::InvalidAnswer(text()),
            FinishReason::Cancelled,
            FinishReason::Clarify,
            FinishReason::ClientTools,
            FinishReason::Failed(text()),
            FinishReason::Interrupted(text()),
        ];
        for (reason, expected) in reasons.iter().zip(NAMES) {
            let written = serde_json::to_value(reason).unwrap();
            let object = written.as_object().and_then(|object| object.keys().next());
            let recorded = written.as_str().or(object.map(String::as_str));
            assert_eq!((name(reason), recorded), (expected, Some(expected)));
        }
    }
}
