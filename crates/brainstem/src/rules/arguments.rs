//! The arguments of a call, as rules read them: found by name at any depth.

use std::collections::HashSet;
use std::fmt;

use neuraxis_core::JsonText;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// The arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    fields: Vec<(String, Argument)>,
    /// Whether the arguments are unreliable: they are not a JSON object, or a name occurs twice, so that the code that
    /// runs the call may read another value than the rules do.
    is_unclear: bool,
}

/// One argument, with its name.
#[derive(Debug)]
enum Argument {
    Scalar(String),
    List(Vec<Argument>),
    Table(Vec<(String, Argument)>),
}

/// The names of arguments to find.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Names<'a> {
    /// Usual names, in any spelling: `workingDirectory` and `Working-Directory` match `working_directory`.
    Usual(&'a [&'a str]),
    /// Explicitly given names, matched exactly.
    These(&'a [String]),
}

/// The strings found under some names.
#[derive(Debug, Default)]
pub(crate) struct Texts<'a> {
    pub(crate) found: Vec<&'a str>,
    /// Whether a non-empty list was found under those names.
    pub(crate) has_list: bool,
    /// Whether something other than a string was found under those names.
    pub(crate) is_unclear: bool,
}

impl Names<'_> {
    /// Returns whether an argument has one of the names.
    pub(crate) fn contain(self, key: &str) -> bool {
        match self {
            Self::Usual(names) => names.iter().any(|name| letters(name).eq(letters(key))),
            Self::These(names) => names.iter().any(|name| name == key),
        }
    }
}

/// Returns the letters of a name, regardless of how its words are joined.
fn letters(name: &str) -> impl Iterator<Item = char> {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-'));
    // Go programs read `ſ` as `s` (both share only the capital `S`), and the kelvin sign as `k`, its only other form.
    letters
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
}

impl Arguments {
    pub(crate) fn read(text: &JsonText) -> Self {
        match text.decode::<Argument>() {
            Ok(Argument::Table(fields)) => Self {
                is_unclear: any_twice(&fields),
                fields,
            },
            _ => Self {
                fields: Vec::new(),
                is_unclear: true,
            },
        }
    }

    /// Returns the strings under the given names, at any depth; those in lists one by one.
    pub(crate) fn texts(&self, names: Names<'_>) -> Texts<'_> {
        let mut texts = Texts {
            is_unclear: self.is_unclear,
            ..Texts::default()
        };
        collect(&self.fields, names, &mut texts);
        texts
    }

    /// Returns the lists of strings under the given names of the outermost table, and all other strings under those
    /// names.
    pub(crate) fn lists_and_texts(&self, names: Names<'_>) -> (Vec<Vec<&str>>, Texts<'_>) {
        let mut lists = Vec::new();
        let mut texts = Texts {
            is_unclear: self.is_unclear,
            ..Texts::default()
        };
        for field in &self.fields {
            let is_named = names.contain(&field.0);
            match field.1.list().filter(|_| is_named) {
                Some(list) => lists.push(list),
                None => collect(std::slice::from_ref(field), names, &mut texts),
            }
        }
        (lists, texts)
    }

    /// Returns whether anything exists under the given names, at any depth.
    pub(crate) fn has_any(&self, names: Names<'_>) -> bool {
        let mut texts = Texts::default();
        collect(&self.fields, names, &mut texts);
        !texts.found.is_empty() || texts.is_unclear
    }
}

impl Argument {
    /// Returns the strings of a list that contains nothing else.
    fn list(&self) -> Option<Vec<&str>> {
        match self {
            Self::List(items) => items.iter().map(Self::scalar).collect(),
            Self::Scalar(_) | Self::Table(_) => None,
        }
    }

    fn scalar(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) => Some(text),
            Self::List(_) | Self::Table(_) => None,
        }
    }
}

fn any_twice(fields: &[(String, Argument)]) -> bool {
    let mut seen = HashSet::with_capacity(fields.len());
    fields
        .iter()
        .any(|(key, value)| !seen.insert(key) || twice_within(value))
}

fn twice_within(value: &Argument) -> bool {
    match value {
        Argument::Scalar(_) => false,
        Argument::List(items) => items.iter().any(twice_within),
        Argument::Table(fields) => any_twice(fields),
    }
}

fn collect<'a>(fields: &'a [(String, Argument)], names: Names<'_>, texts: &mut Texts<'a>) {
    for (key, value) in fields {
        if names.contain(key) {
            take(value, texts);
        }
        collect_within(value, names, texts);
    }
}

fn collect_within<'a>(value: &'a Argument, names: Names<'_>, texts: &mut Texts<'a>) {
    match value {
        Argument::Scalar(_) => {}
        Argument::List(items) => {
            for item in items {
                collect_within(item, names, texts);
            }
        }
        Argument::Table(fields) => collect(fields, names, texts),
    }
}

fn take<'a>(value: &'a Argument, texts: &mut Texts<'a>) {
    match value {
        Argument::Scalar(text) => texts.found.push(text),
        Argument::List(items) => {
            texts.has_list |= !items.is_empty();
            for item in items {
                take(item, texts);
            }
        }
        // An empty table adds nothing.
        Argument::Table(fields) => texts.is_unclear |= !fields.is_empty(),
    }
}

impl<'de> Deserialize<'de> for Argument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ArgumentVisitor)
    }
}

struct ArgumentVisitor;

impl<'de> Visitor<'de> for ArgumentVisitor {
    type Value = Argument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Argument, E> {
        // `null` is treated as omitted.
        Ok(Argument::List(Vec::new()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Argument, E> {
        Ok(Argument::Scalar(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Argument, E> {
        Ok(Argument::Scalar(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Argument, E> {
        Ok(Argument::Scalar(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Argument, E> {
        Ok(Argument::Scalar(value.to_string()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Argument, E> {
        Ok(Argument::Scalar(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Argument, E> {
        Ok(Argument::Scalar(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Argument, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Argument::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Argument, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Argument::Table(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(json: &str) -> (Vec<String>, bool) {
        let arguments = Arguments::read(&JsonText::from_text(json));
        let texts = arguments.texts(Names::Usual(&["path"]));
        let found = texts.found.iter().map(ToString::to_string).collect();
        (found, texts.is_unclear)
    }

    #[test]
    fn argument_texts_are_found_at_any_depth_and_in_lists() {
        let (found, unclear) =
            texts(r#"{"path":"a","edits":[{"path":["b","c"]},{"other":{"path":"d"}}]}"#);
        assert_eq!(found, ["a", "b", "c", "d"]);
        assert!(!unclear);
    }

    #[test]
    fn comparing_many_names_takes_linear_time() {
        let fields: Vec<String> = (0..200_000)
            .map(|number| format!("\"a{number}\":0"))
            .collect();
        assert!(!texts(&format!("{{{}}}", fields.join(","))).1);
        assert!(texts(&format!("{{{},\"a0\":0}}", fields.join(","))).1);
    }

    #[test]
    fn ambiguous_arguments_are_unclear() {
        for json in [
            r#"{"path":"a","path":"b"}"#,
            r#"{"x":{"path":"a","path":"b"}}"#,
            "[1]",
            "nonsense",
            r#"{"path":{"of":"x"}}"#,
        ] {
            assert!(texts(json).1, "{json}");
        }
    }
}
