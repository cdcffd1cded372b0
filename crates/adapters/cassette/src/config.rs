//! The configuration section of a recording to replay.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The default for the maximum size of a file in bytes, written or read: 64 MiB.
pub const DEFAULT_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What to replay and how: a section such as `[models.reasoning]` with `provider = "cassette"`.
///
/// ```
/// use neuraxis_cassette::{CassetteConfig, Speed};
///
/// let config: CassetteConfig = toml::from_str(r#"
///     file = "tests/weather.cassette"
///     speed = "recorded"
/// "#)?;
/// assert_eq!(config.speed, Speed::Recorded);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CassetteConfig {
    /// The file that holds the recording.
    pub file: PathBuf,
    /// When pieces arrive: `instant`, or `recorded` for the recorded times. Default: `instant`.
    #[serde(default)]
    pub speed: Speed,
    /// Whether each recording is played exactly once: one more request like it is refused, and
    /// [`finish`](crate::Cassette::finish) fails if one was never played. Otherwise the last recording of a request
    /// answers repeatedly. Default: `false`.
    #[serde(default)]
    pub strict: bool,
    /// Whether the values of tool results count when requests are matched: `compare`, or `ignore` for tools whose
    /// results are never the same twice. Default: `compare`.
    #[serde(default)]
    pub tool_results: ToolResults,
    /// The maximum size of the file in bytes. Default: 67,108,864.
    #[serde(default = "default_max_bytes")]
    pub max_bytes: u64,
}

impl CassetteConfig {
    /// Creates a configuration that replays a file instantly and not strictly.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            speed: Speed::default(),
            strict: false,
            tool_results: ToolResults::default(),
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }
}

const fn default_max_bytes() -> u64 {
    DEFAULT_MAX_BYTES
}

/// When the pieces of a recorded reply arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// Without waiting. The default.
    #[default]
    Instant,
    /// As long after the request as during recording.
    Recorded,
}

/// Whether the values of tool results count when requests are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolResults {
    /// They count: a different value makes a different request. The default.
    #[default]
    Compare,
    /// They do not count. Which call a result answers, and whether it was denied, still does.
    Ignore,
}
