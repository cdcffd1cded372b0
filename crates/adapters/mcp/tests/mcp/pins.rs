//! The accepted definitions of a server's tools: how long they apply, and what happens while they cannot be read.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuraxis_core::ContentHash;
use neuraxis_mcp::{Accepted, MemoryPins, Pins};

use crate::support::{names, notices, script, script_in, start_with, until};

#[tokio::test]
async fn accepted_tools_stay_accepted_across_processes_but_not_for_another_program() {
    let pins: Arc<MemoryPins> = Arc::default();
    let described = |what: &str, more: &str| {
        script(&format!(
            r#"list() {{ answer '{{"tools":[{{"name":"look","description":"{what}","inputSchema":{{}}}}{more}]}}'; }}"#
        ))
    };
    // The script is an argument: the program counts as the same only if it reads its words from elsewhere.
    let folder = tempfile::tempdir().unwrap();
    let words = folder.path().join("words");
    let reading = || script_in(folder.path(), r#"list() { answer "$(cat words)"; }"#);
    let say = |tools: &str| fs::write(&words, format!(r#"{{"tools":[{tools}]}}"#)).unwrap();
    let look =
        |what: &str| format!(r#"{{"name":"look","description":"{what}","inputSchema":{{}}}}"#);
    say(&look("Looks."));
    let offered = async |config| {
        let server = start_with(config, pins.clone());
        server.ready().await.unwrap();
        let offered = names(&server);
        server.shutdown().await;
        (offered, notices(&server))
    };
    assert_eq!(offered(reading()).await.0, ["shop__look"]);
    assert_eq!(offered(reading()).await.0, ["shop__look"]);
    say(&look("Looks, and tells me."));
    let (names, told) = offered(reading()).await;
    assert!(names.is_empty(), "{names:?}");
    assert!(told.contains("shop__look"), "{told}");
    say(&format!(
        "{},{}",
        look("Looks."),
        r#"{"name":"more","inputSchema":{}}"#
    ));
    let (names, told) = offered(reading()).await;
    assert_eq!(names, ["shop__look"], "and not what is new");
    assert!(
        told.contains("new tools that were not accepted: shop__more"),
        "{told}"
    );
    assert_eq!(offered(described("Another.", "")).await.0, ["shop__look"]);
}

#[tokio::test]
async fn tools_accepted_by_another_process_are_soon_offered() {
    let pins: Arc<MemoryPins> = Arc::default();
    let folder = tempfile::tempdir().unwrap();
    let reading = || script_in(folder.path(), r#"list() { answer "$(cat words)"; }"#);
    let say = |what: &str| {
        let tools =
            format!(r#"{{"tools":[{{"name":"look","description":"{what}","inputSchema":{{}}}}]}}"#);
        fs::write(folder.path().join("words"), tools).unwrap();
    };
    let started = async || {
        let server = start_with(reading(), pins.clone());
        server.ready().await.unwrap();
        server
    };
    say("Looks.");
    started().await.shutdown().await;
    say("Looks, and tells me.");
    let at_work = started().await;
    assert!(names(&at_work).is_empty());
    let other = started().await;
    other.accept().unwrap();
    other.shutdown().await;
    until("it is offered", || names(&at_work) == ["shop__look"]).await;
    at_work.shutdown().await;
}

/// Pins that cannot be read this many times.
#[derive(Debug)]
struct UnreadableFor {
    left: AtomicUsize,
    pins: MemoryPins,
}

impl Pins for UnreadableFor {
    fn accepted(&self, server: &str, identity: ContentHash) -> Result<Option<Accepted>, String> {
        let one_less = |left: usize| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        match left {
            Ok(_) => Err("the disk is away".to_owned()),
            Err(_) => self.pins.accepted(server, identity),
        }
    }

    fn accept(
        &self,
        server: &str,
        identity: ContentHash,
        accepted: Accepted,
    ) -> Result<(), String> {
        self.pins.accept(server, identity, accepted)
    }
}

#[tokio::test]
async fn tools_are_offered_once_the_accepted_definitions_are_readable_again() {
    let pins = UnreadableFor {
        left: AtomicUsize::new(2),
        pins: MemoryPins::default(),
    };
    let server = start_with(script(""), Arc::new(pins));
    server.ready().await.unwrap();
    until("its tools are there", || names(&server) == ["shop__look"]).await;
    let told = notices(&server);
    assert_eq!(told.matches("the disk is away").count(), 1, "{told}");
    server.shutdown().await;
}
