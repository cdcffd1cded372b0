//! Checks answers against the OpenAPI document: an answer that it does not allow, or a field that it does not name,
//! fails the test that received it.

use std::sync::LazyLock;

use jsonschema::Validator;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

/// The document, with no additional fields allowed in any object.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../../docs/openapi.json");
    let mut document: Value = serde_json::from_str(text).unwrap();
    let schemas = document["components"]["schemas"].as_object_mut().unwrap();
    for schema in schemas.values_mut() {
        close_parts(schema);
    }
    document
});

static EVENT: LazyLock<Validator> = LazyLock::new(|| {
    let events = operation(&Method::GET, "/api/v1/runs/x/events").unwrap();
    let schema = &events["responses"]["200"]["content"]["text/event-stream"]["schema"];
    validator(&schema["properties"]["data"]["contentSchema"])
});

/// Returns whether a route belongs to the page, which the document does not describe.
fn is_of_the_page(path: &str) -> bool {
    path == "/" || path.starts_with("/assets/")
}

/// Checks an answer of a route that the document describes. Routes of the page are skipped.
pub(crate) fn check(
    method: &Method,
    path: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) {
    let place = format!("{method} {path}, {status}");
    let Some(operation) = operation(method, path) else {
        assert!(
            !status.is_success() || is_of_the_page(path),
            "{place}: the document has no such operation"
        );
        return;
    };
    let responses = &operation["responses"];
    // `4XX` covers every status that is not described separately.
    let class = format!("{}XX", status.as_u16() / 100);
    let response = match &responses[status.as_str()] {
        Value::Null => &responses[class.as_str()],
        exact => exact,
    };
    assert!(
        response.is_object(),
        "{place}: the document has no such status"
    );
    let Some(content) = response["content"].as_object() else {
        // A third-party protocol defines its own content there.
        let is_theirs = operation["tags"] == json!(["Protocols"]);
        assert!(
            body.is_empty() || is_theirs,
            "{place}: the document has no body"
        );
        return;
    };
    let media_type = headers[CONTENT_TYPE].to_str().unwrap();
    let Some(of_type) = content.get(media_type) else {
        panic!("{place}: the document has no {media_type}");
    };
    if !media_type.ends_with("json") {
        return;
    }
    let body: Value = serde_json::from_slice(body).unwrap();
    validate(&validator(&of_type["schema"]), &body, &place);
}

/// Checks one event of a stream.
pub(crate) fn check_event(event: &Value) {
    validate(&EVENT, event, "an event");
}

/// Returns the ways in which a value violates a schema of the document.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    faults_by(&validator(schema), value)
}

/// Returns the document.
pub(crate) fn document() -> &'static Value {
    &DOCUMENT
}

fn validate(validator: &Validator, value: &Value, place: &str) {
    let faults = faults_by(validator, value);
    assert!(
        faults.is_empty(),
        "{place}: the document does not allow {value:#}: {faults:#?}"
    );
}

fn faults_by(validator: &Validator, value: &Value) -> Vec<String> {
    let errors = validator.iter_errors(value);
    errors
        .map(|error| format!("{error}, at {}", error.instance_path()))
        .collect()
}

/// Returns the document's description of a request.
fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let fits = |template: &str| {
        let (template, path) = (template.split('/'), path.split('/'));
        template.clone().count() == path.clone().count()
            && template
                .zip(path)
                .all(|(part, given)| part == given || part.starts_with('{'))
    };
    let mut paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let (_, methods) = paths.find(|(template, _)| fits(template))?;
    methods.get(method.as_str().to_ascii_lowercase())
}

fn validator(schema: &Value) -> Validator {
    let mut schema = schema.clone();
    close(&mut schema);
    schema["components"] = DOCUMENT["components"].clone();
    let options = jsonschema::draft202012::options();
    options
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

/// Allows a value only the fields that its schema names.
fn close(schema: &mut Value) {
    close_parts(schema);
    let names_fields = ["$ref", "properties", "oneOf", "anyOf", "allOf"];
    if let Value::Object(schema) = schema
        && names_fields.iter().any(|key| schema.contains_key(*key))
    {
        schema.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

/// Does the same for nested values.
fn close_parts(schema: &mut Value) {
    let Value::Object(schema) = schema else {
        return;
    };
    close_fields(schema);
    for key in ["items", "additionalProperties"] {
        if let Some(part) = schema.get_mut(key) {
            close(part);
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        let choices = schema.get_mut(key).and_then(Value::as_array_mut);
        choices.into_iter().flatten().for_each(close_parts);
    }
}

fn close_fields(schema: &mut Map<String, Value>) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(Map::values_mut) {
        close(field);
    }
}
