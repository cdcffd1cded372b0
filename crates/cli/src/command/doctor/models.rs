//! What can be found out about the model of a role, the cheapest first.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use neuraxis::Role;
use neuraxis::core::{
    EffectId, JsonText, LlmError, LlmErrorKind, Message, ModelRequest, Reply, ReplyAssembler,
    ReplyFinish, ReplyFormat, RunId, ToolAnnotations, ToolChoice, ToolClass, ToolKind, ToolSpec,
};
use neuraxis::engine::UuidV7;
use neuraxis::ports::{CallContext, Ids, LlmClient, TraceContext};
use neuraxis_app::{Endpoint, KeySource, ModelError, Offer, Provider, Readiness};
use tokio::time::timeout;

use super::Requests;
use super::advice::fix;
use super::check::{Check, Outcome};
use crate::command::models::WITHIN;
use crate::wording::{brief, described, offers};

/// How long a tiny request may take: a local server may have to read its model first.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most tokens of a tiny reply. OpenAI takes no less than 16.
const FEW: u32 = 16;

/// The most tokens of a reply that is to call a tool: one that thinks first needs some for that.
const ENOUGH_FOR_A_CALL: u32 = 512;

/// The tool that is to be called. There is none: the call is all that is wanted.
const TOOL: &str = "ping";

/// Looks at the models of all roles at the same time.
pub(super) async fn all(
    endpoints: BTreeMap<Role, Result<Endpoint, ModelError>>,
    requests: Requests,
) -> Vec<Check> {
    let mut progress = match requests {
        Requests::None => None,
        Requests::Some(progress) => Some(progress),
    };
    if let Some(progress) = &mut progress {
        announce(progress, &endpoints);
        progress.activity("checking the models");
    }
    let sends = progress.is_some();
    let looked_at = endpoints
        .into_iter()
        .map(async |(role, endpoint)| match endpoint {
            Err(error) => vec![unusable(&role, &error)],
            Ok(endpoint) => one(&endpoint, sends).await,
        });
    let checks = join_all(looked_at).await.concat();
    if let Some(progress) = &mut progress {
        progress.hide();
    }
    checks
}

/// Says who will be sent something, before it is.
fn announce(
    progress: &crate::progress::Progress,
    endpoints: &BTreeMap<Role, Result<Endpoint, ModelError>>,
) {
    let asked = endpoints.values().flatten().filter(|one| is_model(one));
    let asked: Vec<String> = asked
        .map(|endpoint| format!("{} ({})", endpoint.role, endpoint.info().model))
        .collect();
    if !asked.is_empty() {
        progress.notice(&format!(
            "up to three tiny requests go to each model, which costs a few tokens: {}; --offline sends nothing",
            asked.join(", ")
        ));
    }
}

/// Tells whether there is a model that can be asked anything.
fn is_model(endpoint: &Endpoint) -> bool {
    !matches!(endpoint.provider(), Provider::Offline | Provider::Cassette)
}

fn unusable(role: &Role, error: &ModelError) -> Check {
    let (name, fix) = match error {
        ModelError::Key { .. } => (
            "key",
            format!("export the key, and name its variable in models.{role}.api_key_env"),
        ),
        ModelError::Cassette { .. } => (
            "recording",
            format!("record one with `neuraxis ask --record FILE`, and set models.{role}.file"),
        ),
        _ => (
            "settings",
            "`neuraxis config show` says where each value comes from".to_owned(),
        ),
    };
    let detail = error.to_string();
    Check::new(role.to_string(), name, Outcome::Failed, detail).fix(fix)
}

/// The checks of one endpoint.
struct Looking<'a> {
    endpoint: &'a Endpoint,
    subject: String,
    checks: Vec<Check>,
}

async fn one(endpoint: &Endpoint, sends: bool) -> Vec<Check> {
    let subject = format!("{}: {}", endpoint.role, described(endpoint));
    let mut looking = Looking {
        endpoint,
        subject,
        checks: Vec::new(),
    };
    if !is_model(endpoint) {
        looking.without_model();
        return looking.checks;
    }
    looking.key();
    if !sends {
        looking.add("requests", Outcome::Skipped, "--offline: nothing was sent");
        return looking.checks;
    }
    if looking.reachable().await {
        looking.answers().await;
    }
    looking.checks
}

impl Looking<'_> {
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

    fn without_model(&mut self) {
        let detail = match self.endpoint.provider() {
            Provider::Cassette => "a recording answers only what was recorded",
            _ => "rules answer, not a model",
        };
        self.add("answers", Outcome::Ok, detail);
    }

    fn key(&mut self) {
        match (&self.endpoint.key, self.endpoint.provider()) {
            (KeySource::None, Provider::Llama) => {
                self.add("key", Outcome::Ok, "none, which most local servers want");
            }
            (KeySource::None, _) => {
                let fix = format!(
                    "export it, and name its variable in models.{}.api_key_env",
                    self.endpoint.role
                );
                self.add_with("key", Outcome::Warning, "none is configured", fix);
            }
            (source, _) => self.add("key", Outcome::Ok, format!("in {source}")),
        }
    }

    /// Asks what the endpoint offers. Returns whether it is worth asking the model.
    async fn reachable(&mut self) -> bool {
        match self.endpoint.offer(WITHIN).await {
            Ok(offer) => {
                self.offered(&offer);
                offer.readiness == Readiness::Ready
            }
            // Not every server has a list; whether the model answers is another matter.
            Err(error) if says_nothing_of_the_model(&error.kind) => {
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

    fn offered(&mut self, offer: &Offer) {
        if offer.readiness == Readiness::Loading {
            let detail = "the server is still loading its model";
            let fix = "wait a little, and try again";
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
        match models.find(|name| offers(self.endpoint, name)) {
            Some(name) => self.add("model", Outcome::Ok, format!("{name}{context}")),
            None => {
                let few = offer.models.iter().take(5).cloned();
                let few = few.collect::<Vec<_>>().join(", ");
                let role = &self.endpoint.role;
                let fix = format!("set models.{role}.model to one of those: {few}");
                let detail = format!("{asked} is none of the {} on offer", offer.models.len());
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
            Err(error) => self.failed("tools", &error),
            Ok(reply) if reply.calls().any(|call| call.name == TOOL) => {
                self.add("tools", Outcome::Ok, told(took, &reply));
            }
            Ok(reply) => {
                let detail = match reply.finish {
                    ReplyFinish::Length => {
                        format!("{ENOUGH_FOR_A_CALL} tokens were not enough for a call")
                    }
                    _ => "the model answered without calling the tool".to_owned(),
                };
                let fix = "choose a model made for calling tools, if you want it to";
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
            Ok(reply) => {
                self.add(name, Outcome::Ok, told(took, &reply));
                true
            }
            Err(error) => {
                self.failed(name, &error);
                false
            }
        }
    }
}

/// Tells whether a server that cannot list its models may still answer.
const fn says_nothing_of_the_model(kind: &LlmErrorKind) -> bool {
    matches!(kind, LlmErrorKind::BadRequest | LlmErrorKind::ModelNotFound)
}

fn told(took: Duration, reply: &Reply) -> String {
    let tokens = reply.usage.total.tokens;
    format!("{}, {tokens} tokens", brief(took))
}

async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let started = Instant::now();
    let done = work.await;
    (started.elapsed(), done)
}

async fn whole(client: &dyn LlmClient, request: ModelRequest) -> Result<Reply, LlmError> {
    let context = context();
    let asked = client.respond(&request, &context);
    timeout(PATIENCE, asked).await.map_err(|_| late())?
}

async fn streamed(client: &dyn LlmClient, request: ModelRequest) -> Result<Reply, LlmError> {
    let context = context();
    let asked = async {
        let mut stream = client.stream_respond(&request, &context).await?;
        let mut reply = ReplyAssembler::default();
        while let Some(delta) = stream.next().await {
            reply.push(delta?)?;
        }
        reply.finish()
    };
    timeout(PATIENCE, asked).await.map_err(|_| late())?
}

fn late() -> LlmError {
    let patience = PATIENCE.as_secs();
    let said = format!("nothing within {patience} s");
    LlmError::new(LlmErrorKind::Timeout, said)
}

fn tiny() -> ModelRequest {
    ModelRequest {
        messages: [Message::user("Answer with the one word: ok")]
            .into_iter()
            .collect(),
        tools: Arc::default(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: Some(FEW),
        temperature: None,
        reply_format: ReplyFormat::Text,
    }
}

fn calling() -> ModelRequest {
    let tool = TOOL.parse().map(|name| ToolSpec {
        name,
        description: "Answers at once. Takes nothing.".into(),
        parameters: JsonText::from_text(r#"{"type":"object","properties":{}}"#),
        class: ToolClass::ReadOnly,
        annotations: ToolAnnotations::default(),
        kind: ToolKind::default(),
        non_iterative: false,
        timeout: None,
    });
    ModelRequest {
        messages: [Message::user("Call the tool ping, and say nothing else.")]
            .into_iter()
            .collect(),
        tools: tool.into_iter().collect(),
        max_output_tokens: Some(ENOUGH_FOR_A_CALL),
        ..tiny()
    }
}

/// The circumstances of a request that belongs to no run.
fn context() -> CallContext {
    let run = RunId(UuidV7.new_id());
    let trace = TraceContext {
        trace_id: run.0.as_u128(),
        span_id: 1,
        sampled: false,
        state: None,
    };
    CallContext::new(EffectId { run, number: 1 }, trace)
}
