//! How greetings and questions about the program itself are answered.

use neuraxis_core::{Message, Part, ToolChoice};

use crate::ask::{all, asking, current_time, respond, shown};

#[tokio::test]
async fn a_greeting_or_a_call_for_help_is_answered_with_what_can_be_asked() {
    for message in [
        "hi",
        "Hello!",
        "Hey, there",
        "help",
        "Help me, please.",
        "What can you do?",
        "who are you?",
        "What’s your name?",
        "Which model are you?",
        "test",
    ] {
        let reply = respond(&asking(message, all())).await;
        let said = shown(&reply);
        assert!(!reply.is_no_answer(), "{message}: {said}");
        for expected in [
            "No language model is configured",
            "- What time is it in Tokyo?",
            "- What's in README.md?",
            "- add_note: Adds a note.",
            "neuraxis setup",
        ] {
            assert!(said.contains(expected), "{message}: {said}");
        }
    }
}

#[tokio::test]
async fn an_introduction_gives_examples_of_the_offered_tools_only() {
    let mut request = asking("hello", vec![current_time()]);
    let said = respond(&request).await.text();
    assert!(said.contains("What time is it in Tokyo?"), "{said}");
    assert!(!said.contains("README.md"), "{said}");
    request.tools = [].into();
    request.tool_choice = ToolChoice::None;
    let said = respond(&request).await.text();
    assert!(!said.contains("For example"), "{said}");
    assert!(said.contains("No tool is offered"), "{said}");
}

#[tokio::test]
async fn a_message_that_only_begins_with_a_greeting_is_no_greeting() {
    for message in [
        "Hi, write me a poem.",
        "help me write a letter",
        "Hello in French?",
        "Who are you to judge?",
        "What can you do about rust?",
    ] {
        let reply = respond(&asking(message, all())).await;
        assert!(reply.is_no_answer(), "{message}: {reply:?}");
    }
}

#[tokio::test]
async fn a_call_for_help_with_a_file_is_a_question_about_the_file() {
    let mut request = asking("help", all());
    let parts = vec![Part::text("help"), Part::text("fn main() {")];
    request.messages = [Message::User { parts }].into_iter().collect();
    let reply = respond(&request).await;
    assert!(reply.is_no_answer(), "{reply:?}");
}

#[tokio::test]
async fn every_example_of_an_introduction_calls_its_tool() {
    let tools = || all().into_iter().chain([crate::ask::calculate()]);
    let said = respond(&asking("help", tools().collect())).await.text();
    let examples = said.split("For example:\n").nth(1).unwrap();
    let examples = examples.split("\n\n").next().unwrap();
    assert_eq!(examples.lines().count(), 6, "{said}");
    for example in examples.lines() {
        let question = example.strip_prefix("- ").unwrap();
        let reply = respond(&asking(question, tools().collect())).await;
        assert_eq!(reply.calls().count(), 1, "{question}: {reply:?}");
    }
}
