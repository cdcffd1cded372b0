//! The effective configuration as a list, for users.

use std::iter;

use neuraxis_core::JsonText;
use toml::{Table, Value};

use super::error::POLICY_SECTIONS;
use super::key::as_key;
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
    /// Returns every effective value, including defaults, in the order of the sections.
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
                self.add(&mut list, format!("models.{role}.{name}"), value);
            }
        }
        for (name, value) in self.discovery.settings() {
            self.add(&mut list, format!("discovery.{name}"), value);
        }
        self.add(&mut list, "driver", driver::table(&self.driver));
        if let Some(file) = &self.approval_key_file {
            let file = file.display().to_string();
            self.add(&mut list, "store.approval_key_file", file);
        }
        for (name, value) in self.store.table() {
            self.add(&mut list, format!("store.{name}"), value);
        }
        let root = self.project_root.display().to_string();
        self.add(&mut list, "tools.root", root);
        if let Some(project) = &self.tools.project_id {
            self.add(&mut list, "tools.project_id", project.as_str());
        }
        if let Ok(commands) = Value::try_from(self.tools.commands) {
            self.add(&mut list, "tools.commands", commands);
        }
        if !self.tools.environment.is_empty() {
            self.add(
                &mut list,
                "tools.environment",
                self.tools.environment.clone(),
            );
        }
        let above = self.tools.search_above();
        self.add(&mut list, "tools.search_above", above);
        let bounds = self.tools.result_bounds();
        for (key, bytes) in [
            ("tools.max_result_bytes", bounds.max_bytes()),
            ("tools.max_kept_bytes", bounds.max_kept_bytes()),
        ] {
            self.add(&mut list, key, i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        self.add(&mut list, "web", web::table(&self.web));
        for (name, server) in &self.mcp.servers {
            let key = format!("mcp.servers.{}", as_key(name));
            self.add(&mut list, key, server.table());
        }
        for (name, value) in self.telemetry.table() {
            self.add(&mut list, format!("telemetry.{name}"), value);
        }
        for (name, prompt) in &self.prompts {
            let about = prompt.about.iter().map(|about| ("about", about));
            for (key, value) in about.chain([("text", &prompt.text)]) {
                let key = format!("prompts.{}.{key}", as_key(name));
                self.add(&mut list, key, value.as_str());
            }
        }
        self.add_server(&mut list);
        let mut policy = self.policy_table();
        for section in POLICY_SECTIONS {
            if let Some(table) = policy.remove(section) {
                self.add(&mut list, section, table);
            }
        }
        if let Some(file) = self.price_list.file() {
            self.add(&mut list, "price_list.file", file.display().to_string());
        }
        list
    }

    fn add_server(&self, list: &mut Vec<Setting>) {
        let server = &self.server;
        self.add(list, "server.listen", server.listen.to_string());
        if let Some(plan) = &server.plan {
            self.add(list, "server.plan", plan.to_string());
        }
        let max_runs = server.max_runs.unwrap_or(ServerConfig::MAX_RUNS);
        self.add(list, "server.max_runs", max_runs.get());
        if let Some(most) = server.max_runs_per_owner {
            self.add(list, "server.max_runs_per_owner", most.get());
        }
        let question_ms = i64::try_from(server.question_ms).unwrap_or(i64::MAX);
        self.add(list, "server.question_ms", question_ms);
        if let Some(file) = &server.keys {
            self.add(list, "server.keys", file.display().to_string());
        }
        self.add(list, "server.origins", server.origins.clone());
        self.add(list, "server.behind_proxy", server.behind_proxy);
        if let Some(log) = server.access_log {
            self.add(list, "server.access_log", log.as_str());
        }
        if let Some(TlsFiles { certificate, key }) = &server.tls {
            for (name, file) in [("certificate", certificate), ("key", key)] {
                let file = file.display().to_string();
                self.add(list, format!("server.tls.{name}"), file);
            }
        }
        let modes = server.modes_of(&self.policy).into_iter();
        let modes: Vec<String> = modes.map(|mode| mode.to_string()).collect();
        self.add(list, "server.modes", modes);
    }

    fn policy_table(&self) -> Table {
        // The configuration consists of strings, numbers, lists and tables with string keys: writing and reading it
        // cannot fail. It goes through text, since a value tree would turn 0.7 into 0.699999988079071.
        let text = toml::to_string(self.policy.config()).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }

    fn add(&self, list: &mut Vec<Setting>, key: impl Into<String>, value: impl Into<Value>) {
        self.add_value(list, key.into(), &value.into());
    }

    fn add_value(&self, list: &mut Vec<Setting>, key: String, value: &Value) {
        if let Value::Table(table) = value {
            for (name, value) in table {
                self.add_value(list, format!("{key}.{}", as_key(name)), value);
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

pub(super) fn on_one_line(key: &str, value: &Value) -> String {
    match value {
        // JSON escapes are also TOML escapes.
        Value::String(text) => JsonText::string(&secret::shown(key, text)).to_string(),
        Value::Array(values) => {
            let before = values.iter().map(Value::as_str);
            let before = iter::once(None).chain(before);
            let entry = |(before, value): (Option<&str>, &Value)| match value {
                Value::String(text) => {
                    JsonText::string(&secret::shown_entry(key, before, text)).to_string()
                }
                other => on_one_line(key, other),
            };
            let values: Vec<String> = before.zip(values).map(entry).collect();
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
