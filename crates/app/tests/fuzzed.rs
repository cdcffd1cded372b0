//! Feeds parsers of files and model output with a corpus of inputs, and with random variations of them that are the
//! same each time. The fuzz targets of `crates/app/fuzz` run the same checks, and start with the same inputs.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a check that does not hold has to fail the test"
)]
#![expect(
    unreachable_pub,
    reason = "the checks are a library for the fuzz targets"
)]

#[path = "../fuzz/src/archive.rs"]
mod archive;
#[path = "../fuzz/src/citations.rs"]
mod citations;
#[path = "../fuzz/src/config.rs"]
mod config;
#[path = "../fuzz/src/eval.rs"]
mod eval;
#[cfg(unix)]
#[path = "../fuzz/src/frames.rs"]
mod frames;
#[path = "../fuzz/src/patch.rs"]
mod patch;
#[path = "../fuzz/src/record.rs"]
mod record;
#[path = "../fuzz/src/url.rs"]
mod url;

use std::fs;
use std::path::Path;

/// The number of inputs that are generated from the corpus.
const MADE: u64 = 400;

/// The maximum length of a generated input, in bytes.
const MAX_LENGTH: usize = 16 * 1024;

/// Pseudorandom numbers that are the same each time (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let begin = self.below(length + 1);
        let most = (length - begin).min(64);
        begin..begin + self.below(most + 1)
    }

    /// Changes an input in up to four places.
    fn changed(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut input = inputs[self.below(inputs.len())].clone();
        for _ in 0..=self.below(4) {
            let range = self.range(input.len());
            let other = &inputs[self.below(inputs.len())];
            let piece = match self.below(6) {
                0 => Vec::new(),
                1 => other[self.range(other.len())].to_vec(),
                2 => input[self.range(input.len())].to_vec(),
                3 => vec![u8::try_from(self.below(256)).unwrap()],
                4 => b"\n\"'[]{}.,:=-+@/0\\\t"[self.below(18)..][..1].to_vec(),
                _ => input[range.clone()].iter().map(|byte| byte ^ 1).collect(),
            };
            input.splice(range, piece);
        }
        input.truncate(MAX_LENGTH);
        input
    }
}

fn check(folder: &str, check: fn(&[u8])) {
    check_made(folder, MADE, check);
}

fn check_made(folder: &str, made: u64, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let files = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let inputs: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(
        inputs.len() >= 15,
        "the inputs are not where they should be"
    );
    for input in &inputs {
        check(input);
    }
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    for _ in 0..made {
        check(&chance.changed(&inputs));
    }
}

#[test]
fn a_checked_answer_never_links_to_an_unread_page() {
    check("citations", citations::citations);
}

#[test]
fn reading_a_configuration_is_deterministic_and_reveals_no_secret() {
    check("config", config::config);
}

#[test]
fn a_case_file_round_trips_or_is_refused_with_its_line() {
    check("eval", eval::eval);
}

#[test]
fn a_patch_changes_only_paths_that_the_rules_saw() {
    check("patch", patch::patch);
}

#[test]
fn a_record_round_trips_and_a_run_is_rebuilt_or_refused() {
    check("record", record::record);
}

#[test]
fn a_complete_archive_round_trips_through_a_store() {
    check("archive", archive::archive);
}

#[cfg(unix)]
#[test]
fn any_mcp_server_output_is_handled_or_fails_within_bounded_memory() {
    // Each input starts a program.
    check_made("frames", 30, frames::frames);
}

#[test]
fn no_url_with_a_non_public_host_passes() {
    check("url", url::url);
}
