//! What is said when nothing can be called.

use neuraxis_offline::OfflineModel;
use neuraxis_ports::LlmClient;
use neuraxis_testkit::spec;

use crate::ask::{all, asking, current_time, notes, respond, shown};

#[tokio::test]
async fn without_the_tools_that_fit_the_answer_names_them() {
    let offered = || vec![current_time(), notes()];
    insta::assert_snapshot!(shown(&respond(&asking("How is the CPU?", offered())).await));
    insta::assert_snapshot!(shown(&respond(&asking("Read README.md", Vec::new())).await));
}

#[tokio::test]
async fn what_no_rule_fits_gets_help() {
    insta::assert_snapshot!(shown(&respond(&asking("Write me a poem.", all())).await));
}

#[tokio::test]
async fn many_tools_are_listed_in_part() {
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
fn it_says_what_it_is() {
    let info = OfflineModel::new().info();
    assert_eq!(info.model.to_string(), "offline/rules");
    assert!(info.notice.unwrap().starts_with("not a language model"));
}
