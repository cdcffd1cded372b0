//! TLS: the certificate and key that the server shows, read from files, and read again once those have changed.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// How often it is looked whether the files have changed, at the most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The protocol that is spoken over it.
const PROTOCOL: &[u8] = b"http/1.1";

/// A certificate chain and its key in PEM files. Cloning shares what was read.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    certificate: PathBuf,
    key: PathBuf,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    stamp: Stamp,
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM of the kind that it should.
    #[error("{what} {path} cannot be read; it must be a PEM file")]
    Unreadable {
        /// The certificate or the key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// Others than its owner's group may read the key.
    #[error("everybody can read the key {path}; make it readable for its owner alone: chmod 600")]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The key is not that of the certificate, or is of a kind that is not supported.
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
}

impl Tls {
    /// Reads a certificate chain, the server's own certificate first, and its key. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// A [`TlsError`] that names the file.
    pub fn read(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        let state = State {
            looked: Instant::now(),
            stamp: Stamp::of(&certificate, &key),
            acceptor: acceptor(&certificate, &key)?,
        };
        Ok(Self(Arc::new(Inner {
            certificate,
            key,
            state: Mutex::new(state),
        })))
    }

    /// Returns what begins a connection, with the files as they are now. If they cannot be used as they are, the former ones
    /// go on being used, and the log says why, once.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let Inner {
            certificate, key, ..
        } = &*self.0;
        let mut state = self.lock();
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            let stamp = Stamp::of(certificate, key);
            if stamp != state.stamp {
                state.stamp = stamp;
                match acceptor(certificate, key) {
                    Ok(acceptor) => {
                        state.acceptor = acceptor;
                        tracing::info!(certificate = %certificate.display(), "the certificate was read again");
                    }
                    Err(error) => {
                        let error = crate::refusal::with_causes(&error);
                        tracing::error!(%error, "the certificate is not renewed: the former one goes on being used");
                    }
                }
            }
        }
        state.acceptor.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = &self.0.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By what it is told that one of the files has changed.
#[derive(Debug, PartialEq, Eq)]
struct Stamp([Option<(SystemTime, u64)>; 2]);

impl Stamp {
    fn of(certificate: &Path, key: &Path) -> Self {
        Self([certificate, key].map(|path| {
            let data: Metadata = fs::metadata(path).ok()?;
            Some((data.modified().ok()?, data.len()))
        }))
    }
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let refused = |what, path: &Path, source| TlsError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    };
    let read = CertificateDer::pem_file_iter(certificate);
    let chain = read.and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|source| refused("the certificate", certificate, source))?;
    if chain.is_empty() {
        return Err(refused(
            "the certificate",
            certificate,
            pem::Error::NoItemsFound,
        ));
    }
    let is_exposed = is_exposed(key);
    let is_exposed = is_exposed.map_err(|error| refused("the key", key, pem::Error::Io(error)))?;
    if is_exposed {
        let path = key.to_owned();
        return Err(TlsError::Exposed { path });
    }
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|source| refused("the key", key, source))?;
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

/// Tells whether everybody on the machine can read a file.
#[cfg(unix)]
fn is_exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    Ok(fs::metadata(path)?.mode() & 0o004 != 0)
}

/// Tells whether everybody on the machine can read a file, which cannot be told here.
#[cfg(not(unix))]
fn is_exposed(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    /// Writes a file as if some seconds had gone by.
    fn write(path: &Path, text: &str, seconds: u64) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + seconds);
        File::options()
            .write(true)
            .open(path)
            .and_then(|file| file.set_modified(time))
            .unwrap();
    }

    fn pair() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pair_that_was_renewed_is_used_and_one_that_cannot_be_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["c", "k"].map(|name| folder.path().join(name));
        let (first, second) = (pair(), pair());
        write(&certificate, &first.0, 0);
        write(&key, &first.1, 0);
        let tls = Tls::read(&certificate, &key).unwrap();
        let current = || Arc::clone(tls.acceptor().config());
        let used = current();
        tokio::time::advance(LOOK_EVERY).await;
        assert!(Arc::ptr_eq(&used, &current()), "nothing has changed");

        // First the certificate alone, which does not fit the key.
        write(&certificate, &second.0, 1);
        tokio::time::advance(LOOK_EVERY).await;
        assert!(Arc::ptr_eq(&used, &current()), "the former goes on");
        write(&key, &second.1, 2);
        assert!(Arc::ptr_eq(&used, &current()), "nobody has looked yet");
        tokio::time::advance(LOOK_EVERY).await;
        let renewed = current();
        assert!(!Arc::ptr_eq(&used, &renewed), "the new pair is used");

        fs::remove_file(&key).unwrap();
        tokio::time::advance(LOOK_EVERY).await;
        assert!(Arc::ptr_eq(&renewed, &current()), "without a key, too");
    }
}
