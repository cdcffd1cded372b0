//! Keeps secrets out of the arguments of programs where these are shown.

use std::iter;

use super::{HIDDEN, header_sounds_secret, may_be_key, names_file, without_secrets};

/// Words with a p that programs call options by, with a single dash. What is none of them may be a password behind `-p`.
const OPTIONS_OF_P: [&str; 44] = [
    "package",
    "packages",
    "page",
    "parallel",
    "params",
    "parent",
    "parents",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "patch",
    "path",
    "paths",
    "pattern",
    "permissions",
    "persist",
    "pid",
    "ping",
    "pipe",
    "platform",
    "plugin",
    "plugins",
    "policy",
    "poll",
    "pool",
    "port",
    "ports",
    "prefix",
    "preserve",
    "preset",
    "pretty",
    "preview",
    "print",
    "process",
    "prod",
    "production",
    "profile",
    "project",
    "properties",
    "protocol",
    "provider",
    "proxy",
    "public",
];

/// Returns an argument of a program as it may be shown, by the one before it. One with spaces may be a whole command, such as that
/// of `sh -c`: what is left of it is looked at word by word.
pub(in crate::config) fn shown_argument(before: Option<&str>, argument: &str) -> String {
    let whole = shown_word(before, argument);
    let words = whole.split(' ');
    let before = iter::once(None).chain(words.clone().map(Some));
    let words = before.zip(words).map(|(before, word)| {
        let bare = word.trim_matches(['"', '\'']);
        let shown = shown_word(before, bare);
        match shown == bare {
            true => word.to_owned(),
            false => shown,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a word as it may be shown: a secret may stand in an address, behind the name of an option or a header, or in the word
/// after that of an option.
fn shown_word(before: Option<&str>, argument: &str) -> String {
    let hidden = || HIDDEN.to_owned();
    let is_value = before.is_some_and(takes_word) && !argument.starts_with("--");
    if is_value && before.is_some_and(|option| may_be_secret_argument(option, "=", argument)) {
        return hidden();
    }
    if let Some(value) = glued_secret(argument).or_else(|| secret_in(argument)) {
        let shown = argument.strip_suffix(value).unwrap_or_default();
        return format!("{shown}{HIDDEN}");
    }
    if let Some((_, address)) = argument.split_once("://") {
        let host = address.split('/').next().unwrap_or_default();
        // What stands behind an @ in a path is a version, as in git+https://host/program@v1.
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

/// Returns what stands in one word with `-p`, which takes a password, as in `-phunter2`, or with `-u`, which takes a login, as in
/// `-uada:hunter2`. An option of a word, as `-profile`, has nothing in it, and neither has `-pv` or the ports of `-p8080:80`. A
/// number by itself may be a port or a password.
fn glued_secret(argument: &str) -> Option<&str> {
    let word = argument.strip_prefix('-')?;
    let (option, value) = word.split_at_checked(1)?;
    let is_secret = match option {
        "p" => value.len() > 1 && !begins_option(word) && !names_ports(value),
        "u" | "U" => {
            let name = value.split(':').next().unwrap_or_default();
            !name.contains('=') && is_login(value)
        }
        _ => false,
    };
    is_secret.then_some(value)
}

/// Tells whether what stands behind a single dash is an option that is called by a word with a p: the word ends where a capital,
/// a dash or a value begins.
fn begins_option(option: &str) -> bool {
    let end = option.find(|letter: char| !letter.is_ascii_lowercase());
    let (word, rest) = option.split_at(end.unwrap_or(option.len()));
    let ends =
        |letter: char| letter.is_ascii_uppercase() || matches!(letter, '-' | '_' | '=' | ':' | ' ');
    OPTIONS_OF_P.contains(&word) && (rest.is_empty() || rest.starts_with(ends))
}

/// Tells whether a text is made of numbers alone, as the ports are that a container publishes, or a user and a group.
fn names_ports(text: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    text.contains(':') && text.bytes().all(usual)
}

/// Tells whether a text is a user and a password, as programs take them.
fn is_login(text: &str) -> bool {
    let password = text.split_once(':').map(|(_, password)| password);
    password.is_some_and(|password| !password.starts_with("//")) && !names_ports(text)
}

/// Tells whether the value of an option or a variable is a user, behind whom a password may stand.
fn names_user(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.rsplit(|letter: char| !letter.is_ascii_alphanumeric());
    let last = words.next().unwrap_or_default();
    let ends = ["user", "username", "userpwd", "login"];
    matches!(name, "-u" | "-U") || ends.iter().any(|ending| last.ends_with(ending))
}

/// Tells whether an argument is an option whose value may be the next one.
fn takes_word(argument: &str) -> bool {
    argument.starts_with('-') && !argument.starts_with("--no-") && !argument.contains('=')
}

/// Returns what of an argument may be a secret: all that stands behind the first name of one. Names may stand behind each other,
/// as in `--env=API_KEY=…` and in `host=db password=…`.
fn secret_in(argument: &str) -> Option<&str> {
    let mut from = 0;
    for (at, separator) in argument.match_indices(['=', ':']) {
        let between = argument.get(from..at)?;
        from = at + separator.len();
        let value = argument.get(from..)?;
        let name = between.rsplit([' ', ',', ';']).next().unwrap_or_default();
        if is_plain_name(name) && may_be_secret_argument(name, separator, value) {
            return Some(value);
        }
    }
    None
}

/// Tells whether what stands behind a name in the arguments of a program may be a secret. Behind `:` the name may be that of a
/// header.
fn may_be_secret_argument(name: &str, separator: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let sounds_secret = match separator {
        ":" => header_sounds_secret(name) && !is_number,
        _ => option_sounds_secret(name, is_number),
    };
    let is_of_file = names_file(&name.to_ascii_uppercase(), value);
    let is_yes_or_no = matches!(value, "true" | "false");
    sounds_secret && !is_of_file && !is_yes_or_no
        || separator == "=" && names_user(name) && is_login(value)
        || may_be_key(value) && !value.contains('/')
}

/// Tells whether an option is called as one that holds a secret. Other than in the name of a variable its words count whole:
/// neither `--max-tokens` nor `--author` holds any. A number is none behind a name that ends otherwise, as `--token-limit`.
fn option_sounds_secret(name: &str, is_number: bool) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = lower.rsplit(|letter: char| !letter.is_ascii_alphanumeric());
    let mut words = words.filter(|word| !word.is_empty());
    // Words are joined, too, as in PGPASSWORD and apiKey.
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

/// Tells whether a text can be the name of an option, a variable or a header, and is no key itself.
fn is_plain_name(text: &str) -> bool {
    let usual = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !text.is_empty() && text.chars().all(usual) && !may_be_key(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_left_of_arguments() {
        for (before, argument, expected) in [
            (
                None,
                "postgresql://me:hunter2@db/prod",
                "postgresql://***@db/prod",
            ),
            (
                None,
                "--db=postgres://me:hunter2@db/x",
                "--db=postgres://***@db/x",
            ),
            (None, "https://host/v1?token=hunter2", "https://host/v1?***"),
            (None, "--token=hunter2", "--token=***"),
            (None, "API_KEY=hunter2", "API_KEY=***"),
            (None, "Authorization: Bearer hunter2", "Authorization:***"),
            (Some("--password"), "hunter2", "***"),
            (Some("--api-key"), "hunt/er2", "***"),
            (
                None,
                "--env=AWS_SECRET_ACCESS_KEY=wJal/K7MD",
                "--env=AWS_SECRET_ACCESS_KEY=***",
            ),
            (
                None,
                "--header=Authorization: Basic dXNl/cjpodW50ZXIy==",
                "--header=Authorization:***",
            ),
            (None, "--env=DB_PASS=hunter", "--env=DB_PASS=***"),
            (Some("--header"), "X-Session: ada", "X-Session:***"),
            (None, "host=db password=hunter2", "host=db password=***"),
            (None, "--authToken=hunter2", "--authToken=***"),
            (Some("--password"), "1234", "***"),
            (Some("--no-auth"), "--port", "--port"),
            (Some("--token=***"), "server.sh", "server.sh"),
            (Some("--token-file"), "/run/token", "/run/token"),
            (Some("-y"), "@scope/server", "@scope/server"),
            (
                Some("--from"),
                "git+https://host/it@v1",
                "git+https://host/it@v1",
            ),
            (None, "sk-hunter2", "***"),
        ] {
            assert_eq!(shown_argument(before, argument), expected, "{argument}");
        }
    }

    #[test]
    fn no_password_is_left_behind_a_short_option_or_a_user() {
        for (before, argument, expected) in [
            (None, "-psecret", "-p***"),
            (None, "-p1234", "-p***"),
            (None, "-pport1234", "-p***"),
            (None, "-ppass=word", "-p***"),
            (None, "-password=hunter2", "-password=***"),
            (None, "-uada:hunter2", "-u***"),
            (None, "-uada:hunt=er2", "-u***"),
            (None, "-u=ada:hunter2", "-u=***"),
            (Some("-u"), "ada:hunter2", "***"),
            (Some("-U"), "ada:1234", "***"),
            (Some("--user"), "ada:hunter2", "***"),
            (Some("--proxy-user"), "ada:hunter2", "***"),
            (None, "--user=ada:hunter2", "--user=***"),
            (None, "--dbUser=ada:hunter2", "--dbUser=***"),
            (None, "--env=DB_USER=ada:hunter2", "--env=DB_USER=***"),
            (Some("-u"), "https://ada:hunter2@host", "https://***@host"),
            (Some("-c"), "mysql -uroot -psecret", "mysql -uroot -p***"),
            (
                Some("-c"),
                "mysql -psecret --token=hunter2",
                "mysql -p*** --token=***",
            ),
            (
                Some("-c"),
                "exec curl -u 'ada:hunter2' https://host/v1",
                "exec curl -u *** https://host/v1",
            ),
        ] {
            assert_eq!(shown_argument(before, argument), expected, "{argument}");
        }
    }

    #[test]
    fn arguments_that_are_no_secrets_are_shown() {
        for (before, argument) in [
            (Some("--max-tokens"), "4096"),
            (None, "--max-tokens=4096"),
            (Some("--token-limit"), "4096"),
            (Some("--author"), "Bob"),
            (Some("--no-auth"), "server.js"),
            (None, "--auth=false"),
            (None, "keycloak:8080"),
            (None, "--decode=utf-8"),
            (None, "-p"),
            (None, "-pv"),
            (None, "-profile"),
            (None, "-port=8080"),
            (None, "-pathToConfig"),
            (None, "-p8080:80"),
            (None, "-p127.0.0.1:8080:80"),
            (Some("-p"), "8080"),
            (Some("-p"), "@scope/package"),
            (Some("-u"), "server.py"),
            (Some("-u"), "http://127.0.0.1:80"),
            (None, "-url=http://host/v1"),
            (None, "-u"),
            (Some("--user"), "ada"),
            (Some("--user"), "1000:1000"),
            (None, "--user-agent=it:1"),
            (Some("-c"), "exec node 'server.js' --port"),
        ] {
            assert_eq!(shown_argument(before, argument), argument);
        }
    }
}
