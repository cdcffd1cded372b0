//! JSON Schemas of the types with custom serialization: ids and hashes, which are strings of a given form, and the
//! usage of each role.
//!
//! All other types derive theirs. The schemas are not used for validation; `FromStr` does that.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::ids::{AgentId, EffectId, IdempotencyKey, Role, SessionId, ToolName};
use crate::json::ContentHash;
use crate::usage::{RoleUsage, Usage};

/// Describes types that are serialized as strings: the type, its description for users, and its form.
macro_rules! texts {
    ($($name:ident, $description:literal, $pattern:literal;)*) => {$(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": $description,
                    "type": "string",
                    "pattern": $pattern,
                })
            }
        }
    )*};
}

texts! {
    AgentId, "An agent of a run: the letter a and a number; `a0` is the one that answers the user.", "^a[0-9]+$";
    ContentHash, "A SHA-256 hash in 64 hexadecimal digits.", "^[0-9a-f]{64}$";
    EffectId, "Something the loop asked for: the id of its run, a full stop and a number.", "^[0-9a-f-]{36}[.][0-9]+$";
    IdempotencyKey, "The key of a request: 1 to 255 visible ASCII characters, none of them a space.", "^[!-~]{1,255}$";
    SessionId, "A session: 1 to 128 of A-Z a-z 0-9 . _ : -", "^[A-Za-z0-9._:-]{1,128}$";
    ToolName, "The name of a tool: 1 to 64 of A-Z a-z 0-9 _ -", "^[A-Za-z0-9_-]{1,64}$";
}

impl JsonSchema for RoleUsage {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RoleUsage".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<Role, Usage>::json_schema(generator)
    }
}
