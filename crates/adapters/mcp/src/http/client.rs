//! Sends requests to a service, and assigns an error that names no request to the request that is waiting for its
//! answer.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcError, ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use tokio::sync::Notify;

/// Phrases in errors about an unknown session from services that do not answer with status 404, as they should.
const LOST_SESSION: [&str; 5] = [
    "session id",
    "session-id",
    "session not found",
    "session expired",
    "not initialized",
];

/// The HTTP client of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Notified when the session is recreated, since the tools may differ then.
    changed: Arc<Notify>,
}

impl Client {
    pub(super) const fn new(http: reqwest::Client, changed: Arc<Notify>) -> Self {
        Self { http, changed }
    }
}

impl StreamableHttpClient for Client {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>> {
        let (id, is_list) = match &message {
            ClientJsonRpcMessage::Request(it) => (
                Some(it.id.clone()),
                matches!(it.request, ClientRequest::ListToolsRequest(_)),
            ),
            _ => (None, false),
        };
        let is_in_session = session_id.is_some();
        let answered = self
            .http
            .post_message_with_response_limits(
                uri,
                message,
                session_id,
                auth_header,
                custom_headers,
                limits,
            )
            .await;
        let answered = match (answered, id) {
            (Ok(StreamableHttpPostResponse::Json(answer, session)), Some(id)) => match answer {
                ServerJsonRpcMessage::Error(error) if error.id.as_ref() != Some(&id) => {
                    // The service did not process the request, so it can be sent again.
                    if is_in_session && is_lost_session(&error) {
                        Err(StreamableHttpError::SessionExpired)
                    } else {
                        // The error answers this request, whatever id it gives.
                        let error = ServerJsonRpcMessage::error(error.error, Some(id));
                        Ok(StreamableHttpPostResponse::Json(error, session))
                    }
                }
                answer => Ok(StreamableHttpPostResponse::Json(answer, session)),
            },
            // Without a session, the answer cannot arrive in any other way.
            (Ok(StreamableHttpPostResponse::Accepted), Some(_)) if !is_in_session => {
                let nothing = "an empty answer".into();
                Err(StreamableHttpError::UnexpectedServerResponse(nothing))
            }
            (answered, _) => answered,
        };
        // A list that is requested again in the new session is current anyway.
        if matches!(answered, Err(StreamableHttpError::SessionExpired)) && !is_list {
            self.changed.notify_one();
        }
        answered
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<reqwest::Error>> {
        self.http
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, StreamableHttpError<reqwest::Error>> {
        self.http
            .get_stream(uri, session_id, last_event_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxedSseResponse, StreamableHttpError<reqwest::Error>> {
        self.http
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                max_sse_event_size,
            )
            .await
    }
}

/// Returns whether an error says that the session is unknown. An internal error does not count, since the request may
/// have taken effect.
fn is_lost_session(error: &JsonRpcError) -> bool {
    let said = error.error.message.to_ascii_lowercase();
    error.error.code != ErrorCode::INTERNAL_ERROR && LOST_SESSION.iter().any(|it| said.contains(it))
}
