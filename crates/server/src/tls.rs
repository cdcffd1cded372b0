//! TLS: the server's certificate and key, read from files, and read again when those have changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis::core::jiff::Timestamp;
use neuraxis::core::with_causes;
use neuraxis_app::TlsFiles;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::file_stamp::FileStamp;

/// The minimum interval between two checks whether the files have changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The application protocol offered over TLS.
const PROTOCOL: &[u8] = b"http/1.1";

/// A certificate chain and its key in PEM files. Clones share what was read.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    certificate: PathBuf,
    key: PathBuf,
    state: Mutex<State>,
}

struct State {
    checked_at: Instant,
    stamps: Stamps,
    acceptor: TlsAcceptor,
    /// When the certificate in use expires, if known.
    expires_at: Option<Timestamp>,
    /// Whether the log already reports that it has expired.
    has_logged_expiry: bool,
}

impl State {
    /// Logs once that clients refuse an expired certificate, including one that expires while it is in use.
    fn log_if_expired(&mut self, certificate: &Path) {
        let Some(at) = self.expires_at.filter(is_past) else {
            return;
        };
        if !std::mem::replace(&mut self.has_logged_expiry, true) {
            let certificate = certificate.display();
            tracing::error!(%certificate, "the certificate expired on {at}, so clients reject it; renew it");
        }
    }
}

fn is_past(end: &Timestamp) -> bool {
    *end <= Timestamp::now()
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// The state of both files, used to detect changes.
type Stamps = [Option<FileStamp>; 2];

/// Why the certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM of the expected kind.
    #[error("cannot read {what} {path} as a PEM file")]
    Unreadable {
        /// The certificate or the key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// The key is encrypted.
    #[error(
        "the key {path} is encrypted, which is not supported; store it without a passphrase (for example, with \
         `openssl pkey`), readable only by its owner"
    )]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// Users outside the owner and its group can read the key.
    #[error("all users can read the key {path}; restrict it to its owner with chmod 600")]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The key does not belong to the certificate, or its kind is not supported.
    #[error("the certificate {certificate} and the key {key} cannot be used together")]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong with them.
        #[source]
        source: rustls::Error,
    },
    /// The certificate has expired, so clients refuse it.
    #[error("the certificate {certificate} expired on {at}")]
    Expired {
        /// The file.
        certificate: PathBuf,
        /// When it expired.
        at: Timestamp,
    },
}

impl Tls {
    /// Reads a certificate chain, the server's own certificate first, and its key. An expired certificate is used, with
    /// an error in the log. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns a [`TlsError`] that names the file.
    pub fn read(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        let stamps = stamps(&certificate, &key);
        let pair = Pair::read(&certificate, &key)?;
        let mut state = State {
            checked_at: Instant::now(),
            stamps,
            acceptor: pair.acceptor,
            expires_at: pair.expires_at,
            has_logged_expiry: false,
        };
        state.log_if_expired(&certificate);
        Ok(Self(Arc::new(Inner {
            certificate,
            key,
            state: Mutex::new(state),
        })))
    }

    /// Returns the acceptor for a new connection, from the current files. If those cannot be used, the former acceptor
    /// stays in use, and the reason is logged once.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut state = self.lock();
        if state.checked_at.elapsed() >= CHECK_INTERVAL {
            state.checked_at = Instant::now();
            let stamps = stamps(&self.0.certificate, &self.0.key);
            if stamps != state.stamps {
                self.renew(&mut state, stamps);
            }
            state.log_if_expired(&self.0.certificate);
        }
        state.acceptor.clone()
    }

    /// Reads the files again, even if they have not changed.
    pub(crate) fn reread(&self) {
        let stamps = stamps(&self.0.certificate, &self.0.key);
        self.renew(&mut self.lock(), stamps);
    }

    fn renew(&self, state: &mut State, stamps: Stamps) {
        let Inner {
            certificate, key, ..
        } = &*self.0;
        state.stamps = stamps;
        match Pair::read(certificate, key).and_then(|pair| pair.unless_expired(certificate)) {
            Ok(pair) => {
                state.acceptor = pair.acceptor;
                (state.expires_at, state.has_logged_expiry) = (pair.expires_at, false);
                tracing::info!(certificate = %certificate.display(), "reloaded the certificate");
            }
            Err(error) => {
                let error = with_causes(&error);
                tracing::error!(%error, "cannot reload the certificate; the previous one remains in use");
            }
        }
    }

    /// Returns the file of the certificate.
    pub(crate) fn certificate(&self) -> &Path {
        &self.0.certificate
    }

    /// Returns when the certificate in use expires, if known.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        self.lock().expires_at
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = &self.0.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamps(certificate: &Path, key: &Path) -> Stamps {
    [certificate, key].map(|path| FileStamp::of(path).ok())
}

/// A certificate and its key, as read from the files.
struct Pair {
    acceptor: TlsAcceptor,
    /// When the certificate expires, if known.
    expires_at: Option<Timestamp>,
}

impl Pair {
    fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        // Read once, because the file may be replaced a moment later.
        let text = fs::read(certificate)
            .map_err(|error| unreadable("the certificate", certificate, pem::Error::Io(error)))?;
        let acceptor = acceptor(chain(&text, certificate)?, certificate, key)?;
        Ok(Self {
            acceptor,
            expires_at: TlsFiles::expires_at(&text),
        })
    }

    fn unless_expired(self, certificate: &Path) -> Result<Self, TlsError> {
        match self.expires_at.filter(is_past) {
            None => Ok(self),
            Some(at) => Err(TlsError::Expired {
                certificate: certificate.to_owned(),
                at,
            }),
        }
    }
}

fn unreadable(what: &'static str, path: &Path, source: pem::Error) -> TlsError {
    TlsError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    }
}

/// Parses a certificate chain of at least one certificate from the content of its file.
fn chain(text: &[u8], certificate: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_slice_iter(text);
    let chain = read.collect::<Result<Vec<_>, _>>();
    let chain = chain.and_then(|chain| match chain.is_empty() {
        true => Err(pem::Error::NoItemsFound),
        false => Ok(chain),
    });
    chain.map_err(|source| unreadable("the certificate", certificate, source))
}

fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    certificate: &Path,
    key: &Path,
) -> Result<TlsAcceptor, TlsError> {
    let is_exposed = is_exposed(key);
    let is_exposed =
        is_exposed.map_err(|error| unreadable("the key", key, pem::Error::Io(error)))?;
    if is_exposed {
        let path = key.to_owned();
        return Err(TlsError::Exposed { path });
    }
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|source| match is_encrypted(key) {
        true => TlsError::Encrypted {
            path: key.to_owned(),
        },
        false => unreadable("the key", key, source),
    })?;
    let unusable = |source| TlsError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(unusable)?.with_no_client_auth();
    let mut config = config.with_single_cert(chain, private).map_err(unusable)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns whether an unreadable key is encrypted. A pipe is not opened, because that could block.
fn is_encrypted(key: &Path) -> bool {
    key.is_file() && fs::read(key).is_ok_and(|pem| TlsFiles::is_encrypted(&pem))
}

/// Returns whether every user of the machine can read a file.
#[cfg(unix)]
fn is_exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    Ok(path.metadata()?.mode() & 0o004 != 0)
}

/// Returns whether every user of the machine can read a file; not known on this platform.
#[cfg(not(unix))]
fn is_exposed(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
