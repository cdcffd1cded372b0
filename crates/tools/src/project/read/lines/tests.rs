use super::*;

fn lines(first: u64, count: u64) -> Window {
    Window {
        first,
        past_last: first + count,
        column: 1,
    }
}

fn scanned(file: &[u8], window: Window) -> Excerpt {
    scan(&mut &file[..], window, u64::MAX, &Stop::never())
        .unwrap()
        .unwrap()
}

fn text(excerpt: &Excerpt) -> &str {
    std::str::from_utf8(&excerpt.text).unwrap()
}

#[test]
fn a_range_is_returned_verbatim_with_the_total() {
    let found = scanned(b"one\ntwo\r\nthree\nfour", lines(2, 2));
    assert_eq!(text(&found), "two\r\nthree\n");
    assert_eq!((found.end_line, found.total_lines), (3, Some(4)));
}

#[test]
fn a_last_line_without_a_newline_counts_and_a_final_newline_adds_no_line() {
    assert_eq!(scanned(b"one\ntwo", lines(1, 9)).total_lines, Some(2));
    assert_eq!(scanned(b"one\ntwo\n", lines(1, 9)).total_lines, Some(2));
    assert_eq!(scanned(b"\n", lines(1, 9)).total_lines, Some(1));
    assert_eq!(
        scanned(b"", lines(1, 9)),
        Excerpt {
            total_lines: Some(0),
            ..Excerpt::default()
        }
    );
}

#[test]
fn lines_after_the_range_are_counted_across_chunks() {
    let file = "a line\n".repeat(CHUNK_BYTES);
    let found = scanned(file.as_bytes(), lines(3, 1));
    assert_eq!(
        (text(&found), found.total_lines),
        ("a line\n", Some(CHUNK_BYTES as u64))
    );
}

#[test]
fn a_long_line_is_cut_between_characters_and_reported_with_its_length() {
    let file = format!("{}\nshort\n", "é".repeat(5_000));
    let found = scanned(file.as_bytes(), lines(1, 2));
    assert_eq!(text(&found), format!("{}…\nshort\n", "é".repeat(2_000)));
    assert_eq!(
        found.cut_lines,
        [LongLine {
            line: 1,
            bytes: 10_001
        }]
    );
}

#[test]
fn the_rest_of_a_long_line_is_shown_from_a_column() {
    let file = format!("{}{}xyz\n", "é".repeat(2_000), "ü".repeat(10));
    let found = scanned(
        file.as_bytes(),
        Window {
            column: 2_001,
            ..lines(1, 1)
        },
    );
    assert_eq!(text(&found), format!("{}xyz\n", "ü".repeat(10)));
    assert_eq!(found.cut_lines, []);
}

#[test]
fn a_line_of_exactly_the_maximum_length_is_not_cut() {
    for ending in ["\n", "\r\n", ""] {
        let file = format!("{}{ending}", "x".repeat(2_000));
        let found = scanned(file.as_bytes(), lines(1, 1));
        assert_eq!((text(&found), found.cut_lines.len()), (file.as_str(), 0));
    }
}

#[test]
fn excessive_text_ends_with_a_complete_line_and_the_rest_is_counted() {
    let line = format!("{}\n", "x".repeat(999));
    let found = scanned(line.repeat(100).as_bytes(), lines(1, 100));
    assert_eq!(found.end_line, 57);
    assert_eq!(found.text.len(), 57_000);
    assert_eq!(found.total_lines, Some(100));
}

#[test]
fn text_that_exceeds_the_json_limit_ends_with_a_complete_line() {
    for line in [
        "\t\"a\\b\",\n".as_bytes(),
        b"\n",
        b"\x01\x1b[0m\n",
        b"caf\xe9\xe9\xe9\n",
        "x".repeat(3_000).as_bytes(),
    ] {
        let mut line = line.to_owned();
        line.push(b'\n');
        let found = scanned(&line.repeat(40_000), lines(1, 80_000));
        let shown = String::from_utf8_lossy(&found.text);
        let json = serde_json::to_string(&shown).unwrap().len() - 2;
        assert!(
            (READ_MAX_JSON_BYTES - 2_010..=READ_MAX_JSON_BYTES).contains(&json),
            "{:?} makes {json} bytes",
            line.escape_ascii().to_string()
        );
        assert!(shown.ends_with('\n'));
    }
}

#[test]
fn an_endless_file_is_abandoned_without_a_total() {
    let found = scan(
        &mut io::repeat(b'\n'),
        lines(2, 3),
        1_000_000,
        &Stop::never(),
    )
    .unwrap()
    .unwrap();
    assert_eq!((text(&found), found.total_lines), ("\n\n\n", None));
}

#[test]
fn an_endless_line_uses_bounded_memory() {
    let found = scan(
        &mut io::repeat(b'x'),
        lines(1, 1),
        10_000_000,
        &Stop::never(),
    )
    .unwrap()
    .unwrap();
    assert_eq!(found.text.len(), 2_000 + "…\n".len());
    assert_eq!(found.end_line, 1);
}

#[test]
fn endless_invalid_bytes_and_carriage_returns_are_bounded() {
    for endless in [b'\r', 0x80] {
        let mut file = b"x".chain(io::repeat(endless));
        let found = scan(&mut file, lines(1, 1), 1_000_000, &Stop::never())
            .unwrap()
            .unwrap();
        assert!(
            found.text.len() <= MAX_LINE_BYTES + "…\n".len(),
            "{endless} made {} bytes",
            found.text.len()
        );
    }
}
