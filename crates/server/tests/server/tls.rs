//! A server with a certificate.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion, RootCertStore, version};

use crate::support::Program;
use crate::support::program::{command, folder_with};

/// Creates a certificate with its key, and a configuration that names them.
fn configured() -> TempDir {
    let text = "[server.tls]\ncertificate = 'server.pem'\nkey = 'server.key'\n";
    let folder = folder_with(text);
    renew(folder.path());
    folder
}

fn renew(folder: &Path) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = folder.join("server.key");
    fs::write(folder.join("server.pem"), cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
}

/// Connects as a client that trusts the certificate, and returns the answer and the TLS version.
async fn ask(
    program: &Program,
    request: &str,
    versions: &[&'static tokio_rustls::rustls::SupportedProtocolVersion],
) -> (String, Option<ProtocolVersion>) {
    let mut roots = RootCertStore::empty();
    let file = program.folder().join("server.pem");
    roots
        .add(CertificateDer::from_pem_file(file).unwrap())
        .unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = program.url().strip_prefix("https://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.unwrap();
    let version = stream.get_ref().1.protocol_version();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer, version)
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost:1\r\n{more}Connection: close\r\n\r\n")
}

#[tokio::test]
async fn a_server_with_a_certificate_accepts_only_tls() {
    let program = Program::start_in(configured(), |_| {}).await;
    for (offered, expected) in [
        (&version::TLS13, ProtocolVersion::TLSv1_3),
        (&version::TLS12, ProtocolVersion::TLSv1_2),
    ] {
        let (answer, spoken) = ask(&program, &get("/healthz", ""), &[offered]).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert_eq!(spoken, Some(expected));
    }
    let (answer, _) = ask(&program, &get("/metrics", ""), &[&version::TLS13]).await;
    assert!(answer.contains("neuraxis_build_info"), "{answer}");

    let address = program.url().strip_prefix("https://").unwrap();
    let plain = get("/healthz", "");
    let answer = crate::support::raw::bytes(address, plain.as_bytes()).await;
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
}

#[tokio::test]
async fn a_page_has_the_same_origin_only_with_the_same_scheme() {
    let program = Program::start_in(configured(), |_| {}).await;
    for (origin, expected) in [("https://localhost:1", 200), ("http://localhost:1", 403)] {
        let request = get("/healthz", &format!("Origin: {origin}\r\n"));
        let (answer, _) = ask(&program, &request, &[&version::TLS13]).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected}")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn an_unusable_certificate_or_key_is_named_at_the_start() {
    type Spoil = fn(&Path);
    let cases: [(Spoil, &str); 6] = [
        (
            |folder| fs::remove_file(folder.join("server.pem")).unwrap(),
            "the certificate ",
        ),
        (
            |folder| fs::write(folder.join("server.pem"), "no PEM").unwrap(),
            "server.pem as a PEM file",
        ),
        (
            |folder| {
                let certificate = fs::read(folder.join("server.pem")).unwrap();
                renew(folder);
                fs::write(folder.join("server.pem"), certificate).unwrap();
            },
            "cannot be used together",
        ),
        (
            |folder| {
                let key = folder.join("server.key");
                fs::set_permissions(key, Permissions::from_mode(0o644)).unwrap();
            },
            "all users can read the key",
        ),
        (
            |folder| fs::write(folder.join("server.key"), "").unwrap(),
            "the key ",
        ),
        (
            |folder| {
                let key = fs::read_to_string(folder.join("server.key")).unwrap();
                let key = key.replace(" PRIVATE", " ENCRYPTED PRIVATE");
                fs::write(folder.join("server.key"), key).unwrap();
            },
            "server.key is encrypted, which is not supported",
        ),
    ];
    for (spoil, expected) in cases {
        let folder = configured();
        spoil(folder.path());
        let output = command(folder.path()).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let start = "error: neuraxis.toml:";
        assert!(
            said.starts_with(start) && said.contains("server.tls"),
            "{said}"
        );
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("PRIVATE KEY"), "{said}");
    }
}
