//! A call that needs approval, as a question to the user at the client (elicitation), and how the answer is
//! interpreted.
//!
//! Only the approving answer approves. Anything else that a client may send is a denial.

use neuraxis_core::ApprovalDecision;
use neuraxis_engine::WaitingApproval;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    EnumSchema,
};
use serde_json::Value;

use crate::shown::{laid_out, one_line, quoted};

/// The maximum size of arguments given to a client to show, in bytes: users do not read more before deciding.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

/// The field that holds the answer, followed by the possible answers.
const DECISION: &str = "decision";
const APPROVE: &str = "approve";
const DENY: &str = "deny";

/// The field that holds a reason, which is passed to the model.
const REASON: &str = "reason";

/// Returns whether a client can show a form to its user.
pub(crate) fn can_show_form(client: Option<&ClientCapabilities>) -> bool {
    let elicitation = client.and_then(|client| client.elicitation.as_ref());
    // A client that names no kind supports forms.
    elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

/// Builds the question about a call.
///
/// # Errors
///
/// Returns the decision made without asking, if the question cannot be asked.
pub(crate) fn form(waiting: &WaitingApproval) -> Result<ElicitRequestParams, ApprovalDecision> {
    let request = &waiting.request;
    if let Some(why) = &waiting.altered {
        return Err(denied(format!(
            "the stored question is not the one that was asked: {why}"
        )));
    }
    let arguments = laid_out(request.arguments.as_str());
    if arguments.len() > MAX_SHOWN_BYTES {
        let length = arguments.len();
        return Err(denied(format!(
            "the arguments are too long to be shown for approval ({length} bytes; at most {MAX_SHOWN_BYTES})"
        )));
    }
    let message = format!(
        "Neuraxis asks for your approval: an agent wants to call a tool.\n\nThe tool:\n\n{}\n\nWhy you are asked:\n\n{}\n\n\
         Exactly these arguments:\n\n{arguments}\n\nIt runs only if you approve.",
        quoted(&request.name),
        quoted(&request.reason),
    );
    let decision = EnumSchema::builder(vec![APPROVE.to_owned(), DENY.to_owned()])
        .title("Decision")
        .build();
    let schema = ElicitationSchema::builder()
        .required_enum_schema(DECISION, decision)
        .optional_string_with(REASON, |reason| {
            let what = "If you deny: what the agent should know.";
            reason.title("Reason").description(what).max_length(500)
        })
        .build();
    let requested_schema = schema.map_err(|fault| denied(format!("cannot ask: {fault}")))?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema,
    })
}

/// Interprets an answer.
pub(crate) fn decision(answer: &ElicitResult) -> ApprovalDecision {
    let field = |name: &str| answer.content.as_ref()?.get(name)?.as_str();
    match answer.action {
        ElicitationAction::Accept => match field(DECISION) {
            Some(APPROVE) => ApprovalDecision::APPROVE,
            Some(DENY) => ApprovalDecision::Deny {
                reason: field(REASON)
                    .filter(|reason| !reason.is_empty())
                    .map(one_line),
            },
            _ => denied(format!(
                "the client's answer is neither {APPROVE} nor {DENY}"
            )),
        },
        ElicitationAction::Decline => denied("the user declined".to_owned()),
        // An action that the protocol adds in the future is not an approval either.
        _ => denied("the user dismissed the question".to_owned()),
    }
}

/// Interprets an answer that arrived as arbitrary JSON.
pub(crate) fn decision_in(answer: Value) -> ApprovalDecision {
    match serde_json::from_value(answer) {
        Ok(answer) => decision(&answer),
        Err(_) => denied("the client's answer is invalid".to_owned()),
    }
}

/// Denies, with a reason that the server gives.
pub(crate) fn denied(reason: String) -> ApprovalDecision {
    ApprovalDecision::Deny {
        reason: Some(reason),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_accepted_decision_of_approve_approves() {
        let approval = json!({"action": "accept", "content": {"decision": "approve"}});
        assert_eq!(decision_in(approval), ApprovalDecision::APPROVE);
        for nonsense in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": null}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"decision": true}}),
            json!({"action": "accept", "content": {"decision": "Approve"}}),
            json!({"action": "accept", "content": {"decision": ["approve"]}}),
            json!({"action": "accept", "content": "approve"}),
            json!({"action": "accept", "content": {"approve": "approve"}}),
            json!({"action": "decline", "content": {"decision": "approve"}}),
            json!({"action": "cancel", "content": {"decision": "approve"}}),
            json!({"action": "approve"}),
            json!({"decision": "approve"}),
            json!("approve"),
            json!(null),
        ] {
            let decision = decision_in(nonsense.clone());
            assert!(
                matches!(decision, ApprovalDecision::Deny { .. }),
                "{nonsense}"
            );
        }
    }

    #[test]
    fn a_denial_carries_its_reason() {
        let answer =
            json!({"action": "accept", "content": {"decision": "deny", "reason": "not\ntoday"}});
        assert_eq!(decision_in(answer), denied("not today".to_owned()));
    }

    #[test]
    fn a_client_that_declares_only_url_elicitation_gets_no_form() {
        for (declared, expected) in [
            (json!({"elicitation": {}}), true),
            (json!({"elicitation": {"form": {}}}), true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true),
            (json!({"elicitation": {"url": {}}}), false),
            (json!({}), false),
        ] {
            let client: ClientCapabilities = serde_json::from_value(declared.clone()).unwrap();
            assert_eq!(can_show_form(Some(&client)), expected, "{declared}");
        }
        assert!(!can_show_form(None));
    }
}
