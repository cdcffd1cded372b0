//! What is recorded about tool calls: their arguments, verdicts, questions and results.

use super::{hide, hide_json};
use crate::advised_call::{AdvisedCall, CallAdvice};
use crate::decision::GrantScope;
use crate::input::{ApprovalDecided, ApprovalDecision, Vetted, Vetting};
use crate::outcome::{ToolFailure, ToolSignal};
use crate::profile::DataPolicy;
use crate::record::{ApprovalRequested, ToolCallFailed, ToolCallStarted, ToolResult};

pub(super) fn tool_call(call: &mut ToolCallStarted, policy: DataPolicy) {
    let ToolCallStarted {
        tool_call_id: _,
        name: _,
        index: _,
        effect_id: _,
        attempt: _,
        arguments,
        arguments_hash: _,
        class: _,
        kind: _,
        origin: _,
        agents: _,
    } = call;
    hide_json(arguments, policy.tool_calls);
}

pub(super) fn tool_failed(failed: &mut ToolCallFailed, policy: DataPolicy) {
    let ToolCallFailed {
        tool_call_id: _,
        name: _,
        index: _,
        effect_id: _,
        attempt: _,
        failure: _,
        value,
        duration: _,
    } = failed;
    // A failing tool usually names what it was asked for.
    hide_json(value, policy.tool_results && policy.tool_calls);
}

pub(super) fn verdict(vetted: &mut Vetted, policy: DataPolicy) {
    let Vetted {
        effect_id: _,
        calls,
        granted,
        advised,
    } = vetted;
    for found in calls {
        vetting(found, policy);
    }
    for advised in advised {
        advised_call(advised, policy);
    }
    // An incomplete pattern would cover nothing: the calls it was meant to cover require approval again.
    granted.retain(|grant| policy.tool_calls || !grant.scope.quotes_arguments());
}

pub(super) fn approval_requested(asked: &mut ApprovalRequested, policy: DataPolicy) {
    let ApprovalRequested {
        effect_id: _,
        tool_call_id: _,
        name: _,
        arguments,
        arguments_hash: _,
        reason,
        causes: _,
        rule: _,
        choices,
        expires_at: _,
    } = asked;
    hide_json(arguments, policy.tool_calls);
    hide(reason, policy.tool_calls);
    for choice in choices {
        grant(choice, policy);
    }
}

pub(super) fn approval_decided(decided: &mut ApprovalDecided, policy: DataPolicy) {
    let ApprovalDecided {
        id: _,
        tool_call_id: _,
        arguments_hash: _,
        decision: given,
        by: _,
        code: _,
        given_before: _,
    } = decided;
    decision(given, policy);
}

/// The reason why a call may or may not run may quote its arguments.
fn vetting(found: &mut Vetting, policy: DataPolicy) {
    match found {
        Vetting::Run {
            class: _,
            untrusted: _,
            reason,
            rule: _,
            grant: _,
        } => {
            if let Some(reason) = reason {
                hide(reason, policy.tool_calls);
            }
        }
        Vetting::Invalid { message } => hide(message, policy.tool_calls),
        Vetting::Ask {
            class: _,
            untrusted: _,
            reason,
            causes: _,
            rule: _,
            remember: _,
            choices,
            again: _,
        } => {
            hide(reason, policy.tool_calls);
            for choice in choices {
                grant(choice, policy);
            }
        }
        Vetting::Deny { reason, rule: _ } => hide(reason, policy.tool_calls),
        Vetting::Unknown | Vetting::Disabled => {}
    }
}

/// A hook that saw the arguments may quote them.
fn advised_call(advised: &mut AdvisedCall, policy: DataPolicy) {
    let AdvisedCall {
        tool_call_id: _,
        arguments,
        advice,
        code: _,
    } = advised;
    if let Some(arguments) = arguments {
        hide_json(arguments, policy.tool_calls);
    }
    match advice {
        CallAdvice::Ask { reason }
        | CallAdvice::Refuse { reason }
        | CallAdvice::Stop { reason } => hide(reason, policy.tool_calls),
        CallAdvice::Continue => {}
    }
}

/// The patterns offered for remembering are derived from the arguments.
fn grant(scope: &mut GrantScope, policy: DataPolicy) {
    match scope {
        GrantScope::Command { pattern, access: _ }
        | GrantScope::Host { pattern }
        | GrantScope::Path { pattern } => hide(pattern, policy.tool_calls),
        GrantScope::Arguments { hash: _ } | GrantScope::Tool => {}
    }
}

fn decision(decision: &mut ApprovalDecision, policy: DataPolicy) {
    match decision {
        ApprovalDecision::Approve {
            arguments,
            remember,
        } => {
            if let Some(arguments) = arguments {
                hide_json(arguments, policy.tool_calls);
            }
            if let Some(scope) = remember {
                grant(scope, policy);
            }
        }
        ApprovalDecision::Deny { reason } => {
            if let Some(reason) = reason {
                hide(reason, policy.text);
            }
        }
        ApprovalDecision::Expired => {}
    }
}

pub(super) fn tool_result(result: &mut ToolResult, policy: DataPolicy) {
    let ToolResult {
        tool_call_id: _,
        name: _,
        index: _,
        by: _,
        agents_at_limit: _,
        effect_id: _,
        attempt: _,
        status: _,
        value,
        failure,
        summary,
        keep: _,
        media,
        metadata,
        signal,
        sources,
        untrusted: _,
        rewritten: _,
        duration,
    } = result;
    let may_quote = match *failure {
        // Such an error describes what is wrong with the arguments, or what a user or a hook said about them.
        Some(ToolFailure::InvalidArguments | ToolFailure::Denied) => {
            policy.tool_calls && policy.text
        }
        // The loop's own text for a call that did not run, or not to completion, gives the reason.
        Some(ToolFailure::Cancelled | ToolFailure::OutcomeUnknown) if duration.is_none() => {
            policy.tool_calls && policy.text
        }
        // A failing tool usually names what it was asked for.
        Some(failure) if failure.is_of_the_tool() => policy.tool_calls,
        _ => true,
    };
    hide_json(value, policy.tool_results && may_quote);
    if let Some(summary) = summary {
        hide(summary, policy.tool_results);
    }
    if !policy.tool_results {
        media.clear();
        *metadata = None;
        *signal = None;
        sources.clear();
    }
    if !policy.tool_calls {
        // File changes, a plan and a question consist of the call's arguments.
        *metadata = None;
        let is_of_call = |signal: &mut ToolSignal| match signal {
            ToolSignal::Plan { plan: _ } | ToolSignal::Clarify { question: _ } => true,
            ToolSignal::Found { tools: _ } | ToolSignal::Untrusted => false,
        };
        signal.take_if(is_of_call);
    }
}
