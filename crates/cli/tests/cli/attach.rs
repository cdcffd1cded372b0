//! `neuraxis ask --attach` end to end.

use crate::machine::Machine;
use crate::scripted::{Scripted, Turn};

/// The beginning of an image.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

#[test]
fn attached_files_are_sent_by_their_content_type_and_stored_in_the_session() {
    let model = Scripted::start([Turn::Says(&["A cat."])]);
    let machine = model
        .machine()
        .with_file("shot", PNG)
        .with_file("notes.md", "It was dark.\n")
        .with_file("other.md", "nobody named this");
    let asked = [
        "ask",
        "--session",
        "s",
        "--set",
        "store.url=sqlite://s.db",
        "--attach",
        "shot",
        "--attach",
        "notes.md",
        "What is it?",
    ];
    assert_eq!(machine.run_with_key(asked).stdout_of(0), "A cat.\n");
    let parts = model.parts();
    assert_eq!(parts.as_array().unwrap().len(), 3, "{parts}");
    assert_eq!(parts[0]["text"], "What is it?");
    assert_eq!(
        parts[1]["image_url"]["url"],
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
    );
    assert_eq!(
        parts[2]["text"],
        "\n\n[file notes.md]\nIt was dark.\n\n[end of file notes.md]"
    );
    let show = ["sessions", "show", "s", "--set", "store.url=sqlite://s.db"];
    let shown = machine.run_with_key(show).stdout_of(0);
    assert!(shown.contains("[image/png, 16 bytes]"), "{shown}");
    assert!(!shown.contains("iVBORw0KGgo"), "{shown}");
}

#[test]
fn a_file_that_cannot_be_attached_is_refused_by_name_and_no_model_is_called() {
    let model = Scripted::start([]);
    let machine = model
        .machine()
        .with_file("archive.png", b"PK\x03\x04 in truth an archive\0")
        .with_file("large.png", [PNG, &vec![0; 7 * 1024 * 1024]].concat())
        .with_file("empty.txt", "");
    for (file, why, hint) in [
        ("missing.png", "cannot attach missing.png", "check the path"),
        (".", "it is not a regular file", "name a file in it"),
        (
            "/dev/null",
            "it is not a regular file",
            "to send a command's output with the question",
        ),
        (
            "archive.png",
            "it is application/zip, not an image, audio, a PDF or UTF-8 text",
            "at most 7 MiB",
        ),
        (
            "large.png",
            "it is larger than 7340032 bytes",
            "at most 7 MiB",
        ),
        ("empty.txt", "it is empty", "at most 7 MiB"),
    ] {
        let done = machine.run_with_key(["ask", "--attach", file, "What is it?"]);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains(why), "{}", done.stderr);
        assert!(done.stderr.contains(hint), "{}", done.stderr);
    }
    assert_eq!(model.asked(), 0);
}

#[test]
fn a_file_type_the_provider_cannot_take_is_refused_before_a_run_starts() {
    let model = Scripted::start([]);
    let machine = model.machine().with_file("paper.pdf", "%PDF-1.7\n");
    let done = machine.run_with_key(["ask", "--attach", "paper.pdf", "What is it?"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert_eq!(model.asked(), 0);
    for said in [
        "attachment 1 (application/pdf, 9 bytes) cannot be sent: ",
        " accepts text, image/*, audio/wav",
    ] {
        assert!(done.stderr.contains(said), "{done:?}");
    }
}

#[test]
fn a_text_only_model_refuses_an_attachment_and_the_hint_names_its_setting() {
    let machine = Machine::new().with_file("shot.png", PNG);
    let done = machine.run(["ask", "--attach", "shot.png", "What is it?"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(
        done.stderr.contains(
            "attachment 1 (image/png, 16 bytes) cannot be sent: offline/rules accepts only text"
        ),
        "{}",
        done.stderr
    );
    assert_eq!(
        done.stderr.matches("accepts only text").count(),
        1,
        "{done:?}"
    );
    assert!(
        done.stderr.contains("[models.reasoning]"),
        "{}",
        done.stderr
    );
}
