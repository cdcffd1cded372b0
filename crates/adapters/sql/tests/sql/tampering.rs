//! Every change made to a session behind the store's back is detected.

use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, ApprovalRequested, CallIndex, ContentHash, EffectId, Grant,
    GrantScope, InputId, JsonText, RecordBody, ToolCallId, ToolOutcome, ToolOutput, ToolResult,
    Vetted,
};
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError};
use neuraxis_testkit::START;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::support::{Busy, config_in, open};

/// Stores three runs of a session, changes the file with statements, and returns the result of verifying.
async fn after(statements: &[&str]) -> Result<(), StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    for number in 2..=3 {
        busy.warn(&store, "slow").await.unwrap();
        busy.warn(&store, &"long ".repeat(20_000)).await.unwrap();
        busy.finish(&store).await.unwrap();
        let run = neuraxis_testkit::CountingIds::nth_run(number);
        busy.lease = store.begin_run(&busy.session, run).await.unwrap();
        busy.log = neuraxis_testkit::RunLog::new(run, busy.session.clone());
        let started = [busy.log.started("And?")];
        store.commit(&busy.lease, &started).await.unwrap();
    }
    let head = store.verify(&busy.session, None).await.unwrap();
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    for statement in statements {
        let done = sqlx::query(AssertSqlSafe(*statement))
            .execute(&mut raw)
            .await;
        assert!(done.unwrap().rows_affected() > 0, "{statement} did nothing");
    }
    store.verify(&busy.session, Some(head.hash)).await.map(drop)
}

#[tokio::test]
async fn an_unchanged_session_verifies() {
    assert_eq!(
        after(&["UPDATE runs SET holder = 'somebody'"]).await,
        Ok(())
    );
}

#[tokio::test]
async fn each_change_is_detected_and_located() {
    let cases: [(&str, &[&str]); 8] = [
        (
            "a changed record",
            &[
                "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'slow', 'fast') AS BLOB) WHERE run = 1 AND first_seq = 2",
            ],
        ),
        (
            "a record removed from the middle",
            &["DELETE FROM steps WHERE run = 1 AND first_seq = 2"],
        ),
        (
            "records that changed places",
            &[
                "UPDATE steps SET first_seq = 100 WHERE run = 1 AND first_seq = 1",
                "UPDATE steps SET first_seq = 1, last_seq = 1 WHERE run = 1 AND first_seq = 2",
                "UPDATE steps SET first_seq = 2, last_seq = 2 WHERE run = 1 AND first_seq = 100",
            ],
        ),
        (
            "a record cut off at the end of a run",
            &[
                "DELETE FROM steps WHERE run = 2 AND first_seq = (SELECT max(first_seq) FROM steps WHERE run = 2)",
            ],
        ),
        (
            "a changed long value",
            &["UPDATE payloads SET body = CAST('{}' AS BLOB) WHERE run = 1"],
        ),
        (
            "a removed long value",
            &["DELETE FROM payloads WHERE run = 1"],
        ),
        (
            "a removed run",
            &[
                "DELETE FROM steps WHERE run = 2",
                "DELETE FROM payloads WHERE run = 2",
                "DELETE FROM runs WHERE key = 2",
            ],
        ),
        ("another owner", &["UPDATE sessions SET owner = 'mallory'"]),
    ];
    for (what, statements) in cases {
        let found = after(statements).await;
        let Err(StoreError::Damaged(told)) = found else {
            panic!("{what} was not found: {found:?}")
        };
        assert!(told.contains("run "), "{what}: {told}");
    }
}

/// If the last run of a session is gone with everything that refers to it, only a caller who knows the end of the chain
/// notices.
#[tokio::test]
async fn a_session_truncated_at_its_end_is_detected_by_its_expected_head() {
    let cut = after(&[
        "DELETE FROM steps WHERE run = 3",
        "DELETE FROM runs WHERE key = 3",
    ]);
    let Err(StoreError::Damaged(told)) = cut.await else {
        panic!("the cut was not found")
    };
    assert!(told.contains("never had the head"), "{told}");
}

fn call(number: u32) -> ToolCallId {
    ToolCallId::from_text(format!("call_{number}"))
}

fn asked(number: u32) -> RecordBody {
    RecordBody::ApprovalRequested(Box::new(ApprovalRequested {
        effect_id: EffectId {
            run: neuraxis_testkit::CountingIds::nth_run(1),
            number,
        },
        tool_call_id: call(number),
        name: "write_file".into(),
        arguments: JsonText::from_text("{}"),
        arguments_hash: ContentHash::of(b"{}"),
        reason: "it writes".to_owned(),
        causes: Vec::new(),
        rule: None,
        choices: vec![GrantScope::Tool],
        expires_at: None,
    }))
}

fn allowed(number: u32) -> RecordBody {
    RecordBody::ApprovalDecided(Box::new(ApprovalDecided {
        id: InputId::new(format!("answer-{number}")),
        tool_call_id: call(number),
        arguments_hash: ContentHash::of(b"{}"),
        decision: ApprovalDecision::approve_for_session(GrantScope::Tool),
        by: Some("ada".to_owned()),
        code: None,
        given_before: None,
    }))
}

fn untrusted() -> RecordBody {
    let done = ToolOutcome::done(ToolOutput::new(JsonText::from_text("1")));
    RecordBody::ToolResult(Box::new(ToolResult {
        untrusted: true,
        ..ToolResult::of(call(9), "search_web", CallIndex(0), done)
    }))
}

fn remembered(id: u32) -> Grant {
    Grant {
        id,
        tool: "write_file".parse().unwrap(),
        definition: ContentHash::of(b"definition"),
        scope: GrantScope::Tool,
        at: START,
        by: Some("ada".to_owned()),
        policy_hash: ContentHash::of(b"policy"),
        code: None,
    }
}

fn granting(grant: Grant) -> RecordBody {
    let effect_id = EffectId {
        run: neuraxis_testkit::CountingIds::nth_run(1),
        number: 1,
    };
    let mut vetted = Vetted::new(effect_id, Vec::new());
    vetted.granted.push(grant);
    RecordBody::Verdict(Box::new(vetted))
}

/// Gives one session two remembered answers and untrusted content, and another one neither. Changes the file with a
/// statement, and returns the results of verifying both.
async fn carried_after(statement: &str) -> [Result<(), StoreError>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    for body in [asked(1), allowed(1), asked(2), allowed(2), untrusted()] {
        let records = [busy.log.record(body)];
        store.commit(&busy.lease, &records).await.unwrap();
    }
    for id in 1..=2 {
        let granted = [busy.log.record(granting(remembered(id)))];
        store.commit(&busy.lease, &granted).await.unwrap();
    }
    let other = Busy::new(&store, 2).await;
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    if !statement.is_empty() {
        let done = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut raw);
        assert!(
            done.await.unwrap().rows_affected() > 0,
            "{statement} did nothing"
        );
    }
    [
        store.verify(&busy.session, None).await.map(drop),
        store.verify(&other.session, None).await.map(drop),
    ]
}

#[tokio::test]
async fn granted_or_revoked_answers_and_noted_taint_verify() {
    assert_eq!(carried_after("").await, [Ok(()), Ok(())]);
    let revoked = "INSERT INTO revoked (session, id) VALUES (1, 1)";
    assert_eq!(carried_after(revoked).await, [Ok(()), Ok(())]);
}

#[tokio::test]
async fn unauthorized_grants_and_forgotten_taint_are_detected() {
    let cases = [
        (
            "answers copied to another session",
            "UPDATE sessions SET carried = (SELECT carried FROM sessions WHERE key = 1) WHERE key = 2",
            1,
            "no record of the session holds",
        ),
        (
            "an answer more than were given",
            "UPDATE sessions SET carried = json_insert(carried, '$.remembered.grants[#]', \
             json_set(carried, '$.remembered.grants[0].id', 3) -> '$.remembered.grants[0]') WHERE key = 1",
            0,
            "no record of the session holds",
        ),
        (
            "an answer about another tool",
            "UPDATE sessions SET carried = replace(carried, 'write_file', 'run_command') WHERE key = 1",
            0,
            "no record of the session holds",
        ),
        (
            "a removed answer",
            "UPDATE sessions SET carried = json_remove(carried, '$.remembered.grants[0]') WHERE key = 1",
            0,
            "is missing",
        ),
        (
            "forgotten content",
            "UPDATE sessions SET carried = json_set(carried, '$.taint', json('[]')) WHERE key = 1",
            0,
            "no longer names",
        ),
        (
            "everything forgotten",
            "UPDATE sessions SET carried = NULL WHERE key = 1",
            0,
            "is missing",
        ),
        (
            "content that nothing brought",
            "UPDATE sessions SET carried = '{\"taint\":[{\"tool\":\"search_web\"}]}' WHERE key = 2",
            1,
            "no record of the session does",
        ),
        (
            "another plan",
            "UPDATE sessions SET carried = '{\"plan\":\"[1]\"}' WHERE key = 2",
            1,
            "does not match its records",
        ),
    ];
    for (what, statement, place, expected) in cases {
        let found = carried_after(statement).await;
        let Err(StoreError::Damaged(told)) = &found[place] else {
            panic!("{what} was not found: {found:?}")
        };
        assert!(told.contains(expected), "{what}: {told}");
        assert_eq!(found[1 - place], Ok(()), "{what}");
    }
}
