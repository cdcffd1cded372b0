//! The section `memory`.

use serde::Serialize;

use super::percent;
use crate::built_in::health::report::Findings;
use crate::built_in::health::units::gib;

/// The usage above which memory needs attention.
const MEMORY_WARNING_PERCENT: f64 = 90.0;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::built_in::health) struct Memory {
    total_bytes: u64,
    used_bytes: u64,
    /// The memory that programs can still get without swapping.
    available_bytes: u64,
    used_percent: f64,
    swap_total_bytes: u64,
    swap_used_bytes: u64,
}

impl Memory {
    pub(in crate::built_in::health) fn new(
        total: u64,
        used: u64,
        available: u64,
        swap_total: u64,
        swap_used: u64,
    ) -> Self {
        Self {
            total_bytes: total,
            used_bytes: used,
            available_bytes: available,
            used_percent: percent(used, total),
            swap_total_bytes: swap_total,
            swap_used_bytes: swap_used,
        }
    }
}

impl Findings for Memory {
    fn summary(&self) -> String {
        let (used, total) = (gib(self.used_bytes), gib(self.total_bytes));
        let swap = match self.swap_total_bytes {
            0 => "no swap".to_owned(),
            swap => format!(
                "swap: {} of {} GiB used",
                gib(self.swap_used_bytes),
                gib(swap)
            ),
        };
        format!(
            "{used} of {total} GiB used ({:.0} %); {swap}",
            self.used_percent
        )
    }

    fn warnings(&self) -> Vec<String> {
        let full = self.used_percent > MEMORY_WARNING_PERCENT;
        full.then(|| format!("Memory is {:.0} % full.", self.used_percent))
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_summary_names_used_and_total_memory() {
        let memory = Memory::new(24 * GIB, 3 * GIB, 21 * GIB, 0, 0);
        assert_eq!(memory.summary(), "3.0 of 24.0 GiB used (12 %); no swap");
        let memory = Memory::new(24 * GIB, 3 * GIB, 21 * GIB, 2 * GIB, GIB);
        assert_eq!(
            memory.summary(),
            "3.0 of 24.0 GiB used (12 %); swap: 1.0 of 2.0 GiB used"
        );
    }

    #[test]
    fn only_memory_usage_above_the_limit_gives_a_warning() {
        assert!(Memory::new(1_000, 900, 100, 0, 0).warnings().is_empty());
        assert_eq!(
            Memory::new(1_000, 960, 40, 0, 0).warnings(),
            ["Memory is 96 % full."]
        );
    }

    #[test]
    fn a_machine_reporting_no_memory_causes_no_division_by_zero() {
        assert_eq!(Memory::new(0, 0, 0, 0, 0).used_percent, 0.0);
    }
}
