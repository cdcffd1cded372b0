//! Hides secrets in output.

use serde::Deserialize;
use toml::Value;
use toml::de::ValueDeserializer;

use super::key;

/// Replaces something hidden.
pub(crate) const HIDDEN: &str = "***";

/// The minimum length in bytes of a value that is treated as a secret if the name of its variable or header does not
/// decide it.
pub(super) const SHORTEST_SECRET: usize = 8;

/// The sections of the policy, none of whose keys contains a secret.
const OF_POLICY: [&str; 9] = [
    "agents", "channels", "health", "modes", "plans", "prices", "rules", "taint", "trust",
];

/// Query parameters of a Postgres address that are not secret.
const OF_POSTGRES: [&str; 9] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "port",
    "sslcert",
    "sslmode",
    "sslrootcert",
    "user",
];

/// Returns a URL without a potential user, password or token. The user of a Postgres server is kept if there is no
/// password.
pub(crate) fn without_secrets(url: &str) -> String {
    if is_postgres_without_password(url) {
        return url.to_owned();
    }
    if has_pairs(url) {
        return HIDDEN.to_owned();
    }
    let (url, query) = match url.find(['?', '#']) {
        // A stray question mark may be part of a password that was not escaped, so everything up to the last @ is
        // hidden.
        Some(end) if !url.get(end..).is_some_and(|rest| rest.contains('@')) => {
            (url.get(..end).unwrap_or_default(), HIDDEN)
        }
        _ => (url, ""),
    };
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{query}")
    };
    let Some((before, host)) = url.rsplit_once('@') else {
        return format!("{}{query}", without_misplaced_password(url));
    };
    let scheme = match before.split_once(':') {
        Some((scheme, rest)) if rest.starts_with("//") => format!("{scheme}://"),
        Some((scheme, _)) => format!("{scheme}:"),
        None => String::new(),
    };
    format!("{scheme}{HIDDEN}@{host}{query}")
}

/// Returns whether a text contains pairs, as Postgres programs accept them instead of an address: `host=db password=…`.
/// A password among them may contain any character.
fn has_pairs(text: &str) -> bool {
    let (start, is_address) = match text.split_once("://") {
        Some((start, _)) => (start, true),
        None => (text, false),
    };
    let start = start.split(['?', '#']).next().unwrap_or_default();
    // An option of a program may precede an address, such as `--db=`.
    start.contains('=') && (!is_address || start.contains(char::is_whitespace))
}

/// Returns an address without a potential password in the wrong place: after a user without a host.
fn without_misplaced_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let host = rest.split('/').next().unwrap_or_default();
    match host.split_once(':') {
        // The number of a port, or the drive of a file.
        Some((name, port)) if name.len() > 1 && !name.starts_with('[') && !is_port(port) => {
            let path = rest.get(host.len()..).unwrap_or_default();
            format!("{scheme}://{name}:{HIDDEN}{path}")
        }
        _ => url.to_owned(),
    }
}

fn is_port(text: &str) -> bool {
    text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a URL is that of a Postgres server and contains no potential password.
fn is_postgres_without_password(url: &str) -> bool {
    let Some(("postgres" | "postgresql", rest)) = url.split_once("://") else {
        return false;
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, host) = place.split_once('@').unwrap_or(("", place));
    // In a malformed address, the value of one pair may contain another pair, also with escapes.
    let is_known = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let lower = value.to_ascii_lowercase();
        let is_pair = ["=", "%3d", "%26"].iter().any(|sign| lower.contains(sign));
        let is_plain = !is_pair && (name != "user" || is_plain_name(value));
        OF_POSTGRES.contains(&name) && is_plain
    };
    (user.is_empty() || is_plain_name(user))
        && !host.contains(['@', '#'])
        && without_misplaced_password(url) == url
        && !query.contains(['@', '#'])
        && (query.is_empty() || query.split('&').all(is_known))
}

/// Returns the value that a user wrote for a key, for display: a table may contain keys of services, and an address a
/// password.
#[must_use]
pub fn shown_setting(key: &str, value: &str) -> String {
    let names = key::names(key);
    let last = names.last().map(String::as_str);
    let is_of_headers = matches!(last, Some("headers" | "headers_env" | "env"));
    let section = names.first().map(String::as_str).unwrap_or_default();
    let is_hidden = match value.trim_start().as_bytes().first() {
        Some(b'[') => section == "mcp" || !holds_nothing_secret(value),
        Some(b'{') => !OF_POLICY.contains(&section) || !holds_nothing_secret(value),
        _ => false,
    };
    if is_of_headers || is_hidden {
        return HIDDEN.to_owned();
    }
    shown(key, value)
}

/// Returns whether a text is a table or a list without potential secrets.
fn holds_nothing_secret(text: &str) -> bool {
    let value = ValueDeserializer::parse(text).and_then(Value::deserialize);
    value.is_ok_and(|value| is_plain(&value))
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::Table(table) => table.iter().all(|(name, value)| {
            let holds_text = value.is_str() || value.is_array();
            let is_named_secret = holds_text && option_sounds_secret(name, false);
            !is_named_secret && !may_be_key(name) && is_plain(value)
        }),
        Value::Array(values) => values.iter().all(is_plain),
        Value::String(text) => {
            // After an option of a command, a secret may be a separate word, or the rest of the option.
            let has_option = text.split_whitespace().any(|word| word.starts_with('-'));
            !has_option
                && !may_be_key(text)
                && secret_in(text).is_none()
                && without_secrets(text) == *text
        }
        _ => true,
    }
}

/// Returns the value of a key for display.
pub(crate) fn shown(key: &str, value: &str) -> String {
    let names = key::names(key);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let is_hidden = match names.as_slice() {
        ["mcp", "servers", _, rest @ ..] => return shown_of_mcp(rest, value),
        ["models", _, "headers", _, ..] => true,
        ["models", _, "query", name, ..] => sounds_secret(name),
        ["models", _, "headers_env", _, ..] => !is_variable_name(value),
        ["models", _, _, _, ..] => false,
        [
            ..,
            "base_url" | "url" | "proxy" | "endpoint" | "ingress" | "admin" | "advertise",
        ] => return without_secrets(value),
        [.., "api_key_env"] => !is_variable_name(value),
        [.., name] => name.starts_with("api_key"),
        [] => false,
    };
    match is_hidden {
        true => HIDDEN.to_owned(),
        false => value.to_owned(),
    }
}

/// Returns an entry of a list for display, given the entry before it.
pub(super) fn shown_entry(key: &str, before: Option<&str>, value: &str) -> String {
    let names = key::names(key);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let is_argument = matches!(names.as_slice(), ["mcp", "servers", _, .., "args"]);
    match is_argument {
        true => shown_argument(before, value),
        false => shown(key, value),
    }
}

/// Returns an argument of a program for display, given the argument before it: a secret may be in an address, after the
/// name of an option or a header, or in the word after an option.
pub(super) fn shown_argument(before: Option<&str>, argument: &str) -> String {
    let hidden = || HIDDEN.to_owned();
    let is_value = before.is_some_and(takes_word) && !argument.starts_with("--");
    if is_value && before.is_some_and(|option| may_be_secret_argument(option, "=", argument)) {
        return hidden();
    }
    if let Some(value) = secret_in(argument) {
        let shown = argument.strip_suffix(value).unwrap_or_default();
        return format!("{shown}{HIDDEN}");
    }
    if let Some((_, address)) = argument.split_once("://") {
        let host = address.split('/').next().unwrap_or_default();
        // What follows an @ in a path is a version, as in git+https://host/program@v1.
        return match host.contains(['@', ':']) || address.contains(['?', '#']) {
            true => without_secrets(argument),
            false => argument.to_owned(),
        };
    }
    match may_be_key(argument) && !argument.contains('/') {
        true => hidden(),
        false => argument.to_owned(),
    }
}

/// Returns whether an argument is an option whose value may be the next argument.
fn takes_word(argument: &str) -> bool {
    argument.starts_with('-') && !argument.starts_with("--no-") && !argument.contains('=')
}

/// Returns the part of an argument that may be a secret: everything after the first name of a secret. Names may follow
/// each other, as in `--env=API_KEY=…` and in `host=db password=…`.
fn secret_in(argument: &str) -> Option<&str> {
    let mut from = 0;
    for (at, separator) in argument.match_indices(['=', ':']) {
        let between = argument.get(from..at)?;
        from = at + separator.len();
        let value = argument.get(from..)?;
        // Commands in rules contain quotes.
        let mut words = between.rsplit([' ', ',', ';', '"', '\'']);
        let name = words.next().unwrap_or_default();
        if is_plain_name(name) && may_be_secret_argument(name, separator, value) {
            return Some(value);
        }
    }
    None
}

/// Returns whether the text after a name in the arguments of a program may be a secret. Before `:`, the name may be
/// that of a header.
fn may_be_secret_argument(name: &str, separator: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let sounds_secret = match separator {
        ":" => header_sounds_secret(name) && !is_number,
        _ => option_sounds_secret(name, is_number),
    };
    let is_of_file = names_file(&name.to_ascii_uppercase(), value);
    let is_yes_or_no = matches!(value, "true" | "false");
    sounds_secret && !is_of_file && !is_yes_or_no || may_be_key(value) && !value.contains('/')
}

/// Returns whether the name of an option suggests a secret. Unlike in the name of a variable, only whole words count:
/// neither `--max-tokens` nor `--author` suggests one. A number is only a secret if the name ends with such a word,
/// unlike `--token-limit`.
fn option_sounds_secret(name: &str, is_number: bool) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = lower.rsplit(|letter: char| !letter.is_ascii_alphanumeric());
    let mut words = words.filter(|word| !word.is_empty());
    // Words may also be joined, as in PGPASSWORD and apiKey.
    let ends = [
        "key",
        "keys",
        "token",
        "secret",
        "secrets",
        "auth",
        "authorization",
        "pass",
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "cookie",
        "signature",
    ];
    let is_secret = |word: &str| {
        matches!(word, "code" | "sig") || ends.iter().any(|ending| word.ends_with(ending))
    };
    match is_number {
        true => words.next().is_some_and(is_secret),
        false => words.any(is_secret),
    }
}

/// Returns whether a text can be the name of an option, a variable or a header, and is not itself a key.
fn is_plain_name(text: &str) -> bool {
    let usual = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !text.is_empty() && text.chars().all(usual) && !may_be_key(text)
}

/// Returns the value of a key of an MCP server for display: its variables and headers may be secrets, and so may
/// arguments that look like one.
fn shown_of_mcp(names: &[&str], value: &str) -> String {
    let is_hidden = match names {
        _ if names.contains(&"env") || names.contains(&"headers") => true,
        _ if names.contains(&"headers_env") => !is_variable_name(value),
        [.., "url"] => return without_secrets(value),
        [.., "args"] => return shown_argument(None, value),
        // A program has a name, and what follows it may be a secret.
        [.., "command"] => value.contains(char::is_whitespace),
        [.., "token_env" | "pass_env"] => !is_variable_name(value),
        _ => false,
    };
    match is_hidden {
        true => HIDDEN.to_owned(),
        false => value.to_owned(),
    }
}

/// Returns whether a variable that is written literally in the configuration may be a secret anyway.
pub(super) fn may_be_secret(name: &str, value: &str) -> bool {
    sounds_secret(name) && !names_file(name, value) || may_be_key(value) && !value.contains('/')
}

/// Returns whether a name in upper case is that of a file, and its value looks like a path.
fn names_file(name: &str, value: &str) -> bool {
    let endings = ["FILE", "PATH", "DIR", "SOCK"];
    value.contains('/') && endings.iter().any(|ending| name.ends_with(ending))
}

/// Returns whether the name of a variable, a header or a query parameter suggests a secret.
pub(super) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let secrets = [
        "key", "token", "secret", "sig", "auth", "pass", "code", "cookie",
    ];
    secrets.iter().any(|secret| name.contains(secret))
}

/// Returns whether a header that is written literally in the configuration may be a secret anyway.
pub(super) fn may_be_secret_header(name: &str, value: &str) -> bool {
    let value = value.trim();
    let (scheme, bare) = value.split_once(' ').unwrap_or_default();
    let schemes = ["basic", "bearer", "token"];
    let has_scheme = schemes.iter().any(|it| it.eq_ignore_ascii_case(scheme));
    let is_word = value.len() < SHORTEST_SECRET;
    let is_called_so = sounds_secret(name) || header_sounds_secret(name) && !is_word;
    is_called_so || has_scheme || may_be_key(value) || may_be_key(bare)
}

/// Returns whether the name of a header suggests a secret. For variables, this would match too much: `PWD` names a
/// folder. It also would for headers whose value is a short word: `X-Session-Mode: read`.
fn header_sounds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let secrets = ["bearer", "cred", "jwt", "pwd", "session"];
    sounds_secret(name) || secrets.iter().any(|secret| lower.contains(secret))
}

/// Returns whether a text in the place of a name looks like a key: keys of providers are long, or have a known prefix.
pub(crate) fn may_be_key(text: &str) -> bool {
    let is_long = text.len() >= 20 && text.bytes().any(|byte| byte.is_ascii_digit());
    is_long || text.to_ascii_lowercase().starts_with("sk-")
}

/// Returns the name of a variable for display. If the user wrote the key itself there, it must not be displayed.
pub(crate) fn shown_variable(name: &str) -> &str {
    match is_variable_name(name) {
        true => name,
        false => HIDDEN,
    }
}

/// Returns whether a text looks like the usual name of a variable, and not like a key.
fn is_variable_name(text: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=64).contains(&text.len())
        && text.bytes().all(usual)
        && !text.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests;
