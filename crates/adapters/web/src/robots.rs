//! What `robots.txt` of a site says.

use robotstxt::DefaultMatcher;
use url::Url;

/// The most bytes of a `robots.txt` that are read, as RFC 9309 has it.
pub(crate) const MAX_BYTES: u64 = 500 << 10;

/// What is known of a site's wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Robots {
    /// It says nothing: there is no such file.
    Unsaid,
    /// It says what this text says.
    Said(std::sync::Arc<str>),
    /// It could not be asked: then nothing may be fetched, as RFC 9309 has it.
    Unknown(u16),
}

impl Robots {
    /// Takes the answer to the question for the file.
    pub(crate) fn of(status: u16, body: &[u8]) -> Self {
        match status {
            200..300 => Self::Said(String::from_utf8_lossy(body).into()),
            500.. => Self::Unknown(status),
            _ => Self::Unsaid,
        }
    }

    /// Tells whether a program of this name may fetch a URL.
    pub(crate) fn allows(&self, user_agent: &str, url: &Url) -> bool {
        match self {
            Self::Unsaid => true,
            Self::Unknown(_) => false,
            Self::Said(text) => {
                let name = user_agent.split('/').next().unwrap_or_default();
                DefaultMatcher::default().one_agent_allowed_by_robots(text, name, url.as_str())
            }
        }
    }
}

/// Returns where the file of a URL's site is.
pub(crate) fn place(url: &Url) -> Url {
    let mut place = url.clone();
    place.set_path("/robots.txt");
    place.set_query(None);
    place.set_fragment(None);
    place
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(robots: &Robots, path: &str) -> bool {
        let url = Url::parse("https://example.org")
            .unwrap()
            .join(path)
            .unwrap();
        robots.allows("neuraxis/0.1.0", &url)
    }

    #[test]
    fn the_rules_for_our_name_hold_and_else_those_for_everybody() {
        let text = b"User-agent: *\nDisallow: /private\n\nUser-agent: Neuraxis\nDisallow: /secret\nAllow: /secret/open\n";
        let robots = Robots::of(200, text);
        assert!(allows(&robots, "/private"));
        assert!(!allows(&robots, "/secret/x"));
        assert!(allows(&robots, "/secret/open"));
        let everybody = Robots::of(200, b"User-agent: *\nDisallow: /private");
        assert!(!allows(&everybody, "/private/a") && allows(&everybody, "/"));
    }

    #[test]
    fn a_site_without_the_file_allows_all_and_one_that_fails_allows_nothing() {
        assert!(allows(&Robots::of(404, b"<html>"), "/x"));
        assert!(allows(&Robots::of(403, b""), "/x"));
        assert!(!allows(&Robots::of(503, b""), "/x"));
        assert!(allows(&Robots::of(200, b""), "/x"));
    }

    proptest! {
        #[test]
        fn whatever_a_site_says_is_read_without_a_crash(text in "(?s).{0,300}", path in "/x[a-zé%*$/]{0,30}") {
            let text = format!("user-agent: *\ndisallow: {text}\nallow: {text}");
            allows(&Robots::of(200, text.as_bytes()), &path);
        }
    }
}
