//! The attribute macro that turns an async function into a tool.
//!
//! **For** `neuraxis-tools` and the facade, which export it as `tool` and document its use. It generates what would
//! otherwise be passed to a `FunctionTool` by hand: an arguments type with its schema, the description, and the tool's
//! settings.
//!
//! **Not for** anything that a `FunctionTool` cannot do. If a tool's text is known only at run time, use a
//! `FunctionTool`.

mod expand;
mod options;
mod parameters;

use proc_macro::TokenStream;

/// Turns an async function into a tool. The function's doc comment tells the model what the tool does, and those of its
/// parameters what they are.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(options.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
