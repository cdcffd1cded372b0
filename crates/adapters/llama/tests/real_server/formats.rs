//! Replies in a requested format.

use neuraxis_core::{JsonText, ReplyFormat, ToolChoice};
use neuraxis_llama::{LlamaClient, ReasoningFormat};
use neuraxis_testkit::request;

use crate::running::Running;
use crate::{assembled, deltas, respond};

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_reply_fits_the_schema_whatever_the_model_would_say() {
    let server = Running::start(&[]);
    let client = server.client();
    let mut without_tools = request("think");
    without_tools.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(r#"{"enum": ["yes"]}"#),
    };
    // The format rules out what the model would write: among the remaining tokens, chance decides unless the
    // temperature is 0.
    without_tools.temperature = Some(0.0);
    // With fewer, it is told not to think.
    without_tools.max_output_tokens = Some(1_025);
    let mut with_tools = without_tools.clone();
    with_tools.tools = crate::with_tools([]).tools;
    with_tools.tool_choice = ToolChoice::None;
    for request in [without_tools, with_tools] {
        let whole = respond(&client, &request).await.unwrap();
        assert_eq!(whole.text(), "\"yes\"");
        assert_eq!(whole.reasoning().trim_end(), "This is some thinking.");
        let streamed = assembled(deltas(&client, &request).await);
        assert_eq!(streamed.parts, whole.parts);
    }
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_reply_follows_the_configured_grammar() {
    let server = Running::start(&[]);
    let mut config = server.config();
    config.grammar = Some("root ::= \"yes\"".to_owned());
    let client = LlamaClient::new(config).unwrap();
    let reply = respond(&client, &request("hello")).await.unwrap();
    assert_eq!(reply.text(), "yes");
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn reasoning_stays_in_the_text_if_so_configured() {
    let server = Running::start(&[]);
    let mut config = server.config();
    config.reasoning_format = Some(ReasoningFormat::None);
    let client = LlamaClient::new(config).unwrap();
    let reply = respond(&client, &request("think")).await.unwrap();
    assert_eq!(reply.reasoning(), "");
    assert!(reply.text().starts_with("<think>"), "{reply:?}");
}
