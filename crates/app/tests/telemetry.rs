//! Traces of engines that share their destinations.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use neuraxis_app::{App, AppBuilder, Config, Environment, Sources};
use neuraxis_core::{Channel, Mode};

/// Receives spans and metrics on its own port, and keeps everything that is sent.
struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, kept) = (connection.unwrap(), Arc::clone(&kept));
                thread::spawn(move || take(connection, &kept));
            }
        });
        Self { port, received }
    }

    fn holds(&self, text: &str) -> bool {
        let received = self.received.lock().unwrap();
        let mut pieces = received.windows(text.len());
        pieces.any(|piece| piece == text.as_bytes())
    }
}

fn take(mut connection: TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    kept.lock().unwrap().extend(body);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0";
    // The sender may have disconnected.
    let _ = connection.write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes());
}

/// Loads a configuration that contacts no servers, with the text of a file added.
fn config(surroundings: &Environment, receiver: &Receiver, text: &str) -> Config {
    let file = surroundings.working_dir().join("config.toml");
    let port = receiver.port;
    let common = format!(
        "[discovery]\nlocal_servers = false\n[store]\nurl = 'memory:'\n\
         [telemetry.otlp]\nendpoint = 'http://127.0.0.1:{port}'\n"
    );
    std::fs::write(&file, common + text).unwrap();
    Config::load(surroundings, &Sources::default().with_file(&file)).unwrap()
}

fn beside<'a>(app: &App, config: &'a Config, surroundings: &'a Environment) -> AppBuilder<'a> {
    let builder = App::builder(config, surroundings).store(app.open_store());
    builder.telemetry(app.telemetry())
}

#[tokio::test]
async fn traces_name_only_the_models_of_the_engine_in_use() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let surroundings = Environment::new(folder.path()).with_variable("MY_KEY", "k");
    let offline = "[models.reasoning]\nprovider = 'offline'\n";
    let other = "[models.reasoning]\nprovider = 'openai'\nmodel = 'gpt-other'\n\
                 base_url = 'http://127.0.0.1:9/v1'\napi_key_env = 'MY_KEY'\n";
    // A tool has the same name as the one that would start the agent.
    let hidden =
        "[agents.main_thread]\nagents = ['clock']\n[agents.clock]\ntool_name = 'current_time'\n";
    let own = config(&surroundings, &receiver, offline);
    let app = App::builder(&own, &surroundings).build().await.unwrap();

    let refused = config(&surroundings, &receiver, other);
    let refused = beside(&app, &refused, &surroundings).build().await;
    refused.unwrap();
    app.name_in_traces();
    let faulty = config(&surroundings, &receiver, &(other.to_owned() + hidden));
    let faulty = beside(&app, &faulty, &surroundings).build().await;
    faulty.unwrap_err();

    let session = "s".parse().unwrap();
    let (mode, channel) = (Mode::MODERATE, Channel::CHAT);
    let asked = app
        .orchestrator
        .handle_user_request(&session, "What time is it?", mode, channel);
    asked.await.unwrap();
    app.orchestrator.shutdown().await;
    assert_eq!(app.close().await, Vec::<String>::new());
    assert!(receiver.holds("invoke_agent"), "nothing was traced");
    assert!(!receiver.holds("gpt-other"));
}

#[tokio::test]
async fn a_warning_about_lost_metrics_names_their_endpoint() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let spans = format!("http://127.0.0.1:{}/v1/traces", receiver.port);
    // Nothing listens there.
    let metrics = "http://127.0.0.1:9/v1/metrics";
    let surroundings = Environment::new(folder.path())
        .with_variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &spans)
        .with_variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics);
    let file = folder.path().join("config.toml");
    let text = "[models.reasoning]\nprovider = 'offline'\n[store]\nurl = 'memory:'\n";
    std::fs::write(&file, text).unwrap();
    let config = Config::load(&surroundings, &Sources::default().with_file(&file)).unwrap();
    let app = App::builder(&config, &surroundings).build().await.unwrap();
    let session = "s".parse().unwrap();
    let (mode, channel) = (Mode::MODERATE, Channel::CHAT);
    let asked = app
        .orchestrator
        .handle_user_request(&session, "What time is it?", mode, channel);
    asked.await.unwrap();
    app.orchestrator.shutdown().await;
    let told = app.close().await;
    assert_eq!(told.len(), 1, "{told:?}");
    let expected = format!("metric batches were not delivered to {metrics} ");
    assert!(told[0].contains(&expected), "{told:?}");
}
