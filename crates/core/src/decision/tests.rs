//! Tests that decisions from old logs can be read, and how decisions, verdicts and taint are serialized.

use super::*;

/// As written before rules, taint and similar fields were part of a decision.
const OLD: &str = r#"{"mode":"moderate","channel":"chat","profile":"main_thread","role":"reasoning","allowed_roles":["reasoning"],"tools":["current_time"],"limits":{"max_turns":10,"tool_timeout_ms":30000},"reasons":[],"policy_hash":"HASH"}"#;

fn old() -> String {
    OLD.replace("HASH", &ContentHash::of(b"policy").to_string())
}

#[test]
fn a_decision_of_an_old_log_round_trips_unchanged() {
    let decision: Decision = serde_json::from_str(&old()).unwrap();
    assert!(decision.taint.is_clean() && decision.clarify.is_none());
    assert_eq!(serde_json::to_string(&decision).unwrap(), old());
}

#[test]
fn the_requested_agent_is_stored_separately_from_the_agent_of_a_record() {
    let mut decision: Decision = serde_json::from_str(&old()).unwrap();
    decision.agent = Some(AgentName::RESEARCHER);
    let text = serde_json::to_string(&decision).unwrap();
    assert!(text.contains(r#""requested_agent":"researcher""#), "{text}");
    assert!(!text.contains(r#""agent":"#), "{text}");
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
}

#[test]
fn a_verdict_names_its_rule_and_its_position() {
    let rule = RuleRef {
        name: "no-curl".into(),
        source: "neuraxis.toml".into(),
        line: 7,
    };
    assert_eq!(rule.to_string(), "no-curl (neuraxis.toml:7)");
    let verdict = Verdict::Deny {
        reason: "because".to_owned(),
        rule: Some(rule),
    };
    let text = serde_json::to_string(&verdict).unwrap();
    assert_eq!(
        text,
        r#"{"verdict":"deny","reason":"because","rule":{"name":"no-curl","source":"neuraxis.toml","line":7}}"#
    );
}

#[test]
fn taint_names_each_tool_once() {
    let (search, fetch) = ("web_search".parse().unwrap(), "web_fetch".parse().unwrap());
    let mut taint = Taint::default();
    taint.add(&search, None);
    taint.add(&search, None);
    let mut other = Taint::default();
    other.add(&fetch, None);
    taint.merge(&other);
    let names: Vec<_> = taint
        .sources()
        .iter()
        .map(|source| source.tool.as_str())
        .collect();
    assert_eq!(names, ["web_search", "web_fetch"]);
    assert_eq!(
        serde_json::to_string(&taint).unwrap(),
        r#"[{"tool":"web_search"},{"tool":"web_fetch"}]"#
    );
}
