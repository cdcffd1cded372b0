//! Files of cases: a file is accepted, or refused with an existing line, and a written case reads back unchanged.

use neuraxis_evals::{EvalFile, FileFault};

/// Far above the length of an error about any file.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Reads a file of cases, writes each of them and reads it again.
pub fn eval(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let file = match EvalFile::from_toml(text) {
        Ok(file) => file,
        Err(fault) => return refused(text, &fault),
    };
    for case in &file.cases {
        // Not every case can be written on its own: it may refer to a folder that only its file defines, for example.
        let Ok(written) = case.to_toml() else {
            continue;
        };
        let again = EvalFile::from_toml(&written);
        let again = again.unwrap_or_else(|fault| panic!("{fault}: {written}"));
        // The written case is on another line.
        let [mut again, mut case] = [again.cases[0].clone(), case.clone()];
        (again.line, case.line) = (None, None);
        assert_eq!(format!("{again:?}"), format!("{case:?}"), "{written}");
    }
}

fn refused(text: &str, fault: &FileFault) {
    let told = fault.to_string();
    assert!(told.len() < MAX_ERROR_BYTES, "{told}");
    match fault {
        FileFault::Line { line, .. } => {
            assert!((1..=text.lines().count() + 1).contains(line), "{told}");
        }
        FileFault::Empty => {}
        other => panic!("a text is read from no file: {other}"),
    }
}
