//! Every verdict is recorded, with its reason and rule.

use neuraxis_core::{Mode, RecordBody, Remember, Vetting};
use neuraxis_testkit::ScriptedApprover;

use crate::support::{World, nobody};

const RULES: &str = "[rules.drafts]\nanswer = 'allow'\ntools = ['put']\npaths = ['drafts/**']\n\n\
                     [rules.secrets]\nanswer = 'deny'\ntools = ['put']\npaths = ['secrets/**']\n";

#[tokio::test]
async fn a_verdict_gives_its_reason_and_names_the_rule_with_file_and_line() {
    let world = World::new(RULES, nobody());
    let ran = world
        .calls(
            Mode::MODERATE,
            &[
                ("look", "{}"),
                ("put", r#"{"path":"drafts/a"}"#),
                ("put", r#"{"path":"secrets/a"}"#),
                ("put", r#"{"path":"src/a"}"#),
            ],
        )
        .await;
    let told: Vec<(String, Option<String>)> = ran
        .vettings()
        .into_iter()
        .map(|vetting| match vetting {
            Vetting::Run { reason, rule, .. } => (reason.unwrap().to_string(), rule),
            Vetting::Ask { reason, rule, .. } | Vetting::Deny { reason, rule } => (reason, rule),
            other => panic!("{other:?}"),
        })
        .map(|(reason, rule)| (reason, rule.map(|rule| rule.to_string())))
        .collect();
    let expected = [
        ("Mode moderate lets look run, because it reads.", None),
        (
            "Rule drafts (neuraxis.toml:1) lets put run.",
            Some("drafts (neuraxis.toml:1)"),
        ),
        (
            "Rule secrets (neuraxis.toml:6) denies put.",
            Some("secrets (neuraxis.toml:6)"),
        ),
        (
            "Mode moderate asks before put runs, because it changes something.",
            None,
        ),
    ];
    let expected = expected.map(|(why, rule)| (why.to_owned(), rule.map(str::to_owned)));
    assert_eq!(told, expected);
}

#[tokio::test]
async fn reasons_of_calls_allowed_by_a_mode_name_their_own_tool() {
    let rules = "[rules.drafts]\nanswer = 'allow'\ntools = ['look']\npaths = ['drafts/**']\n";
    let world = World::new(rules, nobody());
    let draft = ("look", r#"{"path":"drafts/a"}"#);
    let batches: [&[_]; 2] = [
        &[("look", "{}"), ("fetch", "{}"), draft, ("look", "{}")],
        &[("fetch", r#"{"n":2}"#), ("look", r#"{"n":2}"#)],
    ];
    let ran = world.calls_in("s", Mode::EXPLORATORY, &batches).await;
    let told = ran.vettings().into_iter().map(|vetting| match vetting {
        Vetting::Run { reason, .. } => reason.unwrap().to_string(),
        other => panic!("{other:?}"),
    });
    let told: Vec<_> = told.collect();
    let look = "Mode exploratory lets look run, because it reads.";
    let fetch = told[1].as_str();
    assert!(
        fetch.starts_with("Mode exploratory lets fetch run, because it "),
        "{fetch}"
    );
    let rule = "Rule drafts (neuraxis.toml:1) lets look run.";
    assert_eq!(told, [look, fetch, rule, look, fetch, look]);
}

#[tokio::test]
async fn approvers_see_the_reason_the_rule_and_what_can_be_remembered() {
    let rules = "[rules.care]\nanswer = 'ask'\ntools = ['put']\nreason = 'Look twice.'\n";
    let world = World::new(rules, ScriptedApprover::new().deny("no"));
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let asks = world.approver.asks();
    let rule = asks[0].rule.as_ref().unwrap();
    assert_eq!(
        (&*rule.name, &*rule.source, rule.line),
        ("care", "neuraxis.toml", 1)
    );
    assert!(asks[0].reason.contains("Look twice."), "{}", asks[0].reason);
    let Vetting::Ask {
        remember, choices, ..
    } = &ran.vettings()[0]
    else {
        panic!("it asks")
    };
    assert_eq!(*remember, Remember::Tool);
    assert_eq!(choices, &asks[0].choices);
    assert_eq!(
        choices.len(),
        2,
        "these arguments, or the tool: {choices:?}"
    );
    let requested = ran.records.iter().find_map(|record| match &record.body {
        RecordBody::ApprovalRequested(requested) => Some(requested.clone()),
        _ => None,
    });
    let requested = requested.unwrap();
    assert_eq!(requested.choices, *choices);
    assert_eq!(requested.rule.as_ref(), Some(rule));
}

#[tokio::test]
async fn an_absolute_path_below_the_root_is_judged_by_where_it_points() {
    let world = World::new(RULES, nobody());
    let ran = world
        .calls(
            Mode::MODERATE,
            &[
                ("put", r#"{"path":"/project/drafts/a"}"#),
                ("put", r#"{"path":"/elsewhere/drafts/a"}"#),
                ("put", r#"{"path":"/project/../drafts/a"}"#),
            ],
        )
        .await;
    let runs = |it: &Vetting| matches!(it, Vetting::Run { .. });
    let may_run: Vec<bool> = ran.vettings().iter().map(runs).collect();
    assert_eq!(may_run, [true, false, false]);
    assert_eq!(world.tools.put.count(), 1);
}

#[tokio::test]
async fn the_policy_hash_is_recorded_and_changes_with_the_policy() {
    let hash = async |policy: &str| {
        let world = World::new(policy, nobody());
        let ran = world.calls(Mode::MODERATE, &[("look", "{}")]).await;
        let decision = ran.records.iter().find_map(|record| match &record.body {
            RecordBody::Decision(decision) => Some(decision.policy_hash),
            _ => None,
        });
        let started = ran.records.iter().find_map(|record| match &record.body {
            RecordBody::RunStarted(started) => Some(started.policy_hash),
            _ => None,
        });
        assert_eq!(started.unwrap(), decision, "the first record names it, too");
        decision.unwrap()
    };
    let built_in = hash("").await;
    assert_eq!(hash("").await, built_in);
    assert_ne!(hash(RULES).await, built_in);
    assert_ne!(hash("[modes.moderate]\nmax_turns = 9").await, built_in);
}
