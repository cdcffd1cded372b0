//! The section `cpu`.

use serde::Serialize;

use super::one_digit;
use crate::built_in::health::report::Findings;
use crate::summary::{MAX_QUOTED_CHARS, count, one_line};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::built_in::health) struct Cpu {
    /// The load of all cores together, from 0 to 100.
    used_percent: f64,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_cores: Option<usize>,
    logical_cores: usize,
    per_core_used_percent: Vec<f64>,
}

impl Cpu {
    pub(in crate::built_in::health) fn new(
        used: f32,
        per_core: &[f32],
        model: &str,
        physical_cores: Option<usize>,
    ) -> Self {
        Self {
            used_percent: one_digit(used.into()),
            model: one_line(model, MAX_QUOTED_CHARS),
            physical_cores,
            logical_cores: per_core.len(),
            per_core_used_percent: per_core
                .iter()
                .map(|used| one_digit((*used).into()))
                .collect(),
        }
    }
}

impl Findings for Cpu {
    fn summary(&self) -> String {
        let cores = count(self.logical_cores as u64, "core", "cores");
        let model = if self.model.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.model)
        };
        format!("{:.0} % busy over {cores}{model}", self.used_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_use_cores_and_model() {
        let cpu = Cpu::new(12.34, &[20.0, 4.68], "Example 9000", Some(1));
        assert_eq!(cpu.summary(), "12 % busy over 2 cores (Example 9000)");
        assert_eq!(cpu.per_core_used_percent, [20.0, 4.7]);
        assert_eq!(
            Cpu::new(0.0, &[0.0], "", None).summary(),
            "0 % busy over 1 core"
        );
    }
}
