//! Checks of a role's model, the cheapest first.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use neuraxis::Role;
use neuraxis::core::{LlmError, LlmErrorKind, Reply, ReplyFinish};
use neuraxis_app::{
    Endpoint, KeyError, KeySource, ModelError, OfferedModels, ProviderKind, Readiness,
};

use super::Requests;
use super::advice::fix;
use super::check::{Check, Outcome};
use super::request::{ENOUGH_FOR_A_CALL, TOOL, calling, streamed, tiny, whole};
use crate::command::models::WITHIN;
use crate::command::models::described;
use crate::progress::{self, Progress};
use crate::quantities::brief;

/// The provider of recordings, which this program makes itself.
const RECORDING: &str = "cassette";

/// How to fix a model whose thinking used up the limit of a small reply.
const THINK_LESS: &str = "no action needed if runs get answers, since they allow more tokens; otherwise let the model \
     think less, or raise the mode's max_output_tokens";

/// How to fix a model that answers only if it is not offered a tool.
const NO_TOOLS: &str = "choose a model that supports tools, enable them on its server (vLLM: \
                        --enable-auto-tool-choice), or offer none with channels.chat.tools = []";

/// Checks the models of all roles at the same time, and returns the checks of each role. Announces what is sent before.
pub(super) async fn all(
    endpoints: BTreeMap<Role, Result<Endpoint, ModelError>>,
    requests: Requests,
) -> Vec<(Role, Vec<Check>)> {
    let progress = (requests == Requests::Sent).then(Progress::new);
    if let Some(progress) = &progress {
        announce(&endpoints);
        progress.activity("checking the models");
    }
    let looked_at = endpoints.into_iter().map(async |(role, endpoint)| {
        let checks = match endpoint {
            Err(error) => vec![unusable(&role, &error)],
            Ok(endpoint) => one(&endpoint, requests).await,
        };
        (role, checks)
    });
    let checks = join_all(looked_at).await;
    if let Some(progress) = progress {
        progress.hide();
    }
    checks
}

/// Announces to whom requests will be sent.
fn announce(endpoints: &BTreeMap<Role, Result<Endpoint, ModelError>>) {
    let models = endpoints.values().flatten().filter(|one| is_model(one));
    let models: Vec<String> = models
        .map(|endpoint| format!("{} ({})", endpoint.role, endpoint.info().model))
        .collect();
    if !models.is_empty() {
        progress::notice(&format!(
            "sending up to three tiny requests to each model, at a cost of a few tokens: {}; --offline sends nothing",
            models.join(", ")
        ));
    }
}

/// Returns whether there is a model that can be called.
fn is_model(endpoint: &Endpoint) -> bool {
    !matches!(endpoint.provider().kind(), ProviderKind::StandIn(_))
}

fn unusable(role: &Role, error: &ModelError) -> Check {
    let (name, fix) = match error {
        ModelError::Key { source, .. } => ("key", fix_of_key(role, source)),
        ModelError::NoModel { .. } => (
            "model",
            format!("set models.{role}.model to one that `neuraxis models` lists"),
        ),
        ModelError::Connect { provider, .. } if provider.as_str() == RECORDING => (
            "recording",
            format!("record one with `neuraxis ask --record FILE`, and set models.{role}.file"),
        ),
        _ => (
            "settings",
            format!("`neuraxis config show models.{role}` shows where each value comes from"),
        ),
    };
    let detail = match error {
        // How to fix it is shown separately.
        ModelError::NoModel { .. } => "no model is named".to_owned(),
        error => error.to_string(),
    };
    Check::new(role.to_string(), name, Outcome::Failed, detail).fix(fix)
}

fn fix_of_key(role: &Role, error: &KeyError) -> String {
    match error {
        KeyError::TwoPlaces => {
            format!("remove models.{role}.api_key_env or models.{role}.api_key_file")
        }
        KeyError::Exposed { path } => format!("run `chmod 600 {}` as its owner", path.display()),
        KeyError::Unreadable { .. }
        | KeyError::Empty { .. }
        | KeyError::TooLarge { .. }
        | KeyError::NoFile { .. } => format!(
            "write the key to a file that only you can read, and name that file in models.{role}.api_key_file"
        ),
        _ => format!("export the key, and set models.{role}.api_key_env to its variable"),
    }
}

/// The checks of one endpoint.
struct EndpointProbe<'a> {
    endpoint: &'a Endpoint,
    subject: String,
    checks: Vec<Check>,
}

async fn one(endpoint: &Endpoint, requests: Requests) -> Vec<Check> {
    let subject = format!("{}: {}", endpoint.role, described(endpoint));
    let mut probe = EndpointProbe {
        endpoint,
        subject,
        checks: Vec::new(),
    };
    if let ProviderKind::StandIn(answers) = endpoint.provider().kind() {
        probe.add("answers", Outcome::Ok, answers);
        return probe.checks;
    }
    probe.key();
    if requests == Requests::NotSent {
        probe.add("requests", Outcome::Skipped, "--offline: nothing was sent");
        return probe.checks;
    }
    if probe.reachable().await {
        probe.answers().await;
    }
    probe.checks
}

impl EndpointProbe<'_> {
    fn add(&mut self, name: &'static str, outcome: Outcome, detail: impl Into<String>) {
        self.checks
            .push(Check::new(&*self.subject, name, outcome, detail));
    }

    fn add_with(
        &mut self,
        name: &'static str,
        outcome: Outcome,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let check = Check::new(&*self.subject, name, outcome, detail);
        self.checks.push(check.fix(fix));
    }

    fn failed(&mut self, name: &'static str, error: &LlmError) {
        let fix = fix(self.endpoint, error);
        self.add_with(name, Outcome::Failed, error.to_string(), fix);
    }

    fn key(&mut self) {
        match (&self.endpoint.key, self.endpoint.provider().kind()) {
            (KeySource::None, ProviderKind::OwnServer) => {
                self.add("key", Outcome::Ok, "none; most local servers need none");
            }
            (KeySource::None, _) => {
                let fix = format!(
                    "export the key, and set models.{}.api_key_env to its variable",
                    self.endpoint.role
                );
                self.add_with("key", Outcome::Warning, "none is configured", fix);
            }
            (source, _) => self.add("key", Outcome::Ok, format!("in {source}")),
        }
    }

    /// Asks what the endpoint offers. Returns whether it makes sense to call the model.
    async fn reachable(&mut self) -> bool {
        match self.endpoint.offer(WITHIN).await {
            Ok(offer) => {
                self.offered(&offer);
                offer.readiness == Readiness::Ready
            }
            // Not every server has a list of models, and not every key may read it. The model may answer all the same.
            Err(error) if refuses(&error.kind) || error.kind == LlmErrorKind::Unauthorized => {
                let detail = format!("the server does not list its models: {error}");
                self.add("reachable", Outcome::Warning, detail);
                true
            }
            Err(error) => {
                self.failed("reachable", &error);
                false
            }
        }
    }

    fn offered(&mut self, offer: &OfferedModels) {
        if offer.readiness == Readiness::Loading {
            let detail = "the server is still loading its model";
            let fix = "wait a moment and try again";
            self.add_with("reachable", Outcome::Warning, detail, fix);
            return;
        }
        let address = self.endpoint.address.clone().unwrap_or_default();
        self.add("reachable", Outcome::Ok, address);
        let asked = self.endpoint.info().model.model;
        let context = offer.context_tokens;
        let context = context.map(|tokens| format!(", {tokens} tokens of context"));
        let context = context.unwrap_or_default();
        let mut models = offer.models.iter();
        match models.find(|name| self.endpoint.is_asked(name)) {
            Some(name) => self.add("model", Outcome::Ok, format!("{name}{context}")),
            None if offer.models.is_empty() => {
                let detail = format!("the server lists no models; {asked} is used anyway");
                self.add("model", Outcome::Warning, detail);
            }
            None => {
                let few = offer.models.iter().take(5).cloned();
                let few = few.collect::<Vec<_>>().join(", ");
                let role = &self.endpoint.role;
                let fix = format!(
                    "try another with -m, and save it as `model` in [models.{role}], which `neuraxis setup` writes if \
                     it is missing: {few}"
                );
                let detail = format!(
                    "{asked} is not offered; {} other models are",
                    offer.models.len()
                );
                self.add_with("model", Outcome::Warning, detail, fix);
            }
        }
    }

    async fn answers(&mut self) {
        let client = self.endpoint.client();
        let first = timed(whole(&*client, tiny())).await;
        if !self.answered("answers", first) {
            return;
        }
        let second = timed(streamed(&*client, tiny())).await;
        self.answered("streams", second);
        let (took, called) = timed(whole(&*client, calling())).await;
        match called {
            Err(error) if refuses(&error.kind) => {
                self.add_with("tools", Outcome::Failed, error.to_string(), NO_TOOLS);
            }
            Err(error) => self.failed("tools", &error),
            Ok(reply) if reply.calls().any(|call| *call.name == *TOOL) => {
                self.add("tools", Outcome::Ok, describe_reply(took, &reply));
            }
            Ok(reply) => {
                let detail = match reply.finish {
                    ReplyFinish::Length => {
                        format!("{ENOUGH_FOR_A_CALL} tokens were not enough for a call")
                    }
                    _ => "the model answered without calling the tool, or its server does not support tools"
                        .to_owned(),
                };
                let fix = match only_thought(&reply) {
                    true => THINK_LESS,
                    false => NO_TOOLS,
                };
                self.add_with("tools", Outcome::Warning, detail, fix);
            }
        }
    }

    fn answered(
        &mut self,
        name: &'static str,
        (took, reply): (Duration, Result<Reply, LlmError>),
    ) -> bool {
        match reply {
            Ok(reply) if only_thought(&reply) => {
                let detail = format!(
                    "{}, but no answer: thinking used them up",
                    describe_reply(took, &reply)
                );
                self.add_with(name, Outcome::Warning, detail, THINK_LESS);
                true
            }
            Ok(reply) => {
                self.add(name, Outcome::Ok, describe_reply(took, &reply));
                true
            }
            Err(error) => {
                self.failed(name, &error);
                false
            }
        }
    }
}

/// Returns whether the reply limit was used up before the model said anything, by thinking, which not every server
/// shows.
fn only_thought(reply: &Reply) -> bool {
    let says_nothing = reply.text().trim().is_empty() && reply.calls().next().is_none();
    reply.finish == ReplyFinish::Length && says_nothing
}

/// Returns whether a server refuses a request but may accept a different one.
const fn refuses(kind: &LlmErrorKind) -> bool {
    matches!(kind, LlmErrorKind::BadRequest | LlmErrorKind::ModelNotFound)
}

fn describe_reply(took: Duration, reply: &Reply) -> String {
    let tokens = reply.usage.total.tokens;
    format!("{}, {tokens} tokens", brief(took))
}

async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let started = Instant::now();
    let done = work.await;
    (started.elapsed(), done)
}
