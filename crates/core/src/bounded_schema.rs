//! Makes somebody else's JSON Schema harmless: bounded in what checking a value against it can cost.
//!
//! Nothing outside the schema is ever looked up. What a validator looks at is counted as if it never remembered a result, so
//! that the bound holds for any. Not for checking values: that is the engine's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::json::JsonText;

/// The most levels of a schema as it is written.
const MAX_DEPTH: usize = 64;

/// The most levels with those of all that is referred to: a validator goes down as deep.
const MAX_LEVELS: usize = 512;

/// The most that checking one value may cost, in places of the schema that are looked at.
const MAX_COST: u64 = 50_000;

/// How often the rest is checked where what it left unevaluated counts.
const UNEVALUATED: u64 = 4;

/// What refers to another place.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// What else gives a place a name. Nothing refers to it, and no two places may have the same.
const ANCHORS: [&str; 2] = ["$anchor", "$dynamicAnchor"];

/// What says of a whole schema what it is.
const OF_WHOLE: [&str; 3] = ["$id", "id", "$schema"];

/// The beginning of the names of a schema's copies among its definitions.
const COPY: &str = "neuraxis-level-";

/// Why checking a value against a schema has no bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnboundedSchema {
    /// It is not JSON.
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// It is nested too deeply.
    #[error("has more than {MAX_DEPTH} levels")]
    TooDeep,
    /// Something in it refers to anything but a place within it, named by where it is.
    #[error("refers to something outside of itself: a $ref has to begin with #/")]
    Outside,
    /// Something in it refers to a place that is not there.
    #[error("refers to {0:?}, which it does not have")]
    Nowhere(String),
    /// References in a part of it would count from there.
    #[error("has a part with an address of its own")]
    OwnAddress,
    /// It is too large, or grows beyond all measure, as one does whose parts refer to others more than once, and these do, too.
    #[error(
        "is too costly to check against: it has more than {MAX_COST} places or {MAX_LEVELS} levels, with all that it refers to each \
         time that it does"
    )]
    TooCostly,
}

/// Returns a schema against which values can be checked at a bounded cost.
///
/// A reference that leads back to where it is used is opened once, and `levels` times more, or as often as the bound lets
/// it; what is below takes anything.
///
/// # Errors
///
/// An [`UnboundedSchema`], which reads as what is said of the schema.
pub fn bounded_schema(schema: &JsonText, levels: u32) -> Result<JsonText, UnboundedSchema> {
    let not_json = |error: serde_json::Error| UnboundedSchema::NotJson(error.to_string());
    let value: Value = schema.decode().map_err(not_json)?;
    if depth(&value) > MAX_DEPTH {
        return Err(UnboundedSchema::TooDeep);
    }
    let keyword = if is_of_draft_4(&value) { "id" } else { "$id" };
    check_references(&value, true, keyword)?;
    let back = Walk::through(&value)?;
    if back.is_empty() {
        return Ok(schema.clone());
    }
    let mut levels = levels;
    loop {
        let opened = opened(&value, &back, levels);
        match Walk::through(&opened) {
            Ok(still_back) if still_back.is_empty() => {
                return JsonText::encode(&opened).map_err(not_json);
            }
            Err(error) if error != UnboundedSchema::TooCostly => return Err(error),
            _ if levels == 0 => return Err(UnboundedSchema::TooCostly),
            _ => levels /= 2,
        }
    }
}

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => None,
    };
    1 + below.unwrap_or(0)
}

/// Tells whether any part is written in the draft that has another name for addresses.
fn is_of_draft_4(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(is_of_draft_4),
        Value::Object(members) => {
            let draft = members.get("$schema").and_then(Value::as_str);
            draft.is_some_and(|draft| draft.contains("draft-04"))
                || members.values().any(is_of_draft_4)
        }
        _ => false,
    }
}

/// Refuses references to anything but a place within the schema, and places with an address of their own, from which
/// references would count. The address may be given by `keyword`, besides by the usual one.
fn check_references(value: &Value, is_root: bool, keyword: &str) -> Result<(), UnboundedSchema> {
    match value {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| check_references(item, false, keyword)),
        Value::Object(members) => {
            for reference in REFERENCES {
                if let Some(Value::String(target)) = members.get(reference) {
                    let is_local = target == "#" || target.starts_with("#/");
                    if reference != "$ref" || !is_local {
                        return Err(UnboundedSchema::Outside);
                    }
                }
            }
            let is_address = |name: &str| members.get(name).is_some_and(Value::is_string);
            if !is_root && (is_address("$id") || is_address(keyword)) {
                return Err(UnboundedSchema::OwnAddress);
            }
            members
                .values()
                .try_for_each(|member| check_references(member, false, keyword))
        }
        _ => Ok(()),
    }
}

/// Returns the place that a reference names, or nothing if not all read it alike.
fn pointer_of(reference: &str) -> Option<String> {
    let mut parts = reference.strip_prefix('#')?.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.extend(hex::decode(code).ok()?);
        bytes.extend(rest.as_bytes());
    }
    let pointer = String::from_utf8(bytes).ok()?;
    let mut escapes = pointer.split('~').skip(1);
    let is_clear = escapes.all(|escape| escape.starts_with(['0', '1']));
    is_clear.then_some(pointer)
}

fn beneath(pointer: &str, name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{name}")
}

/// Tells whether a place is a whole schema: the schema itself or a copy of it.
fn is_whole(pointer: &str) -> bool {
    let copy = pointer.strip_prefix("/$defs/");
    let copy = copy.and_then(|name| name.strip_prefix(COPY));
    pointer.is_empty() || copy.is_some_and(|level| !level.contains('/'))
}

/// What checking a value against a place takes.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    places: u64,
    levels: usize,
}

impl Extent {
    fn and(self, other: Self) -> Self {
        Self {
            places: self.places.saturating_add(other.places),
            levels: self.levels.max(other.levels),
        }
    }
}

/// Adds up what checking costs, and finds the references that lead back to where they are used.
struct Walk<'a> {
    schema: &'a Value,
    /// What each place takes that is referred to; `None` while it is being added up.
    extents: BTreeMap<String, Option<Extent>>,
    /// The places of the references that lead back.
    back: BTreeSet<String>,
    /// How deep the walk is.
    level: usize,
}

impl<'a> Walk<'a> {
    /// Returns the places of the references that lead back, if checking is not too costly without them.
    fn through(schema: &'a Value) -> Result<BTreeSet<String>, UnboundedSchema> {
        let mut walk = Self {
            schema,
            extents: BTreeMap::new(),
            back: BTreeSet::new(),
            level: 0,
        };
        let extent = walk.extent("", schema)?;
        if extent.places > MAX_COST || extent.levels > MAX_LEVELS {
            return Err(UnboundedSchema::TooCostly);
        }
        Ok(walk.back)
    }

    /// Returns what a place takes, with all it refers to.
    fn extent(&mut self, pointer: &str, value: &Value) -> Result<Extent, UnboundedSchema> {
        if self.level > MAX_LEVELS {
            return Err(UnboundedSchema::TooCostly);
        }
        self.level += 1;
        let below = match value {
            Value::Array(items) => self.of_items(pointer, items)?,
            Value::Object(members) => self.of_members(pointer, members)?,
            _ => Extent::default(),
        };
        self.level -= 1;
        Ok(Extent {
            places: below.places.saturating_add(1),
            levels: below.levels + 1,
        })
    }

    fn of_items(&mut self, pointer: &str, items: &[Value]) -> Result<Extent, UnboundedSchema> {
        let mut sum = Extent::default();
        for (at, item) in items.iter().enumerate() {
            sum = sum.and(self.extent(&format!("{pointer}/{at}"), item)?);
        }
        Ok(sum)
    }

    fn of_members(
        &mut self,
        pointer: &str,
        members: &Map<String, Value>,
    ) -> Result<Extent, UnboundedSchema> {
        let mut sum = Extent::default();
        for (name, member) in members {
            // What is only defined costs where it is used.
            if matches!(name.as_str(), "$defs" | "definitions") && is_whole(pointer) {
                continue;
            }
            sum = sum.and(self.extent(&beneath(pointer, name), member)?);
        }
        if let Some(Value::String(target)) = members.get("$ref") {
            sum = sum.and(self.reference(pointer, target)?);
        }
        // To know what is left, the rest is checked again.
        let rests = ["unevaluatedProperties", "unevaluatedItems"];
        if rests.iter().any(|name| members.contains_key(*name)) {
            sum.places = sum.places.saturating_mul(UNEVALUATED);
        }
        Ok(sum)
    }

    fn reference(&mut self, from: &str, target: &str) -> Result<Extent, UnboundedSchema> {
        let schema = self.schema;
        let found = pointer_of(target).and_then(|pointer| {
            let place = schema.pointer(&pointer)?;
            Some((pointer, place))
        });
        let Some((pointer, place)) = found else {
            let target = target.chars().take(100).collect();
            return Err(UnboundedSchema::Nowhere(target));
        };
        // What it is within is being added up just now.
        let is_within = from
            .strip_prefix(pointer.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match self.extents.get(&pointer).copied() {
            Some(Some(extent)) if !is_within => Ok(extent),
            None if !is_within => {
                self.extents.insert(pointer.clone(), None);
                let extent = self.extent(&pointer, place)?;
                self.extents.insert(pointer, Some(extent));
                Ok(extent)
            }
            _ => {
                self.back.insert(from.to_owned());
                Ok(Extent::default())
            }
        }
    }
}

/// Opens the references that lead back so many times more: each time they lead into another copy of the schema, whose other
/// references stay in it. In the last one they are left out.
fn opened(schema: &Value, back: &BTreeSet<String>, levels: u32) -> Value {
    let copy = |level| {
        let redirect = Redirect {
            back,
            level,
            levels,
        };
        redirect.copied("", schema)
    };
    let mut whole = copy(0);
    let copies = (1..=levels).map(|level| {
        let mut copied = copy(level);
        if let Value::Object(copied) = &mut copied {
            for keyword in OF_WHOLE {
                copied.remove(keyword);
            }
        }
        (format!("{COPY}{level}"), copied)
    });
    if let Value::Object(whole) = &mut whole
        && levels > 0
        && let Value::Object(definitions) = whole
            .entry("$defs")
            .or_insert_with(|| Value::Object(Map::new()))
    {
        definitions.extend(copies);
    }
    whole
}

/// Copies a schema to another level.
struct Redirect<'a> {
    /// The places of the references that lead to the next level.
    back: &'a BTreeSet<String>,
    level: u32,
    /// The last level.
    levels: u32,
}

impl Redirect<'_> {
    fn copied(&self, pointer: &str, value: &Value) -> Value {
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(at, item)| self.copied(&format!("{pointer}/{at}"), item));
                Value::Array(items.collect())
            }
            Value::Object(members) => {
                let copied = members.iter().map(|(name, member)| {
                    let member = self.copied(&beneath(pointer, name), member);
                    (name.clone(), member)
                });
                let mut copied: Map<String, Value> = copied.collect();
                if let Some(Value::String(target)) = members.get("$ref") {
                    let level = self.level + u32::from(self.back.contains(pointer));
                    if level > self.levels {
                        copied.remove("$ref");
                    } else if level > 0 {
                        let rest = target.strip_prefix('#').unwrap_or(target);
                        let target = format!("#/$defs/{COPY}{level}{rest}");
                        copied.insert("$ref".to_owned(), target.into());
                    }
                }
                for anchor in ANCHORS {
                    if self.level > 0 && copied.get(anchor).is_some_and(Value::is_string) {
                        copied.remove(anchor);
                    }
                }
                Value::Object(copied)
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
