//! Describes in English what records contain: limits, failures, purposes, and which role replaces which.
//!
//! The same wording is used for steps, the narration of a run and its outline. The results are short phrases that begin
//! in lower case and have no period. A program should decide based on the data in the records instead. What a model is
//! told comes from the machine itself, since replay needs it byte for byte.

use crate::effect::Purpose;
use crate::finish::BudgetKind;
use crate::outcome::ToolFailure;
use crate::record::{ContextTrimmed, Escalated, LimitKind, MaxTurnsReached, RoleDowngraded};

/// Names the limit that was reached.
#[must_use]
pub const fn limit(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::DeadlineReserve => "the time is up, except for one last answer",
        LimitKind::Deadline => "the time for the answer is up",
        LimitKind::Budget(BudgetKind::ToolCalls) => "the tool call limit is reached",
        LimitKind::Budget(BudgetKind::Tokens) => "the token limit is reached",
        LimitKind::Budget(BudgetKind::Cost) => "the cost limit is reached",
        LimitKind::Budget(BudgetKind::Time) => {
            "the time limit of the session or the day is reached"
        }
        LimitKind::Budget(BudgetKind::ModelCalls) => "the model call limit is reached",
        LimitKind::Budget(BudgetKind::UnknownTools) => "the model repeatedly called unknown tools",
        LimitKind::Budget(BudgetKind::RepeatedCalls) => "the model repeatedly made the same call",
        LimitKind::Budget(BudgetKind::Log) => "the limit on what a run may record is reached",
    }
}

/// Describes the turn limit that was reached.
#[must_use]
pub fn max_turns(reached: &MaxTurnsReached) -> String {
    let turns = counted(reached.turns.into(), "turn");
    format!("the limit of {turns} is reached")
}

/// Describes how a tool call failed.
#[must_use]
pub const fn failure(failure: ToolFailure) -> &'static str {
    match failure {
        ToolFailure::Timeout => "timed out",
        ToolFailure::Panic => "panicked",
        ToolFailure::Cancelled => "cancelled",
        ToolFailure::OutcomeUnknown => "outcome unknown",
        ToolFailure::InvalidArguments => "invalid arguments",
        ToolFailure::UnknownTool => "unknown tool",
        ToolFailure::NotEnabled => "not enabled",
        ToolFailure::Denied => "denied",
        ToolFailure::ApprovalExpired => "not approved in time",
        ToolFailure::LimitReached => "not run because of a limit",
        _ => "failed",
    }
}

/// Names the purpose of a model call; `None` for a turn, the usual purpose.
#[must_use]
pub const fn purpose(purpose: Purpose) -> Option<&'static str> {
    match purpose {
        Purpose::Turn => None,
        Purpose::LastAnswer => Some("last answer"),
        Purpose::Compaction => Some("compaction"),
        Purpose::SelfCheck => Some("self-check"),
        Purpose::Routing => Some("choice of the role"),
        Purpose::Gather => Some("choice of what to read"),
    }
}

/// Describes how many tools a reply asks for; `None` if it asks for none.
#[must_use]
pub fn asks_for(calls: usize) -> Option<String> {
    match calls {
        0 => None,
        1 => Some("asks for a tool".to_owned()),
        calls => Some(format!("asks for {calls} tools")),
    }
}

/// Describes which role serves instead of which, and what is left out of the messages it is sent.
#[must_use]
pub fn downgraded(downgraded: &RoleDowngraded) -> String {
    let RoleDowngraded { from, to, .. } = downgraded;
    match downgraded.left_out {
        0 => format!("{to} serves instead of {from}"),
        left_out => format!(
            "{to} serves instead of {from}, this time without {}, so that the rest fits",
            counted(left_out, "older message")
        ),
    }
}

/// Describes who takes over after consecutive failures.
#[must_use]
pub fn escalated(escalated: &Escalated) -> String {
    let failures = escalated.failures;
    match &escalated.role {
        Some(role) => format!("{role} takes over after {failures} failures in a row"),
        None => format!("the user is asked after {failures} failures in a row"),
    }
}

/// Describes how a conversation was made shorter: what was summarized, left out, or shortened.
#[must_use]
pub fn trimmed(trimmed: &ContextTrimmed) -> String {
    let messages = (trimmed.messages > 0).then(|| {
        let messages = counted(trimmed.messages, "older message");
        match trimmed.summary {
            Some(_) => format!("summarized {messages}"),
            None => format!("left out {messages}"),
        }
    });
    let reasoning =
        (!trimmed.without_reasoning.is_empty()).then(|| "left out earlier reasoning".to_owned());
    let results = u64::try_from(trimmed.shortened.len()).unwrap_or(u64::MAX);
    let results =
        (results > 0).then(|| format!("shortened {}", counted(results, "older tool result")));
    let all: Vec<String> = messages
        .into_iter()
        .chain(reasoning)
        .chain(results)
        .collect();
    all.join(", ")
}

/// Returns a count with its noun, in singular or plural.
#[must_use]
pub fn counted(count: u64, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Role, ToolCallId};
    use crate::record::Span;

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(
            max_turns(&MaxTurnsReached {
                turns: 1,
                content: String::new()
            }),
            "the limit of 1 turn is reached"
        );
        assert_eq!(counted(2, "turn"), "2 turns");
        assert_eq!(asks_for(0), None);
        assert_eq!(asks_for(1).unwrap(), "asks for a tool");
        assert_eq!(asks_for(3).unwrap(), "asks for 3 tools");
    }

    #[test]
    fn what_was_summarized_is_not_called_left_out() {
        let mut cut = ContextTrimmed {
            messages: 2,
            tokens: 100,
            removed: vec![Span { start: 0, end: 2 }],
            shortened: Vec::new(),
            summary: None,
            without_reasoning: Vec::new(),
        };
        assert_eq!(trimmed(&cut), "left out 2 older messages");
        cut.shortened = vec![ToolCallId::from_text("call_1")];
        cut.summary = Some("They talked.".to_owned());
        assert_eq!(
            trimmed(&cut),
            "summarized 2 older messages, shortened 1 older tool result"
        );
        cut.messages = 0;
        assert_eq!(trimmed(&cut), "shortened 1 older tool result");
        cut.without_reasoning = vec![Span { start: 0, end: 2 }];
        cut.shortened.clear();
        assert_eq!(trimmed(&cut), "left out earlier reasoning");
    }

    #[test]
    fn an_escalation_names_the_role_or_person_that_takes_over() {
        let mut taken = Escalated {
            failures: 2,
            role: None,
            question: None,
        };
        assert_eq!(
            escalated(&taken),
            "the user is asked after 2 failures in a row"
        );
        taken.role = Some(Role::REASONING);
        assert_eq!(
            escalated(&taken),
            "reasoning takes over after 2 failures in a row"
        );
    }

    #[test]
    fn a_downgrade_names_the_fallback_role_and_the_messages_it_omits() {
        let mut instead = RoleDowngraded {
            from: Role::REASONING,
            to: Role::CODING,
            reason: String::new(),
            left_out: 0,
        };
        assert_eq!(downgraded(&instead), "coding serves instead of reasoning");
        instead.left_out = 2;
        assert_eq!(
            downgraded(&instead),
            "coding serves instead of reasoning, this time without 2 older messages, so that the rest fits"
        );
    }
}
