//! Damaged files: errors name the file, line and exchange.

use neuraxis_cassette::{Cassette, CassetteConfig, CassetteError, Redactor};
use neuraxis_testkit::{Script, ScriptedModel, reply, request};

use crate::support::{CassetteFile, stream, write};

async fn cassette_file() -> CassetteFile {
    let cassette_file = CassetteFile::new();
    let (recording, client) = cassette_file.record(ScriptedModel::always(
        Script::from(reply::text("hello")).split(2),
    ));
    for text in ["one", "two"] {
        stream(&client, &request(text)).await.unwrap();
    }
    recording.finish().unwrap();
    cassette_file
}

fn fails(cassette_file: &CassetteFile, text: impl AsRef<[u8]>) -> CassetteError {
    write(&cassette_file.path(), text);
    Cassette::open(&cassette_file.config(), Redactor::default()).unwrap_err()
}

#[tokio::test]
async fn a_cassette_cut_anywhere_is_an_error_that_names_the_line() {
    let cassette_file = cassette_file().await;
    let text = cassette_file.text();
    let (first, second) = (
        text.find("{\"exchange\"").unwrap(),
        text.rfind("{\"exchange\"").unwrap(),
    );
    for cut in 1..text.len() {
        if cut == first
            || cut == second
            || text.as_bytes()[cut] == b'\n' && [first, second].contains(&(cut + 1))
        {
            // A file cut between two exchanges is just a shorter file.
            continue;
        }
        write(&cassette_file.path(), &text[..cut]);
        let error = Cassette::open(&cassette_file.config(), Redactor::default()).err();
        if cut == text.len() - 1 {
            assert!(error.is_none(), "only the last line break is missing");
            continue;
        }
        let line = text[..cut].lines().count();
        match error.unwrap_or_else(|| panic!("cut at {cut}")) {
            CassetteError::NotACassette { .. } => assert!(cut < first),
            CassetteError::Truncated {
                line: at, exchange, ..
            } => {
                assert_eq!(at, line);
                assert_eq!(exchange, if cut < second { 1 } else { 2 });
            }
            other => panic!("cut at {cut}: {other}"),
        }
    }
}

#[tokio::test]
async fn a_newer_file_is_refused_by_its_version_whatever_else_it_holds() {
    let cassette_file = cassette_file().await;
    let error = fails(
        &cassette_file,
        "{\"cassette\":{\"version\":7,\"new\":true},\"x\":1}\n{\"what\":1}\n",
    );
    assert!(matches!(
        error,
        CassetteError::NewerVersion {
            found: 7,
            ours: 1,
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .contains("test.cassette, line 1: format version 7"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_cassette_is_recognized() {
    let cassette_file = cassette_file().await;
    for text in ["", "\n", "hello", "{}", "[1]", "{\"cassette\":1}"] {
        let error = fails(&cassette_file, text);
        assert!(
            matches!(error, CassetteError::NotACassette { .. }),
            "{text:?}: {error}"
        );
    }
    assert!(matches!(
        fails(&cassette_file, b"\x80\x81"),
        CassetteError::NotACassette { .. }
    ));
    let utf_16 = fails(&cassette_file, b"\xff\xfe{\0").to_string();
    assert!(utf_16.contains("UTF-16"), "{utf_16}");
}

#[tokio::test]
async fn a_merge_conflict_is_reported_on_any_line() {
    let cassette_file = cassette_file().await;
    let text = cassette_file.text();
    let lines: Vec<&str> = text.lines().collect();
    for place in 0..=lines.len() {
        for mark in ["<<<<<<< HEAD", "=======", ">>>>>>> theirs"] {
            let mut lines = lines.clone();
            lines.insert(place, mark);
            let error = fails(&cassette_file, lines.join("\n")).to_string();
            let at = format!("test.cassette, line {}", place + 1);
            assert!(error.contains(&at), "{mark}: {error}");
            assert!(error.ends_with("unresolved merge conflict"));
        }
    }
}

#[tokio::test]
async fn an_invalid_line_is_named_with_its_reason() {
    let cassette_file = cassette_file().await;
    let text = cassette_file.text();
    let lines: Vec<&str> = text.lines().collect();
    let line_of = |start: &str| {
        lines
            .iter()
            .position(|line| line.starts_with(start))
            .unwrap()
    };
    let with = |place: usize, new: &str| {
        let mut lines = lines.clone();
        lines[place] = new;
        lines.join("\n") + "\n"
    };
    let [settings, delta, done] = ["{\"settings", "{\"delta", "{\"done"].map(line_of);
    let head = lines[1].to_owned();
    for (place, new, reason) in [
        (
            delta,
            "{\"delta\":{\"ms\":1,\"block\":0}}",
            "expected exactly one of text",
        ),
        (
            delta,
            "{\"delta\":{\"ms\":-1,\"block\":0,\"text\":\"\"}}",
            "invalid value",
        ),
        (delta, "{\"noise\":{}}", "unknown variant"),
        (delta, "{\"open\":{\"ms\":1,\"more\":2}}", "unknown field"),
        (delta, "not json", " at column "),
        (
            delta,
            "{\"more\":\"x\"}",
            "a continuation without a text to continue",
        ),
        (
            delta,
            "{\"text\":{\"text\":\"x\"}}",
            "a part outside a message",
        ),
        (
            delta,
            "{\"user\":{}}",
            "part of a request after its settings",
        ),
        (settings, "", "expected the request's settings"),
        (done, "", "begins before the previous one is done"),
        (1, "", "expected the start of an exchange"),
        (done + 1, &head, "duplicate exchange 1"),
        (
            1,
            &head.replace(
                "\"started_ms\":0",
                "\"started_ms\":0,\"messages_from\":{\"exchange\":9,\"count\":1}",
            ),
            "exchange 9 with at least 1 messages",
        ),
        (
            1,
            &head.replace("\"started_ms\":0", "\"started_ms\":0,\"tools_from\":9"),
            "exchange 9 does not exist above",
        ),
        (
            1,
            &head.replace("streamed", "whole"),
            "expected exactly one reply",
        ),
    ] {
        let error = fails(&cassette_file, with(place, new)).to_string();
        assert!(
            error.contains("test.cassette, line ") && error.contains(reason),
            "{new}: {error}"
        );
    }
    let mut bytes = text.clone().into_bytes();
    let place = text.find("hello").unwrap_or(text.len() - 40);
    bytes[place] = 0xff;
    assert!(fails(&cassette_file, bytes).to_string().contains("line "));
}

#[tokio::test]
async fn a_parse_error_repeats_no_secret_and_stays_short() {
    let cassette_file = cassette_file().await;
    let header = cassette_file.text().lines().next().unwrap().to_owned();
    let error = fails(
        &cassette_file,
        format!(
            "{header}\n{{\"sk-canary0123456789{}\":1}}\n",
            "x".repeat(5_000)
        ),
    );
    let error = error.to_string();
    assert!(!error.contains("canary") && error.len() < 600, "{error}");
}

#[tokio::test]
async fn a_file_larger_than_allowed_is_not_read() {
    let cassette_file = cassette_file().await;
    let mut config = cassette_file.config();
    config.max_bytes = 100;
    let error = Cassette::open(&config, Redactor::default()).unwrap_err();
    assert!(
        matches!(error, CassetteError::TooLarge { limit: 100, .. }),
        "{error}"
    );
    let endless = CassetteConfig::new("/dev/zero");
    config.file = endless.file;
    assert!(matches!(
        Cassette::open(&config, Redactor::default()),
        Err(CassetteError::TooLarge { .. })
    ));
}

#[tokio::test]
async fn requests_that_expand_beyond_the_size_limit_are_refused() {
    let cassette_file = cassette_file().await;
    let text = cassette_file.text();
    let first = text.lines().nth(1).unwrap();
    let block: Vec<&str> = text
        .lines()
        .skip(1)
        .take_while(|line| !line.starts_with("{\"done"))
        .collect();
    let done = "{\"done\":{\"ms\":0,\"how\":\"ended\"}}";
    let header = text.lines().next().unwrap();
    let mut bomb = format!("{header}\n{}\n{done}\n", block.join("\n"));
    bomb = bomb.replace("\"one\"", &format!("\"{}\"", "x".repeat(10_000)));
    for number in 2..400 {
        let head = first.replace("\"number\":1,", &format!("\"number\":{number},"));
        let head = head.replace(
            "\"started_ms\":0",
            "\"started_ms\":0,\"messages_from\":{\"exchange\":1,\"count\":1}",
        );
        bomb.push_str(&format!("{head}\n{{\"settings\":{{\"tool_choice\":\"auto\"}}}}\n{{\"open\":{{\"ms\":0}}}}\n{done}\n"));
    }
    write(&cassette_file.path(), &bomb);
    assert_eq!(cassette_file.open().len(), 399, "64 MiB allow it");
    let mut config = cassette_file.config();
    config.max_bytes = bomb.len() as u64;
    let error = Cassette::open(&config, Redactor::default()).unwrap_err();
    assert!(error.to_string().contains("too large, counting"), "{error}");
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let error = Cassette::open(
        &CassetteConfig::new("nowhere.cassette"),
        Redactor::default(),
    )
    .unwrap_err();
    assert!(matches!(error, CassetteError::Io { doing: "read", .. }));
    assert!(error.to_string().contains("nowhere.cassette"));
}

#[test]
fn an_incomplete_or_unknown_configuration_is_refused() {
    let config: CassetteConfig =
        toml::from_str("file = 'a'\nspeed = 'instant'\nstrict = true").unwrap();
    assert!(config.strict);
    for wrong in [
        "speed = 'instant'",
        "file = 'a'\nspeed = 'fast'",
        "file = 'a'\nfiles = 'b'",
    ] {
        assert!(toml::from_str::<CassetteConfig>(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn a_byte_order_mark_is_accepted_and_another_encoding_is_named() {
    let cassette_file = cassette_file().await;
    let text = cassette_file.text();
    write(&cassette_file.path(), format!("\u{feff}{text}"));
    let read = Cassette::open(&cassette_file.config(), Redactor::default()).unwrap();
    assert_eq!(read.len(), 2);
    let marked = format!("\u{feff}{text}");
    let utf_16: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = fails(&cassette_file, utf_16).to_string();
    assert!(error.contains("it is in UTF-16"), "{error}");
}
