//! A site's `robots.txt` (RFC 9309).

use std::sync::Arc;

use url::{Position, Url};

/// The maximum number of bytes that are read of a `robots.txt`, as RFC 9309 allows.
pub(crate) const MAX_BYTES: u64 = 500 << 10;

/// A site's rules for this program; empty if the site has no such file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules(Arc<[Rule]>);

/// A line that allows or disallows paths.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    is_allowed: bool,
    /// The parts that the path must contain in this order, the first one at its beginning.
    pieces: Vec<Box<str>>,
    /// Whether the last part must be the end of the path.
    is_whole: bool,
    /// The length of the rule in bytes: the longest matching rule applies.
    length: usize,
}

impl Rules {
    /// Parses the answer to the request for the file, as far as it concerns a program with this user agent. Returns
    /// `None` if the site answered with a server error: RFC 9309 then forbids fetching anything.
    pub(crate) fn of(status: u16, body: &[u8], user_agent: &str) -> Option<Self> {
        match status {
            200..300 => Some(Self(rules(&String::from_utf8_lossy(body), user_agent))),
            500.. => None,
            _ => Some(Self(Arc::default())),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let of = |rule: &Rule| size_of::<Rule>() + rule.length + size_of_val(&*rule.pieces);
        self.0.iter().map(of).sum()
    }

    /// Returns whether a URL may be fetched. The time is proportional to the size of the file and of the URL, not to
    /// the square of their product. Both are untrusted, so this should not delay anything else.
    pub(crate) fn allows(&self, url: &Url) -> bool {
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let path = normal(path, |byte| matches!(byte, b'*' | b'$'));
        let fitting = self.0.iter().filter(|rule| rule.fits(&path));
        // Of two rules with the same length, the one that allows applies.
        let strongest = fitting.max_by_key(|rule| (rule.length, rule.is_allowed));
        strongest.is_none_or(|rule| rule.is_allowed)
    }
}

impl Rule {
    /// Parses the value of a line; `None` for an empty value, which has no effect.
    fn read(is_allowed: bool, value: &str) -> Option<Self> {
        let (pattern, is_whole) = match value.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (value, false),
        };
        // A `$` is special only at the end.
        let pieces = pattern.split('*');
        let pieces = pieces.map(|piece| normal(piece, |byte| byte == b'$').into_boxed_str());
        (!value.is_empty()).then(|| Self {
            is_allowed,
            pieces: pieces.collect(),
            is_whole,
            length: value.len(),
        })
    }

    /// Returns whether the rule matches a path. Each part is taken at its first occurrence: if the rest matches after a
    /// later occurrence, it also matches after the first.
    fn fits(&self, path: &str) -> bool {
        let Some((first, others)) = self.pieces.split_first() else {
            return false;
        };
        let Some(mut rest) = path.strip_prefix(&**first) else {
            return false;
        };
        let Some((last, between)) = others.split_last() else {
            return !self.is_whole || rest.is_empty();
        };
        for piece in between {
            let Some((_, behind)) = rest.split_once(&**piece) else {
                return false;
            };
            rest = behind;
        }
        match self.is_whole {
            true => rest.ends_with(&**last),
            false => rest.contains(&**last),
        }
    }
}

/// Parses the rules for a program: those of all groups that name it, or else those for every program.
fn rules(text: &str, user_agent: &str) -> Arc<[Rule]> {
    let ours = product(user_agent);
    let (mut named, mut everybody) = (Vec::new(), Vec::new());
    let (mut is_named, mut is_for_us, mut is_for_all) = (false, false, false);
    let mut is_head = false;
    for line in text.trim_start_matches('\u{feff}').split(['\n', '\r']) {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        let key = key.trim().to_ascii_lowercase();
        let is_allowed = match key.as_str() {
            "user-agent" => {
                if !is_head {
                    (is_for_us, is_for_all) = (false, false);
                }
                is_head = true;
                is_for_all |= value.starts_with('*');
                is_for_us |= !ours.is_empty() && product(value).eq_ignore_ascii_case(ours);
                is_named |= is_for_us;
                continue;
            }
            "allow" => true,
            "disallow" => false,
            // Other lines belong to no group and do not end one.
            _ => continue,
        };
        is_head = false;
        let Some(rule) = Rule::read(is_allowed, value) else {
            continue;
        };
        if is_for_us {
            named.push(rule);
        } else if is_for_all {
            everybody.push(rule);
        }
    }
    match is_named {
        true => named.into(),
        false => everybody.into(),
    }
}

/// Returns the product name of a user agent, which ends at the first character that is not a letter, `-` or `_`:
/// `Neuraxis` for `Neuraxis/1.2 (web)`.
fn product(user_agent: &str) -> &str {
    let is_other = |sign: char| !(sign.is_ascii_alphabetic() || matches!(sign, '-' | '_'));
    user_agent.split(is_other).next().unwrap_or_default()
}

/// Normalizes a path so that equivalent paths are equal: only the necessary characters are escaped, and escapes are in
/// upper case.
fn normal(path: &str, is_escaped_too: impl Fn(u8) -> bool) -> String {
    let mut written = String::with_capacity(path.len());
    let mut bytes = path.as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        let said = (byte == b'%').then(|| escaped(bytes.as_slice())).flatten();
        if said.is_some() {
            bytes.nth(1);
        }
        let is_plain = match said {
            Some(byte) => byte.is_ascii_alphanumeric() || b"-._~".contains(&byte),
            None => byte.is_ascii() && !is_escaped_too(byte),
        };
        let byte = said.unwrap_or(byte);
        match is_plain {
            true => written.push(char::from(byte)),
            false => written.push_str(&format!("%{byte:02X}")),
        }
    }
    written
}

/// Parses the two digits of an escape.
fn escaped(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Returns the address of the file on a URL's site.
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

    fn parsed(text: impl AsRef<[u8]>) -> Rules {
        Rules::of(200, text.as_ref(), "neuraxis/0.1.0").unwrap()
    }

    fn allows(rules: &Rules, path: &str) -> bool {
        let url = Url::parse("https://example.org")
            .unwrap()
            .join(path)
            .unwrap();
        rules.allows(&url)
    }

    #[test]
    fn rules_for_our_user_agent_take_precedence_over_rules_for_all() {
        let robots = parsed(
            "User-agent: *\nDisallow: /private\n\nUser-agent: Neuraxis\nDisallow: /secret\nAllow: /secret/open\n",
        );
        assert!(allows(&robots, "/private"));
        assert!(!allows(&robots, "/secret/x"));
        assert!(allows(&robots, "/secret/open"));
        let everybody = parsed("User-agent: *\nDisallow: /private");
        assert!(!allows(&everybody, "/private/a") && allows(&everybody, "/"));
    }

    #[test]
    fn groups_of_one_user_agent_are_merged_and_may_be_shared() {
        let robots = parsed(
            "disallow: /nobodys\nuser-agent: other\nUSER-AGENT: Neuraxis/2 (web)\nsitemap: x\ndisallow: /a # here\r\
             crawl-delay: 3\r\ndisallow:/b\nuser-agent: other\ndisallow: /c\n\nuser-agent: neuraxis\ndisallow: /d",
        );
        for (path, is_allowed) in [
            ("/a", false),
            ("/b", false),
            ("/c", true),
            ("/d", false),
            ("/nobodys", true),
        ] {
            assert_eq!(allows(&robots, path), is_allowed, "{path}");
        }
        // A group that names this program counts even if it is empty.
        let free = parsed("\u{feff}user-agent: neuraxis\ndisallow:\n\nuser-agent: *\ndisallow: /");
        assert!(allows(&free, "/x"));
    }

    #[test]
    fn patterns_match_as_the_standard_says() {
        for (pattern, path, fits) in [
            ("/", "/anything", true),
            ("/fish", "/fish.html", true),
            ("/fish", "/Fish", false),
            ("/fish", "/catfish", false),
            ("/fish*", "/fishheads/yummy.html", true),
            ("/fish/", "/fish", false),
            ("fish", "/fish", false),
            ("/*.php", "/folder/any.php.file.php", true),
            ("/*.php$", "/filename.php", true),
            ("/*.php$", "/filename.php?parameters", false),
            ("/*.php$", "/filename.php/", false),
            ("/*.pdf$", "/v1.2/a.pdf", true),
            ("/*.pdf$", "/a.pdf.pdf", true),
            ("/*ab", "/aab", true),
            ("/fish*.php", "/fishheads/catfish.php?parameters", true),
            ("/a*b*c", "/acb", false),
            ("/*/public/", "/a/b/public/x", true),
            ("/x$", "/x", true),
            ("/x$", "/xy", false),
            ("/x$y", "/x$y", true),
            ("/*", "/", true),
            ("*", "/x", true),
            ("/?q=", "/?q=1", true),
            ("/foo/bar?baz=quz", "/foo/bar?baz=quz", true),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz", true),
            ("/foo/bar/baz", "/foo/bar/%62%61%7A", true),
            ("/foo/bar/\u{30c4}", "/foo/bar/%E3%83%84", true),
            ("/foo/bar/%e3%83%84", "/foo/bar/\u{30c4}", true),
            ("/a%2fb", "/a/b", false),
            ("/a-%2A.html", "/a-*.html", true),
            ("/a-%2A.html", "/a-b.html", false),
            ("/100%", "/100%", true),
        ] {
            let robots = parsed(format!("user-agent: *\ndisallow: {pattern}"));
            assert_eq!(allows(&robots, path), !fits, "{pattern} {path}");
        }
    }

    #[test]
    fn the_longest_rule_wins_and_allow_wins_a_tie() {
        let robots = parsed(
            "user-agent: *\ndisallow: /\nallow: /*/public/\nallow: /page\ndisallow: /*.htm\ndisallow: /page",
        );
        assert!(!allows(&robots, "/x"));
        assert!(allows(&robots, "/a/b/public/x"));
        assert!(allows(&robots, "/page"));
        assert!(!allows(&robots, "/page.htm"));
    }

    #[test]
    fn a_missing_robots_txt_allows_everything_and_a_failing_one_nothing() {
        for (status, body) in [(404, "<html>"), (403, ""), (200, "")] {
            let rules = Rules::of(status, body.as_bytes(), "neuraxis").unwrap();
            assert!(allows(&rules, "/x"), "{status}");
        }
        assert_eq!(Rules::of(503, b"", "neuraxis"), None);
    }

    #[test]
    fn a_costly_robots_txt_is_still_evaluated() {
        let line = format!("disallow: /*{}$\n", "a".repeat(1_000));
        let robots = parsed(format!("user-agent: *\n{}", line.repeat(500)));
        let path = format!("/{}b", "a".repeat(2_000));
        assert!(allows(&robots, &path));
        let stars = parsed(format!(
            "user-agent: *\ndisallow: /{}",
            "*a".repeat(200_000)
        ));
        assert!(allows(&stars, &path));
    }

    proptest! {
        #[test]
        fn no_robots_txt_panics_the_parser(text in "(?s).{0,300}", path in "/x[a-z\u{e9}%*$/]{0,30}") {
            let text = format!("user-agent: *\ndisallow: {text}\nallow: {text}");
            allows(&parsed(text), &path);
        }

        #[test]
        fn a_pattern_matches_like_the_reference_implementation(pattern in "/[ab*]{0,8}[$]?", path in "/[ab]{0,12}") {
            let (said_first, is_whole) = match pattern.strip_suffix('$') {
                Some(pattern) => (pattern, true),
                None => (&*pattern, false),
            };
            let slow = fits_slowly(said_first.as_bytes(), path.as_bytes(), is_whole);
            let robots = parsed(format!("user-agent: *\ndisallow: {pattern}"));
            prop_assert_eq!(allows(&robots, &path), !slow);
        }
    }

    /// Tries every possible match of the wildcards.
    fn fits_slowly(pattern: &[u8], path: &[u8], is_whole: bool) -> bool {
        match pattern {
            [] => !is_whole || path.is_empty(),
            [b'*', rest @ ..] => {
                (0..=path.len()).any(|at| fits_slowly(rest, &path[at..], is_whole))
            }
            [sign, rest @ ..] => {
                path.first() == Some(sign) && fits_slowly(rest, &path[1..], is_whole)
            }
        }
    }
}
