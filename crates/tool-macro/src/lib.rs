//! The attribute that makes a tool of an async function.
//!
//! **For** `neuraxis-tools` and the facade, which export it as `tool` and show how it is used. It writes what a
//! `FunctionTool` takes by hand: a type for the arguments with their schema, the description, and what may be said of a tool.
//!
//! **Not for** doing anything a `FunctionTool` cannot: whoever needs a tool's text at run time makes one.

mod expand;
mod options;
mod parameters;

use proc_macro::TokenStream;

/// Makes a tool of an async function: its doc comment tells the model what it does, those of its parameters what they are.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(options.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
