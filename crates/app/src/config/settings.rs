//! The configuration in force as a list, for people.

use neuraxis_core::JsonText;
use toml::{Table, Value};

use super::error::POLICY_SECTIONS;
use super::origin::Origin;
use super::{Config, ServerConfig, TlsFiles, driver, secret, web};

/// The value of one key, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The key's dotted path.
    pub key: String,
    /// The value as TOML on one line; secrets are hidden.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

impl Config {
    /// Returns every value in force, those that nobody set included, in the order of the sections.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let mut list = Vec::new();
        for (role, model) in &self.models {
            let file = model.api_key_file.as_deref();
            let ours = [
                ("provider", Some(model.provider.provider().to_string())),
                ("api_key_env", model.api_key_env.clone()),
                ("api_key_file", file.map(|file| file.display().to_string())),
            ];
            let ours = ours
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?))));
            for (name, value) in ours.chain(model.provider.table()) {
                self.add(&mut list, format!("models.{role}.{name}"), &value);
            }
        }
        for (name, value) in self.discovery.settings() {
            self.add(&mut list, format!("discovery.{name}"), &value);
        }
        let driver = driver::table(&self.driver);
        self.add(&mut list, "driver".to_owned(), &driver);
        if let Some(file) = &self.approval_key_file {
            let file = Value::String(file.display().to_string());
            self.add(&mut list, "store.approval_key_file".to_owned(), &file);
        }
        for (name, value) in self.store.table() {
            self.add(&mut list, format!("store.{name}"), &value);
        }
        let root = Value::String(self.project_root.display().to_string());
        self.add(&mut list, "tools.root".to_owned(), &root);
        if let Some(project) = &self.tools.project_id {
            let project = Value::String(project.clone());
            self.add(&mut list, "tools.project_id".to_owned(), &project);
        }
        if let Ok(commands) = Value::try_from(self.tools.commands) {
            self.add(&mut list, "tools.commands".to_owned(), &commands);
        }
        let above = Value::Integer(self.tools.search_above().into());
        self.add(&mut list, "tools.search_above".to_owned(), &above);
        let bounds = self.tools.result_bounds();
        for (key, bytes) in [
            ("tools.max_result_bytes", bounds.max_bytes()),
            ("tools.max_kept_bytes", bounds.max_kept_bytes()),
        ] {
            let bytes = Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX));
            self.add(&mut list, key.to_owned(), &bytes);
        }
        self.add(&mut list, "web".to_owned(), &web::table(&self.web));
        for (name, server) in &self.mcp.servers {
            let table = Value::Table(server.table());
            self.add(&mut list, format!("mcp.servers.{}", as_key(name)), &table);
        }
        for (name, value) in self.telemetry.table() {
            self.add(&mut list, format!("telemetry.{name}"), &value);
        }
        for (name, prompt) in &self.prompts {
            let about = prompt.about.iter().map(|about| ("about", about));
            for (key, value) in about.chain([("text", &prompt.text)]) {
                let key = format!("prompts.{}.{key}", as_key(name));
                self.add(&mut list, key, &Value::String(value.clone()));
            }
        }
        self.add_server(&mut list);
        let mut policy = self.policy_table();
        for section in POLICY_SECTIONS {
            if let Some(table) = policy.remove(section) {
                self.add(&mut list, section.to_owned(), &table);
            }
        }
        list
    }

    fn add_server(&self, list: &mut Vec<Setting>) {
        let listen = Value::String(self.server.listen.to_string());
        self.add(list, "server.listen".to_owned(), &listen);
        if let Some(plan) = &self.server.plan {
            let plan = Value::String(plan.to_string());
            self.add(list, "server.plan".to_owned(), &plan);
        }
        let max_runs = self.server.max_runs.unwrap_or(ServerConfig::MAX_RUNS);
        let max_runs = Value::Integer(max_runs.get().into());
        self.add(list, "server.max_runs".to_owned(), &max_runs);
        if let Some(most) = self.server.max_runs_per_owner {
            let most = Value::Integer(most.get().into());
            self.add(list, "server.max_runs_per_owner".to_owned(), &most);
        }
        let question_ms = i64::try_from(self.server.question_ms).unwrap_or(i64::MAX);
        let question_ms = Value::Integer(question_ms);
        self.add(list, "server.question_ms".to_owned(), &question_ms);
        if let Some(file) = &self.server.keys {
            let file = Value::String(file.display().to_string());
            self.add(list, "server.keys".to_owned(), &file);
        }
        let origins = self.server.origins.iter().cloned().map(Value::String);
        let origins = Value::Array(origins.collect());
        self.add(list, "server.origins".to_owned(), &origins);
        let behind_proxy = Value::Boolean(self.server.behind_proxy);
        self.add(list, "server.behind_proxy".to_owned(), &behind_proxy);
        if let Some(log) = self.server.access_log {
            let log = Value::String(log.as_str().to_owned());
            self.add(list, "server.access_log".to_owned(), &log);
        }
        if let Some(TlsFiles { certificate, key }) = &self.server.tls {
            for (name, file) in [("certificate", certificate), ("key", key)] {
                let file = Value::String(file.display().to_string());
                self.add(list, format!("server.tls.{name}"), &file);
            }
        }
        let modes = self.server.modes_of(&self.policy).into_iter();
        let modes = modes.map(|mode| Value::String(mode.to_string())).collect();
        self.add(list, "server.modes".to_owned(), &Value::Array(modes));
    }

    fn policy_table(&self) -> Table {
        // The configuration is texts, numbers, lists and tables with texts as keys: writing and reading it cannot fail.
        // By way of the text, since a value tree would turn 0.7 into 0.699999988079071.
        let text = toml::to_string(self.policy.config()).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }

    fn add(&self, list: &mut Vec<Setting>, key: String, value: &Value) {
        if let Value::Table(table) = value {
            for (name, value) in table {
                self.add(list, format!("{key}.{}", as_key(name)), value);
            }
            return;
        }
        list.push(Setting {
            value: on_one_line(&key, value),
            origin: self.origin(&key),
            key,
        });
    }
}

/// Writes a name as TOML wants it in front of an equals sign.
fn as_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.bytes().all(is_bare) {
        return name.to_owned();
    }
    JsonText::string(name).to_string()
}

pub(super) fn on_one_line(key: &str, value: &Value) -> String {
    match value {
        // The escapes of JSON are escapes of TOML too.
        Value::String(text) => JsonText::string(&secret::shown(key, text)).to_string(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(|value| on_one_line(key, value)).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Table(table) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{} = {}", as_key(name), on_one_line(key, value))
            };
            let fields: Vec<String> = table.iter().map(field).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}
