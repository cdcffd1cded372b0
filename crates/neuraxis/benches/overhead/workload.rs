//! The workloads.

/// An exchange with the model server, done many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// 3 tool turns of 2 calls, then the answer; 32 concurrent runs.
    ToolTurnsAtOnce,
    /// The same, one run at a time.
    ToolTurnsAlone,
    /// An answer of 400 tokens, streamed.
    Stream,
    /// 40 tool turns of 1 call.
    Turns40,
    /// 80 tool turns of 1 call.
    Turns80,
}

impl Workload {
    pub(crate) const ALL: [Self; 5] = [
        Self::ToolTurnsAtOnce,
        Self::ToolTurnsAlone,
        Self::Stream,
        Self::Turns40,
        Self::Turns80,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ToolTurnsAtOnce => "3 tool turns of 2 calls, 32 runs at once",
            Self::ToolTurnsAlone => "3 tool turns of 2 calls, one at a time",
            Self::Stream => "an answer of 400 tokens, streamed",
            Self::Turns40 => "40 tool turns of 1 call",
            Self::Turns80 => "80 tool turns of 1 call",
        }
    }

    /// Returns the name that selects it.
    pub(crate) const fn short_name(self) -> &'static str {
        match self {
            Self::ToolTurnsAtOnce => "at-once",
            Self::ToolTurnsAlone => "alone",
            Self::Stream => "stream",
            Self::Turns40 => "turns-40",
            Self::Turns80 => "turns-80",
        }
    }

    /// Returns the first part of the model server's path for it.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::ToolTurnsAtOnce | Self::ToolTurnsAlone => "turns/3/2",
            Self::Stream => "turns/0/0",
            Self::Turns40 => "turns/40/1",
            Self::Turns80 => "turns/80/1",
        }
    }

    /// Returns the number of runs on one side of a pair.
    pub(crate) const fn runs(self) -> usize {
        match self {
            Self::ToolTurnsAtOnce => 640,
            Self::ToolTurnsAlone => 200,
            Self::Stream => 200,
            Self::Turns40 => 120,
            Self::Turns80 => 60,
        }
    }

    /// Returns how many of them run concurrently.
    pub(crate) const fn at_once(self) -> usize {
        match self {
            Self::ToolTurnsAtOnce => 32,
            _ => 1,
        }
    }

    pub(crate) const fn is_streamed(self) -> bool {
        matches!(self, Self::Stream)
    }
}
