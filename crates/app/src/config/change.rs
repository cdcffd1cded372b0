//! What a found file would change if it were trusted, described for the user who decides.

use std::net::SocketAddr;

use neuraxis_brainstem::PolicyError;
use neuraxis_core::clip;
use neuraxis_offline::OfflineConfig;
use neuraxis_ports::Provider as _;
use toml::{Table, Value};

use super::Layers;
use super::key::{as_key, path};
use super::secret::{self, HIDDEN, may_be_key, shown_variable, sounds_secret};
use super::settings::on_one_line;
use crate::names::{is_shown_whole, shown};

/// The maximum number of characters of a value that are shown. A truncated value cannot be trusted by answering yes, so
/// this limit is generous.
const MAX_VALUE_CHARS: usize = 2_000;

/// The danger of something that cannot be used.
const UNUSABLE: u8 = 6;

/// One thing that a found file would change if it were trusted.
///
/// The strings come from that file: they are bounded and contain no secrets, but a terminal must escape them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Change {
    /// How dangerous it is; 0 is the worst. The first field, since changes are sorted by it.
    danger: u8,
    /// The key's dotted path.
    pub key: String,
    /// The value as TOML on one line; secrets are hidden.
    pub value: String,
    /// What that does, in plain words.
    pub meaning: String,
    is_cut: bool,
}

/// Describes a setting of an MCP server.
fn of_mcp_server(server: &str, names: &[&str], text: &str) -> (u8, String) {
    let server = shown(server);
    match names {
        ["command"] => (
            0,
            format!(
                "starts a program as you, MCP server {server}: {}",
                cut(text)
            ),
        ),
        ["args" | "cwd"] => (
            0,
            format!("changes how the program of MCP server {server} is started"),
        ),
        ["env", variable, ..] => (
            0,
            format!(
                "starts the program of MCP server {server} with the variable {}",
                name(variable)
            ),
        ),
        ["url"] => {
            let url = secret::without_secrets(text);
            (
                1,
                format!(
                    "lets MCP server {server} see parts of your conversations: {}",
                    cut(&url)
                ),
            )
        }
        ["pass_env", ..] => (
            1,
            format!("passes your environment variables to MCP server {server}"),
        ),
        ["token_env" | "token_file" | "headers_env", ..] => (
            1,
            format!("sends one of your secrets to MCP server {server}"),
        ),
        _ => (4, format!("changes how MCP server {server} is used")),
    }
}

impl Change {
    /// Returns whether the key or the value is truncated, or hides something that a program is started with. The user
    /// then cannot decide based on what is shown.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Replaces the description with a statement that the setting cannot be used, and why.
    pub(super) fn refuse(&mut self, why: &str) {
        self.danger = UNUSABLE;
        self.meaning = format!("cannot be used: {}", cut(why));
    }

    /// Describes a value that is not part of the policy. `whole` is the content of the file, `own` the user's own
    /// sources.
    pub(super) fn of(names: &[&str], value: &Value, whole: &Table, own: &Layers) -> Self {
        let text = value.as_str().unwrap_or_default();
        let (danger, meaning) = match names {
            ["models", role, rest @ ..] => of_model(role, rest, text, &Keys { role, whole, own }),
            ["mcp", "servers", server, rest @ ..] => of_mcp_server(server, rest, text),
            ["tools", "root"] => (2, format!("lets tools read and write in {}", cut(text))),
            ["tools", "commands"] if text != "sandboxed" => (
                0,
                "lets commands run without a sandbox where none is available: as you and with all your permissions"
                    .to_owned(),
            ),
            ["tools", "environment"] => (1, "passes these environment variables of yours to commands".to_owned()),
            ["tools", ..] => (3, "changes the tools".to_owned()),
            ["web", "allow_hosts"] => (
                1,
                "lets web_fetch reach these hosts, including those in your own network".to_owned(),
            ),
            ["web", "search", rest @ ..] => of_search(rest, text),
            ["web", ..] => (3, "changes how web pages are fetched".to_owned()),
            ["store", rest @ ..] => of_store(rest, text),
            ["driver", "restate", "ingress" | "admin"] => {
                let url = cut(&secret::without_secrets(text));
                (2, format!("hands your runs over to {url}"))
            }
            ["driver", ..] => (5, "changes which process drives runs".to_owned()),
            ["server", rest @ ..] => of_server(rest, text),
            ["telemetry", "otlp", "endpoint"] => {
                let url = cut(&secret::without_secrets(text));
                (1, format!("sends traces of your runs to {url}"))
            }
            ["telemetry", "content"] => {
                let meaning = "exports the content of conversations with the traces of your runs";
                (2, meaning.to_owned())
            }
            ["telemetry", "json_lines", "path"] => {
                (2, format!("writes traces of your runs to {}", cut(text)))
            }
            ["telemetry", ..] => (
                4,
                "changes which traces of your runs are exported".to_owned(),
            ),
            ["discovery", ..] => (6, "changes which model is discovered".to_owned()),
            ["prompts", name, ..] => (3, format!("adds the prompt {}", cut(name))),
            ["price_list", "file"] => (
                2,
                format!(
                    "lets the prices in {}, as they are now, determine what counts against budgets",
                    cut(text)
                ),
            ),
            ["price_list", ..] => (4, "changes which public prices are used".to_owned()),
            ["config", ..] => (7, "has no effect".to_owned()),
            _ => (4, "is unknown to this version".to_owned()),
        };
        Self::new(danger, names, value, meaning)
    }

    /// Describes a part of the policy that loosens it or is invalid.
    pub(super) fn loosening(names: &[&str], value: &Value, fault: &PolicyError) -> Self {
        match (fault, names) {
            (PolicyError::Loosens { .. }, ["rules", ..]) if is_allowing(value) => {
                let meaning = "loosens the policy: lets calls run without asking".to_owned();
                Self::new(1, names, value, meaning)
            }
            (PolicyError::Loosens { how, .. }, _) => {
                let danger = if names.first() == Some(&"rules") {
                    1
                } else {
                    3
                };
                Self::new(danger, names, value, format!("loosens the policy: {how}"))
            }
            _ => Self::unusable(names, value, &fault.to_string()),
        }
    }

    /// Describes the wording of a rule, as opposed to what it asks or denies.
    pub(super) fn of_words(names: &[&str], value: &Value) -> Self {
        let meaning = "adds text that is shown when a rule asks you or stops a call".to_owned();
        Self::new(6, names, value, meaning)
    }

    /// Describes an invalid part.
    pub(super) fn unusable(names: &[&str], value: &Value, why: &str) -> Self {
        let mut change = Self::new(UNUSABLE, names, value, String::new());
        change.refuse(why);
        change
    }

    fn new(danger: u8, names: &[&str], value: &Value, meaning: String) -> Self {
        let key = path(names);
        // Without a key, nothing is hidden.
        let in_full = on_one_line("", value);
        let whole = match names {
            // A variable can make a program do anything, so its value is shown, unless its name suggests a secret.
            ["mcp", "servers", _, "env", variable] if !sounds_secret(variable) => in_full.clone(),
            _ => on_one_line(&key, value),
        };
        let starts_program = matches!(names, ["mcp", "servers", _, "args" | "env", ..]);
        let is_hidden = whole != in_full || names.iter().any(|part| may_be_key(part));
        let value = cut(&whole);
        let is_cut = value != whole
            || !names.iter().all(|part| is_shown_whole(part))
            || starts_program && is_hidden;
        let names: Vec<String> = names.iter().map(|part| name(part)).collect();
        Self {
            danger,
            key: names.join("."),
            value,
            meaning,
            is_cut,
        }
    }
}

/// Returns whether only this machine can reach an address. An invalid address is treated as reachable by others.
fn is_of_this_machine(address: &str) -> bool {
    let address = address.parse::<SocketAddr>();
    address.is_ok_and(|address| address.ip().is_loopback())
}

fn is_allowing(rule: &Value) -> bool {
    rule.get("answer").and_then(Value::as_str) == Some("allow")
}

/// The settings that name the keys of a model.
struct Keys<'a> {
    role: &'a str,
    whole: &'a Table,
    own: &'a Layers,
}

impl Keys<'_> {
    /// Describes which keys are sent to the model's address, as far as the file names them.
    fn sent_keys(&self) -> String {
        let section = self
            .whole
            .get("models")
            .and_then(|models| models.get(self.role));
        let named = |key: &str| section?.get(key)?.as_str();
        if let Some(variable) = named("api_key_env") {
            return format!(", and the key in {},", shown_variable(variable));
        }
        if let Some(file) = named("api_key_file") {
            return format!(", and the contents of {},", cut(file));
        }
        String::new()
    }

    /// Describes what happens to a key that the user names: it is sent to no address that the file names.
    fn withheld_key(&self) -> &'static str {
        let role = as_key(self.role);
        let own = |key: &str| self.own.sets(&format!("models.{role}.{key}"));
        match own("api_key_env") || own("api_key_file") || own("headers_env") {
            true => {
                "; if your own key would be sent along, that is an error, because the file must name the key too"
            }
            false => "",
        }
    }
}

fn of_model(role: &str, rest: &[&str], text: &str, keys: &Keys<'_>) -> (u8, String) {
    match rest {
        ["base_url"] => {
            let sent = keys.sent_keys();
            let kept_back = match sent.is_empty() {
                true => keys.withheld_key(),
                false => "",
            };
            let url = cut(&secret::without_secrets(text));
            (0, format!("sends what you type{sent} to {url}{kept_back}"))
        }
        ["proxy"] => {
            let proxy = cut(&secret::without_secrets(text));
            (
                0,
                format!("sends all traffic to this model through {proxy}"),
            )
        }
        ["headers_env", header] => {
            let (variable, header) = (shown_variable(text), name(header));
            (
                1,
                format!("sends the variable {variable} as the header {header}"),
            )
        }
        ["api_key_env"] => (
            1,
            format!("sends the key in {} to this model", shown_variable(text)),
        ),
        ["api_key_file"] => (
            1,
            format!("sends the contents of {} to this model", cut(text)),
        ),
        ["ca_file"] => {
            let file = cut(text);
            (
                1,
                format!("lets the owners of the certificates in {file} read the traffic"),
            )
        }
        ["provider"] if text == OfflineConfig::NAME => {
            (6, "lets rules answer instead of a model".to_owned())
        }
        ["provider"] => (1, format!("lets {} answer", cut(text))),
        _ => (5, format!("changes the model of {}", name(role))),
    }
}

fn of_search(rest: &[&str], text: &str) -> (u8, String) {
    match rest {
        ["base_url"] => {
            let url = cut(&secret::without_secrets(text));
            (0, format!("sends search queries to {url}"))
        }
        ["provider"] => (1, format!("sends search queries to {}", cut(text))),
        ["api_key_env"] => (
            1,
            format!(
                "sends the key in {} to the search service",
                shown_variable(text)
            ),
        ),
        _ => (5, "changes how the web is searched".to_owned()),
    }
}

fn of_store(rest: &[&str], text: &str) -> (u8, String) {
    match rest {
        ["url"] => {
            let url = secret::shown("store.url", text);
            (2, format!("stores your sessions in {}", cut(&url)))
        }
        ["log", "folder"] => (2, format!("copies your conversations to {}", cut(text))),
        ["archive"] => {
            let folder = cut(text);
            (
                2,
                format!("writes conversations to {folder} before servers delete them"),
            )
        }
        ["keep"] => {
            let age = cut(text);
            (
                2,
                format!("lets servers delete sessions that are idle for {age}"),
            )
        }
        ["approval_key_file"] => {
            let file = cut(text);
            (
                2,
                format!("lets anyone with the key in {file} approve calls"),
            )
        }
        _ => (5, "changes how sessions are stored".to_owned()),
    }
}

fn of_server(rest: &[&str], text: &str) -> (u8, String) {
    match rest {
        ["listen"] if !is_of_this_machine(text) => {
            let address = cut(text);
            (
                2,
                format!("lets other machines reach the server: {address}"),
            )
        }
        ["keys"] => (
            2,
            format!("gives access to anyone with a key from {}", cut(text)),
        ),
        ["modes"] => (2, "chooses the modes that clients may use".to_owned()),
        ["origins"] => (
            2,
            "lets web pages from these origins send requests to the server".to_owned(),
        ),
        _ => (4, "changes how the server is reached and used".to_owned()),
    }
}

/// Returns a part of a key's path, hidden if it may be a secret.
fn name(text: &str) -> String {
    match may_be_key(text) {
        true => HIDDEN.to_owned(),
        false => shown(text),
    }
}

fn cut(text: &str) -> String {
    clip(text, MAX_VALUE_CHARS)
}
