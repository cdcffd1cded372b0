//! Files that cannot be read as TOML: what is wrong, and where, is part of the message.

use super::*;

/// Returns a text in UTF-16, as some editors save it.
fn utf_16(text: &str) -> Vec<u8> {
    let units = ['\u{feff}'.to_string(), text.to_owned()].concat();
    units.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn notice(machine: &Machine) -> String {
    machine.load().unwrap().notices().concat()
}

#[test]
fn an_untrusted_file_that_cannot_be_read_is_ignored_with_the_reason_and_its_place() {
    let path = |machine: &Machine| machine.folder.path().join(FOUND);
    let machine = Machine::new();
    let restricts = "[modes.moderate]\nmax_turns = 1\n";
    fs::write(path(&machine), utf_16(restricts)).unwrap();
    assert_eq!(
        notice(&machine),
        "./neuraxis.toml is not trusted; it cannot be read and is ignored, with all its restrictions: it is in UTF-16, \
         not in UTF-8; save it as UTF-8 (neuraxis trust show)"
    );
    fs::write(path(&machine), format!("{restricts}max_turns 2\n")).unwrap();
    let told = notice(&machine);
    assert!(told.contains("restrictions: neuraxis.toml:3:"), "{told}");
}

#[test]
fn a_file_that_was_trusted_and_cannot_be_read_since_is_an_error() {
    let machine = Machine::new().with_file(FOUND, "[modes.moderate]\nmax_turns = 1\n");
    machine.load().unwrap();
    let broken = "[modes.moderate]\nmax_turns 1\n";
    let machine = machine.with_untrusted(broken);
    let error = machine.load().unwrap_err();
    assert!(
        matches!(error, ConfigError::BrokenSinceTrusted { .. }),
        "{error:?}"
    );
    let told = error.to_string();
    assert!(told.contains("cannot apply: neuraxis.toml:2:"), "{told}");
    // The commands about trust can still show it.
    let shown = machine.load_from(&Sources::default().without_trust());
    assert!(shown.unwrap().found().unwrap().fault().is_some());
}

#[test]
fn a_users_file_in_another_encoding_is_an_error_that_names_it() {
    let machine = Machine::new();
    let path = machine.folder.path().join("user/neuraxis.toml");
    fs::write(&path, utf_16("# mine\n")).unwrap();
    let complaint = machine.complaint();
    assert!(complaint.contains("it is in UTF-16"), "{complaint}");
    fs::write(&path, "# mine\n\0").unwrap();
    let complaint = machine.complaint();
    assert!(
        complaint.contains("line 2 contains a zero byte"),
        "{complaint}"
    );
}

#[test]
fn a_path_with_backslashes_is_explained() {
    for text in [
        "[tools]\nroot = \"C:\\Users\\me\"\n",
        "[tools]\nroot = \"C:\\Projects\"\n",
    ] {
        let complaint = Machine::new()
            .with_file("user/neuraxis.toml", text)
            .complaint();
        assert!(complaint.contains("use single quotes"), "{complaint}");
        assert!(complaint.contains("neuraxis.toml:2:"), "{complaint}");
    }
}
