//! The models that this machine could use without buying or typing anything: model servers that answer, and keys
//! that are set. Helps a user to choose one.

use futures_util::future::join_all;
use neuraxis_llama::{LlamaConfig, Server};
use toml::Value;

use crate::config::Config;
use crate::config::discovery::{address_keys, discoveries};
use crate::discover::{LocalServer, in_variable, local_servers};
use crate::environment::Environment;

/// Variables that usually hold keys of services without their own provider here, and the addresses at which those
/// services speak OpenAI's protocol.
const COMPATIBLE: [(&str, &str, &str); 7] = [
    (
        "GEMINI_API_KEY",
        "Google Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
    ),
    (
        "OPENROUTER_API_KEY",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
    ),
    ("MISTRAL_API_KEY", "Mistral", "https://api.mistral.ai/v1"),
    ("GROQ_API_KEY", "Groq", "https://api.groq.com/openai/v1"),
    ("XAI_API_KEY", "xAI", "https://api.x.ai/v1"),
    (
        "TOGETHER_API_KEY",
        "Together",
        "https://api.together.xyz/v1",
    ),
    ("CEREBRAS_API_KEY", "Cerebras", "https://api.cerebras.ai/v1"),
];

/// A model server, or a service whose key is set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// A short description for users.
    pub about: String,
    /// The entries of its `[models.ROLE]` table, except the model.
    pub keys: Vec<(&'static str, String)>,
    /// The model that is usually used, if there is one.
    pub model: Option<String>,
}

/// Checks the usual addresses of model servers on this machine, and the usual variables for keys, as far as
/// `[discovery]` permits. Only checks whether a key is set.
///
/// # Cancel safety
///
/// Dropping the future closes its connections.
pub async fn candidates(config: &Config, environment: &Environment) -> Vec<Candidate> {
    let discovery = config.discovery();
    let places = discovery.places();
    let servers = join_all(places.into_iter().map(|place| local_servers(vec![place]))).await;
    let servers = servers.into_iter().flatten().map(at_server);
    let keys = with_keys(environment).filter(|_| discovery.keys);
    servers.chain(keys).collect()
}

fn at_server(found: LocalServer) -> Candidate {
    let about = format!("the model server at {}", found.base_url);
    let provider = ("provider", "llama".to_owned());
    let server = program(found.server).map(|program| ("server", program));
    let address = ("base_url", found.base_url);
    Candidate {
        about,
        keys: std::iter::once(provider)
            .chain(server)
            .chain([address])
            .collect(),
        model: found.model,
    }
}

/// Returns the name of a server program in a table; `None` for the default one.
fn program(server: Server) -> Option<String> {
    if server == LlamaConfig::default().server {
        return None;
    }
    match Value::try_from(server) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    }
}

fn with_keys(environment: &Environment) -> impl Iterator<Item = Candidate> + '_ {
    let own = discoveries().filter_map(|(provider, usual)| {
        in_variable(usual.key, environment)?;
        let keys = vec![
            ("provider", provider.to_string()),
            ("api_key_env", usual.key.to_owned()),
        ];
        let mut about = format!("{provider}, with the key in {}", usual.key);
        if environment.filled(usual.base_url).is_some() {
            about.push_str(&format!(" and the address in {}", usual.base_url));
        }
        let address = address_keys(provider, usual, environment);
        let address = address.map(|(key, value)| (key, value.to_owned()));
        Some(Candidate {
            about,
            keys: keys.into_iter().chain(address).collect(),
            model: Some(usual.model.to_owned()),
        })
    });
    let compatible = set_but_unused(environment).map(|(variable, name, address)| Candidate {
        about: format!("{name}, with the key in {variable}"),
        keys: vec![
            ("provider", "openai".to_owned()),
            ("api", "chat".to_owned()),
            ("base_url", address.to_owned()),
            ("api_key_env", variable.to_owned()),
        ],
        model: None,
    });
    own.chain(compatible)
}

/// Returns the variables with keys that are only used if a configuration says so.
pub(crate) fn keys_to_configure(environment: &Environment) -> Vec<&'static str> {
    set_but_unused(environment)
        .map(|(variable, ..)| variable)
        .collect()
}

fn set_but_unused(
    environment: &Environment,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> + '_ {
    let is_set = |variable: &str| in_variable(variable, environment).is_some();
    COMPATIBLE
        .into_iter()
        .filter(move |(variable, ..)| is_set(variable))
}

#[cfg(test)]
mod tests {
    use neuraxis_llama::ServerState;

    use super::*;
    use crate::config::Sources;

    #[test]
    fn a_local_server_candidate_names_its_program_unless_it_is_the_default() {
        let programs = [None, Some("ollama"), Some("lm-studio")];
        for (place, expected) in LlamaConfig::usual_places().into_iter().zip(programs) {
            let candidate = at_server(LocalServer {
                server: place.server,
                base_url: place.base_url,
                model: Some("m".to_owned()),
                state: ServerState::Ready,
            });
            let named = candidate.keys.iter().find(|(key, _)| *key == "server");
            assert_eq!(named.map(|(_, program)| program.as_str()), expected);
            let environment = Environment::new(std::env::temp_dir());
            let keys = candidate
                .keys
                .into_iter()
                .chain([("model", "m".to_owned())]);
            let sources = keys.fold(Sources::default(), |sources, (key, value)| {
                sources.with_flag("t", format!("models.reasoning.{key}"), value)
            });
            Config::load(&environment, &sources).unwrap();
        }
    }

    #[test]
    fn a_base_url_is_proposed_when_its_variable_is_set() {
        for (held, expected) in [
            ("", None),
            (" ", None),
            (
                " https://gateway.example/v1 ",
                Some("https://gateway.example/v1"),
            ),
        ] {
            for (_, usual) in discoveries() {
                let environment = Environment::new(std::env::temp_dir())
                    .with_variable(usual.key, "sk-canary")
                    .with_variable(usual.base_url, held);
                let candidate = with_keys(&environment).next().unwrap();
                let address = candidate.keys.iter().find(|(key, _)| *key == "base_url");
                assert_eq!(address.map(|(_, address)| address.as_str()), expected);
                let is_told = candidate.about.contains(usual.base_url);
                assert_eq!(is_told, expected.is_some(), "{}", candidate.about);
            }
        }
    }

    #[test]
    fn the_chat_api_is_proposed_for_openai_compatible_servers_of_other_vendors() {
        for (address, expected) in [
            ("https://gateway.example/v1", Some("chat")),
            ("https://eu.api.openai.com/v1", None),
            ("https://mine.openai.azure.com/openai/v1", None),
            ("", None),
        ] {
            let environment = Environment::new(std::env::temp_dir())
                .with_variable("OPENAI_API_KEY", "sk-canary")
                .with_variable("OPENAI_BASE_URL", address);
            let candidate = with_keys(&environment).next().unwrap();
            let api = candidate.keys.iter().find(|(key, _)| *key == "api");
            assert_eq!(api.map(|(_, api)| api.as_str()), expected, "{address}");
        }
        // No other provider has such a key.
        let environment = Environment::new(std::env::temp_dir())
            .with_variable("ANTHROPIC_API_KEY", "sk-canary")
            .with_variable("ANTHROPIC_BASE_URL", "https://gateway.example");
        let candidate = with_keys(&environment).next().unwrap();
        assert!(candidate.keys.iter().all(|(key, _)| *key != "api"));
    }

    #[test]
    fn every_candidate_for_a_found_key_is_a_valid_configuration() {
        let own = discoveries().map(|(_, usual)| usual.key);
        let all: Vec<&str> = own.chain(COMPATIBLE.iter().map(|(key, ..)| *key)).collect();
        let environment = Environment::new(std::env::temp_dir());
        assert_eq!(with_keys(&environment).count(), 0);
        let set =
            |environment: Environment, key: &&str| environment.with_variable(*key, "sk-canary");
        let environment = all.iter().fold(environment, set);
        let found: Vec<Candidate> = with_keys(&environment).collect();
        assert_eq!(found.len(), all.len());
        for candidate in found {
            assert!(!format!("{candidate:?}").contains("canary"));
            let model = candidate.model.unwrap_or_else(|| "m".to_owned());
            let keys = candidate.keys.into_iter().chain([("model", model)]);
            let sources = keys.fold(Sources::default(), |sources, (key, value)| {
                sources.with_flag("t", format!("models.reasoning.{key}"), value)
            });
            Config::load(&environment, &sources).unwrap();
        }
    }
}
