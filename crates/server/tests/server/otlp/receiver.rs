//! A loopback OTLP receiver, over HTTP or gRPC, that decodes using OpenTelemetry's own definitions and keeps
//! everything.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// What was received.
#[derive(Debug, Default)]
pub(super) struct Received {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    /// The value of the header `x-canary` of each request.
    headers: Vec<Option<String>>,
}

/// A receiver. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Receiver {
    pub(super) url: String,
    received: Arc<Mutex<Received>>,
}

impl Receiver {
    pub(super) async fn over_http() -> Self {
        let (receiver, listener) = Self::bound().await;
        let routes = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        receiver
    }

    pub(super) async fn over_grpc() -> Self {
        let (receiver, listener) = Self::bound().await;
        let serving = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(receiver.clone()))
            .add_service(MetricsServiceServer::new(receiver.clone()))
            .serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener));
        tokio::spawn(async move { serving.await.unwrap() });
        receiver
    }

    /// Claims a different address.
    pub(super) fn at(self, url: String) -> Self {
        Self { url, ..self }
    }

    async fn bound() -> (Self, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::default();
        (Self { url, received }, listener)
    }

    /// Returns all spans so far, with the service of each according to its resource.
    pub(super) fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        let resources = received.traces.iter().flat_map(|it| &it.resource_spans);
        let scopes = resources.flat_map(|it| &it.scope_spans);
        scopes.flat_map(|it| it.spans.clone()).collect()
    }

    /// Returns the names of the services.
    pub(super) fn services(&self) -> Vec<String> {
        let received = self.received.lock().unwrap();
        let resources = received.traces.iter().flat_map(|it| &it.resource_spans);
        let resources = resources.filter_map(|it| it.resource.as_ref());
        let name = |attributes: &[KeyValue]| text(attributes, "service.name");
        resources.filter_map(|it| name(&it.attributes)).collect()
    }

    /// Returns all metrics so far.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let received = self.received.lock().unwrap();
        let resources = received.metrics.iter().flat_map(|it| &it.resource_metrics);
        let scopes = resources.flat_map(|it| &it.scope_metrics);
        scopes.flat_map(|it| it.metrics.clone()).collect()
    }

    /// Returns everything received, as text that can be searched.
    pub(super) fn everything(&self) -> String {
        let received = self.received.lock().unwrap();
        format!("{:?}{:?}", received.traces, received.metrics)
    }

    /// Returns whether each request carried the credential.
    pub(super) fn was_shown(&self, canary: &str) -> bool {
        let received = self.received.lock().unwrap();
        let shown = |header: &Option<String>| header.as_deref() == Some(canary);
        !received.headers.is_empty() && received.headers.iter().all(shown)
    }

    fn note(&self, header: Option<String>, note: impl FnOnce(&mut Received)) {
        let mut received = self.received.lock().unwrap();
        received.headers.push(header);
        note(&mut received);
    }
}

async fn traces(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    receiver.note(canary(&headers), |it| it.traces.push(request));
    StatusCode::OK
}

async fn metrics(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    receiver.note(canary(&headers), |it| it.metrics.push(request));
    StatusCode::OK
}

fn canary(headers: &HeaderMap) -> Option<String> {
    Some(headers.get("x-canary")?.to_str().unwrap().to_owned())
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let canary = canary(&request.metadata().clone().into_headers());
        self.note(canary, |it| it.traces.push(request.into_inner()));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let canary = canary(&request.metadata().clone().into_headers());
        self.note(canary, |it| it.metrics.push(request.into_inner()));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// Returns the value of a string attribute.
pub(super) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    match value(attributes, key)? {
        Any::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Returns the value of a numeric attribute.
pub(super) fn number(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match value(attributes, key)? {
        Any::IntValue(number) => Some(number),
        _ => None,
    }
}

fn value(attributes: &[KeyValue], key: &str) -> Option<Any> {
    let attribute = attributes.iter().find(|it| it.key == key)?;
    let AnyValue { value, .. } = attribute.value.clone()?;
    value
}
