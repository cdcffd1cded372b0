//! Checks whether the web can be searched.

use std::num::NonZeroU32;

use neuraxis_app::{Config, Environment, search_service};

use super::Requests;
use super::check::{Check, Outcome};

const NAME: &str = "search";

/// Checks the search service, with a query unless nothing may be sent.
pub(super) async fn check(config: &Config, environment: &Environment, requests: Requests) -> Check {
    let service = match search_service(config, environment) {
        Ok(service) => service,
        Err(error) => {
            return Check::here(NAME, Outcome::Failed, error.to_string())
                .fix("`neuraxis help web` shows [web.search] for SearXNG, Brave and Tavily");
        }
    };
    let provider = config.web().search.provider;
    let (Some(service), Some(provider)) = (service, provider) else {
        let detail = "none is configured, so the tool web_search is not offered";
        return Check::here(NAME, Outcome::Ok, detail).fix(
            "to add one, set web.search.provider to searxng (with base_url), brave or tavily (with api_key_env); see \
             `neuraxis help web`",
        );
    };
    let name = provider.as_str();
    if requests == Requests::NotSent {
        let detail = format!("{name} was not contacted (--offline)");
        return Check::here(NAME, Outcome::Skipped, detail);
    }
    match service.search("weather", NonZeroU32::MIN).await {
        Ok(hits) if hits.is_empty() => {
            let detail = format!("{name} answers, but found nothing");
            Check::here(NAME, Outcome::Warning, detail)
                .fix("check whether the service's search engines work")
        }
        Ok(_) => Check::here(NAME, Outcome::Ok, format!("{name} answers")),
        Err(error) => {
            let detail = format!("{name}: {error}");
            Check::here(NAME, Outcome::Failed, detail)
                .fix("check web.search.base_url, the key that api_key_env names, and the network")
        }
    }
}
