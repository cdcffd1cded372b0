//! What the code names that the attribute [`tool`](macro@crate::tool) writes. No part of the public interface.
//!
//! An attribute sees names and no types: whether `Reply<T>` is a `Result` it cannot know. So the code that it writes asks the
//! compiler. A method of [`Returned`] itself comes before one of the same name that a trait gives it.

pub use neuraxis_core::{ToolAnnotations, ToolClass, ToolOutput};
pub use neuraxis_ports::{Tool, ToolContext, ToolError};
use serde::Serialize;
pub use {schemars, serde};

use crate::function::encode;

/// What a function returned.
#[derive(Debug)]
pub struct Returned<R>(pub R);

impl<T, E> Returned<Result<T, E>> {
    /// Returns the value of a `Result`, or its error as a tool's.
    ///
    /// # Errors
    ///
    /// That error.
    pub fn tool_result(self) -> Result<T, ToolError>
    where
        ToolError: From<E>,
    {
        self.0.map_err(ToolError::from)
    }
}

/// For what is no `Result`.
pub trait ReturnedValue {
    /// The type as it was returned.
    type Value;

    /// Returns it as it is.
    ///
    /// # Errors
    ///
    /// None.
    fn tool_result(self) -> Result<Self::Value, ToolError>;
}

impl<R> ReturnedValue for Returned<R> {
    type Value = R;

    fn tool_result(self) -> Result<R, ToolError> {
        Ok(self.0)
    }
}

impl Returned<ToolOutput> {
    /// Returns an output as it is.
    ///
    /// # Errors
    ///
    /// None.
    pub fn tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.0)
    }
}

/// For what is no `ToolOutput`.
pub trait ReturnedJson {
    /// Writes it as JSON.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    fn tool_output(self) -> Result<ToolOutput, ToolError>;
}

impl<R: Serialize> ReturnedJson for Returned<R> {
    fn tool_output(self) -> Result<ToolOutput, ToolError> {
        encode(self.0)
    }
}
