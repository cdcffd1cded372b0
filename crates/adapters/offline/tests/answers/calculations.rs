//! Which messages are calculated, and which only look as if they could be.

use neuraxis_core::{Message, ToolSpec};
use neuraxis_testkit::request_of;

use crate::ask::{all, asking, calculate, respond, shown};

fn with_calculator() -> Vec<ToolSpec> {
    all().into_iter().chain([calculate()]).collect()
}

async fn assert_calculated(question: &str, expression: &str) {
    let reply = respond(&asking(question, with_calculator())).await;
    let expected = format!(r#"calculate {{"expression":"{expression}"}}"#);
    assert_eq!(shown(&reply), expected, "{question}");
}

#[tokio::test]
async fn a_message_that_is_only_a_calculation_is_calculated() {
    for (question, expression) in [
        ("2+2", "2 + 2"),
        ("What is 2+2?", "2 + 2"),
        ("what's 17 * 3", "17 * 3"),
        ("What’s 17 × 3?", "17 * 3"),
        ("Calculate 17*3", "17 * 3"),
        ("calculate 17*3", "17 * 3"),
        ("Please calculate: 17*3.", "17 * 3"),
        ("How much is 15% of 80?", "15% of 80"),
        ("what is 15 percent of 80", "15% of 80"),
        ("what is 100 / 7?", "100 / 7"),
        ("calculate 100/7", "100 / 7"),
        ("how much is 9/11?", "9 / 11"),
        ("12 times 12", "12 * 12"),
        ("12 x 12", "12 * 12"),
        ("2+2=", "2 + 2"),
        ("2 + 2 = ?", "2 + 2"),
        ("What does 7 minus 9 equal?", "7 - 9"),
        ("10 divided by 4, please", "10 / 4"),
        ("(1,000.5 + -3) * 2^10", "(1,000.5 + -3) * 2 ^ 10"),
        ("2 to the power of 10", "2 ^ 10"),
        ("what is 9 squared?", "9^2"),
        ("What is the square root of 144?", "sqrt 144"),
        ("sqrt(144)", "sqrt (144)"),
        ("2 * pi", "2 * pi"),
        ("17 mod 5", "17 mod 5"),
        ("And 3 * 3?", "3 * 3"),
    ] {
        assert_calculated(question, expression).await;
    }
}

#[tokio::test]
async fn a_conversion_between_units_is_calculated() {
    for (question, expression) in [
        ("convert 5 miles to km", "5 miles to km"),
        ("What is 5 km in Miles?", "5 km to miles"),
        ("20°C in °F", "20 °C to °F"),
        (
            "-5 degrees celsius to fahrenheit",
            "-5 celsius to fahrenheit",
        ),
        ("2.5 GB in MiB", "2.5 GB to MiB"),
        ("How many minutes are in 3 hours?", "3 hours to minutes"),
        ("how many seconds are there in a day", "1 day to seconds"),
    ] {
        assert_calculated(question, expression).await;
    }
}

/// Whatever may mean something else is left to a model.
#[tokio::test]
async fn a_message_that_is_more_or_less_than_a_calculation_is_not_calculated() {
    for question in [
        "What is 2+2 in Rust's type syntax?",
        "Why is 2+2 = 4?",
        "What is 2+2 and who found it?",
        "2+2=5",
        "What is 9/11?",
        "24/7",
        "2026-11-30",
        "11/30/2026",
        "+1 555 123 4567",
        "555-1234",
        "1920x1080",
        "192.168.0.1/24",
        "1.2.3 + 1",
        "C++",
        "42",
        "100%",
        "-5",
        "(2",
        "2 + 2)",
        "2 +",
        "* 2",
        "12 * 3!",
        "pi",
        "17 % 5",
        "What is the square root of evil?",
        "How many people are in a family?",
        "5 minutes in hell",
        "5 m in",
        "What is it?",
    ] {
        let reply = respond(&asking(question, with_calculator())).await;
        assert!(reply.is_no_answer(), "{question}: {reply:?}");
    }
}

#[tokio::test]
async fn any_two_numbers_and_an_operator_are_calculated_but_not_with_another_word() {
    for (left, right) in [("0", "1"), ("7", "300"), ("1.5", "2.25"), ("1,000", "12")] {
        for operator in ["+", "-", "*", "/", "^"] {
            let expression = format!("{left} {operator} {right}");
            for ask in ["", "What is ", "calculate ", "how much is "] {
                let question = format!("{ask}{expression}");
                assert_calculated(&question, &expression).await;
                let more = format!("{question} apples");
                let reply = respond(&asking(&more, vec![calculate()])).await;
                // By its name, a tool is called with whatever follows.
                let is_named = ask == "calculate ";
                assert_ne!(reply.is_no_answer(), is_named, "{more}");
            }
        }
    }
}

#[tokio::test]
async fn a_calculation_names_no_file_and_a_named_tool_gets_the_rest_of_the_message() {
    let reply = respond(&asking("what's 1/2 of the cake?", with_calculator())).await;
    assert!(reply.is_no_answer(), "{reply:?}");
    assert_calculated("calculate 5 kg * 3", "5 kg * 3").await;
    assert_calculated(r#"calculate {"expression":"6*7"}"#, "6*7").await;
}

#[tokio::test]
async fn a_follow_up_does_not_repeat_a_calculation() {
    let mut request = request_of([
        Message::user("What time is it in Asia/Tokyo?"),
        Message::assistant("It is noon."),
        Message::user("What is 2+2?"),
        Message::assistant("2 + 2 = 4"),
        Message::user("And in New York?"),
    ]);
    request.tools = with_calculator().into();
    let asked = shown(&respond(&request).await);
    assert_eq!(asked, r#"current_time {"time_zone":"New York"}"#);
}
