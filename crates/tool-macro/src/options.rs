//! The options in the attribute's parentheses.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser as _;
use syn::{LitInt, LitStr, Path};

/// The longest name that every provider accepts.
const MAX_NAME_CHARS: usize = 64;

/// The options that an attribute may have.
const KNOWN: &str =
    "name, class, open_world, destructive, non_iterative, never_blocks, timeout_ms and crate";

/// The options of an attribute.
#[derive(Debug)]
pub(crate) struct Options {
    /// The tool's name, if different from the function's.
    pub(crate) name: Option<LitStr>,
    /// The path of `neuraxis-tools`.
    pub(crate) tools: Path,
    class: Option<Ident>,
    timeout_ms: Option<u64>,
    open_world: bool,
    destructive: bool,
    non_iterative: bool,
    never_blocks: bool,
}

impl Options {
    /// Parses options such as `class = "read_only", open_world`.
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let mut options = Self {
            name: None,
            tools: syn::parse_quote!(::neuraxis::tools),
            class: None,
            timeout_ms: None,
            open_world: false,
            destructive: false,
            non_iterative: false,
            never_blocks: false,
        };
        syn::meta::parser(|meta| options.take(&meta)).parse2(tokens)?;
        Ok(options)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let option = meta.path.get_ident().map(ToString::to_string);
        match option.as_deref().unwrap_or_default() {
            "name" => self.name = Some(checked_name(meta.value()?.parse()?)?),
            "crate" => self.tools = meta.value()?.parse::<LitStr>()?.parse()?,
            "class" => self.class = Some(class(&meta.value()?.parse()?)?),
            "timeout_ms" => {
                self.timeout_ms = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
            }
            "open_world" => self.open_world = true,
            "destructive" => self.destructive = true,
            "non_iterative" => self.non_iterative = true,
            "never_blocks" => self.never_blocks = true,
            _ => {
                let message = format!("unknown option: the options of a tool are {KNOWN}");
                return Err(meta.error(message));
            }
        }
        Ok(())
    }

    /// Returns the calls on the tool's builder that apply the options. `macro_parts` is the path of the items that they
    /// name.
    pub(crate) fn settings(&self, macro_parts: &TokenStream) -> TokenStream {
        let class = self
            .class
            .as_ref()
            .map(|class| quote!(.class(#macro_parts::ToolClass::#class)));
        let timeout = self
            .timeout_ms
            .map(|millis| quote!(.timeout(::core::time::Duration::from_millis(#millis))));
        let open_world = self.open_world.then(|| quote!(.open_world()));
        let destructive = self.destructive.then(|| quote!(.destructive()));
        let annotations = (self.open_world || self.destructive).then(|| {
            quote!(.annotations(#macro_parts::ToolAnnotations::default() #open_world #destructive))
        });
        let non_iterative = self.non_iterative.then(|| quote!(.non_iterative()));
        let never_blocks = self.never_blocks.then(|| quote!(.never_blocks()));
        quote!(#class #timeout #annotations #non_iterative #never_blocks)
    }
}

/// Refuses a name that a provider would refuse.
pub(crate) fn checked_name(name: LitStr) -> syn::Result<LitStr> {
    let text = name.value();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if text.is_empty() || text.len() > MAX_NAME_CHARS || !text.bytes().all(fits) {
        let message = format!(
            "{text:?} is not a valid tool name: it must have 1 to {MAX_NAME_CHARS} letters, digits, _ or -; set another with `name = \"…\"`"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    Ok(name)
}

fn class(written: &LitStr) -> syn::Result<Ident> {
    let class = match written.value().as_str() {
        "read_only" => "ReadOnly",
        "idempotent" => "Idempotent",
        "irreversible" => "Irreversible",
        other => {
            let message = format!(
                "unknown tool class {other:?}: write \"read_only\" for a tool that changes nothing, \"idempotent\" for one that may \
                 run twice, or \"irreversible\", which is the default"
            );
            return Err(syn::Error::new(written.span(), message));
        }
    };
    Ok(Ident::new(class, Span::call_site()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(tokens: TokenStream) -> String {
        Options::parse(tokens).unwrap_err().to_string()
    }

    #[test]
    fn options_become_calls_on_the_builder() {
        let said = quote!(
            class = "read_only",
            open_world,
            timeout_ms = 500,
            never_blocks
        );
        let settings = Options::parse(said).unwrap().settings(&quote!(x));
        let expected = quote!(
            .class(x::ToolClass::ReadOnly)
            .timeout(::core::time::Duration::from_millis(500u64))
            .annotations(x::ToolAnnotations::default().open_world())
            .never_blocks()
        );
        assert_eq!(settings.to_string(), expected.to_string());
        let nothing = Options::parse(TokenStream::new()).unwrap();
        assert!(nothing.settings(&quote!(x)).is_empty());
    }

    #[test]
    fn an_invalid_option_is_refused_with_the_valid_ones() {
        assert!(
            refused(quote!(clas = "read_only"))
                .contains("the options of a tool are name, class, open_world")
        );
        let class = refused(quote!(class = "readonly"));
        assert!(class.contains("unknown tool class \"readonly\""), "{class}");
        assert!(
            class.contains("\"read_only\" for a tool that changes nothing"),
            "{class}"
        );
        let name = refused(quote!(name = "the weather"));
        assert!(
            name.contains("\"the weather\" is not a valid tool name"),
            "{name}"
        );
        assert!(refused(quote!(timeout_ms = "5s")).contains("integer"));
        assert!(refused(quote!(class)).contains("expected `=`"));
    }
}
