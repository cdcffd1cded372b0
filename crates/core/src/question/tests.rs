use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::ids::{AgentId, Attempt, BlockIndex, ContentIndex, EffectId, RunId, Seq};
use crate::live::{LiveBody, LiveEvent};

fn choices() -> Vec<FieldChoice> {
    let choice = |value: &str| FieldChoice {
        value: value.to_owned(),
        title: value.to_uppercase(),
    };
    vec![choice("s"), choice("l")]
}

fn form() -> Question {
    let mut name = Field::new(
        "name",
        FieldKind::Text {
            min: Some(2),
            max: Some(4),
            format: None,
        },
    );
    name.required = Required::Yes;
    name.title = Some("Name".to_owned());
    let mut pages = Field::new(
        "pages",
        FieldKind::Integer {
            min: Some(1),
            max: None,
        },
    );
    pages.default = Some(JsonText::from_text("3"));
    let share = FieldKind::Number {
        min: None,
        max: Some(0.5),
    };
    Question::new("shop", "Which one?")
        .field(name)
        .field(pages)
        .field(Field::new("share", share))
        .field(Field::new("gift", FieldKind::Boolean))
        .field(Field::new("size", FieldKind::OneOf { choices: choices() }))
        .field(Field::new(
            "extras",
            FieldKind::AnyOf { choices: choices() },
        ))
}

#[test]
fn an_answer_must_be_an_object_with_valid_fields() {
    let check = |answer: Value| form().check(&JsonText::from_text(answer.to_string()));
    for good in [
        json!({"name": "Ada"}),
        json!({"name": "Ädä", "pages": 1, "share": 0.5, "gift": false, "size": "l", "extras": ["s", "l"]}),
        json!({"name": "Ada", "share": -7, "extras": []}),
    ] {
        assert_eq!(check(good.clone()), Ok(()), "{good}");
    }
    for (bad, field) in [
        (json!([]), None),
        (json!("Ada"), None),
        (json!({}), Some("name")),
        (json!({"name": null}), Some("name")),
        (json!({"name": "A"}), Some("name")),
        (json!({"name": "Adela"}), Some("name")),
        (json!({"name": "Ada", "other": 1}), Some("other")),
        (json!({"name": "Ada", "pages": 0}), Some("pages")),
        (json!({"name": "Ada", "pages": 1.5}), Some("pages")),
        (json!({"name": "Ada", "pages": "1"}), Some("pages")),
        (json!({"name": "Ada", "share": 0.51}), Some("share")),
        (json!({"name": "Ada", "gift": "yes"}), Some("gift")),
        (json!({"name": "Ada", "size": "L"}), Some("size")),
        (json!({"name": "Ada", "extras": "s"}), Some("extras")),
        (json!({"name": "Ada", "extras": ["s", 1]}), Some("extras")),
    ] {
        let fault = check(bad.clone()).unwrap_err();
        assert_eq!(fault.field(), field, "{bad}: {fault}");
    }
    let fault = check(json!({"name": "A"})).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "\"name\" must be text from 2 to 4 characters"
    );
    assert!(form().check(&JsonText::from_text("{")).is_err());
}

#[test]
fn a_question_without_fields_is_answered_with_an_empty_object() {
    let question = Question::new("shop", "Really?");
    assert_eq!(question.check(&JsonText::from_text("{}")), Ok(()));
    assert!(question.check(&JsonText::from_text(r#"{"a":1}"#)).is_err());
}

#[test]
fn a_question_event_reads_back_as_it_was_written() {
    let run_id = RunId(Uuid::nil());
    let open = OpenQuestion::new(
        QuestionId::from_text("q"),
        ToolCallId::from_text("c"),
        Timestamp::UNIX_EPOCH,
        form(),
    );
    let event = LiveEvent {
        after: Seq(3),
        content_index: ContentIndex(0),
        run_id,
        agent: AgentId::ROOT,
        call: EffectId {
            run: run_id,
            number: 1,
        },
        attempt: Attempt(1),
        block: BlockIndex(0),
        offset: 0,
        body: LiveBody::Question(Arc::new(open)),
    };
    let wire = serde_json::to_value(&event).unwrap();
    assert_eq!(wire["type"], "question");
    assert_eq!(wire["question_id"], "q");
    assert_eq!(wire["from"], "shop");
    assert_eq!(
        wire["fields"][0],
        json!({"name": "name", "title": "Name", "kind": "text", "min": 2, "max": 4, "required": true})
    );
    assert_eq!(wire["fields"][1]["default"], 3);
    assert_eq!(
        wire["fields"][4]["choices"][1],
        json!({"value": "l", "title": "L"})
    );
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<LiveEvent>(&text).unwrap(), event);
}
