//! What is recorded about every request: its id, which every answer and every log line carries, a line of the access
//! log, and the metrics of `/metrics`.
//!
//! Of a client's input, only the id and the method reach the log, and of the address only the matched route and the run
//! it names: no client input can imitate a line of the server's.

mod traced;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use neuraxis::core::{RunId, whole_millis, with_causes};
use neuraxis_app::AccessLog;
use tracing::{Instrument, Span};

use self::traced::Traced;

use crate::caller::Caller;
use crate::events::is_stream;
use crate::metrics::{Metrics, OpenStream};
use crate::problem::{Details, Problem};
use crate::refusal::internal;
use crate::request_id::{self, RequestId};
use crate::trace_parent;

/// The target of access log lines, which sets them apart from other lines.
pub(crate) const TARGET: &str = "neuraxis_server::access";

/// The route recorded for a request that matched none.
const NO_ROUTE: &str = "none";

/// The status recorded for a request whose client left before there was an answer, as in nginx.
const CLIENT_LEFT: u16 = 499;

/// Where requests are recorded.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The format of the access log. If `None`, its lines are written at level `debug`.
    pub(crate) log: Option<AccessLog>,
    pub(crate) metrics: Metrics,
}

/// What a request carries along: the span of its log lines, the span that is exported, and what it is about.
#[derive(Debug, Clone)]
struct RequestScope {
    logged: Span,
    exported: Span,
    subject: Arc<RequestSubject>,
}

/// What a request is about, once known.
#[derive(Debug, Default)]
struct RequestSubject {
    caller: OnceLock<Caller>,
    run: OnceLock<RunId>,
    /// The owner of the session, if it is not the caller.
    owner: OnceLock<String>,
}

tokio::task_local! {
    static REQUEST_SCOPE: RequestScope;
}

impl RequestScope {
    fn around<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        work.instrument(self.logged).instrument(self.exported)
    }
}

/// Runs work for a request in a separate task, which continues if the client disconnects, so nothing is left half done.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::spawn(in_request(work)).await;
    done.map_err(|error| internal(&with_causes(&error)))
}

/// Keeps work for a request in the request's spans, also in a separate task.
fn in_request<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let scope = REQUEST_SCOPE.try_with(Clone::clone);
    let scope = scope.unwrap_or_else(|_| RequestScope {
        logged: Span::current(),
        exported: Span::none(),
        subject: Arc::default(),
    });
    REQUEST_SCOPE.scope(scope.clone(), scope.around(work))
}

/// Records the caller for the access log, which starts before the caller is known.
pub(crate) fn record_caller(caller: Caller) {
    let _ = REQUEST_SCOPE.try_with(|scope| scope.subject.caller.set(caller));
}

/// Records the run that the current request is about, for the access log.
pub(crate) fn record_run(run: RunId) {
    // Work outside a request has no access log line.
    let _ = REQUEST_SCOPE.try_with(|scope| scope.subject.run.set(run));
}

/// Records the owner of the session that the current request is about, if it is another owner, for the access log.
pub(crate) fn record_owner(owner: Option<&str>) {
    if let Some(owner) = owner {
        let _ = REQUEST_SCOPE.try_with(|scope| scope.subject.owner.set(owner.to_owned()));
    }
}

/// Assigns a request its id, and records how it was answered.
pub(crate) async fn record_request(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = RequestId::of(request.headers());
    let method = method_name(request.method());
    let is_head = request.method() == Method::HEAD;
    let route = request.extensions().get::<MatchedPath>().cloned();
    let run_in_address = route
        .as_ref()
        .and_then(|route| run_in(route.as_str(), request.uri().path()));
    // At the highest level, so the span is enabled whenever any line is logged.
    let span = tracing::error_span!("request", id = %id);
    let traced = Traced::begin(method, route.as_ref(), &id);
    let trace = traced.join(trace_parent::of(request.headers()));
    let answering = trace_parent::scope(trace, next.run(request));
    let answering = id.clone().scope(answering);
    let scope = RequestScope {
        logged: span.clone(),
        exported: traced.0.clone(),
        subject: Arc::default(),
    };
    let answering = REQUEST_SCOPE.scope(scope.clone(), answering);
    // If the client leaves before there is an answer, this is dropped while it waits for the answer.
    let mut line = Line {
        access,
        id,
        method,
        route,
        run_in_address,
        subject: Arc::clone(&scope.subject),
        status: None,
        problem: None,
        began,
        bytes: 0,
        is_whole: false,
        traced,
    };
    let mut response = scope.around(answering).await;
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, line.id.header().clone());
    line.answered(&response);
    // An answer without further content is never polled for more.
    line.is_whole = is_head || response.body().is_end_stream();
    let open = is_stream(&response).then(|| line.access.metrics.http().open_stream());
    response.map(|body| {
        Body::new(LoggedBody {
            body,
            line,
            span,
            _open: open,
        })
    })
}

/// Returns the run that an address names, if its route has one.
fn run_in(route: &str, path: &str) -> Option<RunId> {
    let prefixes = [("/api/v1/runs/", ""), ("/v1/responses/", "resp_")];
    let (prefix, mark) = prefixes.into_iter().find(|(prefix, _)| {
        let rest = route.strip_prefix(prefix);
        rest.is_some_and(|rest| rest == "{id}" || rest.starts_with("{id}/"))
    })?;
    let id = path.strip_prefix(prefix)?.split('/').next()?;
    id.strip_prefix(mark)?.parse().ok().map(RunId)
}

/// Returns the name of a method, or `other` if no route uses it.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// A line of the access log. It is written once the answer has been sent in full or its client has left.
#[derive(Debug)]
struct Line {
    access: Access,
    id: RequestId,
    method: &'static str,
    route: Option<MatchedPath>,
    /// The run in the address.
    run_in_address: Option<RunId>,
    subject: Arc<RequestSubject>,
    /// `None` until there is an answer.
    status: Option<StatusCode>,
    problem: Option<&'static str>,
    began: Instant,
    bytes: u64,
    is_whole: bool,
    /// Ends with the answer.
    traced: Traced,
}

impl Line {
    /// Records and counts the head of the answer.
    fn answered(&mut self, response: &Response) {
        let status = response.status();
        self.status = Some(status);
        self.traced.answered(status);
        self.count(status.as_u16());
        let details = response.extensions().get::<Details>();
        self.problem = details.map(|details| details.name);
        if let Some(problem) = self.problem {
            self.access.metrics.http().count_problem(problem);
        }
    }

    fn count(&self, status: u16) {
        let http = self.access.metrics.http();
        http.count_request(self.method, self.route(), status, self.began.elapsed());
    }

    fn route(&self) -> &str {
        self.route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let status = self.status.map_or(CLIENT_LEFT, |status| status.as_u16());
        if self.status.is_none() {
            self.count(status);
        }
        let (id, method, route) = (self.id.as_str(), self.method, self.route());
        let problem = self.problem;
        let run = self
            .run_in_address
            .or_else(|| self.subject.run.get().copied());
        let run = run.map(|run| run.to_string());
        let run = run.as_deref();
        let caller = self.subject.caller.get();
        let key = caller.and_then(Caller::key);
        let owner = key.map(|key| &*key.owner);
        let key = match caller {
            // No key id contains a dot.
            Some(Caller::Local) => Some("server.token"),
            _ => key.map(|key| &*key.id),
        };
        let of = self.subject.owner.get().map(String::as_str);
        let (bytes, complete) = (self.bytes, self.is_whole);
        let ms = whole_millis(self.began.elapsed());
        match self.access.log {
            Some(_) => tracing::info!(
                target: TARGET, id, method, route, run, status, ms, bytes, complete, problem, owner, key, of,
                "answered"
            ),
            None => tracing::debug!(
                id, method, route, run, status, ms, bytes, complete, problem, owner, key, of,
                "answered"
            ),
        }
    }
}

/// The body of an answer, with its access log line.
#[derive(Debug)]
struct LoggedBody {
    body: Body,
    line: Line,
    /// The span of lines logged while the answer is sent.
    span: Span,
    /// Counts the answer among the open streams, if it is one.
    _open: Option<OpenStream>,
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self {
            body, line, span, ..
        } = &mut *self;
        let frame = ready!(span.in_scope(|| Pin::new(&mut *body).poll_frame(cx)));
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok());
        let length = data.and_then(Frame::data_ref).map_or(0, Bytes::len);
        line.bytes += u64::try_from(length).unwrap_or(u64::MAX);
        line.is_whole = frame.is_none() || body.is_end_stream();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::HeaderMap;
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn the_response_body_is_sent_within_the_request_span() {
        let _logging = tracing::subscriber::set_default(tracing_subscriber::registry());
        let span_name = async {
            let span = Span::current()
                .metadata()
                .map_or("none", tracing::Metadata::name);
            Ok::<_, Infallible>(span)
        };
        let line = Line {
            access: Access {
                log: None,
                metrics: Metrics::new(),
            },
            id: RequestId::of(&HeaderMap::new()),
            method: "GET",
            route: None,
            run_in_address: None,
            subject: Arc::default(),
            status: Some(StatusCode::OK),
            problem: None,
            began: Instant::now(),
            bytes: 0,
            is_whole: false,
            traced: Traced(Span::none()),
        };
        let logged = LoggedBody {
            body: Body::from_stream(stream::once(span_name)),
            line,
            span: tracing::error_span!("request"),
            _open: None,
        };
        let sent = axum::body::to_bytes(Body::new(logged), 100).await.unwrap();
        assert_eq!(sent.as_ref(), b"request");
    }
}
