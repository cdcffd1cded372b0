//! The section `processes`. Names only: command lines and environments may contain secrets.

use serde::Serialize;

use super::one_digit;
use crate::built_in::health::report::Findings;
use crate::built_in::health::units::size;
use crate::summary::{grouped, one_line};

/// The number of processes in each list.
const TOP: usize = 5;
/// The number of processes of each list that the summary names.
const TOP_IN_SUMMARY: usize = 3;
/// The maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 64;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::built_in::health) struct Process {
    name: String,
    pid: u32,
    /// CPU usage; 100 is one whole core.
    cpu_percent: f64,
    memory_bytes: u64,
}

impl Process {
    pub(in crate::built_in::health) fn new(
        name: &str,
        pid: u32,
        cpu_percent: f32,
        memory_bytes: u64,
    ) -> Self {
        let name = one_line(name, MAX_NAME_CHARS);
        Self {
            name,
            pid,
            cpu_percent: one_digit(cpu_percent.into()),
            memory_bytes,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::built_in::health) struct Processes {
    total: usize,
    top_by_cpu: Vec<Process>,
    top_by_memory: Vec<Process>,
}

impl Processes {
    /// Keeps the processes that use the most.
    pub(in crate::built_in::health) fn top(mut all: Vec<Process>) -> Self {
        all.sort_by(|left, right| {
            right
                .cpu_percent
                .total_cmp(&left.cpu_percent)
                .then(left.pid.cmp(&right.pid))
        });
        let top_by_cpu = all.iter().take(TOP).cloned().collect();
        all.sort_by(|left, right| {
            right
                .memory_bytes
                .cmp(&left.memory_bytes)
                .then(left.pid.cmp(&right.pid))
        });
        let total = all.len();
        all.truncate(TOP);
        Self {
            total,
            top_by_cpu,
            top_by_memory: all,
        }
    }
}

impl Findings for Processes {
    fn summary(&self) -> String {
        let name = |list: &[Process], say: fn(&Process) -> String| {
            let named: Vec<_> = list
                .iter()
                .take(TOP_IN_SUMMARY)
                .map(|process| format!("{} ({})", process.name, say(process)))
                .collect();
            named.join(", ")
        };
        let cpu = name(&self.top_by_cpu, |process| {
            format!("{:.0} %", process.cpu_percent)
        });
        let memory = name(&self.top_by_memory, |process| size(process.memory_bytes));
        let total = grouped(self.total as u64);
        format!("{total} in total; most CPU (100 % is one core): {cpu}; most memory: {memory}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_five_processes_are_reported_by_cpu_and_by_memory() {
        let all = (1..=9).map(|pid| {
            Process::new(
                &format!("p{pid}"),
                pid,
                pid as f32,
                u64::from(100 - pid) << 20,
            )
        });
        let found = Processes::top(all.collect());
        let pids = |list: &[Process]| list.iter().map(|process| process.pid).collect::<Vec<_>>();
        assert_eq!(found.total, 9);
        assert_eq!(pids(&found.top_by_cpu), [9, 8, 7, 6, 5]);
        assert_eq!(pids(&found.top_by_memory), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_summary_names_the_top_three_by_cpu_and_memory() {
        let found = Processes::top(vec![
            Process::new("rustc", 7, 95.4, 1 << 30),
            Process::new("sh", 1, 0.0, 1 << 20),
        ]);
        let expected = "2 in total; most CPU (100 % is one core): rustc (95 %), sh (0 %); most memory: rustc (1.0 GiB), sh (1 MiB)";
        assert_eq!(found.summary(), expected);
    }

    #[test]
    fn control_characters_in_a_process_name_are_replaced() {
        assert_eq!(Process::new("a\x1b[2Jb", 1, 0.0, 0).name, "a [2Jb");
    }
}
