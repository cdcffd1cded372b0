//! A model whose output the server cannot parse.

use std::io::Write;
use std::time::Duration;

use futures_util::TryStreamExt;
use neuraxis_core::{LlmErrorKind, Message};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{Endpoint, EndpointConfig};
use serde::Deserialize;

use crate::running::Running;
use crate::{respond, with_tools};

#[derive(Deserialize)]
struct Props {
    chat_template: String,
}

/// Returns the chat template of the scripted model, with a marker that makes the server take it for another model
/// family's. The server then expects that family's output format, which the scripted model does not write.
async fn misleading_template() -> tempfile::NamedTempFile {
    let server = Running::start(&[]);
    let endpoint = Endpoint::new(EndpointConfig::new(server.config().base_url)).unwrap();
    let route = endpoint.route("props");
    let props = endpoint.get(&route, Duration::from_secs(10)).await.unwrap();
    let props: Props = serde_json::from_slice(&props).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{{#- <|channel|> -#}}{}", props.chat_template).unwrap();
    file
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn output_that_the_server_cannot_parse_is_an_invalid_response() {
    let template = misleading_template().await;
    let path = template.path().to_str().unwrap();
    let server = Running::start(&["--chat-template-file", path]);
    let client = server.client();
    for request in [request("hello"), with_tools([Message::user("look around")])] {
        let whole = respond(&client, &request).await.unwrap_err();
        let stream = client.stream_respond(&request, &call_context()).await;
        let streamed = match stream {
            Ok(stream) => stream.try_collect::<Vec<_>>().await.unwrap_err(),
            Err(error) => error,
        };
        for error in [whole, streamed] {
            assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{error}");
            assert!(error.is_retryable());
        }
    }
}
