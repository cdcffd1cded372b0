//! Tests of merging, strictness and origins.

mod broken;
mod complaints;
mod mcp;
mod prices;
mod project;
mod telemetry;
mod web;

use std::error::Error;
use std::fs;

use neuraxis_cassette::CassetteConfig;
use neuraxis_core::Mode;
use tempfile::TempDir;

use super::*;
use crate::providers::Provider;
use crate::trust::{Trust, TrustList};

/// The file that is found in the working directory.
const FOUND: &str = "work/neuraxis.toml";

/// A machine with its own working directory and configuration folder.
struct Machine {
    folder: TempDir,
    environment: Environment,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "user"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let environment = Environment::new(folder.path().join("work"))
            .with_config_dir(folder.path().join("user"));
        Self {
            folder,
            environment,
        }
    }

    /// Adds a file. A file in the working directory is trusted.
    fn with_file(mut self, path: &str, text: &str) -> Self {
        fs::write(self.folder.path().join(path), text).unwrap();
        if path == FOUND {
            let data = self.folder.path().join("data");
            self.environment = self.environment.with_data_dir(data);
            let list = TrustList::of(&self.environment).unwrap();
            let work = self.environment.working_dir().canonicalize().unwrap();
            let (found, _) = found::read_found_file(&self.environment).unwrap();
            list.trust(&work, found.content().unwrap()).unwrap();
        }
        self
    }

    /// Adds an untrusted file in the working directory.
    fn with_untrusted(self, text: &str) -> Self {
        fs::write(self.folder.path().join(FOUND), text).unwrap();
        self
    }

    fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment = self.environment.with_variable(name, value);
        self
    }

    fn load(&self) -> Result<Config, ConfigError> {
        self.load_from(&Sources::default())
    }

    fn load_from(&self, sources: &Sources) -> Result<Config, ConfigError> {
        Config::load(&self.environment, sources)
    }

    /// Returns the error message with its causes.
    fn complaint(&self) -> String {
        self.complaint_from(&Sources::default())
    }

    fn complaint_from(&self, sources: &Sources) -> String {
        let error = self.load_from(sources).unwrap_err();
        let mut complaint = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            complaint = format!("{complaint}: {error}");
            cause = error.source();
        }
        complaint
    }
}

#[test]
fn a_custom_role_that_nothing_names_causes_a_notice() {
    let configured = |text: &str| {
        let machine = Machine::new().with_file("user/neuraxis.toml", text);
        machine.load().unwrap().notices().to_vec()
    };
    let model = "[models.reasonin]\nprovider = 'offline'\n";
    for more in [
        "[modes.moderate]\nroles = ['router', 'reasonin']",
        "[channels.chat]\nrole = 'reasonin'",
        "[channels.chat]\nescalate.role = 'reasonin'",
        "[channels.chat.when.moderate]\nroles = ['reasonin', 'router', 'reasoning']",
        "[agents.mine]\nrole = 'reasonin'",
        "[agents.mine]\ncompaction = { summarize = { role = 'reasonin' } }",
    ] {
        assert_eq!(configured(&format!("{model}{more}")), [""; 0], "{more}");
    }
    // A role whose name is not a typo may be for an embedding program.
    let notices = configured("[models.vision]\nprovider = 'offline'");
    let [notice] = notices.as_slice() else {
        panic!("not one notice: {notices:?}")
    };
    assert!(
        notice.contains("names the role vision: its model is used only if it is chosen explicitly")
            && notice.contains("if no other role has a model"),
        "{notice}"
    );
    assert!(notice.contains("neuraxis.toml:1"), "{notice}");
}

fn max_turns(config: &Config, mode: &Mode) -> Option<u32> {
    config.policy().config().modes[mode].max_turns
}

fn lines(config: &Config) -> Vec<String> {
    let settings = config.settings();
    let line = |setting: &Setting| format!("{} = {}", setting.key, setting.value);
    settings.iter().map(line).collect()
}

#[test]
fn without_any_source_the_defaults_apply() {
    let machine = Machine::new();
    let config = machine.load().unwrap();
    assert!(config.models().is_empty());
    assert_eq!(config.store().url(), "memory:");
    assert_eq!(config.project_root(), machine.folder.path().join("work"));
    assert_eq!(config.policy().hash(), Policy::built_in().hash());
    assert!(config.files().is_empty());
    let settings = config.settings();
    assert!(
        settings
            .iter()
            .all(|setting| setting.origin == Origin::Default)
    );
}

#[test]
fn the_old_name_of_a_key_is_an_alias_in_every_source() {
    let old = "[channels.chat]\nprofile = 'researcher'\n";
    let new = "[channels.chat]\nagent = 'main_thread'\n";
    let key = "channels.chat.agent";
    let agent = |machine: &Machine, sources: &Sources| {
        let config = machine.load_from(sources).unwrap();
        let settings = config.settings();
        let setting = settings.into_iter().find(|setting| setting.key == key);
        setting.unwrap()
    };
    let machine = Machine::new().with_file("user/neuraxis.toml", old);
    let set = agent(&machine, &Sources::default());
    assert_eq!(set.value, r#""researcher""#);
    assert!(
        matches!(set.origin, Origin::File { line: 2, .. }),
        "{:?}",
        set.origin
    );
    let both = machine.with_file(FOUND, new);
    let set = agent(&both, &Sources::default());
    assert_eq!(set.value, r#""main_thread""#);
    for name in ["profile", "agent"] {
        let key = format!("channels.chat.{name}");
        let flag = Sources::default().with_flag("--set", &key, "researcher");
        assert_eq!(agent(&both, &flag).value, r#""researcher""#, "{name}");
    }
    let turned = Machine::new()
        .with_file("user/neuraxis.toml", new)
        .with_variable("NEURAXIS_CHANNELS__CHAT__PROFILE", "researcher");
    let set = agent(&turned, &Sources::default());
    assert_eq!(set.value, r#""researcher""#);
    // One source must use only one of the names.
    let twice = format!("{old}agent = 'main_thread'\n");
    let complaint = Machine::new()
        .with_file("user/neuraxis.toml", &twice)
        .complaint();
    assert!(complaint.contains("duplicate field"), "{complaint}");
}

#[test]
fn each_source_overrides_individual_keys_of_weaker_sources() {
    let machine = Machine::new()
        .with_file(
            "user/neuraxis.toml",
            "[modes.conservative]\nmax_turns = 20\n[modes.moderate]\nmax_turns = 20\n\
             [modes.exploratory]\nmax_turns = 20\n[plans.mine]\nmax_turns = 20\n",
        )
        .with_file(
            "work/neuraxis.toml",
            "[modes.moderate]\nmax_turns = 30\n[modes.exploratory]\nmax_turns = 30\n\
             [plans.mine]\nmax_turns = 30\n",
        )
        .with_variable("NEURAXIS_MODES__EXPLORATORY__MAX_TURNS", "40")
        .with_variable("NEURAXIS_PLANS__MINE__MAX_TURNS", "40");
    let flags = Sources::default()
        .with_flag("--set", "plans.mine.max_turns", "50")
        .with_flag("--set", "plans.mine.max_turns", "51");
    let config = machine.load_from(&flags).unwrap();

    assert_eq!(max_turns(&config, &Mode::CONSERVATIVE), Some(20));
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(30));
    assert_eq!(max_turns(&config, &Mode::EXPLORATORY), Some(40));
    assert!(lines(&config).contains(&"plans.mine.max_turns = 51".to_owned()));

    let user = machine.folder.path().join("user/neuraxis.toml");
    for (key, expected) in [
        (
            "modes.conservative.max_turns",
            format!("{}:2", user.display()),
        ),
        ("modes.moderate.max_turns", "neuraxis.toml:2".to_owned()),
        (
            "modes.exploratory.max_turns",
            "NEURAXIS_MODES__EXPLORATORY__MAX_TURNS".to_owned(),
        ),
        ("plans.mine.max_turns", "--set".to_owned()),
        ("modes.moderate.deadline", "default".to_owned()),
    ] {
        assert_eq!(config.origin(key).to_string(), expected, "{key}");
    }
    assert_eq!(config.files(), [user, PathBuf::from("neuraxis.toml")]);
}

#[test]
fn an_explicitly_named_file_replaces_the_discovered_ones() {
    let machine = Machine::new()
        .with_file("user/neuraxis.toml", "[modes.moderate]\nmax_turns = 20")
        .with_file("work/neuraxis.toml", "broken")
        .with_file("other.toml", "[modes.conservative]\nmax_turns = 2");
    let other = Sources::default().with_file("../other.toml");
    let config = machine.load_from(&other).unwrap();
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(10));
    assert_eq!(max_turns(&config, &Mode::CONSERVATIVE), Some(2));
    assert_eq!(config.files(), [PathBuf::from("../other.toml")]);
}

#[test]
fn the_user_file_is_loaded_once_when_working_in_the_configuration_folder() {
    let mut machine = Machine::new().with_file("user/neuraxis.toml", "[store]\nurl = 'memory:'");
    let user = machine.folder.path().join("user");
    machine.environment = Environment::new(&user).with_config_dir(&user);
    let config = machine.load().unwrap();
    assert_eq!(config.files(), [PathBuf::from("neuraxis.toml")]);
}

#[test]
fn a_value_is_read_as_text_if_its_key_takes_text_and_as_toml_otherwise() {
    let config = Machine::new()
        .with_variable("NEURAXIS_MODELS__CODING__MODEL", "4")
        .with_variable("NEURAXIS_MODELS__CODING__PROVIDER", "openai")
        .with_variable("NEURAXIS_MODELS__CODING__MAX_CONCURRENT", "4")
        .with_variable("NEURAXIS_MODELS__CODING__STORE", "true")
        .with_variable("NEURAXIS_MODELS__CODING__TIMEOUTS__IDLE", "7s")
        .with_variable("NEURAXIS_CHANNELS__CHAT__TOOLS", r#"["current_time"]"#)
        .with_variable("NEURAXIS_MODES__MODERATE__DEADLINE", "5m")
        .with_variable("NEURAXIS_MODES__MODERATE__TEMPERATURE", "1")
        .with_variable("NEURAXIS_MODES__MODERATE__TOOLS__READ_ONLY", "\"ask\"")
        .with_variable("NEURAXIS_MODELS__REASONING__PROVIDER", "\"openai\"")
        .with_variable("NEURAXIS_MODELS__REASONING__MODEL", "'m2'")
        .with_variable("NEURAXIS_MODELS__ROUTER__PROVIDER", "openai")
        .with_variable("NEURAXIS_MODELS__ROUTER__MODEL", "\"m\" or \"n\"")
        .with_variable("NEURAXIS_PLANS", "{ mine = { max_turns = 3 } }")
        .load()
        .unwrap();
    let lines = lines(&config);
    for expected in [
        r#"models.coding.model = "4""#,
        "models.coding.max_concurrent = 4",
        "models.coding.store = true",
        r#"models.coding.timeouts.idle = "7s""#,
        r#"channels.chat.tools = ["current_time"]"#,
        r#"modes.moderate.deadline = "5m""#,
        "modes.moderate.temperature = 1.0",
        r#"modes.moderate.tools.read_only = "ask""#,
        r#"models.reasoning.provider = "openai""#,
        r#"models.reasoning.model = "m2""#,
        r#"models.router.model = "\"m\" or \"n\"""#,
        "plans.mine.max_turns = 3",
    ] {
        assert!(
            lines.contains(&expected.to_owned()),
            "{expected} is not in {lines:#?}"
        );
    }
}

#[test]
fn a_flag_can_set_a_name_that_contains_a_dot_or_a_slash() {
    let machine = Machine::new().with_file(
        "user/neuraxis.toml",
        "[prices.'openai/gpt-5.5']\nprompt = 1.0\ncompletion = 2.0\n",
    );
    let flags = Sources::default()
        .with_flag("--set", r#"prices."openai/gpt-5.5".prompt"#, "7")
        .with_flag("--set", "prices.'openai/gpt-4o'.prompt", "3")
        .with_flag("--set", "prices.openai/gpt-4o.completion", "4");
    let settings = machine.load_from(&flags).unwrap().settings();
    let prices = settings.iter().filter(|it| it.key.starts_with("prices."));
    let shown: Vec<String> = prices
        .map(|it| {
            let origin = it.origin.to_string();
            let end = origin.rsplit('/').next().unwrap_or_default().to_owned();
            format!("{} = {} # {end}", it.key, it.value)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "prices.\"openai/gpt-4o\".completion = 4.0 # --set",
            "prices.\"openai/gpt-4o\".prompt = 3.0 # --set",
            "prices.\"openai/gpt-5.5\".completion = 2.0 # neuraxis.toml:3",
            "prices.\"openai/gpt-5.5\".prompt = 7.0 # --set",
        ]
    );
    let open = Sources::default().with_flag("--set", "prices.\"openai/gpt", "7");
    let said = machine.complaint_from(&open);
    assert!(said.contains("is not a valid key"), "{said}");
}

#[test]
fn a_variable_matches_a_name_in_a_file_that_differs_only_in_case() {
    const KEY: &str = "NEURAXIS_PLANS__TEAM__DAY__MAX_TOKENS";
    let plans = |text: &str| {
        let machine = Machine::new().with_file("user/neuraxis.toml", text);
        let config = machine.with_variable(KEY, "5").load().unwrap();
        let mut lines = lines(&config);
        lines.retain(|line| line.to_lowercase().starts_with("plans.team."));
        lines
    };
    assert_eq!(
        plans("[plans.Team.day]\nmax_tokens = 7\n"),
        ["plans.Team.day.max_tokens = 5"]
    );
    // If there are two, the one in lower case is meant.
    assert_eq!(
        plans("[plans.Team.day]\nmax_tokens = 7\n[plans.team.day]\nmax_tokens = 8\n"),
        [
            "plans.Team.day.max_tokens = 7",
            "plans.team.day.max_tokens = 5"
        ]
    );
    assert_eq!(plans(""), ["plans.team.day.max_tokens = 5"]);
}

#[test]
fn a_variable_matches_a_built_in_name_before_a_capitalized_one_in_a_file() {
    let text = "[agents.Researcher]\nmax_turns = 7\n";
    let machine = Machine::new().with_file("user/neuraxis.toml", text);
    let machine = machine.with_variable("NEURAXIS_AGENTS__RESEARCHER__MAX_TURNS", "3");
    let lines = lines(&machine.load().unwrap());
    for line in [
        "agents.Researcher.max_turns = 7",
        "agents.researcher.max_turns = 3",
    ] {
        assert!(lines.iter().any(|it| it == line), "{lines:?}");
    }
}

#[test]
fn an_invalid_price_is_reported_with_its_line() {
    let price = |name: &str, prompt: &str| {
        format!("[prices.'openai/{name}']\nprompt = {prompt}\ncompletion = 1.0\n")
    };
    let text = [
        price("a", "1.0"),
        price("gpt-5.5", "1.0"),
        price("gpt-5.6", "-1.0"),
    ];
    let machine = Machine::new().with_file("user/neuraxis.toml", &text.concat());
    let said = machine.complaint();
    assert!(said.contains("neuraxis.toml:8:1: wrong policy"), "{said}");
}

#[test]
fn a_relative_root_is_resolved_from_the_file_that_sets_it() {
    let machine = Machine::new().with_file("user/neuraxis.toml", "[tools]\nroot = 'project'");
    let folder = machine.folder.path();
    let by_file = machine.load().unwrap();
    assert_eq!(by_file.project_root(), folder.join("user/project"));
    let flag = Sources::default().with_flag("--set", "tools.root", "project");
    let by_flag = machine.load_from(&flag).unwrap();
    assert_eq!(by_flag.project_root(), folder.join("work/project"));
}

#[test]
fn shown_settings_contain_no_secret() {
    let machine = Machine::new().with_file(
        "work/neuraxis.toml",
        "[models.coding]\nprovider = 'openai'\nbase_url = 'http://me:hunter2@host/v1?key=hunter2'\n\
         headers = { x = 'hunter2' }\n\
         api_key_env = 'hunter2'\napi_key_file = 'hunter2'\n\
         [store]\nurl = 'postgres://me:hunter2@host/db'",
    );
    let lines = lines(&machine.load().unwrap());
    assert!(!lines.join("\n").contains("hunter2"), "{lines:?}");
    for expected in [
        r#"models.coding.base_url = "http://***@host/v1?***""#,
        r#"models.coding.api_key_env = "***""#,
        r#"store.url = "postgres://***@host/db""#,
    ] {
        assert!(
            lines.contains(&expected.to_owned()),
            "{expected} is not in {lines:#?}"
        );
    }
}

#[test]
fn shown_settings_are_toml_that_reads_back_as_the_same_policy() {
    let config = Machine::new().load().unwrap();
    let shown = lines(&config).join("\n");
    let again = Machine::new().with_file("user/neuraxis.toml", &shown);
    let again = again.load().unwrap();
    assert_eq!(again.policy().hash(), config.policy().hash());
}

#[test]
fn the_template_sets_nothing_and_its_examples_are_valid() {
    let machine = Machine::new().with_file("work/neuraxis.toml", crate::template());
    let config = machine.load().unwrap();
    assert_eq!(config.policy().hash(), Policy::built_in().hash());

    let is_example = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
    let lines = crate::template().lines();
    let lines = lines.map(|line| match line.strip_prefix('#') {
        Some(example) if is_example(example) => example,
        _ => line,
    });
    let text: Vec<&str> = lines.collect();
    let machine = Machine::new()
        .with_file("user/neuraxis.toml", &text.join("\n"))
        .with_file("user/prices.toml", prices::LIST);
    let config = machine.load().unwrap();
    for key in [
        "models.reasoning.provider",
        "models.router.headers_env.x-gateway-token",
        "models.coding.api_key_file",
        "models.rehearsal.file",
        "server.listen",
        "store.url",
        "tools.root",
        "tools.search_above",
        "channels.chat.role",
    ] {
        let origin = config.origin(key);
        assert!(matches!(origin, Origin::File { .. }), "{key}: {origin}");
    }
}

/// All sections except those of models, each with the required keys of its table.
const SECTIONS: [(&str, &str); 33] = [
    ("discovery", ""),
    ("store", ""),
    ("store.log", ""),
    ("tools", ""),
    ("web", ""),
    ("web.search", ""),
    ("mcp.servers.x", ""),
    ("server", ""),
    ("server.tls", ""),
    ("modes.x", ""),
    ("modes.x.tools", ""),
    ("channels.x", ""),
    ("channels.x.escalate", ""),
    ("channels.x.data", ""),
    ("channels.x.when.moderate", ""),
    ("agents.x", ""),
    ("agents.x.answer", ""),
    ("agents.x.repeats", ""),
    ("agents.x.results.t", ""),
    ("plans.x", ""),
    ("plans.x.session", ""),
    ("rules.x", ""),
    ("trust.x", ""),
    ("taint", ""),
    ("health", ""),
    ("prices.x", ""),
    ("price_list", ""),
    ("prompts.x", "text = 'y'"),
    ("driver", ""),
    ("driver.restate", ""),
    ("telemetry", ""),
    ("telemetry.otlp", ""),
    ("telemetry.json_lines", ""),
];

/// Returns all sections; for models, one for each provider.
fn sections() -> impl Iterator<Item = (&'static str, String)> {
    let providers = Provider::names().iter();
    let models = providers.map(|name| ("models.x", format!("provider = '{name}'")));
    let others = SECTIONS.into_iter();
    models.chain(others.map(|(section, head)| (section, head.to_owned())))
}

/// The error message lists all keys of a section, so that no list of keys must be maintained here.
#[test]
fn the_template_explains_every_key() {
    // An older name of a key.
    const LEFT_OUT: [&str; 1] = ["profile"];
    let template = crate::template();
    for name in Provider::names() {
        let is_there = template.contains(&format!("provider = \"{name}\""));
        assert!(is_there, "the provider {name} is not in the template");
    }
    for (section, head) in sections() {
        let text = format!("[{section}]\n{head}\nno_such_key = 1\n");
        let machine = Machine::new().with_file("user/neuraxis.toml", &text);
        let complaint = machine.complaint();
        let (_, known) = complaint.split_once("known: ").unwrap();
        for key in known.split(", ").map(str::trim) {
            let is_table = |begin: &str| template.contains(&format!("{begin}{key}"));
            let is_explained = [
                format!("\n#{key} = "),
                format!("\n#{key}."),
                format!("{key}, "),
                format!(" {key}: "),
            ]
            .iter()
            .any(|text| template.contains(text.as_str()));
            let is_explained = is_explained || is_table(".") || is_table("[");
            assert!(
                is_explained || LEFT_OUT.contains(&key),
                "[{section}] {key} is not in the template"
            );
        }
    }
}

#[test]
fn every_section_is_explained_in_a_trust_prompt() {
    for (section, head) in sections() {
        let text = format!("[{section}]\n{head}\n");
        let config = Machine::new().with_untrusted(&text).load().unwrap();
        for change in config.found().unwrap().changes() {
            let unknown = "is unknown to this version";
            assert_ne!(change.meaning, unknown, "[{section}] {}", change.key);
        }
    }
}

#[test]
fn the_log_filter_variable_is_not_a_configuration_key() {
    let environment = Environment::new(std::env::temp_dir()).with_variable("NEURAXIS_LOG", "debug");
    assert!(Config::load(&environment, &Sources::default()).is_ok());
}

#[test]
fn kubernetes_service_variables_are_not_configuration_keys() {
    let address = "tcp://10.0.0.7:80";
    let said = [
        ("NEURAXIS_SERVER_SERVICE_HOST", "10.0.0.7"),
        ("NEURAXIS_SERVER_SERVICE_PORT", "80"),
        ("NEURAXIS_SERVER_SERVICE_PORT_HTTP", "80"),
        ("NEURAXIS_SERVER_PORT", address),
        ("NEURAXIS_SERVER_PORT_80_TCP", address),
        ("NEURAXIS_SERVER_PORT_80_TCP_PROTO", "tcp"),
        ("NEURAXIS_SERVER_PORT_80_TCP_PORT", "80"),
        ("NEURAXIS_SERVER_PORT_80_TCP_ADDR", "10.0.0.7"),
        ("NEURAXIS_WORKER_1_PORT_9080_UDP", "udp://10.0.0.8:9080"),
        ("NEURAXIS_SERVICE_HOST", "10.0.0.9"),
        ("NEURAXIS_PORT", "sctp://10.0.0.9:80"),
    ];
    let with = |machine: Machine, (name, value): (&str, &str)| machine.with_variable(name, value);
    let machine = said.into_iter().fold(Machine::new(), with);
    assert!(machine.load().is_ok());
    for (name, value) in [
        ("NEURAXIS_SERVER_PORT", "8787"),
        ("NEURAXIS_SERVER_PORTS", address),
        ("NEURAXIS_SERVER_PORT_HTTP_TCP", address),
        ("NEURAXIS_SERVER_PORT_80_QUIC", address),
        ("NEURAXIS_SERVER__SERVICE_HOST", "10.0.0.7"),
        ("NEURAXIS_SERVER__PORT", address),
    ] {
        let complaint = Machine::new().with_variable(name, value).complaint();
        assert!(complaint.contains(name), "{complaint}");
    }
}

#[test]
fn a_different_provider_in_a_stronger_source_restarts_the_section() {
    let machine = Machine::new()
        .with_file(
            "work/neuraxis.toml",
            "[models.coding]\nprovider = 'llama'\nserver = 'ollama'\nmodel = 'm'\n",
        )
        .with_variable("NEURAXIS_MODELS__CODING__PROVIDER", "openai")
        .with_variable("NEURAXIS_MODELS__CODING__API", "chat");
    let lines = lines(&machine.load().unwrap()).join("\n");
    assert!(lines.contains(r#"models.coding.api = "chat""#), "{lines}");
    assert!(lines.contains(r#"models.coding.model = """#), "{lines}");
    assert!(!lines.contains("ollama"), "{lines}");
    let same = machine.with_variable("NEURAXIS_MODELS__CODING__PROVIDER", "llama");
    assert!(same.complaint().contains("unknown key \"api\""));
}

#[test]
fn a_relative_cassette_path_is_resolved_from_the_file_that_sets_it() {
    let text = "[models.coding]\nprovider = 'cassette'\nfile = 'a.cassette'\n";
    let machine = Machine::new().with_file("user/neuraxis.toml", text);
    let config = machine.load().unwrap();
    let provider = &config.models()[&Role::CODING].provider;
    let Some(cassette) = provider.get::<CassetteConfig>() else {
        panic!("another provider")
    };
    assert_eq!(cassette.file, machine.folder.path().join("user/a.cassette"));
}
