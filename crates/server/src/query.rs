//! Query parameters: parsed into a type with known fields, with clear error messages for invalid ones.

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use neuraxis::core::clip;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::problem::{INVALID_QUERY, Problem};
use crate::request_body::{MAX_ERROR_CHARS, MAX_REPEATED_CHARS};

/// The query parameters of a request.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned + JsonSchema> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parse(&parts.uri).map(Self)
    }
}

/// Parses the query string of an address.
fn parse<T: DeserializeOwned + JsonSchema>(uri: &Uri) -> Result<T, Problem> {
    let rejection = match Query::<T>::try_from_uri(uri) {
        Ok(Query(query)) => return Ok(query),
        Err(rejection) => rejection.body_text(),
    };
    let given = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let given = given.map_or_else(|_| Vec::new(), |Query(given)| given);
    let text = message(&rejection, &given, &fields::<T>());
    Err(Problem::new(&INVALID_QUERY, clip(&text, MAX_ERROR_CHARS)))
}

/// Returns the schemas of a type's fields, by name.
fn fields<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|it| it.inline_subschemas = true);
    let mut schema = T::json_schema(&mut settings.into_generator());
    let properties = schema.ensure_object().get_mut("properties");
    properties.map(Value::take).unwrap_or_default()
}

/// Returns the message for a query that axum could not parse: the parameter, what was expected, and what came.
fn message(rejection: &str, given: &[(String, String)], fields: &Value) -> String {
    let text = rejection
        .strip_prefix("Failed to deserialize query string: ")
        .unwrap_or(rejection);
    if let Some(text) = unknown_parameter(text) {
        return text;
    }
    if let Some(name) = repeated(text) {
        return format!("{name}: expected once, not several times");
    }
    let Some((name, why)) = text.split_once(": ") else {
        return text.to_owned();
    };
    let value = given.iter().find(|(other, _)| other == name);
    match (value, expected(&fields[name])) {
        (Some((_, value)), Some(expected)) => {
            let value = clip(value, MAX_REPEATED_CHARS);
            format!("{name}: expected {expected}, not \"{value}\"")
        }
        // The type says in its own words what it takes.
        _ => format!("{name}: {why}"),
    }
}

/// Returns the name of the parameter that a query has twice, or `None` if serde's message is about something else.
fn repeated(text: &str) -> Option<&str> {
    let (_, name) = text.rsplit_once("duplicate field `")?;
    name.strip_suffix('`')
}

/// Returns the message for an unknown parameter, or `None` if serde's message is about something else.
fn unknown_parameter(text: &str) -> Option<String> {
    let (head, known) = text.rsplit_once("`, expected ")?;
    let (path, name) = head.split_once(": unknown field `")?;
    if path != name {
        return None;
    }
    let known = known.strip_prefix("one of ").unwrap_or(known);
    let known = known.replace(" or ", ", ").replace('`', "");
    let name = clip(name, MAX_REPEATED_CHARS);
    Some(format!("unknown parameter \"{name}\"; known: {known}"))
}

/// Returns what a parameter's schema expects, if a library parses it and would describe it in its own words.
fn expected(schema: &Value) -> Option<String> {
    // An optional parameter may also be null in its schema, which no query can contain.
    let schema = match &schema["anyOf"] {
        Value::Array(choices) => choices.first()?,
        _ => schema,
    };
    let is = |kind: &str| match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|it| it == kind),
        only => only == kind,
    };
    if is("boolean") {
        return Some("true or false".to_owned());
    }
    if is("integer") {
        let range = (schema["minimum"].as_u64(), schema["maximum"].as_u64());
        return Some(match range {
            (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
            _ => "a whole number".to_owned(),
        });
    }
    match schema["format"].as_str()? {
        "date-time" => Some("a time such as 2026-01-31T08:00:00Z".to_owned()),
        "uuid" => Some("a UUID".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::SessionId;
    use neuraxis::core::RunId;
    use neuraxis::core::jiff::Timestamp;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Known {
        #[schemars(range(min = 1, max = 9))]
        limit: Option<usize>,
        after: Option<RunId>,
        since: Option<Timestamp>,
        session: Option<SessionId>,
        stream: Option<bool>,
    }

    fn refused(query: &str) -> String {
        let uri: Uri = format!("/runs?{query}").parse().unwrap();
        let problem = parse::<Known>(&uri).unwrap_err();
        assert!(problem.is(&INVALID_QUERY), "{problem:?}");
        problem.details().detail
    }

    #[test]
    fn a_mistyped_parameter_is_refused_with_its_name_its_form_and_what_came() {
        let long = format!("limit={}", "x".repeat(1_000));
        let clipped = format!(
            "limit: expected a whole number from 1 to 9, not \"{}…\"",
            "x".repeat(MAX_REPEATED_CHARS)
        );
        for (query, expected) in [
            (
                "limit=x",
                "limit: expected a whole number from 1 to 9, not \"x\"",
            ),
            (
                "limit=",
                "limit: expected a whole number from 1 to 9, not \"\"",
            ),
            (
                "limit=-1",
                "limit: expected a whole number from 1 to 9, not \"-1\"",
            ),
            (
                "limit=a%20b",
                "limit: expected a whole number from 1 to 9, not \"a b\"",
            ),
            ("limit=1&limit=2", "limit: expected once, not several times"),
            (long.as_str(), clipped.as_str()),
            ("after=x", "after: expected a UUID, not \"x\""),
            (
                "since=yesterday",
                "since: expected a time such as 2026-01-31T08:00:00Z, not \"yesterday\"",
            ),
            ("stream=1", "stream: expected true or false, not \"1\""),
            (
                "limt=1",
                "unknown parameter \"limt\"; known: limit, after, since, session, stream",
            ),
        ] {
            assert_eq!(refused(query), expected, "{query}");
        }
        let session = refused("session=a%20b");
        assert!(session.starts_with("session: "), "{session}");
        assert!(session.contains("1 to 128"), "{session}");
    }

    #[test]
    fn an_unknown_parameter_is_refused_with_the_known_ones() {
        for (text, expected) in [
            (
                "limt: unknown field `limt`, expected one of `limit`, `after`, `owner`",
                "unknown parameter \"limt\"; known: limit, after, owner",
            ),
            (
                "a: unknown field `a`, expected `limit` or `after`",
                "unknown parameter \"a\"; known: limit, after",
            ),
            (
                "a: unknown field `a`, expected `limit`",
                "unknown parameter \"a\"; known: limit",
            ),
        ] {
            let whole = format!("Failed to deserialize query string: {text}");
            assert_eq!(message(&whole, &[], &Value::Null), expected);
        }
    }
}
