//! The parameters of the function: which of them the model fills in, and how they appear in the arguments type.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, FnArg, GenericArgument, Meta, Pat, PatIdent, PatType, PathArguments, Token, Type,
};

/// The parameters of a function, in order.
pub(crate) struct Parameters {
    /// The arguments that the function is called with.
    pub(crate) passed: Vec<Ident>,
    /// The fields of the arguments type.
    pub(crate) fields: Vec<TokenStream>,
    /// The names of those fields.
    pub(crate) arguments: Vec<Ident>,
    /// The parameter that receives the call's context, if any.
    pub(crate) context: Option<Ident>,
}

impl Parameters {
    /// Reads the parameters, and removes from them what belongs only to the arguments type: doc comments, and
    /// attributes of serde and schemars.
    pub(crate) fn take<'a>(inputs: impl Iterator<Item = &'a mut FnArg>) -> syn::Result<Self> {
        let mut parameters = Self {
            passed: Vec::new(),
            fields: Vec::new(),
            arguments: Vec::new(),
            context: None,
        };
        for input in inputs {
            match input {
                FnArg::Typed(parameter) => parameters.add(parameter)?,
                FnArg::Receiver(receiver) => {
                    let message = "a tool function cannot take `self`: if it needs more than its arguments, pass a closure that holds the rest \
                                   to `FunctionTool::new`";
                    return Err(syn::Error::new_spanned(receiver, message));
                }
            }
        }
        Ok(parameters)
    }

    fn add(&mut self, parameter: &mut PatType) -> syn::Result<()> {
        let name = name_of(&parameter.pat)?;
        self.passed.push(name.clone());
        if is_context(&parameter.ty) {
            // No model reads this doc comment, and a function's parameter must not have one.
            parameter
                .attrs
                .retain(|attribute| !attribute.path().is_ident("doc"));
            if self.context.replace(name).is_some() {
                let message = "a call has only one context: remove this parameter";
                return Err(syn::Error::new_spanned(parameter, message));
            }
            return Ok(());
        }
        check_type(&parameter.ty)?;
        let (of_field, of_parameter) = std::mem::take(&mut parameter.attrs)
            .into_iter()
            .partition(is_of_field);
        parameter.attrs = of_parameter;
        let attributes: Vec<Attribute> = of_field;
        attributes.iter().try_for_each(refuse_alias)?;
        let ty = &parameter.ty;
        self.fields.push(quote!(#(#attributes)* #name: #ty));
        self.arguments.push(name);
        Ok(())
    }
}

fn name_of(pattern: &Pat) -> syn::Result<Ident> {
    match pattern {
        Pat::Ident(PatIdent {
            ident,
            by_ref: None,
            subpat: None,
            ..
        }) => Ok(ident.clone()),
        other => {
            let message = "a tool parameter needs a name, by which the model knows the argument; an unused `ToolContext` can be \
                           removed";
            Err(syn::Error::new_spanned(other, message))
        }
    }
}

fn is_of_field(attribute: &Attribute) -> bool {
    ["doc", "serde", "schemars"]
        .iter()
        .any(|name| attribute.path().is_ident(name))
}

/// Refuses an alias of an argument: the schema has only one name, and a call with another is refused before it is
/// parsed.
fn refuse_alias(attribute: &Attribute) -> syn::Result<()> {
    let Meta::List(list) = &attribute.meta else {
        return Ok(());
    };
    let settings = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    // For settings that cannot be parsed, the derived code reports a better error.
    let mut settings = settings.unwrap_or_default().into_iter();
    match settings.find(|setting| setting.path().is_ident("alias")) {
        Some(alias) => {
            let message = "a tool argument has only one name, the one in its schema: remove the alias, or rename the \
                           parameter";
            Err(syn::Error::new_spanned(alias, message))
        }
        None => Ok(()),
    }
}

/// Returns `true` if a parameter is the context, judged by the last name of its type's path.
fn is_context(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|segment| segment.ident == "ToolContext")
        }
        _ => false,
    }
}

fn check_type(ty: &Type) -> syn::Result<()> {
    let message = match ty {
        Type::ImplTrait(_) => {
            "a tool argument needs a concrete type, from which its schema is derived"
        }
        ty if is_borrowed(ty) => {
            "a tool argument must own its value: write `String` for `&str`, `Vec<T>` for `&[T]`, and `ToolContext` for \
             `&ToolContext`"
        }
        _ => return Ok(()),
    };
    Err(syn::Error::new_spanned(ty, message))
}

/// Returns `true` if a value of a type is borrowed or contains a borrowed value, as in `Option<&str>`.
fn is_borrowed(ty: &Type) -> bool {
    match ty {
        Type::Reference(_) => true,
        Type::Path(path) => path.path.segments.iter().any(|segment| {
            let PathArguments::AngleBracketed(generics) = &segment.arguments else {
                return false;
            };
            let mut held = generics.args.iter();
            held.any(|held| matches!(held, GenericArgument::Type(ty) if is_borrowed(ty)))
        }),
        _ => false,
    }
}
