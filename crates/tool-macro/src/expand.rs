//! Generates the function and its tool.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Attribute, Expr, ExprLit, ItemFn, Lit, LitStr, Meta};

use crate::options::{Options, checked_name};
use crate::parameters::Parameters;

/// Returns the function as written, and a type of the same name that creates the tool.
pub(crate) fn expand(options: TokenStream, function: TokenStream) -> syn::Result<TokenStream> {
    let options = Options::parse(options)?;
    let mut function: ItemFn = syn::parse2(function)?;
    check(&function)?;
    let description = description(&function)?;
    let parameters = Parameters::take(function.sig.inputs.iter_mut())?;
    let ident = &function.sig.ident;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => checked_name(LitStr::new(&ident.unraw().to_string(), ident.span()))?,
    };
    let tools = &options.tools;
    let parts = quote!(#tools::macro_parts);
    let settings = options.settings(&parts);
    let arguments = arguments_type(&parts, &parameters);
    let running = running(&parts, &parameters.passed);
    let pattern = &parameters.arguments;
    let context = parameters
        .context
        .clone()
        .unwrap_or_else(|| format_ident!("_context"));
    let visibility = &function.vis;
    let about = format!(
        "Creates a tool named `{}` from the function of this name.",
        name.value()
    );
    // The function is called through `__function`, since a parameter may have its name.
    Ok(quote! {
        #function

        #[doc = #about]
        #[allow(non_camel_case_types)]
        #[derive(Debug)]
        #visibility struct #ident {}

        impl #ident {
            /// Creates the tool.
            ///
            /// # Errors
            ///
            /// Same as `FunctionTool::new`.
            #visibility fn tool() -> ::core::result::Result<
                ::std::sync::Arc<dyn #parts::Tool>,
                #tools::DefinitionError,
            > {
                #[allow(unused_imports)]
                use #parts::{ReturnedJson as _, ReturnedValue as _};

                #arguments
                let __function = #ident;
                let tool = #tools::FunctionTool::with_output(
                    #name,
                    #description,
                    move |arguments: __Arguments, #context: #parts::ToolContext| {
                        let __Arguments { #(#pattern),* } = arguments;
                        async move { #running }
                    },
                )?;
                ::core::result::Result::Ok(tool #settings .build())
            }
        }
    })
}

/// Refuses functions that cannot become tools.
fn check(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        let message = "a tool must be an async function: write `async fn`, or pass a function that blocks its thread to \
                       `FunctionTool::blocking`";
        return Err(syn::Error::new_spanned(signature.fn_token, message));
    }
    if !signature.generics.params.is_empty() {
        let message = "a tool has one schema: the function must not be generic";
        return Err(syn::Error::new_spanned(&signature.generics, message));
    }
    Ok(())
}

/// Returns the doc comment as one string.
fn description(function: &ItemFn) -> syn::Result<String> {
    let lines = function.attrs.iter().filter_map(doc_line);
    // Only the space after the slashes is removed: further indentation relates a line to the previous ones, as in a
    // list.
    let lines = lines.map(|line| {
        line.strip_prefix(' ')
            .unwrap_or(&line)
            .trim_end()
            .to_owned()
    });
    let text = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    if text.is_empty() {
        let message = "a tool needs a description that tells the model when to call it: write a doc comment (`///`) above \
                       the function";
        return Err(syn::Error::new_spanned(&function.sig.ident, message));
    }
    Ok(text)
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(doc) = &attribute.meta else {
        return None;
    };
    match &doc.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(line),
            ..
        }) if doc.path.is_ident("doc") => Some(line.value()),
        _ => None,
    }
}

/// Returns the type into which the model's arguments are parsed.
fn arguments_type(parts: &TokenStream, parameters: &Parameters) -> TokenStream {
    let serde = quote!(#parts::serde).to_string().replace(' ', "");
    let schemars = quote!(#parts::schemars).to_string().replace(' ', "");
    let fields = &parameters.fields;
    quote! {
        #[derive(#parts::serde::Deserialize, #parts::schemars::JsonSchema)]
        #[serde(crate = #serde, deny_unknown_fields)]
        #[schemars(crate = #schemars)]
        struct __Arguments { #(#fields),* }
    }
}

/// Returns the expression that runs one call and converts its result to the form that a `FunctionTool` needs. The
/// conversion goes by the type, because an alias of `Result` has a different name.
fn running(parts: &TokenStream, passed: &[Ident]) -> TokenStream {
    quote! {
        #parts::Returned(__function(#(#passed),*).await)
            .tool_result()
            .and_then(|value| #parts::Returned(value).tool_output())
    }
}

#[cfg(test)]
mod tests;
