//! What is said when nothing can be called.

use neuraxis_offline::OfflineModel;
use neuraxis_ports::LlmClient;
use neuraxis_testkit::spec;

use crate::ask::{all, asking, current_time, notes, respond, shown};

#[tokio::test]
async fn an_answer_names_the_missing_tools() {
    let offered = || vec![current_time(), notes()];
    insta::assert_snapshot!(shown(&respond(&asking("How is the CPU?", offered())).await));
    insta::assert_snapshot!(shown(&respond(&asking("Read README.md", Vec::new())).await));
}

#[tokio::test]
async fn a_question_that_matches_no_rule_gets_help() {
    insta::assert_snapshot!(shown(&respond(&asking("Write me a poem.", all())).await));
}

#[tokio::test]
async fn only_the_first_of_many_tools_are_listed() {
    let tools = (0..60)
        .map(|number| spec(&format!("tool_{number}")).build())
        .collect();
    let text = respond(&asking("Write me a poem.", tools)).await.text();
    assert!(
        text.contains("tool_39") && !text.contains("tool_40") && text.contains("and 20 more"),
        "{text}"
    );
}

#[test]
fn the_model_info_says_it_is_no_language_model() {
    let info = OfflineModel::new().info();
    assert_eq!(info.model.to_string(), "offline/rules");
    assert!(info.notice.unwrap().starts_with("not a language model"));
}
