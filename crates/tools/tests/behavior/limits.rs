//! The limits that the tools promise, as users encounter them.

use std::time::Duration;

pub(crate) const CALCULATION_TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const EXPRESSION_MAX_CHARS: usize = 500;
pub(crate) const EXPRESSION_MAX_DEPTH: usize = 20;
pub(crate) const RESULT_MAX_CHARS: usize = 1_000;
pub(crate) const LIST_MAX_ENTRIES: usize = 500;
pub(crate) const PATCH_MAX_BYTES: usize = 1 << 20;
pub(crate) const PATCH_MAX_FILES: usize = 100;
pub(crate) const READ_DEFAULT_LINES: u64 = 500;
pub(crate) const READ_MAX_LINE_CHARS: u64 = 2_000;
pub(crate) const READ_MAX_LINES: u64 = 2_000;
pub(crate) const READ_MAX_JSON_BYTES: usize = 56 << 10;
pub(crate) const SEARCH_DEFAULT_HITS: u32 = 50;
pub(crate) const SEARCH_MAX_HITS: u32 = 200;
pub(crate) const SEARCH_MAX_LINE_BYTES: usize = 400;
pub(crate) const SEARCH_MAX_PATTERN_BYTES: usize = 1_000;
pub(crate) const WRITE_MAX_BYTES: usize = 1 << 20;
#[cfg(target_os = "linux")]
pub(crate) const COMMAND_MAX_BYTES: usize = 8 << 10;
#[cfg(target_os = "linux")]
pub(crate) const COMMAND_MAX_OUTPUT_BYTES: usize = (4 << 20) - (1 << 10);
