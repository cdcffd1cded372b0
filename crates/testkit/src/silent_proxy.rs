//! A proxy in front of a database server that can stop forwarding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Forwards bytes in both directions, or discards them without an error. It ends with the runtime in which it was
/// started.
#[derive(Debug)]
pub struct SilentProxy {
    url: String,
    is_silent: Arc<AtomicBool>,
}

impl SilentProxy {
    /// Starts a proxy on a free port, in front of a server whose URL contains its user and port.
    ///
    /// # Panics
    ///
    /// Panics if the URL does not contain them, or if no port is free.
    #[expect(clippy::expect_used, reason = "a test fails without its proxy")]
    pub async fn start(url: &str) -> Self {
        let (before, target) = url.split_once('@').expect("the URL names a user");
        let (address, database) = target.split_once('/').expect("the URL names a database");
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let port = listener.local_addr().expect("it has a port").port();
        let is_silent = Arc::new(AtomicBool::new(false));
        let (to, silent) = (address.to_owned(), Arc::clone(&is_silent));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&to).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(from_client, to_server, Arc::clone(&silent)));
                tokio::spawn(pass(from_server, to_client, Arc::clone(&silent)));
            }
        });
        Self {
            url: format!("{before}@127.0.0.1:{port}/{database}"),
            is_silent,
        }
    }

    /// Returns the server's URL through the proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops forwarding.
    pub fn fall_silent(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    /// Forwards again from now on. Discarded bytes are lost.
    pub fn speak(&self) {
        self.is_silent.store(false, Ordering::SeqCst);
    }
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    is_silent: Arc<AtomicBool>,
) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if is_silent.load(Ordering::SeqCst) {
            continue;
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}
