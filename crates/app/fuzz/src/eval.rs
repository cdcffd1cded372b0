//! Files of cases: one is taken or refused with a line that it has, and a case that is written is read as it was.

use neuraxis_evals::{EvalFile, FileFault};

/// Far more than is wrong with any file.
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
        // Not everything that can be read can be written by itself: a folder that is known to nobody else, for instance.
        let Ok(written) = case.to_toml() else {
            continue;
        };
        let again = EvalFile::from_toml(&written);
        let again = again.unwrap_or_else(|fault| panic!("{fault}: {written}"));
        // It stands in another place now.
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
