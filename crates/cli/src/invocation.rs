//! How this program was called. Commands that it proposes repeat its configuration options, so that a copied command
//! uses the same configuration.

use std::borrow::Cow;
use std::sync::OnceLock;

use neuraxis_app::shown_setting;

use crate::arguments::ConfigurationArguments;

/// The configuration options, each preceded by a space.
static OPTIONS: OnceLock<String> = OnceLock::new();

/// Stores the options that this program was called with.
pub(crate) fn remember(arguments: &ConfigurationArguments) {
    OPTIONS.get_or_init(|| options(arguments));
}

/// Returns the program's name with the options it was called with: the beginning of a proposed command.
pub(crate) fn neuraxis() -> String {
    let options = OPTIONS.get().map_or("", String::as_str);
    format!("neuraxis{options}")
}

/// Adds these options to the commands between backticks in a text.
pub(crate) fn again(text: &str) -> Cow<'_, str> {
    match OPTIONS.get().filter(|options| !options.is_empty()) {
        Some(options) => with_options(text, options).into(),
        None => text.into(),
    }
}

/// Adds options to the commands between backticks, except `help`, which uses no configuration, and says what to do
/// about options that are not shown.
fn with_options(text: &str, options: &str) -> String {
    let again = text.replace("`neuraxis ", &format!("`neuraxis{options} "));
    let again = again.replace(&format!("`neuraxis{options} help "), "`neuraxis help ");
    match again != text && options.contains("***") {
        true => format!("{again} (replace *** with the value you gave)"),
        false => again,
    }
}

fn options(arguments: &ConfigurationArguments) -> String {
    let file = arguments.config.iter().map(|file| {
        let file = quoted(&file.display().to_string());
        format!(" --config {file}")
    });
    let settings = arguments.settings.iter().map(|(key, value)| {
        let value = shown_setting(key, value);
        let setting = quoted(&format!("{key}={value}"));
        format!(" --set {setting}")
    });
    file.chain(settings).collect()
}

/// Quotes a word for a shell, unless it needs no quoting.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_=./:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_can_be_pasted_into_a_shell_and_show_no_password() {
        let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let arguments = ConfigurationArguments {
            config: Some("my file.toml".into()),
            settings: vec![
                setting("modes.moderate.max_turns", "5"),
                setting("tools.root", "it's here"),
                setting("store.url", "postgres://me:s3cret@db/nx"),
            ],
        };
        let expected = r" --config 'my file.toml' --set modes.moderate.max_turns=5 --set 'tools.root=it'\''s here' --set 'store.url=postgres://***@db/nx'";
        assert_eq!(options(&arguments), expected);
    }

    #[test]
    fn a_command_with_a_masked_option_asks_to_replace_the_mask() {
        let hint = "`neuraxis doctor` says more";
        assert_eq!(
            with_options(hint, " --set 'store.url=postgres://***@db/x'"),
            "`neuraxis --set 'store.url=postgres://***@db/x' doctor` says more (replace *** with the value you gave)"
        );
        let shown = with_options(hint, " --set store.url=postgres://app@db/x");
        assert!(shown.ends_with("doctor` says more"), "{shown}");
        let help = "`neuraxis help rules` says how";
        assert_eq!(with_options(help, " --set 'a=***'"), help);
        let no_command = "make the folder";
        assert_eq!(with_options(no_command, " --set 'a=***'"), no_command);
    }

    #[test]
    fn a_word_is_quoted_when_a_shell_might_interpret_it() {
        for (word, expected) in [
            ("/home/me/my-project_2", "/home/me/my-project_2"),
            ("übung.txt", "übung.txt"),
            ("/home/me/my project", "'/home/me/my project'"),
            ("$(pwd)", "'$(pwd)'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn a_proposed_command_contains_no_secret() {
        for (key, value) in [
            ("store.url", "postgres://db/nx?user=me&password=s3cret"),
            ("store.url", "postgres:me:s3cret@db"),
            ("models.coding.base_url", "https://host/v1?key=s3cret"),
            ("models.coding.headers.authorization", "s3cret"),
            ("models.coding.headers", "{ authorization = 's3cret' }"),
            ("models.coding", "{ api_key_env = 's3cret' }"),
            ("models.coding.api_key_env", "s3cret"),
        ] {
            let arguments = ConfigurationArguments {
                config: None,
                settings: vec![(key.to_owned(), value.to_owned())],
            };
            let shown = options(&arguments);
            assert!(
                shown.contains(key) && !shown.contains("s3cret"),
                "{key} is shown as {shown}"
            );
        }
    }
}
