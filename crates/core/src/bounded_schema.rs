//! Makes a third party's JSON Schema safe to use by bounding what it can cost to check a value against it.
//!
//! Nothing outside the schema is ever looked up. The cost is counted as if a validator never cached a result, so the
//! bound holds for any validator. Checking values is up to the engine.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::json::JsonText;

/// Maximum nesting depth of a schema as written.
const MAX_DEPTH: usize = 64;

/// Maximum nesting depth with all references followed, since a validator recurses that deep.
const MAX_LEVELS: usize = 512;

/// Maximum cost of checking one value, in visited places of the schema.
const MAX_COST: u64 = 50_000;

/// Cost factor of a schema that uses `unevaluated…`: how often the rest of it is checked.
const UNEVALUATED: u64 = 4;

/// Keywords that refer to another place.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Other keywords that name a place. Nothing may refer to these names, and no two places may share one.
const ANCHORS: [&str; 2] = ["$anchor", "$dynamicAnchor"];

/// Keywords that describe a whole schema.
const OF_WHOLE: [&str; 3] = ["$id", "id", "$schema"];

/// Prefix of the names under which copies of a schema are added to its definitions.
const COPY: &str = "neuraxis-level-";

/// Why the cost of checking a value against a schema has no bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnboundedSchema {
    /// The schema is not JSON.
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// The schema is nested too deeply.
    #[error("has more than {MAX_DEPTH} levels")]
    TooDeep,
    /// A reference is something other than a `$ref` to a place within the schema, given as a path from its root.
    #[error("refers to something outside of itself: a $ref must begin with #/")]
    Outside,
    /// The schema refers to a place that does not exist.
    #[error("refers to {0:?}, which it does not contain")]
    Nowhere(String),
    /// A part has its own address, so references in it would be resolved relative to that part.
    #[error("has a part with its own address")]
    OwnAddress,
    /// The schema is too large, or its size explodes when references are followed: for example, parts that refer to
    /// others more than once, which in turn do the same.
    #[error(
        "is too costly to check: with every reference expanded, it has more than {MAX_COST} places or {MAX_LEVELS} levels"
    )]
    TooCostly,
}

/// Returns a schema against which values can be checked at a bounded cost.
///
/// A reference that leads back to where it is used is expanded once, then up to `levels` more times, as far as the
/// bound allows. Below that, any value is accepted.
///
/// # Errors
///
/// An [`UnboundedSchema`], worded as a predicate of the schema.
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

/// Returns whether any part is written in draft 4, which names the address keyword differently.
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

/// Refuses references to anything but a place within the schema, and parts that have their own address, since
/// references would be resolved relative to it. `keyword` may hold the address in addition to `$id`.
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

/// Returns the place that a reference names, or `None` if implementations could read it differently.
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

/// Returns whether a place is a whole schema: the schema itself or a copy of it.
fn is_whole(pointer: &str) -> bool {
    let copy = pointer.strip_prefix("/$defs/");
    let copy = copy.and_then(|name| name.strip_prefix(COPY));
    pointer.is_empty() || copy.is_some_and(|level| !level.contains('/'))
}

/// The cost of checking a value against a place.
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

/// Adds up the cost of checking, and finds the references that lead back to where they are used.
struct Walk<'a> {
    schema: &'a Value,
    /// The cost of each place that is referred to; `None` while it is being computed.
    extents: BTreeMap<String, Option<Extent>>,
    /// The locations of the references that lead back.
    back: BTreeSet<String>,
    /// The current depth of the walk.
    level: usize,
}

impl<'a> Walk<'a> {
    /// Returns the locations of the references that lead back, if checking is not too costly without them.
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

    /// Returns the cost of a place, including everything it refers to.
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
            // Definitions cost where they are used, not where they are defined.
            if matches!(name.as_str(), "$defs" | "definitions") && is_whole(pointer) {
                continue;
            }
            sum = sum.and(self.extent(&beneath(pointer, name), member)?);
        }
        if let Some(Value::String(target)) = members.get("$ref") {
            sum = sum.and(self.reference(pointer, target)?);
        }
        // To find what is left unevaluated, a validator checks the rest again.
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
        // The cost of an enclosing place is still being computed.
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

/// Expands the references that lead back `levels` more times. Each expansion leads into another copy of the schema, and
/// the other references of that copy stay within it. The last copy omits the references that lead back.
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

/// Copies a schema for another level.
struct Redirect<'a> {
    /// The locations of the references that lead to the next level.
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
