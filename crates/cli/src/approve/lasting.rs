//! Decisions that outlast one answer: why nothing can be remembered, and the rule that would allow such calls.

use std::path::Path;
use std::sync::Arc;

use neuraxis::brainstem::{self, Call};
use neuraxis::core::{AskCause, GrantScope, JsonText, Record, RecordBody, ToolCallId, ToolSpec};

use super::show::{ApprovalView, ArgumentSource};
use crate::harmless::reveal_invisible;
use crate::wrap::broken;

/// Returns the causes of the question about a call, from its record.
pub(crate) fn causes(records: &[Arc<Record>], call: &ToolCallId) -> Vec<AskCause> {
    let asked = records.iter().rev().find_map(|record| match &record.body {
        RecordBody::ApprovalRequested(asked) if asked.tool_call_id == *call => Some(asked),
        _ => None,
    });
    asked.map_or_else(Vec::new, |asked| asked.causes.clone())
}

/// Returns the rule that would allow calls like this one, if a rule can express that and can lift every cause of the
/// question.
pub(super) fn rule_allowing(
    spec: &ToolSpec,
    arguments: &JsonText,
    causes: &[AskCause],
    project: &Path,
) -> Option<String> {
    if causes != [AskCause::Mode] {
        return None;
    }
    let root = project.display().to_string();
    brainstem::rule_allowing(&Call::new(spec, arguments).with_root(&root))
}

/// Returns the calls that an answer can allow in the project folder from now on, and the rule for them. These are calls
/// that can also be allowed for the rest of the session, if rules can be stored.
pub(super) fn folder_rule(view: &ApprovalView) -> Option<(GrantScope, String)> {
    let rule = view
        .rule_allowing
        .clone()
        .filter(|_| view.can_store_rules)?;
    let can_be_written_as_rule = |scope: &&GrantScope| {
        matches!(
            scope,
            GrantScope::Command { .. } | GrantScope::Host { .. } | GrantScope::Path { .. }
        )
    };
    let scope = view.scopes.iter().find(can_be_written_as_rule)?;
    Some((scope.clone(), rule))
}

/// Returns why no answer can be remembered, if none can and the reason is known.
pub(super) fn why_not_rememberable(view: &ApprovalView, columns: usize) -> String {
    if view.origin != ArgumentSource::Model || !view.scopes.is_empty() {
        return String::new();
    }
    let asks = |cause| view.causes.contains(&cause);
    let why = if asks(AskCause::UntrustedContent) {
        "while the conversation contains untrusted content, you are asked about each such call"
    } else if asks(AskCause::UnclearRule) {
        "what this call does cannot be determined for certain"
    } else if asks(AskCause::Rule) {
        "the rule asks about each of these calls"
    } else if asks(AskCause::Layer) || (asks(AskCause::Mode) && !view.reaches_out) {
        "the mode does not remember answers about such calls"
    } else if asks(AskCause::Mode) {
        "it brings in untrusted content, after which you are asked about such calls again"
    } else {
        return String::new();
    };
    broken(
        &format!("(no answer can be remembered: {why})"),
        columns,
        " ",
    ) + "\n"
}

/// Shows the rule that would allow a call, to be copied, so its lines are not wrapped here.
pub(super) fn rule(view: &ApprovalView, columns: usize) -> String {
    let rule = view.rule_allowing.as_deref().unwrap_or_default();
    let rule = reveal_invisible(rule);
    let how = "In your configuration (neuraxis.toml in its folder, or the file given by --config), this rule lets calls like this one run without asking, in all projects (`neuraxis help rules`):";
    format!("{}\n\n{rule}\n", broken(how, columns, ""))
}

#[cfg(test)]
mod tests {
    use super::super::dialog::{Answer, Postponing, Terms, ask};
    use super::super::tests::{Scripted, asking, described};
    use super::*;

    fn asked_because_of(causes: &[AskCause]) -> ApprovalView {
        let mut view = described(
            &asking("run_command", r#"{"command":"cargo test -p x"}"#),
            Path::new("/"),
        );
        view.annotations.open_world = false;
        view.causes = causes.to_vec();
        view
    }

    #[test]
    fn the_reason_is_shown_when_no_answer_can_be_remembered() {
        for (causes, expected) in [
            (
                &[AskCause::Mode, AskCause::UntrustedContent][..],
                "untrusted content",
            ),
            (&[AskCause::Mode, AskCause::Rule], "the rule asks"),
            (&[AskCause::UnclearRule], "cannot be determined for certain"),
            (&[AskCause::Mode], "the mode does not remember"),
        ] {
            let why = why_not_rememberable(&asked_because_of(causes), 200);
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(why_not_rememberable(&asked_because_of(&[]), 80), "");
        for line in
            why_not_rememberable(&asked_because_of(&[AskCause::UntrustedContent]), 40).lines()
        {
            assert!(line.len() <= 40, "{line}");
        }
    }

    #[test]
    fn the_rule_allowing_a_call_is_shown_in_full_and_not_applied_by_showing_it() {
        let mut view = asked_because_of(&[AskCause::Mode]);
        view.rule_allowing = Some("[rules.allow-cargo-test]\nanswer = \"allow\"\n".to_owned());
        let mut console = Scripted::new(["r", "n", ""]);
        let answer = ask(&view, &Terms::alone(Postponing::NotOffered), &mut console).unwrap();
        assert_eq!(answer, Answer::Deny(None));
        let rule = "\n[rules.allow-cargo-test]\nanswer = \"allow\"\n";
        assert!(console.screen.contains(rule), "{}", console.screen);
    }

    #[test]
    fn no_rule_is_proposed_when_none_would_allow_the_call() {
        let asked = asking("run_command", r#"{"command":"cargo test -p x"}"#);
        let spec = ToolSpec::new("run_command".parse().unwrap(), "Runs.")
            .parameters(JsonText::from_text("{}"));
        let rule =
            |causes: &[AskCause]| rule_allowing(&spec, &asked.arguments, causes, Path::new("/p"));
        assert!(rule(&[AskCause::Mode]).unwrap().contains("cargo test **"));
        assert_eq!(rule(&[AskCause::Mode, AskCause::UntrustedContent]), None);
        assert_eq!(rule(&[AskCause::Rule]), None);
    }
}
