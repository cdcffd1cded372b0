//! The warnings about parameters that are left out.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use neuraxis_core::ToolChoice;
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::Loopback;
use neuraxis_testkit::{call_context, request, spec};
use tracing_subscriber::fmt::MakeWriter;

use crate::client;
use crate::shapes::chat;

/// The log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn each_omitted_parameter_is_warned_about_once() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = Loopback::start(chat).await;
    let client = client(&server);
    let mut request = request("hello");
    client.respond(&request, &call_context()).await.unwrap();
    assert_eq!(log.text().matches("WARN").count(), 0, "{}", log.text());
    request.temperature = Some(0.7);
    request.tools = [spec("look").build()].into();
    for choice in [ToolChoice::Auto, ToolChoice::Required] {
        request.tool_choice = choice;
        for _ in 0..3 {
            client.respond(&request, &call_context()).await.unwrap();
        }
    }
    let said = log.text();
    assert_eq!(said.matches("ignore the temperature").count(), 1, "{said}");
    assert_eq!(said.matches("forced to call a tool").count(), 1, "{said}");
    assert_eq!(said.matches("WARN").count(), 2, "{said}");
}
