//! Answers as values of types.

use std::sync::Arc;

use neuraxis_core::{FinishReason, JsonText, Message, Role};
use neuraxis_engine::{
    AnswerFault, AnswerSchema, AnswerSchemaError, Orchestrator, RequestError, TypedError,
};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::support::{builder, request};

/// A trip through several cities.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Trip {
    stops: Vec<Stop>,
    /// Where it begins.
    start: Stop,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stop {
    city: String,
    nights: Option<u8>,
}

/// It demands what no schema says.
#[derive(Debug, JsonSchema)]
struct Even {
    #[expect(dead_code, reason = "only its schema is of interest")]
    number: u32,
}

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("it is odd"))
    }
}

const TRIP: &str = r#"{"stops":[{"city":"Gouda","nights":2},{"city":"Utrecht"}],"start":{"city":"Delft","nights":null}}"#;

fn trip() -> Trip {
    let stop = |city: &str, nights| Stop {
        city: city.to_owned(),
        nights,
    };
    Trip {
        stops: vec![stop("Gouda", Some(2)), stop("Utrecht", None)],
        start: stop("Delft", None),
    }
}

#[tokio::test]
async fn a_governed_run_with_tools_returns_a_typed_value() {
    let schema = AnswerSchema::of::<Trip>().unwrap();
    assert!(schema.schema().as_str().contains("$ref"), "{schema:?}");
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let wrong = r#"{"stops":[{"city":"Gouda"},{"town":"Utrecht"}],"start":{"city":"Delft"}}"#;
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::calls([("final_answer", wrong)]))
            .then(reply::calls([("final_answer", TRIP)])),
    );
    let orchestrator = builder(model.clone())
        .tools([look.clone() as Arc<_>])
        .build()
        .unwrap();
    let done = orchestrator
        .handle_typed::<Trip>(request("Plan a trip."))
        .await
        .unwrap();
    assert_eq!((done.value, look.count()), (trip(), 1));
    assert_eq!(done.result.answer, Some(JsonText::from_text(TRIP)));
    let told = model.requests()[2]
        .messages
        .messages()
        .last()
        .unwrap()
        .text();
    assert!(told.contains("/stops/1"), "{told}");
    let description = &model.requests()[0].tools[2].description;
    assert!(description.contains("(Trip)"), "{description}");
}

#[tokio::test]
async fn a_standalone_run_returns_a_typed_value_with_and_without_tools() {
    for tools in [false, true] {
        let mut builder = Orchestrator::builder().model(
            Role::REASONING,
            Arc::new(
                ScriptedModel::new()
                    .then(reply::text("Well."))
                    .then(reply::text(TRIP)),
            ),
        );
        if tools {
            builder = builder.tool(Arc::new(ScriptedTool::echoing(spec("look"))));
        }
        let agent = builder.build_agent().unwrap();
        let messages = vec![Message::user("Plan a trip.")];
        let done = agent.run_typed::<Trip>(messages, Some("Be brief.")).await;
        let done = done.unwrap();
        assert_eq!(done.value, trip());
        assert_eq!((done.result.content.as_str(), done.result.turns), (TRIP, 2));
    }
}

#[tokio::test]
async fn a_schema_set_on_an_agent_replaces_that_of_the_type() {
    let model = Arc::new(ScriptedModel::always(reply::text("Well.")));
    let builder = Orchestrator::builder().model(Role::REASONING, model.clone());
    let agent = builder.build_agent().unwrap();
    let schema = AnswerSchema::of::<Trip>().unwrap().retries(0);
    let agent = agent.with_answer(schema.named("journey").unwrap());
    let refused = agent.execute_typed::<Trip>(None, "Plan a trip.").await;
    let turns = refused.unwrap_err().result().unwrap().turns;
    assert_eq!(turns, 1, "it was not asked again");
    let sent = format!("{:?}", model.requests()[0]);
    assert!(sent.contains("journey"), "{sent}");
}

#[tokio::test]
async fn typed_errors_include_the_cause_and_the_result_of_the_run() {
    let agent = |said: &str| {
        let model = Arc::new(ScriptedModel::always(reply::text(said)));
        let builder = Orchestrator::builder().model(Role::REASONING, model);
        builder.build_agent().unwrap()
    };
    let ask = || vec![Message::user("go")];
    let error = agent("no")
        .run_typed::<Trip>(ask(), None)
        .await
        .unwrap_err();
    let TypedError::NoAnswer { fault, result } = error else {
        panic!("{error:?}")
    };
    assert!(matches!(fault, AnswerFault::NotJson(_)), "{fault}");
    assert!(matches!(
        result.finish_reason,
        FinishReason::InvalidAnswer(_)
    ));
    assert_eq!(result.answer_fault, Some(fault));

    let error = agent(r#"{"number":3}"#)
        .run_typed::<Even>(ask(), None)
        .await;
    let TypedError::Unreadable { source, result } = error.unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(source.to_string(), "it is odd");
    assert!(result.answer.is_some());

    let error = agent("1").run_typed::<Vec<u8>>(ask(), None).await;
    assert!(matches!(
        error,
        Err(TypedError::Schema(AnswerSchemaError::NotObject))
    ));
    let error = agent("1").run_typed::<Trip>(Vec::new(), None).await;
    assert!(matches!(
        error,
        Err(TypedError::Request(RequestError::EmptyMessage))
    ));
}
