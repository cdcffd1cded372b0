//! Checks that apply to every request.
//!
//! Web pages must not reach this server through a visitor's browser, neither under a host name that the page's owner
//! pointed to 127.0.0.1 (detected by the header `Host`), nor from a page of another origin (detected by the header
//! `Origin`). With keys, which no page can make a browser send, a server that other machines can reach accepts any host
//! name. A page must then come from that exact host, or from a configured origin, whose pages are allowed by CORS.
//!
//! A request must not be interpreted differently by this server and, for example, a proxy in front of it. So no further
//! request is read from a connection after a chunked one: whatever length the request also declared, it cannot hide a
//! second one. hyper refuses two differing lengths.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::LazyLock;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use neuraxis::core::clip;

use crate::address::is_loopback;
use crate::connection::{Connection, Scheme};
use crate::limits::ServerState;
use crate::problem::{FOREIGN_HOST, FOREIGN_ORIGIN, INVALID_HOST, Problem};
use crate::rate::Rate;
use crate::request_body::MAX_ERROR_CHARS;

/// The probes of load balancers.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// How many refused origins are logged per second, and in one burst: any page that a user visits can send requests.
const LOGGED_PER_SECOND: NonZeroU32 = NonZeroU32::MIN;
const LOGGED_AT_ONCE: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

static LOGGED: LazyLock<Rate> =
    LazyLock::new(|| Rate::per_second(LOGGED_PER_SECOND, LOGGED_AT_ONCE));

/// Lets a request pass if it is meant for this server, and refuses all others.
pub(crate) async fn admit(
    State(state): State<ServerState>,
    request: Request,
    next: Next,
) -> Response {
    let is_in_chunks = request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = match check(&state, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if is_in_chunks || response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        // hyper removes a length that is declared along with chunks, so whether there was one cannot be seen here. A
        // body that is too large is not read to its end.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

fn check(state: &ServerState, request: &Request) -> Result<(), Problem> {
    if is_bare_probe(request) {
        return Ok(());
    }
    let host = host(request)?;
    let connection = request.extensions().get::<Connection>();
    let scheme = connection.map_or(Scheme::Http, |connection| connection.scheme);
    let accepts_any_host = state.accepts_any_host();
    if !accepts_any_host && !is_this_machine(host.host()) {
        return Err(Problem::new(
            &FOREIGN_HOST,
            "the header Host names another machine; this server accepts localhost, 127.0.0.1 and [::1]",
        ));
    }
    match all(request.headers(), &header::ORIGIN).as_slice() {
        [] => Ok(()),
        [origin] if is_same_origin(origin, scheme, &host) => Ok(()),
        [origin] if accepts_any_host && is_of_host(origin, &host) => Ok(()),
        [origin] if state.origins().iter().any(|ours| is_named(ours, origin)) => Ok(()),
        origins => Err(foreign_origin(state, origins)),
    }
}

/// Refuses a page of another origin, and says in the log how to let it in: the page's own developer cannot read the
/// answer.
fn foreign_origin(state: &ServerState, origins: &[&[u8]]) -> Problem {
    let page = match origins {
        // No setting can name it.
        [b"null"] => {
            let detail = "the request comes from a web page without an origin, such as a local file or a sandboxed frame; \
                          serve the page from a web server, and add its origin to [server] origins";
            return Problem::new(&FOREIGN_ORIGIN, detail);
        }
        [origin] => clip(&origin.escape_ascii().to_string(), MAX_ERROR_CHARS),
        _ => "several origins".to_owned(),
    };
    let what = if state.keys().are_needed() {
        "add its origin to [server] origins"
    } else if state.is_configured_origin(origins) {
        "[server] origins names it, but has no effect without keys: create one with neuraxis-server keys create"
    } else {
        "add its origin to [server] origins, which needs keys (neuraxis-server keys create)"
    };
    if LOGGED.count().is_ok() {
        tracing::info!(
            origin = page,
            "a request of a web page was refused; to accept it: {what}"
        );
    }
    let detail = format!(
        "the request comes from a web page of another origin, {page}; to accept it: {what}"
    );
    Problem::new(&FOREIGN_ORIGIN, detail)
}

/// Returns whether a request is a load balancer's probe in HTTP/1.0, which needs no `Host`. No browser sends one, and
/// the answer discloses nothing.
fn is_bare_probe(request: &Request) -> bool {
    let headers = request.headers();
    request.version() == Version::HTTP_10
        && PROBES.contains(&request.uri().path())
        && !headers.contains_key(header::HOST)
        && !headers.contains_key(header::ORIGIN)
}

/// Returns the host that the request is meant for.
fn host(request: &Request) -> Result<Authority, Problem> {
    let [host] = all(request.headers(), &header::HOST)[..] else {
        return Err(invalid_host("a request must have exactly one Host header"));
    };
    let host: Authority = authority(host)
        .ok_or_else(|| invalid_host("the header Host is not a host with an optional port"))?;
    match request.uri().authority() {
        Some(other) if *other != host => Err(invalid_host(
            "the request's address and its Host header name different hosts",
        )),
        _ => Ok(host),
    }
}

fn invalid_host(detail: &'static str) -> Problem {
    Problem::new(&INVALID_HOST, detail)
}

fn all<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a [u8]> {
    headers
        .get_all(name)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect()
}

fn authority(bytes: &[u8]) -> Option<Authority> {
    let authority = Authority::try_from(bytes).ok()?;
    // An authority with user information before an `@` is not a plain host.
    (!authority.as_str().contains('@')).then_some(authority)
}

fn is_this_machine(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    match bare.unwrap_or(host).parse::<IpAddr>() {
        Ok(address) => is_loopback(address),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Returns whether a page comes from this server, under any of its loopback names.
fn is_same_origin(origin: &[u8], scheme: Scheme, host: &Authority) -> bool {
    let origin = origin.strip_prefix(scheme.prefix().as_bytes());
    let origin = origin.and_then(authority);
    origin.is_some_and(|origin| {
        let port = |authority: &Authority| authority.port_u16().unwrap_or(scheme.port());
        is_this_machine(origin.host()) && port(&origin) == port(host)
    })
}

/// Returns whether a page comes from exactly the host that a request names. The scheme may differ, because a proxy may
/// have terminated TLS.
fn is_of_host(origin: &[u8], host: &Authority) -> bool {
    let plain = origin
        .strip_prefix(b"http://")
        .map(|rest| (rest, Scheme::Http.port()));
    let encrypted = || Some((origin.strip_prefix(b"https://")?, Scheme::Https.port()));
    let Some((rest, usual)) = plain.or_else(encrypted) else {
        return false;
    };
    authority(rest).is_some_and(|origin| {
        let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
        origin.host().eq_ignore_ascii_case(host.host()) && port(&origin) == port(host)
    })
}

/// Returns whether an origin matches a configured one.
pub(crate) fn is_named(ours: &str, origin: &[u8]) -> bool {
    ours.trim_end_matches('/')
        .as_bytes()
        .eq_ignore_ascii_case(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_addresses_are_this_machine() {
        for host in ["localhost", "LocalHost", "127.0.0.1", "127.8.9.10", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "2130706433",
            "127.1",
            "0.0.0.0",
            "192.0.2.1",
            "[::]",
            "",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn an_origin_is_ours_by_scheme_host_and_port() {
        let host = Authority::from_static("127.0.0.1:8787");
        for origin in [
            "http://127.0.0.1:8787",
            "http://localhost:8787",
            "http://[::1]:8787",
        ] {
            assert!(
                is_same_origin(origin.as_bytes(), Scheme::Http, &host),
                "{origin}"
            );
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "http://localhost",
            "http://localhost:3000",
            "https://localhost:8787",
            "http://localhost:8787/page",
            "http://localhost:8787@evil.example",
            "http://user@localhost:8787",
            "file://",
        ] {
            assert!(
                !is_same_origin(origin.as_bytes(), Scheme::Http, &host),
                "{origin}"
            );
        }
        let usual = Authority::from_static("localhost");
        for (scheme, origin) in [
            (Scheme::Https, "https://localhost:443"),
            (Scheme::Http, "http://localhost:80"),
        ] {
            let is_ours = |scheme| is_same_origin(origin.as_bytes(), scheme, &usual);
            let other = match scheme {
                Scheme::Http => Scheme::Https,
                Scheme::Https => Scheme::Http,
            };
            assert!(is_ours(scheme) && !is_ours(other), "{origin}");
        }
    }

    #[test]
    fn a_page_is_of_the_same_host_when_its_origin_matches_the_host_header() {
        for (origin, host) in [
            ("https://chat.example", "chat.example"),
            ("https://Chat.Example", "chat.example:443"),
            ("http://chat.example:8787", "chat.example:8787"),
            ("http://[2001:db8::1]", "[2001:db8::1]"),
        ] {
            let host = Authority::from_static(host);
            assert!(is_of_host(origin.as_bytes(), &host), "{origin}");
        }
        for (origin, host) in [
            ("null", "chat.example"),
            ("", "chat.example"),
            ("https://evil.example", "chat.example"),
            ("https://chat.example.evil.example", "chat.example"),
            ("https://chat.example:8443", "chat.example"),
            ("http://chat.example", "chat.example:443"),
            ("https://evil.example@chat.example", "chat.example"),
            ("ftp://chat.example", "chat.example"),
        ] {
            let host = Authority::from_static(host);
            assert!(!is_of_host(origin.as_bytes(), &host), "{origin}");
        }
        assert!(is_named("https://a.example/", b"https://A.example"));
        assert!(!is_named("https://a.example", b"https://a.example.evil"));
    }
}
