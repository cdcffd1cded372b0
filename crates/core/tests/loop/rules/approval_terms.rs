//! The terms of an approval request: the rule, what may be remembered, and until when the request is open.

use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    ApprovalDecision, Approved, AskCause, Channel, ContentHash, Decision, GrantScope, Input, Mode,
    PendingKind, RecordBody, Remember, Role, RuleRef, ToolClass, Transcript, Vetting,
};

use crate::support::*;

fn asks_by_rule() -> Vetting {
    Vetting::Ask {
        class: ToolClass::Irreversible,
        untrusted: false,
        reason: "it sends something".to_owned(),
        causes: vec![AskCause::Rule],
        rule: Some(RuleRef {
            name: "mail".into(),
            source: "neuraxis.toml".into(),
            line: 7,
        }),
        remember: Remember::Tool,
        choices: vec![GrantScope::Tool],
        again: false,
    }
}

fn expiring() -> Script {
    let hash = ContentHash::of(b"policy");
    let mut decision = Decision::new(Mode::MODERATE, Channel::CHAT, Role::REASONING, hash);
    decision.approval.expires_after = Some(Duration::from_secs(60));
    let mut spec = spec();
    spec.decision = Some(decision.into());
    let mut run = Script::start(spec);
    run.at(1_000).reply(calls_to(&[SEND])).vet([asks_by_rule()]);
    run
}

#[test]
fn an_approval_request_states_its_rule_grant_choices_and_expiry() {
    let run = expiring();
    let asked = run.asked();
    assert_eq!(
        asked.rule.as_ref().map(ToString::to_string).as_deref(),
        Some("mail (neuraxis.toml:7)")
    );
    assert_eq!(asked.choices, [GrantScope::Tool]);
    let at = Timestamp::UNIX_EPOCH + Duration::from_secs(61);
    assert_eq!(asked.expires_at, Some(at), "by the clock on the wall");
    let pending = run.tree.pending();
    assert_eq!(
        (pending[0].kind, pending[0].expires_at),
        (PendingKind::Approval, Some(at))
    );
    let requested = run.records.iter().find_map(|record| match &record.body {
        RecordBody::ApprovalRequested(requested) => Some(requested),
        _ => None,
    });
    let requested = requested.unwrap();
    assert_eq!(requested.expires_at, Some(at));
    assert_eq!(requested.rule, asked.rule);
    assert_eq!(requested.choices, asked.choices);
    assert_eq!(requested.causes, [AskCause::Rule]);
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
}

#[test]
fn a_late_decision_is_recorded_as_expired_without_an_approver() {
    for late in [
        ApprovalDecision::approve_for_session(GrantScope::Tool),
        ApprovalDecision::Deny { reason: None },
    ] {
        let mut run = expiring();
        run.at(61_000).decide(late);
        let decided = run.records.iter().find_map(|record| match &record.body {
            RecordBody::ApprovalDecided(decided) => Some(decided),
            _ => None,
        });
        let decided = decided.unwrap();
        assert_eq!(decided.decision, ApprovalDecision::Expired);
        assert_eq!(decided.by, None);
        assert!(run.tree.pending().is_empty(), "nothing is left to decide");
        assert_gives_back(&Transcript::default(), &run.records, &run.tree);
    }
}

#[test]
fn a_decision_just_before_the_expiry_counts() {
    let mut run = expiring();
    run.at(60_999).decide(ApprovalDecision::APPROVE);
    assert_eq!(run.to_vet().calls.len(), 1);
}

#[test]
fn a_decision_made_in_time_counts_even_if_it_reaches_the_run_late() {
    let end = expiring().asked().expires_at;
    for (given_before, counts) in [(end, true), (Some(Timestamp::MAX), false)] {
        let mut run = expiring();
        let mut decided = run.decided(ApprovalDecision::APPROVE);
        let Input::ApprovalDecided(decision) = &mut decided else {
            panic!("a person decides: {decided:?}")
        };
        decision.given_before = given_before;
        run.at(61_000).send(decided);
        let approved = run.records.iter().any(|record| match &record.body {
            RecordBody::ApprovalDecided(decided) => decided.decision == ApprovalDecision::APPROVE,
            _ => false,
        });
        assert_eq!(approved, counts, "{given_before:?}");
        assert_gives_back(&Transcript::default(), &run.records, &run.tree);
    }
}

#[test]
fn the_same_approval_is_requested_again_after_a_crash() {
    let mut run = expiring();
    let before = run.asked().clone();
    run.at(9_000).resume();
    assert_eq!(*run.asked(), before, "taking a run up gives no more time");
}

#[test]
fn without_an_expiry_an_approval_request_stays_open() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND])).vet([asks()]);
    assert_eq!(run.asked().expires_at, None);
    assert_eq!(run.tree.pending()[0].expires_at, None);
}

#[test]
fn a_chosen_grant_is_passed_to_the_recheck_of_the_call() {
    let mut run = expiring();
    run.decide(ApprovalDecision::approve_for_session(GrantScope::Tool));
    let approved = Approved {
        remember: Some(GrantScope::Tool),
        by: Some("alice".to_owned()),
        code: None,
        given_before: None,
    };
    assert_eq!(run.to_vet().calls[0].approved, Some(Box::new(approved)));
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
}
