//! Tests of the code that the attribute generates, and of what it refuses.

use super::*;

fn refused(function: TokenStream) -> String {
    expand(TokenStream::new(), function)
        .unwrap_err()
        .to_string()
}

#[test]
fn an_unsupported_function_is_refused_with_a_fix() {
    let table = [
        (
            quote!(
                /** D. */
                fn f() {}
            ),
            "write `async fn`, or pass a function that blocks",
        ),
        (
            quote!(
                async fn f() {}
            ),
            "write a doc comment",
        ),
        (
            quote!(
                /** D. */
                async fn f<T>(value: T) {}
            ),
            "must not be generic",
        ),
        (
            quote!(
                /** D. */
                async fn f(&self) {}
            ),
            "cannot take `self`",
        ),
        (
            quote!(
                /** D. */
                async fn f((a, b): (u8, u8)) {}
            ),
            "needs a name",
        ),
        (
            quote!(
                /** D. */
                async fn f(city: &str) {}
            ),
            "write `String` for `&str`",
        ),
        (
            quote!(
                /** D. */
                async fn f(x: impl Copy) {}
            ),
            "needs a concrete type",
        ),
        (
            quote!(
                /** D. */
                async fn f(a: ToolContext, b: ports::ToolContext) {}
            ),
            "only one context",
        ),
        (
            quote!(
                /** D. */
                async fn f(#[serde(default, alias = "q")] query: String) {}
            ),
            "has only one name",
        ),
    ];
    for (function, expected) in table {
        let error = refused(function.clone());
        assert!(error.contains(expected), "{function}: {error}");
    }
    let name = "f".repeat(65);
    let name = Ident::new(&name, proc_macro2::Span::call_site());
    let error = refused(quote!(/** D. */ async fn #name() {}));
    assert!(error.contains("is not a valid tool name"), "{error}");
}

#[test]
fn a_borrowed_or_unnamed_parameter_is_refused_with_a_replacement() {
    let table = [
        (quote!(city: Option<&str>), "write `String` for `&str`"),
        (
            quote!(ctx: &ToolContext),
            "`ToolContext` for `&ToolContext`",
        ),
        (quote!(_: ToolContext), "can be removed"),
    ];
    for (parameter, expected) in table {
        let error = refused(quote!(/** D. */ async fn f(#parameter) {}));
        assert!(error.contains(expected), "{parameter}: {error}");
    }
}

#[test]
fn doc_comments_of_parameters_go_to_the_schema_and_not_to_the_function() {
    let function = quote! {
        /// Tells the weather.
        async fn weather(
            /// The city.
            #[serde(default)]
            city: String,
            /// The call.
            ctx: ToolContext,
        ) -> std::io::Result<String> {
            todo!()
        }
    };
    let expanded = expand(TokenStream::new(), function).unwrap().to_string();
    let written = "async fn weather (city : String , ctx : ToolContext";
    assert!(expanded.contains(written), "{expanded}");
    let field = quote!(#[doc = r" The city."] #[serde(default)] city: String);
    assert!(expanded.contains(&field.to_string()), "{expanded}");
    assert!(expanded.contains("\"Tells the weather.\""), "{expanded}");
}

#[test]
fn the_lines_of_a_description_keep_their_indentation() {
    let function = quote! {
        /// Runs steps, such as
        ///
        /// - steps:
        ///     - name: build
        async fn run(steps: String) {}
    };
    let expanded = expand(TokenStream::new(), function).unwrap().to_string();
    let text = r#""Runs steps, such as\n\n- steps:\n    - name: build""#;
    assert!(expanded.contains(text), "{expanded}");
}
