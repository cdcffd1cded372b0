//! JSON Schemas of types with handwritten serialization: the steps of a run, what they report to programs, and why an
//! answer is missing.

use std::borrow::Cow;

use neuraxis_core::{
    AgentId, Attempt, FinishReason, Origin, Purpose, Role, RunStatus, RunUsage, ToolCallId,
    ToolClass, ToolFailure, ToolStatus,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::answer::AnswerFault;
use crate::result::OrchestratorStep;
use crate::steps::{StepMetadata, Steps};

impl JsonSchema for Steps {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Steps".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<OrchestratorStep>::json_schema(generator)
    }
}

impl JsonSchema for AnswerFault {
    fn schema_name() -> Cow<'static, str> {
        "AnswerFault".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Why a run has no answer that fits the requested schema, as text for users.",
            "type": "string",
        })
    }
}

impl JsonSchema for StepMetadata {
    fn schema_name() -> Cow<'static, str> {
        "StepMetadata".into()
    }

    fn json_schema(of: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A step for programs. Its fields depend on its type.",
            "type": "object",
            "required": ["agent"],
            "properties": {
                "agent": of.subschema_for::<AgentId>(),
                "agents": {
                    "description": "The outcome of each sub-agent that the call started.",
                    "type": "array",
                    "items": agent_end(of),
                },
                "arguments": { "description": "The final arguments of the call, as JSON text.", "type": "string" },
                "attempt": of.subschema_for::<Attempt>(),
                "class": of.subschema_for::<ToolClass>(),
                "duration_ms": { "type": "integer", "format": "uint64", "minimum": 0 },
                "error": {
                    "description": "What went wrong: the message of a tool, the code of a warning, or the limit that was reached.",
                    "type": ["string", "null"],
                },
                "error_type": of.subschema_for::<ToolFailure>(),
                "failures": { "description": "The number of consecutive failures.", "type": "integer", "format": "uint32", "minimum": 0 },
                "from": of.subschema_for::<Role>(),
                "model": { "description": "The model's name at its provider.", "type": "string" },
                "model_role": of.subschema_for::<Role>(),
                "origin": of.subschema_for::<Origin>(),
                "provider": { "description": "The provider of the model.", "type": "string" },
                "purpose": of.subschema_for::<Purpose>(),
                "reason": { "description": "Why another role serves instead.", "type": "string" },
                "retried_after": {
                    "description": "The error of the previous attempt.",
                    "type": ["string", "null"],
                },
                "span_id": { "description": "The span of the trace, 16 hexadecimal digits.", "type": "string" },
                "status": of.subschema_for::<ToolStatus>(),
                "to": { "description": "The role that serves, or `person`.", "type": "string" },
                "tool_call_id": of.subschema_for::<ToolCallId>(),
                "tool_name": { "description": "The tool's name as the model wrote it.", "type": "string" },
                "total_tokens": { "type": "integer", "format": "uint64", "minimum": 0 },
            },
        })
    }
}

fn agent_end(of: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["agent", "status", "finish_reason", "turns", "usage"],
        "properties": {
            "agent": of.subschema_for::<AgentId>(),
            "status": of.subschema_for::<RunStatus>(),
            "finish_reason": of.subschema_for::<FinishReason>(),
            "turns": { "type": "integer", "format": "uint32", "minimum": 0 },
            "usage": of.subschema_for::<RunUsage>(),
        },
    })
}
