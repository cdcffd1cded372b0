//! How a server is reached: proxies, and invalid certificate files.

use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_wire::{Endpoint, EndpointConfig, EndpointError};

use crate::{CANARY, WHOLE, client_at, respond};

#[tokio::test]
async fn requests_go_through_the_configured_proxy() {
    let proxy = Loopback::start(|_| Answer::json(WHOLE)).await;
    let url = proxy.url();
    let client = client_at("http://models.example", |config| config.proxy = Some(url));
    respond(&client).await.unwrap();
    assert_eq!(
        proxy.seen()[0].line,
        "POST http://models.example/v1/chat/completions"
    );
}

#[tokio::test]
async fn a_configured_proxy_is_used_for_loopback_too() {
    let server = Loopback::start(|_| Answer::json(WHOLE)).await;
    let proxy = Loopback::start(|_| Answer::json(WHOLE)).await;
    let url = proxy.url();
    let client = client_at(&server.url(), |config| config.proxy = Some(url));
    respond(&client).await.unwrap();
    assert_eq!((server.seen().len(), proxy.seen().len()), (0, 1));
}

#[tokio::test]
async fn an_unreachable_proxy_is_named_together_with_the_server() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0");
    let gone = gone.unwrap().local_addr().unwrap();
    let client = client_at("http://models.example", |config| {
        config.proxy = Some(format!("http://{gone}"));
    });
    let error = respond(&client).await.unwrap_err();
    let through = format!("http://models.example through the proxy http://{gone}: ");
    assert!(error.message.contains(&through), "{error}");
    assert!(error.message.contains("that the proxy runs"), "{error}");
}

fn refused(set_up: impl FnOnce(&mut EndpointConfig)) -> EndpointError {
    let mut config = EndpointConfig::new("https://models.example");
    set_up(&mut config);
    Endpoint::new(config).unwrap_err()
}

#[test]
fn an_invalid_proxy_or_one_with_a_password_is_refused_without_repeating_it() {
    for proxy in [
        format!("http://me:{CANARY}@proxy:3128"),
        format!("ftp://{CANARY}"),
        format!("{CANARY} is no address"),
    ] {
        let said = refused(|config| config.proxy = Some(proxy)).to_string();
        assert!(said.starts_with("proxy is not a valid address"), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}

#[test]
fn an_unusable_ca_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate in here").unwrap();
    let large = folder.path().join("large.pem");
    std::fs::File::create(&large)
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    for path in [empty, large, folder.path().join("missing.pem")] {
        let name = path.display().to_string();
        let error = refused(|config| config.ca_file = Some(path));
        assert!(matches!(error, EndpointError::CaFile { .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
    }
}
