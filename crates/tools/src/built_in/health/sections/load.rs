//! The sections `load` and `uptime`.

use serde::Serialize;

use crate::built_in::health::report::Findings;
use crate::built_in::health::units::duration;
use crate::summary::count;

/// The five-minute load per core above which the load needs attention.
const LOAD_WARNING_PER_CORE: f64 = 2.0;

/// The average number of threads that want to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::built_in::health) struct Load {
    one_minute: f64,
    five_minutes: f64,
    fifteen_minutes: f64,
    logical_cores: usize,
}

impl Load {
    pub(in crate::built_in::health) fn new(averages: [f64; 3], logical_cores: usize) -> Self {
        let [one_minute, five_minutes, fifteen_minutes] =
            averages.map(|load| (load * 100.0).round() / 100.0);
        Self {
            one_minute,
            five_minutes,
            fifteen_minutes,
            logical_cores,
        }
    }
}

impl Findings for Load {
    fn summary(&self) -> String {
        let cores = count(self.logical_cores as u64, "core", "cores");
        let Self {
            one_minute,
            five_minutes,
            fifteen_minutes,
            ..
        } = self;
        format!(
            "{one_minute:.2}, {five_minutes:.2}, {fifteen_minutes:.2} over 1, 5 and 15 minutes, on {cores}"
        )
    }

    fn warnings(&self) -> Vec<String> {
        let too_much = self.logical_cores > 0
            && self.five_minutes > LOAD_WARNING_PER_CORE * self.logical_cores as f64;
        let cores = count(self.logical_cores as u64, "core", "cores");
        let warn = || {
            format!(
                "The load is {:.1} over the last 5 minutes, which is high for {cores}.",
                self.five_minutes
            )
        };
        too_much.then(warn).into_iter().collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::built_in::health) struct Uptime {
    pub(in crate::built_in::health) seconds: u64,
    pub(in crate::built_in::health) booted_at_unix_seconds: u64,
}

impl Findings for Uptime {
    fn summary(&self) -> String {
        duration(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_three_averages() {
        assert_eq!(
            Load::new([0.5, 0.25, 1.0], 2).summary(),
            "0.50, 0.25, 1.00 over 1, 5 and 15 minutes, on 2 cores"
        );
    }

    #[test]
    fn only_a_sustained_load_above_twice_the_cores_gives_a_warning() {
        assert!(Load::new([9.0, 4.0, 1.0], 2).warnings().is_empty());
        let warnings = Load::new([9.0, 4.5, 1.0], 2).warnings();
        assert_eq!(
            warnings,
            ["The load is 4.5 over the last 5 minutes, which is high for 2 cores."]
        );
    }
}
