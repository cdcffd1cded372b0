//! Addresses that are not reached, whatever leads there.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use neuraxis_ports::{Persistence, async_trait};
use neuraxis_testkit::{WebAnswer, WebSite};
use neuraxis_web::{NameLookup, WebConfig, web_fetch_with};

use crate::support::{allowing, fetch, refused, tool};

#[tokio::test]
async fn a_local_site_is_reached_only_if_it_is_allowed() {
    let site = WebSite::start(|_| WebAnswer::page("<p>secret")).await;
    let closed = tool(&WebConfig::default());
    let port = site.address().port();
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "anything.example",
        "127.0.0.1.",
    ] {
        let message = refused(&closed, &format!("http://{host}:{port}/")).await;
        assert!(
            message.starts_with("blocked_address: "),
            "{host}: {message}"
        );
    }
    assert!(site.requests().is_empty(), "it was asked all the same");
    let open = tool(&allowing([&site]));
    assert_eq!(
        fetch(&open, &site.url("/")).await.unwrap()["content"],
        "secret"
    );
}

#[tokio::test]
async fn a_blocked_address_is_a_permanent_error_with_advice() {
    let error = fetch(
        &tool(&WebConfig::default()),
        "http://169.254.169.254/latest/",
    )
    .await
    .unwrap_err();
    assert_eq!(error.persistence, Persistence::Permanent);
    assert!(
        error.message.contains("metadata service"),
        "{}",
        error.message
    );
    assert!(
        error.message.contains("Use another source"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn no_redirect_reaches_a_blocked_address() {
    let inside = WebSite::start(|_| WebAnswer::page("<p>secret")).await;
    let targets = [
        inside.url("/"),
        format!("http://localhost:{}/", inside.address().port()),
        format!("http://2130706433:{}/", inside.address().port()),
        format!("//127.0.0.1:{}/", inside.address().port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://[::1]/".to_owned(),
        "http://[64:ff9b::7f00:1]/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/".to_owned(),
        "http://user:secret@127.0.0.1/".to_owned(),
    ];
    let count = targets.len();
    let site = WebSite::start(move |request| {
        // First, a chain of redirects within the site.
        match request.path().trim_start_matches('/').split_once('-') {
            Some(("a", number)) => WebAnswer::redirect(format!("/b-{number}")),
            Some(("b", number)) => {
                WebAnswer::redirect(targets[number.parse::<usize>().unwrap()].clone())
            }
            _ => WebAnswer::status(404),
        }
    })
    .await;
    let tool = tool(&allowing([&site]));
    for number in 0..count {
        let message = refused(&tool, &site.url(&format!("/a-{number}"))).await;
        // A name is another host, and its address is checked when it is fetched.
        let kind = if number == 1 {
            "redirected: "
        } else {
            "blocked_address: "
        };
        assert!(message.starts_with(kind), "{number}: {message}");
    }
    assert!(inside.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_to_another_host_is_returned_instead_of_followed() {
    let site =
        WebSite::start(|_| WebAnswer::redirect("https://elsewhere.example/page?x=1#top")).await;
    let message = refused(&tool(&allowing([&site])), &site.url("/")).await;
    assert!(message.starts_with("redirected: "), "{message}");
    assert!(
        message.ends_with("fetch https://elsewhere.example/page?x=1"),
        "{message}"
    );
}

/// Returns its answers one after the other, and from then on the last one.
#[derive(Debug)]
struct ChangingLookup(Mutex<VecDeque<Vec<IpAddr>>>);

#[async_trait]
impl NameLookup for ChangingLookup {
    async fn addresses(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        match answers.len() {
            1 => Ok(answers[0].clone()),
            _ => answers
                .pop_front()
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }
}

#[tokio::test]
async fn a_rebinding_name_reaches_no_blocked_address() {
    let site = WebSite::start(|_| WebAnswer::page("<p>secret")).await;
    let answers = [
        vec![],
        vec!["93.184.215.14", "127.0.0.1"],
        vec!["127.0.0.1"],
    ];
    let answers = answers.map(|texts| {
        texts
            .into_iter()
            .map(|text| text.parse().unwrap())
            .collect()
    });
    let lookup = ChangingLookup(Mutex::new(answers.into()));
    let mut config = WebConfig::default();
    config.robots = false;
    let tool = web_fetch_with(&config, Arc::new(lookup)).unwrap();
    let url = format!("http://rebinding.example:{}/", site.address().port());
    let kinds = [
        "unreachable: ",
        "blocked_address: ",
        "blocked_address: ",
        "blocked_address: ",
    ];
    for kind in kinds {
        let message = refused(&tool, &url).await;
        assert!(message.starts_with(kind), "{message}");
    }
    assert!(site.requests().is_empty());
}

#[tokio::test]
async fn an_allowed_name_may_resolve_to_loopback_only_at_its_port() {
    let wiki = WebSite::start(|_| WebAnswer::page("<p>ours")).await;
    let other = WebSite::start(|_| WebAnswer::page("<p>secret")).await;
    let mut config = WebConfig::default();
    config.robots = false;
    let host = format!("wiki.example:{}", wiki.address().port());
    config.allow_hosts = vec![host.parse().unwrap()];
    let tool = tool(&config);
    assert_eq!(
        fetch(&tool, &format!("http://{host}/")).await.unwrap()["content"],
        "ours"
    );
    let message = refused(
        &tool,
        &format!("http://wiki.example:{}/", other.address().port()),
    )
    .await;
    assert!(
        message.starts_with("blocked_address: the name wiki.example"),
        "{message}"
    );
    assert!(other.requests().is_empty());
}
