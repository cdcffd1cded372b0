//! Answers as values of the caller's own types: the schema is derived from the type, and the answer is parsed into it.
//!
//! Not for how a model is held to the schema, which `answer` does.

use neuraxis_core::{JsonText, Message};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::agent::{Agent, AgentBuilder, Execution};
use crate::answer::{AnswerFault, AnswerSchema, AnswerSchemaError};
use crate::orchestrator::Orchestrator;
use crate::request::{RequestError, UserRequest};
use crate::result::OrchestratorResult;

/// A typed answer, and the result of its run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Typed<T, R = OrchestratorResult> {
    /// The answer.
    pub value: T,
    /// The rest of the run's result.
    pub result: R,
}

/// Why there is no typed answer. If there was a run, the error holds its result. Serialized to JSON with a stable
/// `kind`, the `message` without its causes, and that `result`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError<R = OrchestratorResult> {
    /// The type has no usable schema. No run was started.
    #[error("answers of this type cannot be requested")]
    Schema(#[from] AnswerSchemaError),
    /// The request was refused before a run existed, or its run stopped without an end.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The run has no answer that fits the schema.
    #[error("the run has no answer of the requested form")]
    NoAnswer {
        /// Whether the run refused, stopped early, or answered with something else.
        #[source]
        fault: AnswerFault,
        /// The result of the run.
        result: Box<R>,
    },
    /// The answer fits the type's schema, but the type cannot be parsed from it, because the type demands more than its
    /// schema says.
    #[error("the answer fits the schema, but cannot be parsed as the type")]
    Unreadable {
        /// The parse error.
        #[source]
        source: serde_json::Error,
        /// The result of the run; its `answer` is the JSON.
        result: Box<R>,
    },
}

impl<R> TypedError<R> {
    /// Returns the name of this kind of error. It is the same in every version, so clients may rely on it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Schema(_) => "schema",
            Self::Request(error) => error.kind(),
            Self::NoAnswer { .. } => "no_answer",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Returns the result of the run, if there was one.
    #[must_use]
    pub fn result(&self) -> Option<&R> {
        match self {
            Self::Schema(_) | Self::Request(_) => None,
            Self::NoAnswer { result, .. } | Self::Unreadable { result, .. } => Some(result),
        }
    }
}

impl<R: Serialize> Serialize for TypedError<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let result = self.result();
        let fields = 2 + usize::from(result.is_some());
        let mut written = serializer.serialize_struct("TypedError", fields)?;
        written.serialize_field("kind", self.kind())?;
        written.serialize_field("message", &self.to_string())?;
        if let Some(result) = result {
            written.serialize_field("result", result)?;
        }
        written.end()
    }
}

impl AnswerSchema {
    /// Derives the schema from a type that serializes as an object, such as a struct with named fields. The model reads
    /// the documentation of the type and its fields.
    ///
    /// # Errors
    ///
    /// [`AnswerSchemaError::NotObject`] for a type that serializes differently, such as a list, a number or an enum:
    /// put it into a field of a struct.
    pub fn of<T: JsonSchema>() -> Result<Self, AnswerSchemaError> {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
        });
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Self::from_json(schema.as_value().to_string())
    }
}

impl Orchestrator {
    /// Like [`handle`](Self::handle), but the answer is a value of a type. A schema in the request itself replaces the
    /// type's own.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_core::Role;
    /// use neuraxis_engine::{Orchestrator, UserRequest};
    /// use neuraxis_memory::MemoryStore;
    /// use neuraxis_testkit::{ScriptedModel, reply};
    ///
    /// /// A person mentioned in the message.
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Person {
    ///     name: String,
    ///     job: String,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::always(reply::text(r#"{"name":"Ada","job":"analyst"}"#));
    /// let orchestrator = Orchestrator::builder()
    ///     .model(Role::REASONING, Arc::new(model))
    ///     .store(Arc::new(MemoryStore::default()))
    ///     .build()?;
    /// let request = UserRequest::new("s1".parse()?, "Ada works as an analyst.");
    /// let done = orchestrator.handle_typed::<Person>(request).await?;
    /// assert_eq!(done.value.name, "Ada");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A [`TypedError`]. If there was a run, the error holds its result.
    ///
    /// # Cancel safety
    ///
    /// Same as [`handle`](Self::handle).
    pub async fn handle_typed<T: DeserializeOwned + JsonSchema>(
        &self,
        mut request: UserRequest,
    ) -> Result<Typed<T>, TypedError> {
        if request.answer.is_none() {
            request.answer = Some(AnswerSchema::of::<T>()?);
        }
        let result = self.handle(request).await?;
        let found = (result.answer.clone(), result.answer_fault.clone());
        typed(result, found)
    }
}

impl Agent {
    /// Like [`execute`](Self::execute), but the answer is a value of a type, with the schema that
    /// [`run_typed`](Self::run_typed) uses.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_engine::Agent;
    /// use neuraxis_testkit::{ScriptedModel, reply};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Sum {
    ///     total: f64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::always(reply::text(r#"{"total":42.0}"#));
    /// let agent = Agent::builder("adder").model(Arc::new(model)).build()?;
    /// let done = agent.execute_typed::<Sum>(None, "6 × 7").await?;
    /// assert_eq!(done.value.total, 42.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`run_typed`](Self::run_typed).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn execute_typed<T: DeserializeOwned + JsonSchema>(
        &self,
        system_prompt: impl Into<Option<&str>>,
        user_prompt: &str,
    ) -> Result<Typed<T, Execution>, TypedError<Execution>> {
        self.run_typed(vec![Message::user(user_prompt)], system_prompt.into())
            .await
    }

    /// Like [`run`](Self::run), but the answer is a value of a type. A schema set by [`with_answer`](Self::with_answer)
    /// replaces the type's own, such as one with a different number of [retries](AnswerSchema::retries).
    ///
    /// # Errors
    ///
    /// A [`TypedError`]. If there was a run, the error holds its result.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn run_typed<T: DeserializeOwned + JsonSchema>(
        &self,
        messages: Vec<Message>,
        system_prompt: Option<&str>,
    ) -> Result<Typed<T, Execution>, TypedError<Execution>> {
        let agent = match &self.answer {
            Some(_) => self.clone(),
            None => self.clone().with_answer(AnswerSchema::of::<T>()?),
        };
        let result = agent.run(messages, system_prompt).await?;
        let found = (result.answer.clone(), result.answer_fault.clone());
        typed(result, found)
    }
}

impl AgentBuilder {
    /// Like [`answer_schema`](Self::answer_schema), with the schema of a type. If the type has no usable schema,
    /// [`build`](Self::build) returns the error.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_engine::Agent;
    /// use neuraxis_testkit::{ScriptedModel, reply};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Verdict {
    ///     is_fine: bool,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::always(reply::text(r#"{"is_fine":true}"#));
    /// let reviewer = Agent::builder("reviewer")
    ///     .model(Arc::new(model))
    ///     .answer::<Verdict>()
    ///     .build()?;
    /// let done = reviewer.execute(None, "let x = 1;").await?;
    /// let verdict: Verdict = done.answer.ok_or("no answer")?.decode()?;
    /// assert!(verdict.is_fine);
    /// # Ok(())
    /// # }
    /// ```
    pub fn answer<T: JsonSchema>(self) -> Self {
        match AnswerSchema::of::<T>() {
            Ok(schema) => self.answer_schema(&schema),
            Err(fault) => self.refuse(fault),
        }
    }
}

fn typed<T: DeserializeOwned, R>(
    result: R,
    (answer, fault): (Option<JsonText>, Option<AnswerFault>),
) -> Result<Typed<T, R>, TypedError<R>> {
    let Some(answer) = answer else {
        // A run that was asked for a typed answer and has none always says why.
        let fault = fault.unwrap_or(AnswerFault::Waiting);
        let result = Box::new(result);
        return Err(TypedError::NoAnswer { fault, result });
    };
    match answer.decode() {
        Ok(value) => Ok(Typed { value, result }),
        Err(source) => {
            let result = Box::new(result);
            Err(TypedError::Unreadable { source, result })
        }
    }
}
