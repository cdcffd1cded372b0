//! Fields of a request that only one server has.

use std::fmt;

use bytes::Bytes;
use neuraxis_core::JsonText;
use serde::Serialize;

/// Fields that are added to the body of a request, after those of the protocol.
///
/// ```
/// use neuraxis_wire::ExtraFields;
///
/// let extra = ExtraFields::default().with("top_k", &40);
/// assert_eq!(extra.to_string(), r#""top_k":40"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtraFields(String);

impl ExtraFields {
    /// Adds a field. Skips a value that JSON cannot express, such as a map whose keys are not strings.
    #[must_use]
    pub fn with(self, name: &str, value: &(impl Serialize + ?Sized)) -> Self {
        match JsonText::encode(value) {
            Ok(value) => self.with_json(name, &value),
            Err(_) => self,
        }
    }

    /// Adds a field whose value is already JSON. Skips a value that is not valid JSON.
    #[must_use]
    pub fn with_json(mut self, name: &str, value: &JsonText) -> Self {
        if !value.is_valid() {
            return self;
        }
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(JsonText::string(name).as_str());
        self.0.push(':');
        self.0.push_str(value.as_str());
        self
    }

    /// Returns an object, which already has fields, with these appended.
    #[must_use]
    pub fn join(&self, body: Bytes) -> Bytes {
        if self.0.is_empty() || !body.ends_with(b"}") {
            return body;
        }
        let mut body = Vec::from(body);
        body.pop();
        body.push(b',');
        body.extend_from_slice(self.0.as_bytes());
        body.push(b'}');
        body.into()
    }
}

impl fmt::Display for ExtraFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_fields_are_appended_to_the_body() {
        let extra = ExtraFields::default()
            .with("think", "no \"more\"")
            .with_json("schema", &JsonText::from_text("{\"a\": 1}"));
        let body = extra.join(Bytes::from_static(br#"{"model":"m"}"#));
        assert_eq!(
            body,
            r#"{"model":"m","think":"no \"more\"","schema":{"a": 1}}"#
        );
    }

    #[test]
    fn a_body_without_extra_fields_is_unchanged() {
        let body = Bytes::from_static(b"{}");
        assert_eq!(ExtraFields::default().join(body.clone()), body);
    }

    #[test]
    fn an_extra_field_that_is_not_json_is_omitted() {
        let extra = ExtraFields::default().with_json("a", &JsonText::from_text("{"));
        assert_eq!(extra, ExtraFields::default());
    }
}
