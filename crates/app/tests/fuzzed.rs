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
fn no_link_of_an_answer_that_was_checked_leads_to_a_page_that_was_not_read() {
    check("citations", citations::citations);
}

#[test]
fn a_configuration_is_taken_or_refused_the_same_way_each_time_and_tells_no_secret() {
    check("config", config::config);
}

#[test]
fn a_file_of_cases_is_taken_or_refused_with_its_line_and_read_as_it_was_written() {
    check("eval", eval::eval);
}

#[test]
fn a_patch_changes_nothing_but_what_rules_about_paths_saw_in_it() {
    check("patch", patch::patch);
}

#[test]
fn a_record_is_written_as_it_was_read_and_a_run_is_rebuilt_or_refused() {
    check("record", record::record);
}

#[test]
fn an_archive_that_is_whole_comes_out_of_a_store_as_it_went_in() {
    check("archive", archive::archive);
}

#[cfg(unix)]
#[test]
fn whatever_an_mcp_server_writes_its_connection_stands_or_fails_and_what_is_kept_is_bounded() {
    // Each input starts a program.
    check_made("frames", 30, frames::frames);
}

#[test]
fn no_url_passes_whose_host_is_an_address_that_is_not_public() {
    check("url", url::url);
}
